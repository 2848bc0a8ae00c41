"""Resampling of images that go on beyond their edges as in a mirror, by cubic convolution or bilinearly.

R. G. Keys: Cubic convolution interpolation for digital image processing, IEEE Transactions on Acoustics,
Speech, and Signal Processing 29(6), 1981.
"""

import math
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

ResamplingKernel = Literal["cubic", "linear"]
_REACH = {"cubic": 2, "linear": 1}  # pixels on either side beyond which the kernel is 0
_DECIMALS = 9  # of positions, so that the rounding errors of a quarter turn do not blur


def resample_axis(
    images: Float[Tensor, "batch channels height width"],
    positions: Float64[Tensor, " size"],
    kernel: ResamplingKernel,
    stretch: float = 1.0,
) -> Float[Tensor, "batch channels height size"]:
    """Read images along their last axis at any positions.

    The value at x is the sum over the pixels j of ``k((x - j) / stretch)`` times pixel j, over the sum of the
    weights, with Keys 1981, eq. 15 (a = -1/2), or the triangle of width 2 for k. Both kernels are 1 at 0 and
    0 at all other whole numbers, so whole positions return the pixels exactly. Beyond an edge the image is
    mirrored, with the outermost pixel twice.

    Args:
        images: any values.
        positions: in pixels; 0 is the middle of the first one. Rounded to 1e-9.
        kernel: "cubic" or "linear".
        stretch: width of the kernel, at least 1; against aliasing, the distance of the positions if that is
            above 1 pixel.

    Returns:
        The values, of the dtype of the images. The cubic kernel overshoots at edges.

    Example:
        >>> row = torch.tensor([0.0, 1.0, 4.0]).reshape(1, 1, 1, 3)
        >>> resample_axis(row, torch.tensor([1.5, 3.0, -1.0]).double(), "linear").flatten()
        tensor([2.5000, 4.0000, 0.0000])
    """
    taps = list(_taps(positions, kernel, stretch))
    total = torch.stack([weight for _, weight in taps]).sum(0)
    result = images.new_zeros((*images.shape[:3], len(positions)))
    for index, weight in taps:
        if bool(weight.any()):
            chosen = mirrored_index(index, images.shape[3]).to(images.device)
            result += images[..., chosen] * (weight / total).to(images)
    return result


def resample_points(
    images: Float[Tensor, "batch channels height width"],
    rows: Float64[Tensor, "new_height new_width"],
    columns: Float64[Tensor, "new_height new_width"],
    kernel: ResamplingKernel,
) -> Float[Tensor, "batch channels new_height new_width"]:
    """Read images at any points, with the product of the kernel along rows and columns (`resample_axis`).

    Args:
        images: any values.
        rows: in pixels; 0 is the middle of the first row. Rounded to 1e-9.
        columns: likewise.
        kernel: "cubic" or "linear".

    Returns:
        The values, of the dtype of the images.

    Example:
        >>> image = torch.tensor([[0.0, 1.0], [2.0, 3.0]])[None, None]
        >>> resample_points(image, torch.tensor([[0.5]]).double(), torch.tensor([[1.0]]).double(), "linear")
        tensor([[[[2.]]]])
    """
    height, width = images.shape[2:]
    flat = images.flatten(2)
    result = images.new_zeros((*images.shape[:2], rows.numel()))
    taps = _taps(columns.flatten(), kernel, 1.0)
    across = [(mirrored_index(column, width), weight) for column, weight in taps]
    for row, down in _taps(rows.flatten(), kernel, 1.0):
        start = mirrored_index(row, height) * width
        for column, weight in across:
            product = down * weight
            if bool(product.any()):
                result += flat[..., (start + column).to(images.device)] * product.to(images)
    return result.reshape(*images.shape[:2], *rows.shape)


def mirrored_index(index: Int64[Tensor, "*shape"], length: int) -> Int64[Tensor, "*shape"]:
    """Fold indices beyond the ends of an axis back, as in tiles that are mirrored at their edges.

    Example:
        >>> mirrored_index(torch.arange(-3, 5), 2).tolist()
        [1, 1, 0, 0, 1, 1, 0, 0]
    """
    folded = index % (2 * length)
    return torch.minimum(folded, 2 * length - 1 - folded)


def check_srgb_batch(images: Float[Tensor, "batch channels height width"]) -> None:
    """Refuse images whose values do not lie in [0, 1].

    Raises:
        InputError: the images have other axes, or a value is outside [0, 1] or nan.

    Example:
        >>> check_srgb_batch(torch.full((1, 3, 2, 2), 255.0))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `images` must be sRGB-encoded in [0, 1], got values from 255 \
to 255; divide 8-bit values by 255
    """
    check_shapes(images=(images, "batch channels height width"))
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise InputError(
            f"`images` must be sRGB-encoded in [0, 1], got values from {float(images.min()):g} to "
            f"{float(images.max()):g}; divide 8-bit values by 255"
        )


def _taps(
    positions: Float64[Tensor, " size"], kernel: ResamplingKernel, stretch: float
) -> Iterator[tuple[Int64[Tensor, " size"], Float64[Tensor, " size"]]]:
    """List the index and the weight of each neighbour of all positions, from left to right."""
    exact = positions.round(decimals=_DECIMALS)
    first = exact.floor()
    reach = math.ceil(_REACH[kernel] * stretch)
    for offset in range(1 - reach, reach + 1):
        yield (first + offset).long(), _weights((exact - first - offset) / stretch, kernel)


def _weights(distance: Float64[Tensor, " size"], kernel: ResamplingKernel) -> Float64[Tensor, " size"]:
    x = distance.abs()
    if kernel == "linear":
        return (1 - x).clamp_min(0)
    near = (1.5 * x - 2.5) * x**2 + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))
