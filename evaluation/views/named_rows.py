"""Choose and name the rows of a view before any image is read, and open image sets with the needed layers."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.views.view_types import DataIdentity
from candlelight.loaders.choices import choose_name
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.frames import DATASET, read_dataset_info
from candlelight.loaders.open_frames import no_frames, open_frames, open_hdf5
from candlelight.loaders.packed_frames import PackedFrames
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST, read_pack_manifest
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.samples import Frames, factor_number, row_number
from candlelight.loaders.schema import SetInfo

FRAMES = "frames"  # layout of all frames, in folders and packs
RowChoice = str | Iterable[SupportsIndex]
_Item = TypeVar("_Item")
_RANGE = re.compile(r"([0-9]{1,15}):([0-9]{1,15})")
_LIST = re.compile(r"[0-9]{1,15}(,[0-9]{1,15})*")
_MANY = 1000  # more rows than this get a progress bar
LayersOf = Callable[[Collection[str]], tuple[str, ...]]


@dataclass(frozen=True)
class Request:
    """A user's request for data.

    Attributes:
        data: PATH, LAYOUT:PATH, hf:NAME, or a reader.
        set_name: image set; None for the only one.
        split: split; None for the only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.
    """

    data: Any
    set_name: str | None = None
    split: str | None = None
    rows: RowChoice | None = None
    limit: int | None = None

    @property
    def name(self) -> str:
        """Name of the data in messages."""
        return str(self.data) if isinstance(self.data, str | Path) else type(self.data).__name__


@dataclass(frozen=True, eq=False)
class NamedRows:
    """Chosen rows of a reader, with their names.

    Attributes:
        identity: name, set and split of the data.
        reader: reader of the data.
        numbers: the reader's number of each chosen row.
        ids: id of each chosen row.
        groups: group of each chosen row.
        every_id: lists the ids of all rows of the reader.
    """

    identity: DataIdentity
    reader: Any
    numbers: tuple[int, ...]
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    every_id: Callable[[], Iterable[str]]

    def __post_init__(self) -> None:
        """Refuse an id that names several rows."""
        name, count = Counter(self.ids).most_common(1)[0]
        if count > 1:
            raise InputError(f"{self.identity.name}: expected one row for each id, got {count} of `{name}`")


@dataclass(frozen=True, eq=False)
class ChosenRows(Generic[_Item]):
    """A view of chosen rows: `candlelight.evaluation.views.View`.

    Attributes:
        named: the rows.
        read: reads one row by the reader's number.
    """

    named: NamedRows
    read: Callable[[int], _Item]

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""
        return self.named.identity

    @property
    def ids(self) -> tuple[str, ...]:
        """Id of each row."""
        return self.named.ids

    @property
    def groups(self) -> tuple[str, ...]:
        """Scene, object or unit of each row."""
        return self.named.groups

    @cached_property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data, listed at the first use."""
        return frozenset(self.named.every_id())

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.ids)

    def __getitem__(self, row: SupportsIndex, /) -> _Item:
        """Read one row."""
        return self.read(self.named.numbers[row_number(row, len(self))])


def name_items(identity: DataIdentity, items: Sequence[Any]) -> NamedRows:
    """Name rows by the ``id`` and ``unit`` of the items that they are read from, in place of a reader."""
    ids = tuple(item.id for item in items)
    units = tuple(item.unit for item in items)
    return NamedRows(identity, items, tuple(range(len(items))), ids, units, lambda: ids)


@dataclass(frozen=True)
class NoOptions:
    """Options of a content that has none of its own."""


@dataclass(frozen=True)
class Content:
    """One content of data, as `candlelight.evaluation.views.open_data` opens it.

    The functions that read a row take the rows, the options, and the reader's number of the row.

    Attributes:
        noun: plural noun for messages.
        layouts: public layouts that have the content.
        layers: chooses the layers of frames, from those of the set and the options; None if frames never
            have the content.
        options: class of the content's own options, which refuses values out of range.
        only: layouts that have an option, by its name; the other options do nothing where they do not apply.
        arguments: further arguments of a class of `candlelight.loaders.public`, of the layout and options.
        reader: makes the reader whose rows the view has, of the layout and its own reader.
        public: reads one row of public data.
        frame: reads one row of frames; None if ``public`` does.
        view: makes a view of the rows, a function that reads one row, and the options.
        choose: chooses items of a view of all rows by the request's ``rows`` and ``limit``; None if these
            choose rows of the reader.
        open: opens data in another way, of the request, the parsed text and the options; returns None for
            data that are opened in the usual way.
    """

    noun: str
    layouts: tuple[str, ...] = ()
    layers: Callable[..., tuple[str, ...]] | None = None
    options: type = NoOptions
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: Callable[[str, Any], dict[str, Any]] = lambda layout, options: {}
    reader: Callable[[str, Any], Any] = lambda layout, reader: reader
    public: Callable[[NamedRows, Any, int], Any] | None = None
    frame: Callable[[NamedRows, Any, int], Any] | None = None
    view: Callable[[Any, Any, Any], Any] = lambda named, read, options: ChosenRows(named, read)
    choose: Callable[[Any, Request], Any] | None = None
    open: Callable[[Request, Any, Any], Any] | None = None


