"""Read an array in a large npz or HDF5 file row by row, with only the requested rows in memory."""

import math
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy import ndarray

from candlelight.loaders.errors import DAMAGED, InputError, blame
from candlelight.loaders.files.layer_codecs import entry_start
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.hdf5.hdf5_datasets import open_file, rows_reader
from candlelight.loaders.verification.checksums import file_sha256

_MAX_TABLE_BYTES = 2**30  # largest array that `read_table` reads: labels, not images
_BLOCK_BYTES = 2**26
_HDF5 = (".h5", ".hdf5")
_CURE = "get the file again"
_npy: Any = np.lib.format  # numpy 1.26 has no types for it


class FileRows:
    """A uint8 array stored in a file as plain bytes.

    Rows are read instead of mapped to memory: mapped pages count as memory of the process, and a truncated
    file would crash it.

    Args:
        path: the file.
        shape: shape of the array.
        offset: position of its first byte in the file.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], offset: int) -> None:
        self.path, self.shape, self.offset = path, shape, offset

    def __getitem__(self, row: int) -> ndarray:
        """Read one row."""
        size = math.prod(self.shape[1:])
        with _reading(self.path):
            data = np.fromfile(self.path, np.uint8, size, offset=self.offset + row * size)
            if len(data) != size:
                raise InputError("is cut off; get the file again")
        return data.reshape(self.shape[1:])


class HDF5Rows:
    """A dataset of an HDF5 file; each process opens the file for itself.

    Args:
        path: the file.
        name: name of the dataset.
        shape: shape of the dataset.
    """

    def __init__(self, path: Path, name: str, shape: tuple[int, ...]) -> None:
        self.path, self.name, self.shape = path, name, shape
        self._handle: tuple[int, Any, Callable[[int, int], ndarray]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open file, which cannot be sent to another process."""
        return self.__dict__ | {"_handle": None}

    def __getitem__(self, row: int) -> ndarray:
        """Read one row."""
        with _reading(self.path):
            if self._handle is None or self._handle[0] != os.getpid():
                file = open_file(self.path)
                read = rows_reader(_dataset(file, (self.name,)), _CURE)
                self._handle = (os.getpid(), file, read)
            return self._handle[2](row, row + 1)[0]


ArrayRows = FileRows | HDF5Rows


def open_array(path: Path, name: str, cache: Path | None) -> ArrayRows:
    """Open an array of bytes in an npz or HDF5 file.

    An uncompressed npz member is read in place. A compressed member can only be read from its start, so it is
    unpacked once to an npy file in ``cache``. HDF5 decompresses a whole chunk to read a row, so ``cache``
    makes HDF5 files faster too. File names in ``cache`` hold a checksum of the source: a changed file of the
    same name is unpacked again.

    Args:
        path: the file; HDF5 if its name ends in .h5 or .hdf5.
        name: name of the uint8 array in the file.
        cache: folder to unpack to; None to unpack nothing.

    Raises:
        InputError: the file is damaged or has no such array of uint8, the array is compressed and there is no
            cache, or the disk of the cache is too small.
    """
    return _open_hdf5(path, name, cache) if path.suffix in _HDF5 else _open_npz(path, name, cache)


def read_table(path: Path, *names: str) -> ndarray:
    """Read a small array of numbers from an npz or HDF5 file; nothing in the file is executed.

    Args:
        path: the file; HDF5 if its name ends in .h5 or .hdf5.
        names: possible names of the array; the first name in the file is read.

    Raises:
        InputError: the file is damaged, or the array is missing or larger than 1 GiB.
    """
    if path.suffix in _HDF5:
        with _reading(path), open_file(path) as file:
            dataset = _dataset(file, names)
            _check_table(names[0], dataset.dtype, dataset.size)
            return rows_reader(dataset, _CURE)(0, len(dataset))
    with _reading(path), zipfile.ZipFile(path) as archive:
        info = _member(archive, names[0])
        with archive.open(info) as member:
            shape, dtype = _read_header(member, names[0], info.file_size)
            _check_table(names[0], dtype, math.prod(shape))
            return np.frombuffer(member.read(), dtype).reshape(shape)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in every error."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except DAMAGED as error:
        raise blame(f"{path} cannot be read", error, _CURE) from None


