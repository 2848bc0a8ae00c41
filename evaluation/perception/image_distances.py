"""Distances of two images that need no weights: each is 0 for equal images."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.intrinsic.masked import PixelMask
from candlelight.evaluation.intrinsic.mse import mse
from candlelight.evaluation.intrinsic.ssim import dssim, ms_ssim, ssim
from candlelight.evaluation.models.model_spec import ColourSpace

_Images = Float[Tensor, "batch 3 height width"]


def rmse_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute the root of the mean squared difference over pixels and channels.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair, >= 0; nan if a value is not finite. Blind to the places of the differences.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> rmse_distance(torch.zeros(1, 3, 2, 2), torch.full((1, 3, 2, 2), 0.5))
        tensor([0.5000])
    """
    return mse(transformed, reference, _everywhere(transformed, reference)).sqrt()


def ssim_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute 1 - `candlelight.evaluation.intrinsic.ssim`: Wang et al. 2004, eq. 13, with its constants.

    The mean over windows is taken for each channel of RGB, then over channels; the authors' program takes
    gray images, and first reduces large ones, which this does not.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair in [0, 2]; nan if a value is not finite. Blind to colour as such. Pixels near
        the border count less, because the windows lie wholly in the image.

    Raises:
        InputError: the shapes do not agree, or the images are below 11 x 11 pixels.

    Example:
        >>> images = torch.rand(1, 3, 16, 16)
        >>> ssim_distance(images, images)
        tensor([0.])
    """
    return 1 - ssim(transformed, reference, _everywhere(transformed, reference))


def ms_ssim_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute 1 - `intrinsic.ms_ssim`: Wang et al. 2003, eq. 7, with its five exponents.

    The product over scales is taken for each channel of RGB, then the mean over channels.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair in [0, 1]; nan if a value is not finite. Blind to colour as such, and nearly
        blind to luminance.

    Raises:
        InputError: the shapes do not agree, or the images are below 161 x 161 pixels.

    Example:
        >>> images = torch.rand(1, 3, 161, 161)
        >>> ms_ssim_distance(images, images)
        tensor([0.])
    """
    return 1 - ms_ssim(transformed, reference, _everywhere(transformed, reference))


def lmse_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute `candlelight.evaluation.intrinsic.lmse` of the mean of the channels, by Grosse et al. 2009.

    Args:
        transformed: scene-linear Rec.709; the prediction of `lmse`, whose scale in each window is free.
        reference: likewise; the truth.

    Returns:
        One distance per pair in [0, 1]; nan if a value is not finite or the reference is black. Not
        symmetric. Blind to colour, and to scale and sign in each window; so nearly blind to illuminants.

    Raises:
        InputError: the shapes do not agree, or the images are below 20 x 20 pixels.

    Example:
        >>> images = torch.rand(1, 3, 20, 20)
        >>> lmse_distance(0.5 * images, images).round(decimals=6), lmse_distance(0 * images, images)
        (tensor([0.]), tensor([1.]))
    """
    everywhere = _everywhere(transformed, reference)
    return lmse(gray(transformed), gray(reference), everywhere)


def dssim_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute `intrinsic.dssim`: (1 - SSIM) / 2 after the best scale of the transformed image.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair in [0, 1]; nan if a value is not finite. Not symmetric. Blind to one factor on
        all values of the transformed image, and to what `ssim_distance` is blind to.

    Raises:
        InputError: the shapes do not agree, or the images are below 11 x 11 pixels.

    Example:
        >>> images = torch.rand(1, 3, 16, 16)
        >>> dssim_distance(0.5 * images, images).abs().round(decimals=6)
        tensor([0.])
    """
    return dssim(transformed, reference, _everywhere(transformed, reference))


DISTANCES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], ColourSpace]] = {
    "rmse": (rmse_distance, "srgb"),
    "ssim": (ssim_distance, "srgb"),
    "ms-ssim": (ms_ssim_distance, "srgb"),
    "lmse": (lmse_distance, "linear"),
    "dssim": (dssim_distance, "srgb"),
}
"""Distances that need no weights, with the colour space of their images."""


def _everywhere(transformed: Tensor, reference: Tensor) -> PixelMask:
    axes = "batch 3 height width"
    check_shapes(transformed=(transformed, axes), reference=(reference, axes))
    return torch.ones_like(transformed[:, 0], dtype=torch.bool)
