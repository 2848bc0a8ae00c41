"""Contents with sRGB-encoded images: images alone, also pictures, factors, parts and rated pairs."""

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from jaxtyping import Float64
from numpy import ndarray
from PIL import ExifTags

from candlelight.evaluation.views.data_layouts import HUB, LAYOUTS, DataText, hub_folder
from candlelight.evaluation.views.named_rows import (
    FRAMES,
    ChosenRows,
    Content,
    FrameRows,
    NamedRows,
    Request,
    choose_rows,
    is_frames,
)
from candlelight.evaluation.views.view_colours import to_srgb
from candlelight.evaluation.views.view_types import DataIdentity, PartImage, RatedPair, Tensor
from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.choices import choose_name
from candlelight.loaders.errors import InputError, argument, blaming
from candlelight.loaders.files.decode_image import IMAGE_SUFFIXES, decode_image
from candlelight.loaders.files.safe_decoding import open_image
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.image_frames import ImageFolder, ImageTable, load_hugging_face
from candlelight.loaders.open_frames import no_frames
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST
from candlelight.loaders.public.public_files import wrong_line
from candlelight.loaders.samples import to_tensors
from candlelight.loaders.schema import FactorInfo

_PICTURES = "pictures"  # layout of folders and tables of pictures
_SIDEWAYS = range(5, 9)  # EXIF orientations that swap height and width
_GROUPS_FORMAT = "expected a CSV file with the columns picture,group"


def image_layer(available: Collection[str], options: Any) -> tuple[str, ...]:
    """Choose the layers of contents that need the encoded image alone."""
    return ("image",)


def read_image(named: NamedRows, options: Any, row: int) -> Tensor:
    """Read the image of a row, sRGB-encoded."""
    return to_srgb(named.reader[row]["image"])


def _without_masks(layout: str, options: Any) -> dict[str, Any]:
    """Leave masks out, whose reading takes most time, of contents that need the images alone."""
    return {"masks": False} if layout in ("cub70", "celebamask") else {}


# ------------------------------------------------------------------------------------- images and pictures


@dataclass(frozen=True)
class PictureGroups:
    """Groups of the pictures of some folders, as `read_picture_groups` reads them.

    Attributes:
        table: file of the groups.
        groups: group of each picture, by its absolute path.
    """

    table: Path
    groups: Mapping[Path, str]

    def of(self, folder: Path, names: Sequence[str]) -> tuple[str, ...]:
        """Look up the groups of pictures.

        Args:
            folder: folder of the pictures.
            names: paths of the pictures in the folder.

        Raises:
            InputError: the table has no row for a picture.
        """
        places = {name: _place(folder / name) for name in names}
        if missing := [name for name, place in places.items() if place not in self.groups]:
            raise InputError(
                f"{self.table}: expected a row for each picture of {folder}, got none for {len(missing)} of "
                f"{len(names)}, such as {missing[0]}; add rows"
            )
        return tuple(self.groups[place] for place in places.values())


