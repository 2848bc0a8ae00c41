"""Mean colours of the regions of images, the input of scores on regions of one material."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError


@dataclass(frozen=True, eq=False)
class RegionMeans:
    """Mean colour and number of pixels of each region; a region without pixels has colour 0."""

    colours: Float64[Tensor, "batch regions channels"]
    pixels: Float64[Tensor, "batch regions"]


def region_means(
    image: Float[Tensor, "batch channels height width"],
    regions: Int64[Tensor, "batch height width"],
    count: int,
) -> RegionMeans:
    """Average images over their regions.

    Args:
        image: images with values of any range, scene-linear where colours are to be compared.
        regions: 0 outside all regions, which is never read, else the number of the region, from 1.
        count: number of regions, at least the largest number.

    Returns:
        Means and numbers of pixels of the regions 1 to ``count``; nan or infinite where a value is.

    Raises:
        InputError: the shapes do not agree, or a number is not from 0 to ``count``.

    Example:
        >>> image = torch.tensor([[[[1.0, 3.0, 7.0]]]])
        >>> means = region_means(image, torch.tensor([[[1, 1, 0]]]), 2)
        >>> means.colours.flatten().tolist(), means.pixels.tolist()
        ([2.0, 0.0], [[2.0, 0.0]])
    """
    check_shapes(image=(image, "batch channels height width"), regions=(regions, "batch height width"))
    if regions.dtype != torch.int64:
        raise InputError(f"`regions` must be int64, got {regions.dtype}; pass `regions.long()`")
    if regions.numel() and not 0 <= int(regions.min()) <= int(regions.max()) <= count:
        low, high = int(regions.min()), int(regions.max())
        raise InputError(f"`regions` must be numbers from 0 to {count}, got {low} to {high}")
    batch, channels = image.shape[:2]
    places = regions.flatten(1)
    values = image.flatten(2).double()
    sums = values.new_zeros(batch, channels, count + 1).scatter_add_(
        2, places[:, None].expand(-1, channels, -1), values
    )
    pixels = values.new_zeros(batch, count + 1).scatter_add_(1, places, torch.ones_like(values[:, 0]))
    means = sums[..., 1:] / pixels[:, None, 1:].clamp(min=1)
    return RegionMeans(means.transpose(1, 2), pixels[:, 1:])
