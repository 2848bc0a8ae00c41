"""Scores of topics, and their completeness (Yeh et al. 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.evaluation.views.named_streams import named_generator
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

Orthogonality = Literal["signed", "squared"]
# Added to the sum of an image point's responses, as in the authors' program.
_RESPONSE_FLOOR = 1e-3


def topic_maps(
    activations: Float[Tensor, "images dim height width"], topics: Float[Tensor, "topics dim"]
) -> Float[Tensor, "images topics height width"]:
    """Compute the response of each topic at each point: ``<a, c / |c|>``.

    The interpretation heatmaps of the topic-based method in the WAIoU protocol (sec. 4).

    Args:
        activations: output of a hidden layer.
        topics: topic vectors, of any length; a zero vector responds nowhere.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> topic_maps(torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1), torch.tensor([[0.0, 2.0]]))
        tensor([[[[4.]]]])
    """
    check_shapes(activations=(activations, "images dim height width"), topics=(topics, "topics dim"))
    return torch.einsum("ndhw,td->nthw", activations, functional.normalize(topics, dim=1))


def gated_responses(
    activations: Float[Tensor, "images dim height width"],
    topics: Float[Tensor, "topics dim"],
    threshold: float = 0.0,
) -> tuple[
    Float[Tensor, "images height width topics"],
    Float[Tensor, "images height width topics"],
]:
    """Compute the responses of the topics where they are near an activation, and the cosines.

    Args:
        activations: output of a hidden layer.
        topics: topic vectors, of any length.
        threshold: responses with a cosine up to this are 0; at least 0 and below 1.

    Returns:
        `topic_maps` where the cosine of topic and activation is above the threshold, else 0; and the cosines.
        The topics are the last axis.

    Raises:
        InputError: the shapes do not agree, or the threshold is out of range.

    Example:
        >>> gated_responses(torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1), torch.eye(2), 0.7)[0]
        tensor([[[[0., 4.]]]])
    """
    if not 0 <= threshold < 1:
        raise InputError(f"`threshold` must be at least 0 and below 1, got {threshold}")
    responses = topic_maps(activations, topics).permute(0, 2, 3, 1)
    # The lower bound is that of `functional.normalize`, by which a zero vector stays one.
    cosines = responses / activations.norm(dim=1).clamp(min=1e-12)[..., None]
    return responses * (cosines > threshold), cosines


def topic_scores(
    responses: Float[Tensor, "*batch height width topics"],
) -> Float[Tensor, "*batch height width topics"]:
    """Normalise the `gated_responses` of each point to the sum 1: the concept scores v of Yeh et al. 2020.

    Args:
        responses: responses, at least 0; to score a subset of the topics, set those of all others to 0.

    Returns:
        Shares of the topics; all 0 where no topic responds, and less than 1 in sum where responses are weak
        (a constant of 0.001 is added to the sum).

    Example:
        >>> topic_scores(torch.tensor([[[3.0, 1.0, 0.0]]])).round(decimals=2)
        tensor([[[0.7500, 0.2500, 0.0000]]])
    """
    return responses / (responses.sum(-1, keepdim=True) + _RESPONSE_FLOOR)


def topic_nearness(cosines: Float[Tensor, "*points topics"], nearest: int) -> Float[Tensor, ""]:
    """Compute the mean cosine of each topic with its nearest activations in a batch; higher is better.

    Args:
        cosines: cosines of all points of a batch.
        nearest: number K of activations for each topic; all if there are fewer.

    Raises:
        InputError: ``nearest`` is below 1.

    Example:
        >>> topic_nearness(torch.tensor([[0.0], [0.5], [1.0]]), 2)
        tensor(0.7500)
    """
    if nearest < 1:
        raise InputError(f"`nearest` must be at least 1, got {nearest}")
    points = cosines.flatten(0, -2)
    return points.topk(min(nearest, len(points)), dim=0).values.mean()


def topic_overlap(
    topics: Float[Tensor, "topics dim"], orthogonality: Orthogonality = "signed"
) -> Float[Tensor, ""]:
    """Compute how far topics are from orthogonal; lower is better.

    "signed" is the mean of the entries of ``C C^T - 1`` with unit rows C, as in the authors' program: two
    opposite topics are better than two orthogonal ones, and cancel the overlap of two equal ones. "squared"
    is the mean of the squared entries, which is 0 for orthogonal topics only.

    Args:
        topics: topic vectors, of any length.
        orthogonality: "signed" or "squared".

    Raises:
        InputError: ``orthogonality`` is misspelt.

    Example:
        >>> opposite = torch.tensor([[1.0], [-1.0]])
        >>> topic_overlap(opposite), topic_overlap(opposite, "squared")
        (tensor(-0.5000), tensor(0.5000))
    """
    check_choice("orthogonality", orthogonality, Orthogonality)
    unit = functional.normalize(topics, dim=1)
    entries = unit @ unit.T - torch.eye(len(topics)).to(unit)
    return (entries if orthogonality == "signed" else entries.square()).mean()


def distinct_topics(topics: Float[Tensor, "topics dim"], above: float = 0.95) -> Int[Tensor, " distinct"]:
    """Find the topics that remain when near-equal ones are merged: the first of each group is kept.

    Args:
        topics: topic vectors, of any length.
        above: a topic is dropped if its cosine with a kept topic before it is above this; the paper's 0.95.

    Returns:
        Ascending numbers of the kept topics. Zero vectors, which respond nowhere, are not kept.

    Example:
        >>> distinct_topics(torch.tensor([[1.0, 0.0], [0.0, 1.0], [9.0, 1.0]]))
        tensor([0, 1])
    """
    cosines = functional.normalize(topics, dim=1)
    cosines = cosines @ cosines.T
    kept: list[int] = []
    for number in range(len(topics)):
        if bool(cosines[number, number] > 0) and not bool((cosines[number, kept] > above).any()):
            kept.append(number)
    return torch.tensor(kept, dtype=torch.int64, device=topics.device)


Head = Callable[[Float[Tensor, "images dim height width"]], Float[Tensor, "images classes"]]
# Numbers in the largest tensor of a step; more subsets than fit are trained one group after the other.
_LARGEST = 2**26


class LabelledMaps(NamedTuple):
    """Output of a hidden layer for some images, on the device of the head, and the classes of the images."""

    activations: Float[Tensor, "images dim height width"]
    labels: Int[Tensor, " images"]


@dataclass(frozen=True)
class ReconstructionTraining:
    """How the functions g are trained that map topic scores back to activations.

    Attributes:
        seed: seed of the initial weights and of the order; equal seeds give equal results on one processor.
        threshold: see `gated_responses`. The authors use 0 for photographs, 0.2 and 0.3 elsewhere.
        hidden: hidden units of g.
        epochs: passes over the images.
        rate: learning rate of Adam.
        batch_size: images per step.
    """

    seed: int
    threshold: float = 0.0
    hidden: int = 500
    epochs: int = 20
    rate: float = 1e-3
    batch_size: int = 128

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        for name in ("hidden", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        if not 0 < self.rate < torch.inf:
            raise InputError(f"`rate` must be above 0 and finite, got {self.rate}")


def completeness(
    topics: Float[Tensor, "topics dim"],
    head: Head,
    train: LabelledMaps,
    test: LabelledMaps,
    how: ReconstructionTraining,
) -> float:
    """Compute the completeness of topics for a classifier; see `subset_completeness`.

    Example:
        >>> maps = LabelledMaps(torch.eye(2).reshape(2, 2, 1, 1), torch.arange(2))
        >>> how = ReconstructionTraining(0, hidden=8, epochs=200, rate=0.1)
        >>> completeness(torch.eye(2), lambda activations: activations.mean((2, 3)), maps, maps, how)
        1.0
    """
    every = torch.ones(1, len(topics), dtype=torch.bool, device=topics.device)
    return float(subset_completeness(topics, every, head, train, test, how))


def subset_completeness(
    topics: Float[Tensor, "topics dim"],
    subsets: Bool[Tensor, "subsets topics"],
    head: Head,
    train: LabelledMaps,
    test: LabelledMaps,
    how: ReconstructionTraining,
) -> Float[Tensor, " subsets"]:
    """Compute the completeness of subsets of topics for a frozen classifier.

    ``(max over g of accuracy(h(g(v))) - r) / (accuracy(f) - r)``: Yeh et al. 2020. v are the
    scores of the topics (`topic_scores`), h the classifier f from the layer on, and r the accuracy of a
    random choice, 1 / classes. Each subset has its own g, two linear maps with a ReLU in between and without
    bias, trained by cross-entropy of the labels on ``train``; accuracies are those on ``test``. The subsets
    are trained together as one batch, with the same initial weights and the same order of images.

    Blind to: the meaning of the topics. Any directions that span the layer's class information are complete,
    and a random subset of many directions comes near that. The maximum over g is that of one short training,
    so the score is a lower bound.

    Args:
        topics: topic vectors, of any length.
        subsets: True for the topics of each subset. Without topics, h sees zeros.
        head: the classifier from activations to logits, differentiable; its weights are not changed.
        train: activations that train g.
        test: activations that score it; the same ones give an optimistic score.
        how: settings of the training.

    Returns:
        1 where the scores suffice for the accuracy of the classifier, 0 where they are as good as chance,
        above 1 and below 0 possible; nan if the classifier itself is not better than chance.

    Raises:
        InputError: shapes do not agree, there are no images, activations are not finite, or labels are not
            classes of the head.
    """
    check_shapes(topics=(topics, "topics dim"), subsets=(subsets, "subsets topics"))
    check_bool(subsets=subsets)
    check_labelled(train, head)
    classes = check_labelled(test, head)
    chance, scores = 1 / classes, []
    known = [
        (gated_responses(maps.activations, topics, how.threshold)[0], maps.labels) for maps in (train, test)
    ]
    size = how.batch_size * train.activations[0, 0].numel() * max(how.hidden, topics.shape[1])
    for group in torch.split(subsets, max(1, _LARGEST // size)):
        weights = _fit(*known[0], group, topics.shape[1], head, how)
        scores.append(_accuracy(*known[1], group, weights, head, how.batch_size))
    full = classifier_accuracy(head, test, how.batch_size)
    if full <= chance:
        return torch.full((len(subsets),), torch.nan)
    return (torch.cat(scores) - chance) / (full - chance) if scores else torch.zeros(0)


def check_labelled(maps: LabelledMaps, head: Head) -> int:
    """Refuse activations and labels that do not fit the head, and return the number of its classes."""
    check_shapes(activations=(maps.activations, "images dim height width"), labels=(maps.labels, "images"))
    if not len(maps.labels):
        raise InputError("expected the activations of at least one image, got none")
    if not bool(maps.activations.isfinite().all()):
        raise InputError("activations must be finite, got nan or inf; check the model on these images")
    with torch.no_grad():
        logits = head(maps.activations[:1])
    check_shapes(logits=(logits, "1 classes"))
    if not 0 <= int(maps.labels.min()) <= int(maps.labels.max()) < logits.shape[1]:
        raise InputError(
            f"labels must lie in 0..{logits.shape[1] - 1}, the classes of the head, "
            f"got {int(maps.labels.min())} to {int(maps.labels.max())}"
        )
    return logits.shape[1]


@torch.no_grad()
def classifier_accuracy(head: Head, maps: LabelledMaps, batch_size: int = 128) -> float:
    """Compute the share of images that the classifier assigns to their class."""
    batches = zip(*(torch.split(some, batch_size) for some in maps), strict=True)
    return sum(int((head(some).argmax(1) == labels).sum()) for some, labels in batches) / len(maps.labels)


def initial_weights(
    count: int, dim: int, hidden: int, seed: int, like: Tensor
) -> tuple[Float[Tensor, "1 topics hidden"], Float[Tensor, "1 hidden dim"]]:
    """Draw the weights of g, uniform from -0.5 to 0.5 as in the authors' program."""
    draws = named_generator(seed, "reconstruction")
    shapes = ((1, count, hidden), (1, hidden, dim))
    first, second = (torch.rand(shape, generator=draws).sub(0.5).to(like) for shape in shapes)
    return first, second