def parse_rows(text: str) -> Sequence[int]:
    """Parse row numbers: ``START:STOP`` without STOP itself, or numbers separated by commas.

    Args:
        text: such as "0:100" or "3,5,8"; rows are counted from 0.

    Raises:
        InputError: the text has neither form, or names no row.

    Example:
        >>> parse_rows("0:100"), parse_rows("3,5,8")
        (range(0, 100), (3, 5, 8))
    """
    bare = text.replace(" ", "")
    if found := _RANGE.fullmatch(bare):
        rows = range(int(found[1]), int(found[2]))
        if rows:
            return rows
    elif _LIST.fullmatch(bare):
        return tuple(map(int, bare.split(",")))
    raise InputError(f"rows: expected START:STOP with STOP above START, or numbers as 3,5,8, got {text!r}")


def choose_rows(count: int, request: Request) -> tuple[int, ...]:
    """Choose rows by ``rows`` and ``limit`` of a request.

    Args:
        count: number of rows of the data.
        request: the request.

    Raises:
        InputError: no row is chosen, a row does not exist or is named twice, or the limit is below 1.

    Example:
        >>> choose_rows(5, Request("frames", rows="1:4", limit=2))
        (1, 2)
    """
    wanted = parse_rows(request.rows) if isinstance(request.rows, str) else request.rows
    if request.limit is not None and request.limit < 1:
        raise InputError(f"limit: expected at least 1, got {request.limit}")
    chosen: dict[int, None] = {}
    for row in range(count) if wanted is None else wanted:
        number = operator.index(row)
        if not 0 <= number < count or number in chosen:
            problem = "twice" if number in chosen else f"of {count}"
            raise InputError(
                f"rows: expected each at most once, from 0 to {count - 1} of {request.name}, got row "
                f"{number} {problem}"
            )
        chosen[number] = None
    if not chosen:
        raise InputError(f"rows: expected at least one row of {request.name}, got none of {count}")
    return tuple(chosen)[: request.limit]


@dataclass(frozen=True, eq=False)
class FrameRows(NamedRows):
    """Chosen rows of an image set; ``table`` holds their rows of `Frames.factor_table`."""

    table: Float64[ndarray, "n k"]


def is_frames(path: Path) -> bool:
    """Say whether a path holds frames or a pack."""
    return path.is_file() or (path / DATASET).is_file() or (path.is_dir() and any(path.glob("[!.]*.h5")))


def open_frame_rows(place: Path | str, request: Request, layers_of: LayersOf) -> FrameRows:
    """Open an image set and choose rows.

    Args:
        place: a folder of frames, an HDF5 file or a folder of HDF5 files, or a folder from `pack_hub`.
        request: the set, split and rows.
        layers_of: chooses the layers to read from the layers of the set.

    Raises:
        InputError: the path holds no frames; there are several sets or splits, and none is named; or the
            set, split, layer or row does not exist.
    """
    path = local_folder(place)
    sets, splits = list_sets(path)
    name = choose_name(path, "set", list(sets), request.set_name)
    split = choose_name(path, "split", splits[name], request.split)
    with_path = f"{path}, set `{name}`"
    layers = _needed(with_path, sets[name].layers, layers_of)
    return name_frames(open_frames(path, name, split, layers), request, layers_of)


def name_frames(frames: Frames, request: Request, layers_of: LayersOf) -> FrameRows:
    """Choose rows of a reader of frames, and read their ids, units and factor values.

    Raises:
        InputError: a layer or row does not exist, or the metadata of a row are damaged.
    """
    _needed(f"set `{frames.set_name}`", frames.layers, layers_of)
    recipe = frames.info.recipe.sha256
    split = getattr(frames, "split", None)
    identity = DataIdentity(frames.info.name, FRAMES, frames.set_name, split, recipe)
    numbers = choose_rows(len(frames), request)
    ids, units, table = [], [], np.empty((len(numbers), len(frames.set_info.factors)))
    for place, metadata in enumerate(_metadata(frames, numbers)):
        ids.append(metadata.id)
        units.append(metadata.unit)
        table[place] = [factor_number(factor, metadata) for factor in frames.set_info.factors]

    def every_id() -> Iterable[str]:
        if len(numbers) == len(frames):
            return ids
        if isinstance(frames, PackedFrames):  # packs have a column of ids alone
            return [frames._id(row) for row in range(len(frames))]
        return [metadata.id for metadata in _metadata(frames, range(len(frames)))]

    return FrameRows(identity, frames, numbers, tuple(ids), tuple(units), every_id, table)


def _needed(where: str, available: Collection[str], layers_of: LayersOf) -> tuple[str, ...]:
    layers = layers_of(available)
    for name in layers:
        if name not in available:
            raise InputError(
                f"{where} has no `{name}` layer; expected {', '.join(layers)}: render the set with these "
                "layers, and do not leave them out when reading"
            )
    return layers


def _metadata(frames: Frames, rows: Collection[int]) -> Iterable[Any]:
    bar = progress_bar(rows, desc="metadata", unit="row", disable=len(rows) <= _MANY)
    return (frames.metadata(row) for row in bar)


def list_sets(path: Path) -> tuple[dict[str, SetInfo], dict[str, list[str]]]:
    """List the image sets at a path with their splits; frames outside a pack form the split `train`."""
    splits: dict[str, list[str]] = {}
    if files := open_hdf5(path):
        for name, split in files:
            splits.setdefault(name, []).append(split)
        return {name: files[name, found[0]].set_info for name, found in splits.items()}, splits
    if not (path / DATASET).is_file():
        raise no_frames(path)
    sets = read_dataset_info(path).sets
    packed = read_pack_manifest(path) if (path / PACK_MANIFEST).is_file() else None
    return sets, {name: packed.splits_of(name) if packed else ["train"] for name in sets}
