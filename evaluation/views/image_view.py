"""Open images alone: from any data, a folder of pictures, or a Hugging Face data set."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import ExifTags

from candlelight.evaluation.views.chosen_rows import ChosenRows, NamedRows, Request, RowChoice, choose_rows
from candlelight.evaluation.views.data_source import (
    FRAMES,
    HUGGING_FACE,
    Content,
    hub_folder,
    open_rows,
    parse_data,
)
from candlelight.evaluation.views.frame_rows import all_layers, is_frames
from candlelight.evaluation.views.picture_groups import PictureGroups
from candlelight.evaluation.views.public_rows import LAYOUTS, NO_MASKS
from candlelight.evaluation.views.view_colours import to_srgb
from candlelight.evaluation.views.view_items import DataIdentity
from candlelight.loaders.errors import InputError, argument, blaming
from candlelight.loaders.files.decode_image import decode_image
from candlelight.loaders.files.safe_decoding import open_image
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.image_frames import ImageFolder, ImageTable, load_hugging_face
from candlelight.loaders.open_frames import no_frames
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST
from candlelight.loaders.samples import to_tensors

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

_CONTENT = Content("images", tuple(LAYOUTS), all_layers("image"), NO_MASKS)
_PICTURES = "pictures"  # layout of folders and tables of pictures
_SIDEWAYS = range(5, 9)  # EXIF orientations that swap height and width


def open_images(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
    size: tuple[int, int] | None = None,
    groups: PictureGroups | None = None,
) -> ChosenRows[Tensor]:
    """Open images alone, such as negatives.

    Args:
        data: PATH, LAYOUT:PATH (any) or hf:NAME, see `parse_data`; any reader of frames, or one of
            `candlelight.loaders.public`. PATH may also be a folder of pictures, and NAME a data set with one
            column of images, as ``hf:NAME``, ``hf:NAME:SPLIT`` or ``hf:NAME:SPLIT:CONFIGURATION``.
        set_name: image set of frames, or configuration of a Hugging Face data set; may be left out where
            there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.
        size: height and width in pixels to which pictures are scaled and cropped; None keeps their sizes.
            Images of other data keep their sizes always.
        groups: groups of the pictures of a folder, from `read_picture_groups`; None makes every picture a
            group of its own. Other data keep their groups always.

    Returns:
        The view: `candlelight.evaluation.views.Images`.

    Raises:
        InputError: the data are missing; the set, split or row does not exist; there are several sets or
            splits, and none is named; or a picture has no group in ``groups``.

    Example:
        >>> open_images("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: does not exist; expected a folder of frames, an .h5 \
file or a folder of them, or a Hugging Face folder; or a folder of pictures
    """
    if size is not None and min(size) < 1:
        raise InputError(f"size: expected height and width of at least 1, got {size}")
    request = Request(data, set_name, split, rows, limit)
    named = _open_pictures(request, groups) if isinstance(data, str | Path) else None
    if named is not None:
        return ChosenRows(named, partial(_read_picture, named.reader, size))
    named = open_rows(request, _CONTENT)
    return ChosenRows(named, partial(read_image, named.reader))


def read_image(data: Any, row: int) -> Tensor:
    """Read the image of a row, sRGB-encoded."""
    return to_srgb(data[row]["image"])


def _open_pictures(request: Request, groups: PictureGroups | None) -> NamedRows | None:
    """Open a folder of pictures or a table of the Hub; return None for other data."""
    source = parse_data(request.data)
    if source.layout == HUGGING_FACE:
        return _open_table(source.place, request)
    if source.layout != FRAMES or is_frames(path := local_folder(source.place)):
        return None
    if not path.is_dir():
        raise no_frames(path, "; or a folder of pictures")
    if request.set_name is not None or request.split is not None:
        raise InputError(f"{path}: a folder of pictures has no sets or splits; leave them out")
    named = _name_pictures(ImageFolder(path), request, DataIdentity(path.resolve().name, _PICTURES))
    return named if groups is None else replace(named, groups=groups.of(path, named.ids))


def _open_table(place: str, request: Request) -> NamedRows | None:
    """Open a Hugging Face data set; return None for a pack of frames."""
    name, split, configuration, *rest = [*place.split(":"), "", ""]
    if not name or rest[:-2]:
        raise InputError(f"{request.name}: expected hf:NAME, hf:NAME:SPLIT or hf:NAME:SPLIT:CONFIGURATION")
    if not split and _is_pack(name):
        return None
    wanted, set_name = request.split or split or None, request.set_name or configuration or None
    found = load_hugging_face(name, wanted, set_name)
    # A data set saved without a dict of splits may know its split.
    splits = found if isinstance(found, dict) else {found.split and str(found.split): found}
    if len(splits) > 1:
        raise InputError(
            f"{request.name}: choose a split ({argument('split')}); expected one of: {', '.join(splits)}"
        )
    [(own, table)] = splits.items()
    if None not in (wanted, own) and wanted != own:
        raise InputError(f"{request.name}: split `{wanted}` is not there; expected one of: {own}")
    identity = DataIdentity(Path(name).name, _PICTURES, set_name, own or wanted)
    return _name_pictures(ImageTable(table, request.name), request, identity)


def _is_pack(name: str) -> bool:
    """Recognise a pack of frames by its manifest; only the manifest of a remote data set is downloaded."""
    if Path(name).is_dir():
        return is_frames(Path(name))
    try:
        return (hub_folder(name, [PACK_MANIFEST]) / PACK_MANIFEST).is_file()
    except InputError:  # the data set may still be in the cache of `datasets`
        return False


def _name_pictures(source: ImageFolder | ImageTable, request: Request, identity: DataIdentity) -> NamedRows:
    numbers = choose_rows(len(source), request)
    ids = tuple(source.name(number) for number in numbers)

    def every_id() -> Collection[str]:
        return [source.name(number) for number in range(len(source))]

    return NamedRows(identity, source, numbers, ids, ids, every_id)


def _read_picture(source: ImageFolder | ImageTable, size: tuple[int, int] | None, number: int) -> Tensor:
    where = f"{source.origin}: {source.name(number)}"
    with blaming(f"{where}: cannot be read", "replace or remove it"):
        data = source.data(number)
    return to_srgb(to_tensors([decode_image(data, where, size or _size(data, where))])[0])


def _size(data: bytes, where: str) -> tuple[int, int]:
    """Return height and width of a picture after the rotation in its EXIF."""
    with blaming(f"{where}: cannot be read as an image", "replace or remove it"), open_image(data) as image:
        upright = image.getexif().get(ExifTags.Base.Orientation, 1) not in _SIDEWAYS
        return image.size[::-1] if upright else image.size
