"""Share of each topic in the completeness of all: ConceptSHAP, Shapley values over subsets of topics."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.coverage.topic_completeness import (
    Head,
    LabelledMaps,
    ReconstructionTraining,
    subset_completeness,
)
from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.loaders.errors import InputError


@dataclass(frozen=True)
class ConceptShap:
    """Shares of topics in their completeness.

    Attributes:
        values: share of each topic; their sum is ``completeness - without``.
        completeness: completeness of all topics.
        without: completeness without topics, for which the classifier's head sees zeros; 0 for balanced
            classes.
        subsets: number of subsets that were trained.
    """

    values: Float[Tensor, " topics"]
    completeness: float
    without: float
    subsets: int


def concept_shap(
    topics: Float[Tensor, "topics dim"],
    head: Head,
    train: LabelledMaps,
    test: LabelledMaps,
    how: ReconstructionTraining,
    samples: int = 512,
) -> ConceptShap:
    """Compute ConceptSHAP: the Shapley values of the completeness of topics (Yeh et al. 2020).

    `subset_completeness` of all subsets if there are at most ``samples``, with `shapley_values`; otherwise of
    subsets that are drawn as KernelSHAP weights them, with `regress_shapley` (Lundberg and Lee 2017). The
    authors' program draws each topic with probability 0.2 and weights the subsets, which has more variance,
    and lets a weight of 10 000 stand for the constraint on the sum.

    Blind to: classes; a topic that matters for one class of many has a small share. Near-equal topics divide
    their share.

    Args:
        topics: topic vectors, of any length.
        head: see `subset_completeness`.
        train: see `subset_completeness`.
        test: see `subset_completeness`.
        how: see `subset_completeness`.
        samples: most subsets to train, at least 2; 512 are exact for up to 9 topics.

    Returns:
        The share of each topic; nan if the classifier is not better than chance.

    Raises:
        InputError: there are no topics, ``samples`` is below 2, or as `subset_completeness`.

    Example:
        >>> maps = LabelledMaps(torch.eye(2).reshape(2, 2, 1, 1), torch.arange(2))
        >>> how = ReconstructionTraining(0, hidden=8, epochs=200, rate=0.1)
        >>> def head(activations): return activations.mean((2, 3))
        >>> concept_shap(torch.eye(2), head, maps, maps, how).values  # zeros are class 0 without its topic
        tensor([0., 1.], dtype=torch.float64)
    """
    check_shapes(topics=(topics, "topics dim"))
    count = len(topics)
    if not count:
        raise InputError("`topics` needs at least one topic, got none")
    if samples < 2:
        raise InputError(f"`samples` must be at least 2, got {samples}")
    if 2**count <= samples:
        subsets = all_subsets(count)
    else:
        ends = torch.tensor([[False], [True]]).expand(2, count)
        drawn, counts = draw_subsets(count, samples - 2, named_generator(how.seed, "subsets"))
        subsets = torch.cat([ends[:1], drawn, ends[1:]])
    found = subset_completeness(topics, subsets.to(topics.device), head, train, test, how).double()
    if not bool(found.isfinite().all()):
        values = torch.full((count,), torch.nan, dtype=torch.float64)
    elif 2**count <= samples:
        values = shapley_values(found)
    else:
        values = regress_shapley(drawn, found[1:-1], counts, float(found[0]), float(found[-1]))
    return ConceptShap(values, float(found[-1]), float(found[0]), len(subsets))


def all_subsets(count: int) -> Bool[Tensor, "subsets topics"]:
    """List all subsets; the number of a subset has bit i set if it contains topic i.

    Example:
        >>> all_subsets(2).int().tolist()
        [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    return (torch.arange(2**count)[:, None] >> torch.arange(count)) % 2 == 1


def shapley_values(values: Float[Tensor, " subsets"]) -> Float[Tensor, " topics"]:
    """Compute the Shapley value of each topic from the values of all subsets.

    ``sum over subsets S without i of |S|! (T - |S| - 1)! / T! (value(S + i) - value(S))``.

    Args:
        values: value of each subset, in the order of `all_subsets`.

    Raises:
        InputError: the number of values is not a power of 2.

    Example:
        >>> shapley_values(torch.tensor([0.0, 1.0, 0.0, 3.0]))
        tensor([2., 1.])
    """
    count = len(values).bit_length() - 1
    if len(values) != 2**count:
        raise InputError(f"expected the values of all 2^topics subsets, got {len(values)}")
    subsets = all_subsets(count).to(values.device)
    sizes = subsets.sum(1)
    # Weight of a step from a subset of each size; a subset of all topics has no next step.
    weights = [1 / (count * math.comb(count - 1, size)) for size in range(count)]
    weight = values.new_tensor([*weights, 0.0])
    found = []
    for topic in range(count):
        (without,) = (~subsets[:, topic]).nonzero(as_tuple=True)
        found.append((weight[sizes[without]] * (values[without + (1 << topic)] - values[without])).sum())
    return torch.stack(found) if found else values[:0]


def draw_subsets(
    count: int, samples: int, generator: torch.Generator
) -> tuple[Bool[Tensor, "subsets topics"], Int[Tensor, " subsets"]]:
    """Draw subsets, neither empty nor complete, with the probabilities that are the weights of KernelSHAP.

    ``(T - 1) / (C(T, k) k (T - k))`` is the weight of a subset of k topics: sizes are drawn with
    ``1 / (k (T - k))``, and the topics of a subset uniformly.

    Args:
        count: number of topics, at least 2.
        samples: number of draws.
        generator: generator of the draws.

    Returns:
        The different subsets, and how often each was drawn.

    Example:
        >>> subsets, counts = draw_subsets(2, 10, torch.Generator().manual_seed(0))
        >>> subsets.int().tolist(), int(counts.sum())
        ([[0, 1], [1, 0]], 10)
    """
    if not samples:
        return torch.zeros(0, count, dtype=torch.bool), torch.zeros(0, dtype=torch.int64)
    sizes = torch.arange(1, count)
    drawn = torch.multinomial(1 / (sizes * (count - sizes)), samples, True, generator=generator)
    ranks = torch.rand(samples, count, generator=generator).argsort(1).argsort(1)
    return torch.unique(ranks < sizes[drawn][:, None], dim=0, return_counts=True)


def regress_shapley(
    subsets: Bool[Tensor, "subsets topics"],
    values: Float[Tensor, " subsets"],
    counts: Float[Tensor, " subsets"] | Int[Tensor, " subsets"],
    empty: float,
    full: float,
) -> Float[Tensor, " topics"]:
    """Estimate Shapley values by KernelSHAP's weighted least squares (Lundberg and Lee 2017, theorem 2).

    The values of the empty subset and of all topics hold exactly. Directions about which the subsets tell
    nothing are divided equally.

    Args:
        subsets: subsets other than these two.
        values: value of each subset.
        counts: weight of each subset, at least 0: the kernel's, or the numbers of `draw_subsets`.
        empty: value of the empty subset.
        full: value of all topics.

    Returns:
        Estimates, float64, with the sum ``full - empty``.

    Raises:
        InputError: the shapes do not agree, or subsets are not boolean.

    Example:
        >>> regress_shapley(torch.eye(2).bool(), torch.tensor([1.0, 0.0]), torch.ones(2), 0.0, 3.0)
        tensor([2., 1.], dtype=torch.float64)
    """
    check_shapes(subsets=(subsets, "subsets topics"), values=(values, "subsets"), counts=(counts, "subsets"))
    check_bool(subsets=subsets)
    members = subsets.double().cpu()
    share = members.mean(1)
    equal = (full - empty) / subsets.shape[1]
    root = counts.double().cpu().sqrt()
    # Deviations of the values from an equal division: their sum is 0, and so is that of each row.
    rows = root[:, None] * (members - share[:, None])
    wanted = root * (values.double().cpu() - empty - share * (full - empty))
    return equal + torch.linalg.pinv(rows) @ wanted