def _open_hdf5(path: Path, name: str, cache: Path | None) -> ArrayRows:
    with _reading(path), open_file(path) as file:
        dataset = _dataset(file, (name,))
        _check_bytes(name, dataset.dtype)
        if cache is None or dataset.chunks is None or dataset.chunks == (1, *dataset.shape[1:]):
            return HDF5Rows(path, name, dataset.shape)
        target = cache / f"{path.stem}-{name}-{file_sha256(path)[:16]}.npy"
        _unpack(target, dataset.size, lambda out: _copy_dataset(dataset, out))
    return _open_npy(target)


def _open_npz(path: Path, name: str, cache: Path | None) -> ArrayRows:
    with _reading(path), zipfile.ZipFile(path) as archive:
        info = _member(archive, name)
        with archive.open(info) as member:
            shape, dtype = _read_header(member, name, info.file_size)
            _check_bytes(name, dtype)
            header = member.tell()
        if info.compress_type == zipfile.ZIP_STORED:
            with path.open("rb") as file:
                return FileRows(path, shape, entry_start(file, info) + header)
        if cache is None:
            raise InputError(
                f"`{name}` is compressed and cannot be read row by row; pass `cache` (for commands "
                f"set XDG_CACHE_HOME), a folder on a disk with {info.file_size / 1e9:.1f} GB free, to unpack "
                "it there once"
            )
        target = cache / f"{path.stem}-{name}-{info.CRC:08x}.npy"
        _unpack(target, info.file_size, lambda out: _copy_member(archive, info, out))
    return _open_npy(target)


def _dataset(file: Any, names: tuple[str, ...]) -> Any:
    found = next((file[name] for name in names if isinstance(file.get(name), h5py.Dataset)), None)
    if found is None:
        raise InputError(f"expected a dataset `{names[0]}`, got {', '.join(file) or 'none'}")
    if found.external or found.is_virtual or found.file.filename != file.filename:
        raise InputError(f"dataset `{names[0]}` refers to other files, which are not read")
    return found


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    known = {info.filename: info for info in archive.infolist()}
    if f"{name}.npy" not in known:
        raise InputError(f"expected an array `{name}`, got {', '.join(known) or 'none'}")
    return known[f"{name}.npy"]


def _read_header(file: Any, name: str, size: int) -> tuple[tuple[int, ...], np.dtype]:
    """Read shape and dtype, and compare them with the size in bytes before memory is allocated."""
    readers = {(1, 0): _npy.read_array_header_1_0, (2, 0): _npy.read_array_header_2_0}
    version = _npy.read_magic(file)
    if version not in readers:
        raise InputError(f"`{name}`: expected npy format 1.0 or 2.0, got {version}")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise InputError(f"`{name}` is pickled, which is not read")
    if fortran or file.tell() + dtype.itemsize * math.prod(shape) != size:
        raise InputError(f"`{name}`: expected {dtype} {list(shape)} in C order and no other bytes")
    return shape, dtype


def _check_bytes(name: str, dtype: np.dtype) -> None:
    if dtype != np.uint8:
        raise InputError(f"`{name}`: expected uint8, got {dtype}")


def _check_table(name: str, dtype: np.dtype, count: int) -> None:
    if dtype.kind not in "iuf" or dtype.itemsize * count > _MAX_TABLE_BYTES:
        raise InputError(f"`{name}`: expected numbers of at most {_MAX_TABLE_BYTES} bytes, got {dtype}")


def _open_npy(path: Path) -> FileRows:
    with _reading(path), path.open("rb") as file:
        shape, _ = _read_header(file, path.stem, path.stat().st_size)
        return FileRows(path, shape, file.tell())


def _unpack(target: Path, size: int, write: Callable[[Any], None]) -> None:
    """Write a file of the cache unless it exists; it gets its name when it is complete."""
    if target.is_file():
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(target.parent).free < size:
            raise InputError(f"{target.parent}: expected {size / 1e9:.1f} GB of free space, got less")
        with replacing(target) as partial, partial.open("wb") as out:
            write(out)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from None


def _copy_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, out: Any) -> None:
    with archive.open(info) as member:  # zipfile compares the checksum at the end
        shutil.copyfileobj(member, out, 2**20)


def _copy_dataset(dataset: Any, out: Any) -> None:
    head = {"descr": "|u1", "fortran_order": False, "shape": dataset.shape}
    _npy.write_array_header_1_0(out, head)
    rows = max(1, _BLOCK_BYTES // max(1, math.prod(dataset.shape[1:])))
    step = max(1, rows // dataset.chunks[0]) * dataset.chunks[0]
    read = rows_reader(dataset, _CURE)
    for start in range(0, len(dataset), step):
        out.write(read(start, min(start + step, len(dataset))).tobytes())
