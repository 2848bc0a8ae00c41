"""Open images with regions of one material."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from candlelight.evaluation.views.chosen_rows import ChosenRows, Request, RowChoice
from candlelight.evaluation.views.data_source import FRAMES, Content, open_rows
from candlelight.evaluation.views.view_colours import linear_image, linear_layer, to_linear
from candlelight.evaluation.views.view_items import RegionImage
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import to_tensor
from candlelight.loaders.regions import constant_regions, scale_regions
from candlelight.loaders.samples import Frames

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


@dataclass(frozen=True, eq=False)
class RegionRows(ChosenRows[RegionImage]):
    """Chosen rows with the members of `candlelight.evaluation.views.Regions`."""

    synthetic: bool


def open_regions(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
    longest: int | None = None,
) -> RegionRows:
    """Open images with regions of one material.

    The regions of MAW have measured colours. The regions of Multi-Illumination Images are the scene's classes
    of materials, without colours; class 0 counts as no material. The regions of frames are those of
    `candlelight.loaders.regions.constant_regions`, pixels of one object with one true albedo, which is their
    colour. The groups are scenes (MAW's folders of a scene), and units of frames: rows of a unit that differ
    in light alone have the same regions.

    Args:
        data: PATH, LAYOUT:PATH (maw, multi-illumination) or hf:NAME, see `parse_data`; any reader of frames,
            or one of `candlelight.loaders.public`.
        set_name: image set of frames; may be left out where there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.
        longest: largest longer side in pixels to which photographs are scaled down: images in linear light,
            regions by the nearest pixel. None keeps their sizes, which are 20 million pixels in MAW. Frames
            keep their size always.

    Returns:
        The view: `candlelight.evaluation.views.Regions`.

    Raises:
        InputError: the data are missing or have no regions; the set, split or row does not exist; there are
            several sets or splits, and none is named; or ``longest`` is below 1.

    Example:
        >>> open_regions("mit:MIT-intrinsic")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: mit:MIT-intrinsic: `mit` has no regions; expected frames or \
one of the layouts maw, multi-illumination
    """
    if longest is not None and longest < 1:
        raise InputError(f"longest: expected at least 1 pixel, got {longest}")
    options = {"multi-illumination": {"materials": True}}
    content = Content("regions", ("maw", "multi-illumination"), _layers, options)
    named = open_rows(Request(data, set_name, split, rows, limit), content)
    if named.identity.layout == FRAMES:
        return RegionRows(named, partial(_read_frame, named.reader), True)
    return RegionRows(named, partial(_read_public, named.reader, longest), False)


def _layers(available: Collection[str]) -> tuple[str, ...]:
    return linear_layer(available), "albedo", "object"


def _read_frame(frames: Frames, row: int) -> RegionImage:
    sample = frames[row]
    albedo = to_linear(sample["albedo"])
    found = constant_regions(sample["object"].numpy(), albedo.permute(1, 2, 0).numpy())
    image = linear_image(sample, frames.set_info.exposure)
    return RegionImage(image, to_tensor(found.regions), to_tensor(found.colours), (albedo > 0).any(0))


def _read_public(data: Any, longest: int | None, row: int) -> RegionImage:
    item = data[row]
    regions = item.get("regions", item.get("materials"))
    if regions is None:
        raise InputError(
            "expected MultiIllumination opened with materials=True, got a reader without materials"
        )
    image = to_linear(item["image"])
    if longest is not None and max(regions.shape) > longest:
        image, regions = _scaled(image, regions, longest)
    return RegionImage(image, regions, item.get("colours"))


def _scaled(image: Tensor, regions: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    from torch.nn.functional import interpolate

    height, width = regions.shape
    share = longest / max(height, width)
    size = max(1, round(height * share)), max(1, round(width * share))
    smaller = interpolate(image[None], size, mode="bilinear", antialias=True)[0]
    return smaller, to_tensor(scale_regions(regions.numpy(), size))
