"""Images with their true reflectance and shading."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from loaders.samples import Frames
from loaders.schema import Metadata
from loaders.views.chosen_rows import ChosenRows, Request, RowChoice
from loaders.views.data_source import FRAMES, Content, open_rows
from loaders.views.view_colours import to_linear
from loaders.views.view_items import DecomposedImage
from loaders.views.view_protocols import Explains

_TRUTH = ("albedo", "shading")


@dataclass(frozen=True, eq=False)
class DecompositionRows(ChosenRows[DecomposedImage]):
    """Chosen rows as `loaders.views.Decompositions`."""

    explains: Explains


def open_decompositions(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
    lights: bool = False,
) -> DecompositionRows:
    """Open images with their true reflectance and shading.

    Frames give `radiance` and `shading` times the set's exposure, the decoded 8-bit `image` where there is no
    `radiance`, and count pixels with an albedo above 0; their groups are units. MIT Intrinsic Images gives
    `diffuse`, as its benchmark does; ARAP's groups are scenes.

    Args:
        data: PATH, LAYOUT:PATH (mit, arap) or hf:NAME, see `parse_data`; any reader of frames, or one of
            `loaders.public`.
        set_name: image set of frames; may be left out where there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or their text as `parse_rows` takes it; None for all.
        limit: the first so many of these; None for all.
        lights: whether MIT's captures under ten more lights are read.

    Returns:
        The view: `loaders.views.Decompositions`.

    Raises:
        InputError: there is nothing of the kind; several sets or splits, and none is named; no such set,
            split or row; the data have no decompositions.

    Example:
        >>> open_decompositions("dsprites:grid")
        Traceback (most recent call last):
        loaders.errors.InputError: dsprites:grid: `dsprites` has no decompositions; expected frames or one \
of the layouts mit, arap
    """
    request = Request(data, set_name, split, rows, limit)
    content = Content("decompositions", ("mit", "arap"), _layers, {"mit": {"lights": lights}})
    named = open_rows(request, content)
    reader = named.reader
    if named.identity.layout != FRAMES:
        key = "diffuse" if named.identity.layout == "mit" else "image"
        return DecompositionRows(named, _reader(reader, key), "image")
    hidden = _has_catcher(reader.metadata(named.numbers[0]))
    return DecompositionRows(named, _frame_reader(reader), "objects" if hidden else "image")


def _layers(available: Collection[str]) -> tuple[str, ...]:
    return ("radiance" if "radiance" in available else "image", *_TRUTH)


def _has_catcher(metadata: Metadata) -> bool:
    """Tell frames with a shadow catcher: of what was traced, only they have no `identity_error`."""
    traced = metadata.renderer is not None and metadata.renderer.blender is not None
    return traced and metadata.checks.identity_error is None


def _frame_reader(frames: Frames) -> Callable[[int], DecomposedImage]:
    exposure = frames.set_info.exposure

    def read(row: int) -> DecomposedImage:
        sample = frames[row]
        exposed = "radiance" in sample
        image = to_linear(sample["radiance"]) * exposure if exposed else to_linear(sample["image"])
        albedo, shading = (to_linear(sample[name]) for name in _TRUTH)
        return DecomposedImage(image, albedo, shading * exposure, (albedo > 0).any(0))

    return read


def _reader(data: Any, key: str) -> Callable[[int], DecomposedImage]:
    def read(row: int) -> DecomposedImage:
        item = data[row]
        return DecomposedImage(
            image=to_linear(item[key]),
            reflectance=to_linear(item["reflectance"]),
            shading=item["shading"],
            mask=item["mask"],
            lights=item.get("lights"),
        )

    return read
