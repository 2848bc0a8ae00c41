"""Read image sets from HDF5 files that `pack_hdf5` wrote."""

import glob
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, SupportsIndex

import h5py
import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.causal_columns import CausalColumns, causal_columns_of_metadata
from candlelight.loaders.choices import choose_layers
from candlelight.loaders.errors import DAMAGED, InputError, blame
from candlelight.loaders.files.json_records import parse_record
from candlelight.loaders.files.safe_decoding import MAX_PIXELS
from candlelight.loaders.hdf5.hdf5_datasets import (
    HDF5_FORMAT,
    LONGEST_TEXT,
    Locking,
    hdf5_columns,
    is_layer,
    later_columns,
    open_file,
    read_attribute,
    require_one_piece,
    row_reader,
    text_reader,
)
from candlelight.loaders.packed_frames import PackedFrames, check_factors, check_indices
from candlelight.loaders.samples import Frame, row_number
from candlelight.loaders.schema import DatasetInfo, Metadata, SetInfo


@dataclass(frozen=True)
class _Opened:
    """The file and its row readers, opened by one process."""

    process: int
    file: h5py.File
    ids: Callable[[int], bytes]
    captions: Callable[[int], bytes] | None
    metadata: Callable[[int], ndarray]
    layers: dict[str, Callable[[int], ndarray]]


class HDF5Frames(PackedFrames):
    """One split of an image set in an HDF5 file that `pack_hdf5` wrote, as `loaders.samples.Frames`.

    Each process opens the file when it first reads, so the reader works in the worker processes of a
    `torch.utils.data.DataLoader`, whatever their start method. HDF5 has one lock per process: use processes,
    not threads, and ``num_workers=0`` with ``compression="none"``, which is cheap to read. If the file is
    replaced, a process that has it open continues to read the old file; other processes refuse the new one.

    Example:
        >>> HDF5Frames(Path("nowhere.h5"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere.h5 is missing; make it with `candlelight pack`
    """

    def __init__(
        self,
        path: Path | str,
        layers: Collection[str] | None = None,
        *,
        objects: bool = False,
        captions: bool = False,
        locking: Locking = None,
    ) -> None:
        """Open an image set and check the header; ``candlelight info --verify`` checks the rows.

        Args:
            path: the file.
            layers: names of the layers to read; None for all.
            objects: whether to read the objects of samples; this reads the metadata of every row.
            captions: whether to read the captions of samples.
            locking: whether HDF5 locks the file while it is open; False for a network file system without
                locks, "best-effort" to lock if possible, None to follow ``HDF5_USE_FILE_LOCKING``.

        Raises:
            InputError: the file is missing, truncated, or was not written by `pack_hdf5`; a layer is unknown;
                a compression filter of the file is not installed.
        """
        self.path = path = Path(path)
        self._locking = locking
        self._opened: _Opened | None = None
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise InputError(f"{path}: expected an HDF5 file made by `candlelight pack`, got no regular file")
        # Closed again at once: worker processes must not inherit the open file.
        with _reading(path), open_file(path, locking) as file:
            self._version = _version(path)
            self.info, self.set_name, self.split = _read_attributes(file)
            self.set_info = self.info.set(self.set_name)
            _check_columns(file, self.set_info)
            self.indices = file["index"][:]
            check_indices(self.indices)
            self.layers = choose_layers(self.set_info.layers, layers)
            self.objects, self.captions = objects, captions
            for name in ("metadata", *self.layers):
                row_reader(file[name])

    def __getstate__(self) -> dict[str, Any]:
        """Drop the open file, which cannot be sent to another process."""
        return self.__dict__ | {"_opened": None}

    def _open(self) -> _Opened:
        if self._opened is None or self._opened.process != os.getpid():
            file = open_file(self.path, self._locking)
            layers = {name: row_reader(file[name]) for name in self.layers}
            metadata = row_reader(file["metadata"])
            if _version(self.path) != self._version:
                raise InputError("was replaced after it was opened here; open it again")
            captions = text_reader(file["caption"]) if "caption" in file else None
            self._opened = _Opened(os.getpid(), file, text_reader(file["id"]), captions, metadata, layers)
        return self._opened

    def close(self) -> None:
        """Close the file; the next read opens it again.

        HDF5 answers from memory as long as a process has a file open, even if the file changes.
        """
        if self._opened is not None and self._opened.process == os.getpid():
            self._opened.file.close()
        self._opened = None

    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read the metadata of one row."""
        number = row_number(row, len(self))
        with _reading(self.path):
            text: bytes = self._open().metadata(number).item()
        return parse_record(Metadata, text, f"{self.path}, row {number}", "pack it again")

    def arrays(self, row: SupportsIndex) -> dict[str, ndarray]:
        """Read the layers of one row without metadata: a third of the time for an uncompressed image."""
        return self._views([row_number(row, len(self))])[0]

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as numpy arrays."""
        return Frame(self.metadata(row), self.arrays(row))

    def _views(self, numbers: Sequence[int]) -> list[dict[str, ndarray]]:
        with _reading(self.path):
            layers = self._open().layers.items()
            return [{name: read(number) for name, read in layers} for number in numbers]

    def _id(self, number: int) -> str:
        with _reading(self.path):
            return self._open().ids(number).decode()

    def _stored_caption(self, number: int) -> str | None:
        with _reading(self.path):
            read = self._open().captions
            return None if read is None else read(number).decode()

    @cached_property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row."""
        table = np.empty((len(self), len(self.set_info.factors)))
        with _reading(self.path):
            for column, factor in enumerate(self.set_info.factors):
                table[:, column] = self._open().file[f"factors/{factor.name}"][:]
            check_factors(table, self.set_info)
        return table

    @property
    def propensities(self) -> dict[str, Float64[ndarray, " n"]]:
        """Probability (or density) of every row's value given its parents, by factor and variable.

        It is empty for files of earlier versions, whose metadata alone hold it.
        """
        with _reading(self.path):
            file = self._open().file
            return {name: file[f"propensity/{name}"][:] for name in self.set_info.propensity_names}

    @property
    def causal_columns(self) -> CausalColumns:
        """Units, steps, counterfactuals and interventions of every row; read anew at each use."""
        with _reading(self.path):
            file = self._open().file
            names = later_columns(file, len(self))
            if "unit" not in names:  # a file of an earlier version
                return causal_columns_of_metadata(self)
            ids, units, origins = (
                [text.decode() for text in file[name][:].tolist()]
                for name in ("id", "unit", "counterfactual_of")
            )
            steps = file["step"][:] if "step" in names else None
            folder = "intervened/"
            kinds = {name[len(folder) :]: file[name][:] for name in names if name.startswith(folder)}
        return CausalColumns(ids, self.indices, units, origins, steps, kinds)


def describe_conflict(readers: Iterable[HDF5Frames]) -> str:
    """Name two files that cannot belong to one pack; "" if there are none.

    Each sample of a pack is in one split. If two files share a sample, one file is from another pack, and a
    model that is trained on one file and tested on the other would be tested on its training data.

    Args:
        readers: the files, of any image sets.
    """
    sets: dict[str, list[HDF5Frames]] = {}
    for reader in readers:
        sets.setdefault(reader.set_name, []).append(reader)
    for name, files in sets.items():
        for one, other in combinations(files, 2):
            shared = np.intersect1d(one.indices, other.indices)
            if len(shared) or one.split == other.split:
                what = f"sample {shared[0]}" if len(shared) else f"split `{one.split}`"
                return (
                    f"{one.path.name} and {other.path.name} both hold {what} of set `{name}`, so they are of "
                    "different packs; keep the files of one pack"
                )
    return ""


def _version(path: Path) -> tuple[int, int]:
    """Return size and modification time, which change when the file is replaced."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _read_attributes(file: h5py.File) -> tuple[DatasetInfo, str, str]:
    found = [read_attribute(file, name, "S") for name in ("dataset", "set", "split")]
    if read_attribute(file, "format", "i") != HDF5_FORMAT or None in found:
        raise InputError(
            f"expected an HDF5 file of format {HDF5_FORMAT} made by `candlelight pack`, got an earlier "
            "format or another file; pack its frames again with `candlelight pack`"
        )
    text, set_name, split = (bytes(value).decode() for value in found)
    return parse_record(DatasetInfo, text, "attribute `dataset`", "pack it again"), set_name, split


