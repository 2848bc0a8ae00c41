"""Topic vectors of a hidden layer: maps, scores, and how near and apart topics are.

C.-K. Yeh, B. Kim, S. Arik, C.-L. Li, T. Pfister, P. Ravikumar: On Completeness-Aware Concept-Based
Explanations in Deep Neural Networks, NeurIPS 2020.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.inputs.check_shapes import check_shapes
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
