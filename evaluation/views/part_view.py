"""Open images with masks of object types or of named parts."""

from functools import partial
from typing import Any, Literal, get_args

from candlelight.evaluation.views.chosen_rows import ChosenRows, Request, RowChoice
from candlelight.evaluation.views.data_source import FRAMES, Content, open_rows
from candlelight.evaluation.views.frame_rows import all_layers
from candlelight.evaluation.views.view_colours import to_srgb
from candlelight.evaluation.views.view_items import PartImage
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.samples import Frames

MaskKind = Literal["type", "part"]


def open_parts(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
    by: MaskKind | str = "type",
) -> ChosenRows[PartImage]:
    """Open images with masks of object types or of named parts.

    Args:
        data: PATH, LAYOUT:PATH (cub70, whose folder holds both ``AnnotationMasksPerclass`` and
            ``CUB_200_2011``; celebamask, in the groups of the coverage paper) or hf:NAME, see `parse_data`;
            any reader of frames, or one of `candlelight.loaders.public`.
        set_name: image set of frames; may be left out where there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.
        by: "type" for masks of object types, "part" for masks of named parts; public data have only parts.

    Returns:
        The view, `candlelight.evaluation.views.Parts`; masks of one name in one image are united. The label
        is the type that all objects of a frame share, or the species in CUB-70.

    Raises:
        InputError: the data are missing or have no such masks; the set, split or row does not exist; or
            there are several sets or splits, and none is named.

    Example:
        >>> open_parts("mit:MIT-intrinsic")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: mit:MIT-intrinsic: `mit` has no parts; expected frames or one \
of the layouts cub70, celebamask
    """
    if by not in get_args(MaskKind):
        raise InputError(f"by: expected type or part, got {by!r}")
    layers = ("image", "object", "part") if by == "part" else ("image", "object")
    request = Request(data, set_name, split, rows, limit)
    named = open_rows(request, Content("parts", ("cub70", "celebamask"), all_layers(*layers)))
    layout = named.identity.layout
    if layout == FRAMES:
        return ChosenRows(named, partial(_read_frame, named.reader, by))
    if by != "part":
        raise InputError(
            f"{request.name}: `{layout}` has only masks of parts; choose by part ({argument('by')} part)"
        )
    return ChosenRows(named, partial(_read_public, named.reader, layout))


def _read_frame(frames: Frames, by: str, row: int) -> PartImage:
    sample, objects = frames[row], frames.metadata(row).objects
    masks: dict[str, Any] = {}
    for instance, record in enumerate(objects, start=1):
        shown = sample["object"] == instance
        named = {record.type: shown}
        if by == "part":
            named = {part.name: shown & (sample["part"] == part.index) for part in record.parts}
        for name, mask in named.items():
            masks[name] = masks[name] | mask if name in masks else mask
    types = {record.type for record in objects}
    return PartImage(to_srgb(sample["image"]), masks, types.pop() if len(types) == 1 else None)


def _read_public(data: Any, layout: str, row: int) -> PartImage:
    item = data[row]
    species = item["id"].rpartition("/")[0] if layout == "cub70" else None
    return PartImage(to_srgb(item["image"]), dict(item["parts"]), species)
