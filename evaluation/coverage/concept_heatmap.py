"""Merge an explanation by concepts into one heatmap for each image."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from evaluation.coverage.explanations import Explanation, ExplanationMethod


def concept_heatmap(explanation: Explanation, k: int = 1) -> Float[Tensor, "images height width"]:
    """Merge the maps of the k concepts with the highest scores of each image by their maximum (eq. 1 and 2).

    Args:
        explanation: maps and scores of concepts.
        k: number of merged maps; all of them if there are fewer.

    Returns:
        One heatmap for each image; 0 everywhere if the image has no concepts.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0]], [[0.0, 2.0]]]])
        >>> explanation = Explanation(maps, torch.tensor([[3, 4]]), maps.sum((2, 3)), torch.tensor([0]))
        >>> concept_heatmap(explanation)
        tensor([[[0., 2.]]])
    """
    missing = explanation.concepts < 0
    scores = explanation.scores.masked_fill(missing, -torch.inf)
    chosen = scores.argsort(dim=1, descending=True, stable=True)[:, :k]
    maps = explanation.maps.masked_fill(missing[:, :, None, None], -torch.inf)
    picked = maps.gather(1, chosen[:, :, None, None].expand(-1, -1, *maps.shape[2:])).amax(1)
    return picked.masked_fill((missing.all(1) | (explanation.predicted < 0))[:, None, None], 0)


@dataclass(frozen=True)
class ConceptHeatmaps:
    """A fitted explanation method as a callable that gives one heatmap for each image.

    Attributes:
        method: the method, fitted.
        k: see `concept_heatmap`.
    """

    method: ExplanationMethod
    k: int = 1

    def __call__(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch 1 rows columns"]:
        """Explain the predictions for images, sRGB-encoded in [0, 1]."""
        return concept_heatmap(self.method.explain(images), self.k)[:, None]
