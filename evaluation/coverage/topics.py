"""Topics of activations as concepts of a network (Yeh et al. 2020), with ConceptSHAP."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.topic_completeness import (
    Head,
    LabelledMaps,
    Orthogonality,
    ReconstructionTraining,
    check_labelled,
    distinct_topics,
    gated_responses,
    initial_weights,
    reconstruct,
    subset_completeness,
    topic_maps,
    topic_nearness,
    topic_overlap,
    topic_scores,
)
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.evaluation.views.named_streams import named_generator
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

Features = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch dim rows columns"]]


@dataclass(frozen=True)
class TopicSearch:
    """How topics are discovered.

    The defaults are those of the authors' program for photographs (animals); it has ``nearest`` 32 and both
    weights 0.1 for its toy data.

    Attributes:
        count: number of topics before near-equal ones are merged.
        nearest: activations of a batch that each topic shall be near, see `topic_nearness`.
        near: weight of `topic_nearness`.
        apart: weight of `topic_overlap`.
        orthogonality: see `topic_overlap`; the authors' program is "signed".
        merge_above: see `distinct_topics`.
    """

    count: int = 10
    nearest: int = 2
    near: float = 10.0
    apart: float = 10.0
    orthogonality: Orthogonality = "signed"
    merge_above: float = 0.95

    def __post_init__(self) -> None:
        """Refuse choices out of range."""
        check_choice("orthogonality", self.orthogonality, Orthogonality)
        for name in ("count", "nearest"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` must be at least 1, got {getattr(self, name)}")


def discover_topics(
    maps: LabelledMaps, head: Head, search: TopicSearch, how: ReconstructionTraining
) -> Float[Tensor, "topics dim"]:
    """Discover topic vectors from which a frozen classifier recovers its accuracy.

    Minimises ``cross-entropy(h(g(v)), y) - near * nearness + apart * overlap`` over topics and g by Adam:
    the loss of Yeh et al. 2020 with `topic_nearness` and `topic_overlap`. Near-equal topics are merged at the
    end.

    Blind to: parts of objects. A topic that covers a whole object, or its surroundings, keeps the accuracy as
    well as several topics that cover its parts.

    Args:
        maps: activations of training images and their classes.
        head: the classifier h from activations to logits; its weights are not changed.
        search: number of topics and regularisers.
        how: settings of the training.

    Returns:
        Unit topic vectors, at most ``search.count``.

    Raises:
        InputError: shapes do not agree, there are no images, activations are not finite, labels are not
            classes of the head, or the training diverges.

    Example:
        >>> maps = LabelledMaps(torch.eye(2).reshape(2, 2, 1, 1), torch.arange(2))
        >>> how = ReconstructionTraining(0, hidden=8, epochs=100, rate=0.1)
        >>> search = TopicSearch(2, nearest=1, near=1.0, apart=1.0, orthogonality="squared")
        >>> discover_topics(maps, lambda activations: activations.mean((2, 3)), search, how).abs().round()
        tensor([[0., 1.],
                [1., 0.]])
    """
    check_labelled(maps, head)
    dim = maps.activations.shape[1]
    draws = named_generator(how.seed, "topics")
    topics = torch.rand(search.count, dim, generator=draws).sub(0.5).to(maps.activations)
    first, second = initial_weights(search.count, dim, how.hidden, how.seed, topics)
    weights = [some.requires_grad_() for some in (topics, first, second)]
    optimiser = torch.optim.Adam(weights, how.rate)
    order = named_generator(how.seed, "order of discovery")
    for _ in range(how.epochs):
        for rows in torch.split(torch.randperm(len(maps.labels), generator=order), how.batch_size):
            responses, cosines = gated_responses(maps.activations[rows], topics, how.threshold)
            logits = head(reconstruct(topic_scores(responses)[None], (first, second)))
            loss = functional.cross_entropy(logits, maps.labels[rows].long())
            loss = loss - search.near * topic_nearness(cosines, search.nearest)
            loss = loss + search.apart * topic_overlap(topics, search.orthogonality)
            for some, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                some.grad = gradient
            optimiser.step()
    found = functional.normalize(topics.detach(), dim=1)
    if not bool(found.isfinite().all()):
        raise InputError(f"the search of topics diverged; give a smaller `rate` than {how.rate:g}")
    return found[distinct_topics(found, search.merge_above)]


class TopicMethod:
    """Topic-based explanations of a frozen classifier, an `ExplanationMethod`.

    The maps are ``<A, topic>`` of all topics, whatever class is predicted, as in the WAIoU protocol (sec. 4).

    Args:
        features: the classifier from images to a hidden layer; `split_network` makes both parts.
        head: the classifier from there to logits.
        search: number of topics and regularisers.
        how: settings of the training.
        device: torch device on which both parts are.

    Attributes:
        topics: [topics, dim], after `fit`.

    Example:
        >>> def features(images): return images
        >>> def head(maps): return maps.mean((2, 3))
        >>> how = ReconstructionTraining(0, hidden=8, epochs=10)
        >>> method = TopicMethod(features, head, TopicSearch(2), how)
        >>> images = torch.rand(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))
        >>> method.fit(images, torch.tensor([0, 1, 2, 0])).explain(images).maps.shape
        torch.Size([4, 2, 2, 2])
    """

    name = "topics"

    def __init__(
        self,
        features: Features,
        head: Head,
        search: TopicSearch,
        how: ReconstructionTraining,
        device: str | torch.device = "cpu",
    ) -> None:
        self.features, self.head, self.search, self.how, self.device = features, head, search, how, device
        self.topics: Tensor | None = None

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "TopicMethod":
        """Discover the topics; see `discover_topics`."""
        maps = self.layer(images, labels)
        with evaluation_mode(self.head):
            self.topics = discover_topics(maps, self.head, self.search, self.how)
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images; see `ExplanationMethod`.

        Raises:
            InputError: `fit` has not been called.
        """
        topics = self.state()["topics"]
        with torch.no_grad(), evaluation_mode(self.features), evaluation_mode(self.head):
            activations = self.features(images)
            predicted = self.head(activations).argmax(1)
        maps = topic_maps(activations, topics)
        concepts = torch.arange(len(topics), device=maps.device).expand(len(maps), -1)
        return Explanation(maps, concepts, maps.sum((2, 3)), predicted)

    def state(self) -> dict[str, Tensor]:
        """Collect the tensors that `fit` has learned.

        Raises:
            InputError: `fit` has not been called.
        """
        if self.topics is None:
            raise InputError("the topics are not known yet; call `fit` first")
        return {"topics": self.topics}

    def restore(self, state: Mapping[str, Tensor]) -> "TopicMethod":
        """Take the tensors of an earlier `fit`, and return the method itself."""
        self.topics = state["topics"].to(self.device)
        return self

    @torch.no_grad()
    def layer(
        self, images: Float[Tensor, "images 3 height width"], labels: Int[Tensor, " images"]
    ) -> LabelledMaps:
        """Compute the activations that `subset_completeness` and `concept_shap` take."""
        if not len(images):
            raise InputError("expected at least one image, got none")
        with evaluation_mode(self.features):
            found = [self.features(some.to(self.device)) for some in torch.split(images, self.how.batch_size)]
        return LabelledMaps(torch.cat(found), labels.to(self.device))


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
