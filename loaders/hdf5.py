"""One HDF5 file per image set: row-aligned datasets, everything global in attributes.

File attributes: ``dataset`` (the text of ``dataset.json``) and ``set``. Datasets, first axis the row: each
layer under its name, ``id``, ``index``, ``factors/<name>`` (class index or value), ``objects/*`` padded to
the largest number of objects, with ``objects/count``, and ``metadata`` (the text of ``metadata.json``). What
is padded or absent is -1 in integers and nan in floats. ``objects/type`` and ``objects/material`` number the
names in their ``names`` attribute (JSON). With `datasets` 4 or newer,
``load_dataset("hdf5", data_files=...)`` reads the same file.
"""

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import h5py
import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from loaders.codecs import MAX_PIXELS
from loaders.disk import replacing
from loaders.errors import InputError
from loaders.frames import FrameFolder, choose_layers
from loaders.packing import open_sets, whole_frames
from loaders.records import parse_record
from loaders.samples import Frame, Sample, factor_number, to_sample
from loaders.schema import DatasetInfo, Metadata, SetInfo, layer

Compression = Literal["gzip", "none"]

_TEXT = h5py.string_dtype()
_NAMED = ("type", "material")
_OBJECTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "type": ("int64", ()),
    "material": ("int64", ()),
    "base_color": ("float64", (3,)),
    "size": ("float64", ()),
    "rotation": ("float64", ()),
    "tilt": ("float64", (2,)),
    "location": ("float64", (3,)),
    "bbox": ("int64", (4,)),
    "area": ("int64", ()),
    "corners": ("float64", (24,)),
}


def pack_hdf5(
    root: Path, out_dir: Path, sets: Collection[str] | None = None, compression: Compression = "gzip"
) -> list[Path]:
    """Write the complete samples of a folder of frames as one HDF5 file per image set.

    Every frame is compared with its hashes. A file appears under its name when it is finished; one of an
    earlier run is replaced.

    Args:
        root: folder of frames.
        out_dir: folder for ``<set>.h5``; made if need be.
        sets: names of the sets; None for all.
        compression: "gzip" (level 4, with the shuffle filter for floats) reads everywhere; "none" takes
            about three times the space and reads about ten times as fast.

    Returns:
        The files.

    Raises:
        InputError: a set is unknown or has no complete sample, or a frame is damaged.
    """
    opened = open_sets(root, sets)
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = [out_dir / f"{frames.set_name}.h5" for frames in opened]
    for frames, path in zip(opened, paths, strict=True):
        with replacing(path) as partial, h5py.File(partial, "w") as file:
            _write_set(file, frames, compression)
    return paths


