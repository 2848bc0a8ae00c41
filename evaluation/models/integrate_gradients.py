"""Reflectance and shading from the gradients of the log reflectance."""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from numpy import ndarray
from torch import Tensor

from evaluation.models.log_gradients import FLOOR, Gradients
from evaluation.models.poisson import solve_poisson
from loaders.errors import InputError


def raised_pixels(image: Float[Tensor, "batch 3 height width"]) -> Float64[ndarray, "batch 3 height width"]:
    """Raise images to `evaluation.models.log_gradients.FLOOR` and return them in float64 on the CPU.

    Example:
        >>> raised_pixels(torch.zeros(1, 3, 1, 1)).min() == FLOOR
        True
    """
    return np.maximum(image.detach().cpu().double().numpy(), FLOOR)


def decompose_by_gradients(
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    gradients: Iterable[Gradients],
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Decompose each image on the CPU; the results are on the device of the input.

    Args:
        image: scene-linear Rec.709 in [0, 1].
        mask: pixels of the object; edges to other pixels are ignored. All pixels by default.
        gradients: of the log reflectance of each image, which is their least-squares image: Grosse et al.
            2009, eq. 10, p = 2.

    Returns:
        Reflectance in the colours of the image, scaled so that its largest value is 1, and gray shading
        repeated over the channels; their product is the image, see `raised_pixels`. Both are 0 outside the
        mask.

    Example:
        >>> from evaluation.models.log_gradients import backward_differences, log_gray
        >>> image = torch.tensor([0.2, 0.4]).expand(1, 3, 1, 2)
        >>> gradients = [backward_differences(log_gray(pixels)) for pixels in raised_pixels(image)]
        >>> decompose_by_gradients(image, None, gradients)[0][0, 0]
        tensor([[0.5000, 1.0000]])
    """
    pixels = raised_pixels(image)
    masks = [None] * len(pixels) if mask is None else list(mask.cpu().numpy())
    parts = zip(pixels, masks, gradients, strict=True)
    reflectance = np.stack([_reflectance(*part) for part in parts])
    inside = reflectance > 0
    shading = np.divide(pixels, reflectance, out=np.zeros_like(pixels), where=inside)
    return torch.from_numpy(reflectance).to(image), torch.from_numpy(shading).to(image)


def check_thresholds(**thresholds: float) -> None:
    """Refuse thresholds below 0.

    Raises:
        InputError: a threshold is negative or nan.

    Example:
        >>> check_thresholds(chroma=-1.0)
        Traceback (most recent call last):
        loaders.errors.InputError: `chroma` must be a threshold of at least 0, got -1.0
    """
    for name, value in thresholds.items():
        if not value >= 0:
            raise InputError(f"`{name}` must be a threshold of at least 0, got {value}")


def _reflectance(
    pixels: Float[ndarray, "3 height width"],
    mask: Bool[ndarray, "height width"] | None,
    gradients: Gradients,
) -> Float[ndarray, "3 height width"]:
    reflectance = np.exp(solve_poisson(*gradients, mask)) * pixels / pixels.mean(0)
    if mask is not None:
        reflectance = reflectance * mask
    return reflectance / max(reflectance.max(), np.finfo(float).tiny)