def read_picture_groups(path: Path | str) -> PictureGroups:
    r"""Read a table of the groups of pictures, for the option ``groups`` of `open_data("images", ...)`.

    Args:
        path: a CSV file with the columns ``picture``, a path relative to the folder of the file, and
            ``group``, any text; other columns are ignored.

    Raises:
        InputError: the file cannot be read or lacks a column; or a row has no group, names no picture, or
            names the picture of an earlier row.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as name:
        ...     (folder := Path(name) / "striped").mkdir()
        ...     (folder / "1.png").touch()
        ...     _ = Path(name, "groups.csv").write_text("picture,group\nstriped/1.png,vase\n")
        ...     read_picture_groups(f"{name}/groups.csv").of(folder, ["1.png"])
        ('vase',)
    """
    path = Path(path)
    with (
        blaming(f"{path}: cannot be read as a table of groups", _GROUPS_FORMAT),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        header, *rows = [*csv.reader(file, skipinitialspace=True, strict=True)] or [[]]
    if not {"picture", "group"} <= set(header):
        raise InputError(f"{path}: {_GROUPS_FORMAT}, got {','.join(header)[:80]!r}")
    groups: dict[Path, str] = {}
    for number, row in enumerate(rows, 1):
        if not row:  # a blank line
            continue
        cells, text = dict(zip(header, row, strict=False)), ",".join(row)
        picture = path.parent / cells.get("picture", "")
        if picture.suffix.lower() not in IMAGE_SUFFIXES or not picture.is_file():
            raise wrong_line(path, number, text, "the path of a picture, relative to the folder of the table")
        if _place(picture) in groups:
            raise wrong_line(path, number, text, "one row for each picture")
        if not cells.get("group"):
            raise wrong_line(path, number, text, "a group")
        groups[_place(picture)] = cells["group"]
    return PictureGroups(path, groups)


def _place(picture: Path) -> Path:
    """Return the absolute path of a picture; a link keeps its own name, so it may have its own group."""
    return picture.parent.resolve() / picture.name


@dataclass(frozen=True)
class ImageOptions:
    """Options of `open_data("images", ...)`. They are for pictures; other data keep their sizes and groups.

    Attributes:
        size: height and width in pixels to which pictures are scaled and cropped; None keeps their sizes.
        groups: groups of the pictures of a folder, from `read_picture_groups`, which has a row for each; None
            makes every picture a group of its own.
    """

    size: tuple[int, int] | None = None
    groups: PictureGroups | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if self.size is not None and min(self.size) < 1:
            raise InputError(f"size: expected height and width of at least 1, got {self.size}")


def _open_pictures(
    request: Request, text: DataText | None, options: ImageOptions
) -> ChosenRows[Tensor] | None:
    """Open a folder of pictures or a table of the Hub; return None for other data."""
    named = None
    if text is not None and text.layout == HUB:
        named = _open_table(text.place, request)
    elif text is not None and text.layout == FRAMES and not is_frames(path := local_folder(text.place)):
        named = _open_folder(path, request, options.groups)
    return None if named is None else ChosenRows(named, partial(_read_picture, named.reader, options.size))


def _open_folder(path: Path, request: Request, groups: PictureGroups | None) -> NamedRows:
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
    own = None if None in splits else choose_name(request.name, "split", list(splits), wanted)
    identity = DataIdentity(Path(name).name, _PICTURES, set_name, own or wanted)
    return _name_pictures(ImageTable(splits[own], request.name), request, identity)


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
    return NamedRows(identity, source, numbers, ids, ids, lambda: map(source.name, range(len(source))))


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


IMAGES = Content(
    "images",
    tuple(LAYOUTS),
    image_layer,
    options=ImageOptions,
    arguments=_without_masks,
    public=read_image,
    open=_open_pictures,
)


# -------------------------------------------------------------------------------------------------- factors


@dataclass(frozen=True, eq=False)
class FactoredRows(ChosenRows[Tensor]):
    """Chosen rows with the members of `candlelight.evaluation.views.Factors`, and the graph of frames."""

    factors: tuple[FactorInfo, ...]
    table: Float64[ndarray, "n k"]
    graph: CausalGraph | None = None


@dataclass(frozen=True)
class FactorOptions:
    """Options of `open_data("factors", ...)`.

    Attributes:
        sizes: number of values of each factor of MPI3D, for a file with only the first values of each, see
            `candlelight.loaders.public.MPI3D`; None for the whole grid.
    """

    sizes: tuple[int, ...] | None = None


def _of_factors(layout: str, options: FactorOptions) -> dict[str, Any]:
    return {"sizes": options.sizes} if layout == "mpi3d" else _without_masks(layout, options)


def _factors(named: NamedRows, read: Callable[[int], Tensor], options: Any) -> FactoredRows:
    reader, graph = named.reader, None
    if isinstance(named, FrameRows):
        factors, table, graph = reader.set_info.factors, named.table, reader.set_info.graph
    else:
        factors, table = reader.factors, reader.factor_table[list(named.numbers)]
    if not factors:
        raise InputError(f"image set `{named.identity.set_name}` has no factors")
    return FactoredRows(named, read, factors, table, graph)


FACTORS = Content(
    "factors",
    ("cub70", "celebamask", "dsprites", "mpi3d", "shapes3d", "candle", "tid2013"),
    image_layer,
    options=FactorOptions,
    only={"sizes": ("mpi3d",)},
    arguments=_of_factors,
    public=read_image,
    view=_factors,
)


# -------------------------------------------------------------------------------------------- parts and pairs

MaskKind = Literal["type", "part"]


@dataclass(frozen=True)
class PartOptions:
    """Options of `open_data("parts", ...)`.

    Attributes:
        by: "type" for masks of object types, "part" for masks of named parts; public data have only parts.
            Masks of one name in one image are united. Faces have the parts of the coverage paper.
    """

    by: MaskKind | str = "type"

    def __post_init__(self) -> None:
        """Refuse unknown values."""
        if self.by not in get_args(MaskKind):
            raise InputError(f"by: expected type or part, got {self.by!r}")


def part_layers(available: Collection[str], options: PartOptions) -> tuple[str, ...]:
    """Choose the layers of masks."""
    return ("image", "object", "part") if options.by == "part" else ("image", "object")


def read_part_frame(named: NamedRows, options: PartOptions, row: int) -> PartImage:
    """Read the masks of a frame; the label is the type that all its objects share."""
    sample, objects = named.reader[row], named.reader.metadata(row).objects
    masks: dict[str, Any] = {}
    for instance, record in enumerate(objects, start=1):
        shown = sample["object"] == instance
        found = {record.type: shown}
        if options.by == "part":
            found = {part.name: shown & (sample["part"] == part.index) for part in record.parts}
        for name, mask in found.items():
            masks[name] = masks[name] | mask if name in masks else mask
    types = {record.type for record in objects}
    return PartImage(to_srgb(sample["image"]), masks, types.pop() if len(types) == 1 else None)


def _read_part_photograph(named: NamedRows, options: PartOptions, row: int) -> PartImage:
    item = named.reader[row]
    species = item["id"].rpartition("/")[0] if named.identity.layout == "cub70" else None
    return PartImage(to_srgb(item["image"]), dict(item["parts"]), species)


def _parts(named: NamedRows, read: Callable[[int], PartImage], options: PartOptions) -> ChosenRows[PartImage]:
    layout = named.identity.layout
    if layout != FRAMES and options.by != "part":
        raise InputError(
            f"{named.identity.name}: `{layout}` has only masks of parts; choose by part "
            f"({argument('by')} part)"
        )
    return ChosenRows(named, read)


PARTS = Content(
    "parts",
    ("cub70", "celebamask"),
    part_layers,
    options=PartOptions,
    frame=read_part_frame,
    public=_read_part_photograph,
    view=_parts,
)


def _read_pair(named: NamedRows, options: Any, row: int) -> RatedPair:
    data, item = named.reader, named.reader[row]
    images = to_srgb(item["reference"]), to_srgb(item["image"])
    return RatedPair(*images, float(data.mos[row]), float(data.mos_std[row]))


RATED_PAIRS = Content("rated pairs", ("tid2013",), public=_read_pair)
