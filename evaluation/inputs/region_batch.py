"""A batch of images with their regions of one material."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import RegionImage


@dataclass(frozen=True, eq=False)
class RegionBatch:
    """Images, regions, true colours and masks; see `candlelight.loaders.views.RegionImage`.

    ``colours`` is None if an image has no colours; an image with fewer regions than ``count`` has zeros in
    the last rows. ``mask`` is None if an image has no mask.
    """

    image: Float32[Tensor, "batch 3 height width"]
    regions: Int64[Tensor, "batch height width"]
    colours: Float32[Tensor, "batch count 3"] | None
    mask: Bool[Tensor, "batch height width"] | None
    count: int


def stack_regions(items: Sequence[RegionImage]) -> RegionBatch:
    """Stack items of a view, whose images have one size, into a batch.

    Raises:
        InputError: an item does not have the shapes and dtypes of `candlelight.loaders.views.RegionImage`;
            this can only happen with a view that the caller wrote.

    Example:
        >>> one = RegionImage(torch.ones(3, 2, 2), torch.ones(2, 2).long(), torch.ones(1, 3))
        >>> stack_regions([one, one]).colours.shape
        torch.Size([2, 1, 3])
    """
    for item in items:
        _check(item)
    count = max([1, *(int(item.regions.max()) for item in items)])
    colours = None
    if all(item.colours is not None for item in items):
        colours = torch.zeros(len(items), count, 3)
        for row, item in enumerate(items):
            known = item.colours[:count]  # type: ignore[index]
            colours[row, : len(known)] = known
    masks = [item.mask for item in items if item.mask is not None]
    return RegionBatch(
        torch.stack([item.image for item in items]),
        torch.stack([item.regions for item in items]),
        colours,
        torch.stack(masks) if len(masks) == len(items) else None,
        count,
    )


def _check(item: RegionImage) -> None:
    check_shapes(image=(item.image, "3 height width"), regions=(item.regions, "height width"))
    if item.image.dtype != torch.float32:
        raise InputError(f"`image` must be float32, scene-linear, got {item.image.dtype}")
    if item.regions.dtype != torch.int64 or not item.regions.numel() or int(item.regions.min()) < 0:
        raise InputError(f"`regions` must be int64, >= 0 and not empty, got {item.regions.dtype}")
    if item.mask is not None:
        check_shapes(regions=(item.regions, "height width"), mask=(item.mask, "height width"))
        check_bool(mask=item.mask)
    if item.colours is None:
        return
    check_shapes(colours=(item.colours, "regions 3"))
    if int(item.regions.max()) > len(item.colours):
        raise InputError(
            f"`colours` must have a row for each region, got {len(item.colours)} for region "
            f"{int(item.regions.max())}"
        )