def reconstruct(
    scores: Float[Tensor, "subsets images height width topics"],
    weights: tuple[Float[Tensor, "subsets topics hidden"], Float[Tensor, "subsets hidden dim"]],
) -> Float[Tensor, "runs dim height width"]:
    """Map topic scores to activations by the g of each subset; runs are the images of each subset in turn."""
    rows = torch.bmm(torch.bmm(scores.flatten(1, 3), weights[0]).relu(), weights[1])
    return rows.reshape(-1, *scores.shape[2:4], weights[1].shape[2]).permute(0, 3, 1, 2)


def _fit(
    responses: Float[Tensor, "images height width topics"],
    labels: Int[Tensor, " images"],
    subsets: Bool[Tensor, "subsets topics"],
    dim: int,
    head: Head,
    how: ReconstructionTraining,
) -> tuple[Tensor, Tensor]:
    """Train one g for each subset."""
    initial = initial_weights(subsets.shape[1], dim, how.hidden, how.seed, responses)
    first, second = (some.repeat(len(subsets), 1, 1).requires_grad_() for some in initial)
    optimiser = torch.optim.Adam((first, second), how.rate)
    order = named_generator(how.seed, "order")
    for _ in range(how.epochs):
        for rows in torch.split(torch.randperm(len(labels), generator=order), how.batch_size):
            logits = _logits(responses[rows], subsets, (first, second), head)
            chosen = labels[rows].long().repeat(len(subsets))
            # The sum over subsets of the mean over images: each subset is trained as if it were alone.
            loss = functional.cross_entropy(logits, chosen, reduction="sum") / len(rows)
            first.grad, second.grad = torch.autograd.grad(loss, (first, second))
            optimiser.step()
    return first.detach(), second.detach()


@torch.no_grad()
def _accuracy(
    responses: Float[Tensor, "images height width topics"],
    labels: Int[Tensor, " images"],
    subsets: Bool[Tensor, "subsets topics"],
    weights: tuple[Tensor, Tensor],
    head: Head,
    batch_size: int,
) -> Float[Tensor, " subsets"]:
    right = torch.zeros(len(subsets))
    for some, known in zip(*(torch.split(part, batch_size) for part in (responses, labels)), strict=True):
        classes = _logits(some, subsets, weights, head).argmax(1).reshape(len(subsets), -1)
        right += (classes == known).sum(1).cpu()
    return right / len(labels)


def _logits(responses: Tensor, subsets: Tensor, weights: tuple[Tensor, Tensor], head: Head) -> Tensor:
    scores = topic_scores(responses * subsets[:, None, None, None].to(responses))
    return head(reconstruct(scores, weights))
