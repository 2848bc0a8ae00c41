"""A batch of images with their true decomposition."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from loaders.views import Decomposition


@dataclass(frozen=True, eq=False)
class Truth:
    """A batch of images and their true decomposition, scene-linear; see `loaders.views.Decomposition`."""

    image: Float[Tensor, "batch 3 height width"]
    reflectance: Float[Tensor, "batch 3 height width"]
    shading: Float[Tensor, "batch channels height width"]
    mask: Bool[Tensor, "batch height width"]


def stack(items: Sequence[Decomposition]) -> Truth:
    """Stack images of one size.

    Example:
        >>> one = Decomposition(*[torch.ones(3, 2, 2)] * 3, torch.ones(2, 2).bool())
        >>> stack([one]).mask.shape
        torch.Size([1, 2, 2])
    """
    names = ("image", "reflectance", "shading", "mask")
    return Truth(*(torch.stack([getattr(item, name) for item in items]) for name in names))