def _check_columns(file: h5py.File, set_info: SetInfo) -> None:
    """Refuse datasets that do not fit the description of the set, before memory is allocated for them.

    Columns that are read whole must lie in the file in one piece; `row_reader` checks the others.
    """
    if set_info.width * set_info.height > MAX_PIXELS:
        raise InputError(f"expected at most {MAX_PIXELS} pixels, got {set_info.height} x {set_info.width}")
    index = _column(file, "index")
    if index is None or not index.shape:
        raise InputError("expected dataset `index` of int64; pack it again")
    require_one_piece(index)
    rows = index.shape[0]
    columns = hdf5_columns(set_info, rows) | later_columns(file, rows)
    for name, (shape, dtype) in columns.items():
        found = _column(file, name)
        if found is None or found.shape != shape or not _alike(found.dtype, dtype):
            expected = "strings" if dtype.kind == "S" else dtype
            raise InputError(f"expected dataset `{name}` of {expected} {list(shape)}; pack it again")
        if name != "metadata" and not is_layer(name):
            require_one_piece(found)


def _alike(found: np.dtype[Any], expected: np.dtype[Any]) -> bool:
    if expected.kind == "S":
        return found.kind == "S" and found.itemsize <= LONGEST_TEXT
    return found == expected


def _column(file: h5py.File, name: str) -> h5py.Dataset | None:
    """Find a dataset whose data are in the file itself; None if there is no dataset of that name.

    Raises:
        InputError: the name is a link, or the data are in another file.
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
        splits = [other.name for other in sorted(path.parent.glob(f"{glob.escape(path.stem)}-*.h5"))]
        remedy = f"there are {', '.join(splits)}" if splits else "make it with `candlelight pack`"
        raise InputError(f"{path} is missing; {remedy}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except BlockingIOError:
        raise InputError(
            f"{path} is locked: wait for the process that writes it, or pass `locking=False` if the file "
            "system has no locks"
        ) from None
    except DAMAGED as error:
        raise blame(f"{path} cannot be read as HDF5", error, "pack it again") from None
