"""Explanations of a classifier's predictions by concepts, and the methods that make them."""

from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


class Explanation(NamedTuple):
    """Concepts by which a method explains the predictions for some images.

    Attributes:
        maps: one map for each image and concept, at the resolution of the explained layer; larger values
            mean more of the concept.
        concepts: number of each map's concept, among all concepts of the method: prototype 3 of two classes
            is two concepts. -1 marks a place without a concept, because methods may use fewer concepts for
            one class than for another; its map is 0.
        scores: response of each concept; the k highest of an image make its heatmap (eq. 1).
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

    name: str

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "ExplanationMethod":
        """Learn the concepts from training images, sRGB-encoded in [0, 1], and return the method itself."""
        ...

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images, sRGB-encoded in [0, 1]."""
        ...
