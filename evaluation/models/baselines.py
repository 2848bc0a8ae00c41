"""The two trivial decompositions of Grosse et al. 2009 (BAS): every model should have lower errors."""

import torch
from jaxtyping import Float
from torch import Tensor


def constant_reflectance(
    image: Float[Tensor, "batch 3 height width"],
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Explain the image by shading alone.

    Args:
        image: scene-linear Rec.709.

    Returns:
        Reflectance 1 everywhere, and the image as shading.

    Example:
        >>> reflectance, shading = constant_reflectance(torch.full((1, 3, 1, 1), 0.5))
        >>> reflectance.flatten().tolist(), shading.flatten().tolist()
        ([1.0, 1.0, 1.0], [0.5, 0.5, 0.5])
    """
    return torch.ones_like(image), image


def constant_shading(
    image: Float[Tensor, "batch 3 height width"],
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Explain the image by reflectance alone.

    Args:
        image: scene-linear Rec.709.

    Returns:
        The image as reflectance, and shading 1 everywhere.

    Example:
        >>> reflectance, shading = constant_shading(torch.full((1, 3, 1, 1), 0.5))
        >>> reflectance.flatten().tolist(), shading.flatten().tolist()
        ([0.5, 0.5, 0.5], [1.0, 1.0, 1.0])
    """
    return image, torch.ones_like(image)


BASELINES = {"constant-reflectance": constant_reflectance, "constant-shading": constant_shading}
