"""Translation, rotation and scale of images on their own plane, with borders that are mirrored.

N. Alabau-Bosque, P. Dauden-Oliver, J. Vila-Tomas, V. Laparra, J. Malo: Invariance of deep image quality
metrics to affine transformations, arXiv 2407.17927, 2024. Their programs tile an image 3x3 with mirror images
of itself and cut the middle out of the transformed tiles; here the tiling has no end. The signs are those of
the recipe `invariance`: to the right and down, clockwise, larger.
"""

import math
from typing import get_args

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.perception.mirror_resampling import (
    ResamplingKernel,
    check_srgb_batch,
    resample_axis,
    resample_points,
)
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError


def translate_images(
    images: Float[Tensor, "batch channels height width"],
    right: float = 0.0,
    down: float = 0.0,
    kernel: ResamplingKernel = "cubic",
) -> Float[Tensor, "batch channels height width"]:
    """Move images; a shift by whole pixels is exact, and none changes nothing.

    Other shifts interpolate the encoded values, as the paper's programs do in their other transforms, by
    Keys' cubic convolution (`resample_axis`), and cut the result to [0, 1]. A shift does not reduce the
    image, so nothing aliases.

    Args:
        images: sRGB-encoded in [0, 1].
        right: pixels; negative moves to the left. The paper takes whole pixels from -10 to 10.
        down: pixels; negative moves up.
        kernel: "cubic", or "linear", which blurs more.

    Returns:
        The images, of the same shape, dtype and device. The border that comes in shows the mirror image, not
        the scene that a moved camera would show.

    Raises:
        InputError: the images have other axes or values, a shift is not finite, or the kernel is unknown.

    Example:
        >>> row = torch.tensor([0.1, 0.2, 0.3]).reshape(1, 1, 1, 3)
        >>> translate_images(row, right=1).flatten()
        tensor([0.1000, 0.1000, 0.2000])
    """
    _check(images, kernel, right=right, down=down)
    height, width = images.shape[2:]
    rows = torch.arange(height, dtype=torch.float64) - down
    columns = torch.arange(width, dtype=torch.float64) - right
    return _resample(images, rows, columns, kernel, 1.0)


def rotate_images(
    images: Float[Tensor, "batch channels height width"], degrees: float, kernel: ResamplingKernel = "cubic"
) -> Float[Tensor, "batch channels height width"]:
    """Turn images about their middle; a quarter turn of a square image is exact, and none changes nothing.

    Encoded values are interpolated by the product of Keys' cubic convolution along rows and columns
    (`resample_points`) and cut to [0, 1]. A rotation does not reduce the image, so nothing aliases.

    Args:
        images: sRGB-encoded in [0, 1].
        degrees: clockwise. The paper's programs turn the other way, from 0 to 10.9 degrees.
        kernel: "cubic"; or "linear", the paper's.

    Returns:
        The images, of the same shape, dtype and device; the corners show the mirror image.

    Raises:
        InputError: the images have other axes or values, the angle is not finite, or the kernel is unknown.

    Example:
        >>> rotate_images(torch.tensor([[0.1, 0.2], [0.3, 0.4]])[None, None], 90)
        tensor([[[[0.3000, 0.1000],
                  [0.4000, 0.2000]]]])
    """
    _check(images, kernel, degrees=degrees)
    height, width = images.shape[2:]
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    middle = (height - 1) / 2, (width - 1) / 2
    y = torch.arange(height, dtype=torch.float64)[:, None] - middle[0]
    x = torch.arange(width, dtype=torch.float64)[None, :] - middle[1]
    rows, columns = middle[0] + cosine * y - sine * x, middle[1] + cosine * x + sine * y
    return resample_points(images, rows, columns, kernel).clamp(0, 1)


def scale_images(
    images: Float[Tensor, "batch channels height width"], factor: float, kernel: ResamplingKernel = "cubic"
) -> Float[Tensor, "batch channels height width"]:
    """Enlarge or reduce images about their middle; a factor of 1 changes nothing.

    Encoded values are interpolated by Keys' cubic convolution (`resample_axis`) and cut to [0, 1]. Below 1
    the kernel is wider by 1 / factor, which keeps finer detail than the new pixels from aliasing.

    Args:
        images: sRGB-encoded in [0, 1].
        factor: above 0; 2 shows the middle half of the image twice as large. The paper's factors run from
            0.11 to 1.98, and its curves use those from 1. Its programs round the new size to whole pixels.
        kernel: "cubic"; or "linear", the paper's.

    Returns:
        The images, of the same shape, dtype and device; below 1, mirror images surround the image.

    Raises:
        InputError: the images have other axes or values, the factor is not above 0, or the kernel is unknown.

    Example:
        >>> row = torch.tensor([0.0, 0.2, 0.4, 0.6]).reshape(1, 1, 1, 4)
        >>> scale_images(row, 2, "linear").flatten()
        tensor([0.1500, 0.2500, 0.3500, 0.4500])
    """
    _check(images, kernel, factor=factor)
    if factor <= 0:
        raise InputError(f"`factor` must be above 0, got {factor:g}; 1 keeps the size")
    rows, columns = (
        (torch.arange(size, dtype=torch.float64) - (size - 1) / 2) / factor + (size - 1) / 2
        for size in images.shape[2:]
    )
    return _resample(images, rows, columns, kernel, max(1.0, 1 / factor))


def place_on_canvas(
    images: Float[Tensor, "batch channels height width"], side: int
) -> Float[Tensor, "batch channels side side"]:
    """Put images into the middle of a black square, as the paper does with the digits of MNIST.

    Args:
        images: sRGB-encoded in [0, 1].
        side: pixels; the paper takes 56 for translations and 128 for scales of 28 x 28 pixels.

    Raises:
        InputError: the images have other axes or values, or are larger than the square.

    Example:
        >>> place_on_canvas(torch.ones(1, 1, 1, 1), 3).squeeze().tolist()
        [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    check_srgb_batch(images)
    height, width = images.shape[2:]
    if max(height, width) > side:
        raise InputError(
            f"a canvas of {side}x{side} pixels needs images of at most that size, got {height}x{width}; "
            "leave the canvas out"
        )
    top, left = (side - height) // 2, (side - width) // 2
    return pad(images, (left, side - width - left, top, side - height - top))


def _resample(
    images: Tensor, rows: Tensor, columns: Tensor, kernel: ResamplingKernel, stretch: float
) -> Tensor:
    moved = resample_axis(images, columns, kernel, stretch).transpose(2, 3)
    return resample_axis(moved, rows, kernel, stretch).transpose(2, 3).clamp(0, 1).contiguous()


def _check(images: Tensor, kernel: str, **numbers: float) -> None:
    check_srgb_batch(images)
    check_choice("kernel", kernel, get_args(ResamplingKernel))
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise InputError(f"`{name}` must be finite, got {number:g}; 0 keeps the images as they are")
