"""Explanations of a classifier's predictions by concepts, and the methods that make them."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import Rank
from candlelight.evaluation.coverage.thresholds import Explanations
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError


class Explanation(NamedTuple):
    """Concepts by which a method explains the predictions for some images.

    Attributes:
        maps: one map for each image and concept, at the resolution of the explained layer; larger values
            mean more of the concept.
        concepts: number of each map's concept, among all concepts of the method: prototype 3 of two classes
            is two concepts. -1 marks a place without a concept, because methods may use fewer concepts for
            one class than for another; its map is 0.
        scores: response of each concept, the strength of its map for ``rank`` "score" of `merge_explanation`.
        predicted: class that the classifier predicts for each image; -1 if its logits or activations are not
            finite, and then the image has no concepts.
    """

    maps: Float[Tensor, "images concepts height width"]
    concepts: Int[Tensor, "images concepts"]
    scores: Float[Tensor, "images concepts"]
    predicted: Int[Tensor, " images"]


@runtime_checkable
class ExplanationMethod(Protocol):
    """A method that learns concepts of a trained classifier, and explains its predictions by them."""

    @property
    def name(self) -> str:
        """Name of the method in tables."""
        ...

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "ExplanationMethod":
        """Learn the concepts from training images, sRGB-encoded in [0, 1], and return the method itself."""
        ...

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images, sRGB-encoded in [0, 1]."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Collect the tensors that `fit` has learned."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> "ExplanationMethod":
        """Take the tensors of an earlier `fit`, and return the method itself."""
        ...


def merge_explanation(explanation: Explanation, k: int, rank: Rank = "sum") -> Explanations:
    """Merge the maps of the k strongest concepts of each image into its explanation heatmap.

    The maximum at each point over the k maps of largest strength (eq. 1 and 2 of "A Protocol for Evaluating
    Model Interpretation Methods from Visual Explanations"), as `explanation_heatmap`, for methods whose
    concepts have numbers and may be fewer for one image than for another.

    Args:
        explanation: maps and concepts of a batch of images.
        k: number of merged maps, at least 1; all maps of an image that has fewer.
        rank: strength of a map: its "sum" (eq. 1), or the method's own "score".

    Returns:
        Heatmaps, 0 for an image without concepts; and the numbers of the merged concepts, ascending, after a
        -1 for each map that lacks.

    Raises:
        InputError: the shapes do not agree, ``k`` is below 1, or ``rank`` is misspelt.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0]], [[0.0, 2.0]], [[0.0, 9.0]]]])
        >>> concepts = torch.tensor([[30, 7, -1]])
        >>> merge_explanation(Explanation(maps, concepts, torch.zeros(1, 3), torch.tensor([4])), 2)
        Explanations(heatmap=tensor([[[1., 2.]]]), members=tensor([[ 7, 30]]))
    """
    check_choice("rank", rank, Rank)
    check_shapes(
        maps=(explanation.maps, "images concepts height width"),
        concepts=(explanation.concepts, "images concepts"),
        scores=(explanation.scores, "images concepts"),
    )
    if k < 1:
        raise InputError(f"`k` must be at least 1, got {k}")
    maps, concepts = explanation.maps, explanation.concepts
    strength = maps.sum((2, 3), dtype=torch.float64) if rank == "sum" else explanation.scores.double()
    strength = strength.masked_fill(concepts < 0, -torch.inf)
    places = strength.argsort(dim=1, descending=True, stable=True)[:, :k]
    members = concepts.gather(1, places)
    merged = maps.gather(1, places[:, :, None, None].expand(-1, -1, *maps.shape[2:]))
    merged = merged.masked_fill((members < 0)[:, :, None, None], -torch.inf).amax(1)
    lacking = members.new_full((len(members), k - members.shape[1]), -1)
    heatmap = merged.masked_fill((members < 0).all(1)[:, None, None], 0)
    return Explanations(heatmap, torch.cat([lacking, members], 1).sort(1).values)