def _columns(set_info: SetInfo, rows: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """List shape and dtype of every dataset but ``objects/*``."""
    columns: dict[str, tuple[tuple[int, ...], Any]] = {
        name: ((rows, *layer(name).shape(set_info.height, set_info.width)), np.dtype(layer(name).dtype))
        for name in set_info.layers
    }
    columns |= {"id": ((rows,), _TEXT), "metadata": ((rows,), _TEXT), "index": ((rows,), np.dtype("int64"))}
    for factor in set_info.factors:
        kind = "int64" if factor.kind == "categorical" else "float64"
        columns[f"factors/{factor.name}"] = ((rows,), np.dtype(kind))
    return columns


def _write_set(file: h5py.File, frames: FrameFolder, compression: Compression) -> None:
    set_info = frames.set_info
    file.attrs["dataset"] = frames.info.to_json()
    file.attrs["set"] = frames.set_name
    for name, (shape, dtype) in _columns(set_info, len(frames)).items():
        # One image per chunk: a larger one would be unpacked whole for every row that is read from it.
        filters: dict[str, Any] = {"chunks": (1, *shape[1:])} if len(shape) > 1 else {}
        if len(shape) > 1 and compression == "gzip":
            filters |= {"compression": "gzip", "compression_opts": 4, "shuffle": dtype.kind == "f"}
        file.create_dataset(name, shape, dtype, **filters)
    _describe_columns(file, set_info)
    vocabulary = _create_objects(file, frames)
    file["index"][:] = frames.indices
    for row, frame in whole_frames(frames):
        for name, array in frame.layers.items():
            file[name][row] = array
        file["id"][row] = frame.metadata.id
        file["metadata"][row] = frame.metadata.to_json()
        for factor in set_info.factors:
            file[f"factors/{factor.name}"][row] = factor_number(factor, frame.metadata)
        _write_objects(file["objects"], row, frame.metadata, vocabulary)


def _describe_columns(file: h5py.File, set_info: SetInfo) -> None:
    for name in set_info.layers:
        spec = layer(name)
        file[name].attrs.update(unit=spec.unit, colour_space=spec.colour_space, meaning=spec.meaning)
    for factor in set_info.factors:
        file[f"factors/{factor.name}"].attrs.update(unit=factor.unit, values=json.dumps(factor.values))


def _create_objects(file: h5py.File, frames: FrameFolder) -> dict[str, list[str]]:
    """Size ``objects/*`` by a first pass over the metadata; return the names that codes stand for."""
    most = 1  # `datasets` cannot read an axis of length 0
    seen: dict[str, set[str]] = {name: set() for name in _NAMED}
    for row in range(len(frames)):
        objects = frames.metadata(row).objects
        most = max(most, len(objects))
        for name in _NAMED:
            seen[name].update(getattr(record, name) for record in objects)
    vocabulary = {name: sorted(names) for name, names in seen.items()}
    file.create_dataset("objects/count", (len(frames),), "int64")
    for name, (dtype, shape) in _OBJECTS.items():
        absent = np.nan if dtype == "float64" else -1
        column = file.create_dataset(f"objects/{name}", (len(frames), most, *shape), dtype, fillvalue=absent)
        if name in vocabulary:
            column.attrs["names"] = json.dumps(vocabulary[name])
    return vocabulary


def _write_objects(group: h5py.Group, row: int, metadata: Metadata, vocabulary: dict[str, list[str]]) -> None:
    group["count"][row] = len(metadata.objects)
    for place, record in enumerate(metadata.objects):
        for name in _OBJECTS:
            value = getattr(record, name)
            if value is not None:
                group[name][row, place] = vocabulary[name].index(value) if name in vocabulary else value


class HDF5Frames:
    """One image set in an HDF5 file that `pack_hdf5` wrote, as `loaders.samples.Frames`.

    The file is opened by each process when it first reads, so the reader works in the worker processes of a
    `torch.utils.data.DataLoader` however they are started. HDF5 has one lock per process: use processes,
    not threads, and none (``num_workers=0``) where ``compression="none"`` makes reading cheap.

    Example:
        >>> HDF5Frames(Path("nowhere.h5"))
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere.h5 is missing; make it with `candlelight pack`
    """

    def __init__(self, path: Path, layers: Collection[str] | None = None) -> None:
        """Open an image set.

        Args:
            path: the file.
            layers: names of the layers to read; None for all.

        Raises:
            InputError: the file is missing, truncated, or not one that `pack_hdf5` wrote; no such layer.
        """
        self.path = path
        self._handle: tuple[int, h5py.File] | None = None
        # Closed again at once: a handle must not be inherited by worker processes.
        with _reading(path), h5py.File(path, "r") as file:
            self.info, self.set_name = _read_attributes(file)
            self.set_info = self.info.set(self.set_name)
            _check_columns(file, self.set_info, path.stat().st_size)
            self.indices = file["index"][:]
        self.layers = choose_layers(self.set_info.layers, layers)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.indices)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open file behind: it cannot be sent to another process."""
        return self.__dict__ | {"_handle": None}

    @property
    def _file(self) -> h5py.File:
        if self._handle is None or self._handle[0] != os.getpid():
            self._handle = (os.getpid(), h5py.File(self.path, "r"))
        return self._handle[1]

    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read what is known of one row."""
        number = range(len(self))[row]
        with _reading(self.path):
            text = self._file["metadata"][number]
        return parse_record(Metadata, text, f"{self.path}, row {number}", "pack it again")

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as numpy arrays."""
        number = range(len(self))[row]
        with _reading(self.path):
            arrays = {name: self._file[name][number] for name in self.layers}
        return Frame(self.metadata(number), arrays)

    def __getitem__(self, row: SupportsIndex) -> Sample:
        """Read one row as tensors."""
        return to_sample(self.frame(row), self.set_info)

    def __getitems__(self, rows: Sequence[SupportsIndex]) -> list[Sample]:
        """Read several rows as tensors, in the order asked for."""
        # In file order, one row after another: h5py is two hundred times slower when given a list of rows.
        order = sorted(range(len(rows)), key=lambda place: range(len(self))[rows[place]])
        read = {place: self[rows[place]] for place in order}
        return [read[place] for place in range(len(rows))]

    @cached_property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row."""
        table = np.empty((len(self), len(self.set_info.factors)))
        with _reading(self.path):
            for column, factor in enumerate(self.set_info.factors):
                table[:, column] = self._file[f"factors/{factor.name}"][:]
        return table


def _read_attributes(file: h5py.File) -> tuple[DatasetInfo, str]:
    text, set_name = file.attrs.get("dataset"), file.attrs.get("set")
    if not (isinstance(text, str) and isinstance(set_name, str)):
        raise InputError("expected an HDF5 file made by `candlelight pack`, got another")
    return parse_record(DatasetInfo, text, "attribute `dataset`", "pack it again"), set_name


def _check_columns(file: h5py.File, set_info: SetInfo, size: int) -> None:
    """Refuse columns that are not what ``dataset.json`` promises, before memory is taken for them."""
    if set_info.width * set_info.height > MAX_PIXELS:
        raise InputError(f"expected at most {MAX_PIXELS} pixels, got {set_info.height} x {set_info.width}")
    index = _column(file, "index")
    if index is None or not index.shape:
        raise InputError("expected dataset `index` of int64; pack it again")
    rows = index.shape[0]
    if 8 * rows > size:
        raise InputError(
            f"expected an index of {rows} rows in the file, got one that was left out; pack it again"
        )
    for name, (shape, dtype) in _columns(set_info, rows).items():
        found = _column(file, name)
        if not isinstance(found, h5py.Dataset) or (found.shape, found.dtype) != (shape, dtype):
            raise InputError(f"expected dataset `{name}` of {dtype} {list(shape)}; pack it again")


def _column(file: h5py.File, name: str) -> h5py.Dataset | None:
    """Find a dataset that lies in the file itself; None where there is none.

    Raises:
        InputError: the name leads elsewhere, to this file or another.
    """
    steps = name.split("/")
    for step in range(1, len(steps) + 1):
        place = "/".join(steps[:step])
        if not isinstance(file.get(place, getlink=True), h5py.HardLink | None):
            raise InputError(f"expected `{place}` in the file itself, got a link; pack it again")
        found = file.get(place)
        if isinstance(found, h5py.Dataset) and (found.is_virtual or found.external):
            raise InputError(
                f"expected `{place}` in the file itself, got bytes of another file; pack it again"
            )
    return found if isinstance(found, h5py.Dataset) else None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path} is missing; make it with `candlelight pack`") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except Exception as error:  # whatever h5py raises on damaged bytes, the file is at fault
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is damaged or no HDF5 file: {reason}; pack it again") from None
