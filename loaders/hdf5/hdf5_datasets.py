"""Datasets of an HDF5 file: the shapes and attributes of a pack, and safe, fast reading.

HDF5 does not check the size of a chunk: the missing rest of a short one is filled with memory of the process,
and a long one is written over memory. So a compressed chunk is decoded here (gzip with ISA-L, in 0.6 times
HDF5's own time) or its codec states the right size; chunks without filters are read past HDF5's cache
(`open_file`), from their place in the file; and data in one piece must lie in the file.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_decoding import inflate
from candlelight.loaders.schema import LAYERS, LIGHT_PREFIX, SetInfo, layer

Locking = bool | Literal["best-effort"] | None
# Attribute `format` of every file; increase it when the layout of a file changes.
HDF5_FORMAT = 3
# Attribute of `columns_sha256`, and the attributes that this hash covers.
HASH_ATTRIBUTE = "sha256"
_HASHED_ATTRIBUTES = ("dataset", "set", "split", "split_made", "splits")
# Bytes that are hashed at once, or one row if a row is larger.
_BLOCK_BYTES = 2**22
# Bytes of the longest string that is read, so that a damaged header cannot claim all memory.
LONGEST_TEXT = 2**24
# Bytes of the largest chunk that is read: a gigabyte of zeros compresses to a megabyte.
_LARGEST_CHUNK = 2**30
_GZIP, _SHUFFLE = int(h5py.h5z.FILTER_DEFLATE), int(h5py.h5z.FILTER_SHUFFLE)
_BLOSC, _ZSTD = 32001, 32015  # of hdf5plugin


def hdf5_columns(set_info: SetInfo, rows: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """List shape and dtype of every dataset of a file; strings have dtype `S` without a length.

    Args:
        set_info: the image set.
        rows: number of samples in the file.
    """
    columns: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
        name: ((rows, *layer(name).shape(set_info.height, set_info.width)), np.dtype(layer(name).dtype))
        for name in set_info.layers
    }
    columns |= {"id": ((rows,), np.dtype("S")), "index": ((rows,), np.dtype("int64"))}
    for factor in set_info.factors:
        kind = "int64" if factor.kind == "categorical" else "float64"
        columns[f"factors/{factor.name}"] = ((rows,), np.dtype(kind))
    for name in set_info.propensity_names:
        columns[f"propensity/{name}"] = ((rows,), np.dtype("float64"))
    return columns | {"metadata": ((rows,), np.dtype("S"))}


def later_columns(file: h5py.File, rows: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """List shape and dtype of the captions and causal columns of a file; earlier versions wrote none.

    Args:
        file: the open file.
        rows: number of samples in the file.

    Raises:
        InputError: only some of the causal columns are there.
    """
    columns: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    if "caption" in file:
        columns["caption"] = ((rows,), np.dtype("S"))
    if "unit" not in file:
        return columns
    if not isinstance(file.get("intervened", getlink=True), h5py.HardLink):
        raise InputError("expected group `intervened` in the file itself, got none; pack it again")
    columns |= {name: ((rows,), np.dtype("S")) for name in ("unit", "counterfactual_of")}
    if "step" in file:
        columns["step"] = ((rows,), np.dtype("int64"))
    return columns | {f"intervened/{name}": ((rows,), np.dtype("uint8")) for name in file["intervened"]}


def is_layer(name: str) -> bool:
    """Tell whether a dataset is a layer.

    Example:
        >>> is_layer("light/left"), is_layer("metadata")
        (True, False)
    """
    return name in LAYERS or name.startswith(LIGHT_PREFIX)


def read_attribute(file: h5py.File, name: str, kind: str) -> Any:
    """Read an attribute; None if it is missing, no single value, or of another kind of dtype.

    Args:
        file: the open file.
        name: name of the attribute.
        kind: "S" for strings of fixed length, "i" for integers.
    """
    found = file.attrs.get_id(name) if name in file.attrs else None
    return file.attrs[name] if found and found.dtype.kind == kind and found.shape == () else None


def encode_texts(values: list[str]) -> ndarray:
    """Encode strings for HDF5 at a fixed length: UTF-8, padded with zeros to the longest.

    HDF5 keeps strings of variable length in heaps, and HDF5 2.0 loops for ever if a block of a heap is lost.

    Example:
        >>> encode_texts(["one", "three"])
        array([b'one', b'three'], dtype='|S5')
    """
    encoded = [value.encode() for value in values]
    return np.array(encoded, h5py.string_dtype("utf-8", max(1, *map(len, encoded))))


def write_attribute(node: h5py.File | h5py.Dataset, name: str, text: str) -> None:
    """Write a string attribute of a file or dataset, in the form of `encode_texts`."""
    (value,) = encode_texts([text])
    node.attrs.create(name, value, dtype=h5py.string_dtype("utf-8", max(1, len(value))))


def open_file(path: Path, locking: Locking = None) -> h5py.File:
    """Open an HDF5 file for reading, without a cache of chunks.

    HDF5 reads a chunk without filters into the cache at the size that the file claims, and trusts it. A cache
    would also be of no use: each chunk of a pack holds one row, and rows are rarely read twice.
    """
    return h5py.File(path, "r", locking=locking, rdcc_nbytes=0)


def row_reader(dataset: h5py.Dataset) -> Callable[[int], ndarray]:
    """Return the fastest safe function that reads one row of a dataset as a new, writable array.

    Args:
        dataset: the dataset, in one piece or with one row per chunk, of a file of `open_file`; its first axis
            is the row.

    Raises:
        InputError: the dataset is stored in another way, or with a filter that is unknown or not installed.
            The function raises it for a row whose bytes are missing or not those of one row.

    Example:
        >>> with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        ...     data = np.arange(6, dtype=np.float16).reshape(2, 3)
        ...     row_reader(file.create_dataset("x", data=data, chunks=(1, 3), compression="gzip"))(1)
        array([3., 4., 5.], dtype=float16)
    """
    if dataset.chunks is None:
        require_one_piece(dataset)
    elif dataset.chunks != (1, *dataset.shape[1:]):
        raise InputError(
            f"dataset `{_name(dataset)}`: expected one row per chunk, got chunks of {list(dataset.chunks)}; "
            "pack it again"
        )
    elif _filters(dataset, "pack it again"):
        read, zeros = _chunk_reader(dataset, "pack it again"), (0,) * (dataset.ndim - 1)
        return lambda row: read((row, *zeros))[0]
    return _text_row(dataset) if dataset.dtype.kind == "S" else dataset.__getitem__


def text_reader(dataset: h5py.Dataset) -> Callable[[int], bytes]:
    """Return a function that reads one string of a dataset in one piece, without the time that HDF5 takes."""
    handle, start, size = dataset.file.id.get_vfd_handle(), dataset.id.get_offset(), dataset.dtype.itemsize
    return lambda row: os.pread(handle, size, start + row * size).rstrip(b"\0")


def rows_reader(dataset: h5py.Dataset, cure: str = "pack it again") -> Callable[[int, int], ndarray]:
    """Return a safe function that reads the rows from one number up to another, of chunks of any shape.

    Args:
        dataset: the dataset, of a file of `open_file`; its first axis is the row.
        cure: next step if the file is damaged, for messages.

    Raises:
        InputError: as in `row_reader`.

    Example:
        >>> with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        ...     x = file.create_dataset("x", data=np.arange(10), chunks=(4,), compression="gzip")
        ...     rows_reader(x)(3, 9)
        array([3, 4, 5, 6, 7, 8])
    """
    if dataset.chunks is None:
        require_one_piece(dataset, cure)
    if dataset.chunks is None or not _filters(dataset, cure):
        return lambda start, stop: dataset[start:stop]
    chunks, read = dataset.chunks, _chunk_reader(dataset, cure)

    def rows(start: int, stop: int) -> ndarray:
        found = np.empty((stop - start, *dataset.shape[1:]), dataset.dtype)
        wanted = (slice(start, stop), *(slice(0, length) for length in dataset.shape[1:]))
        for piece in dataset.iter_chunks(wanted):
            first = tuple(part.start // step * step for part, step in zip(piece, chunks, strict=True))
            inside = tuple(
                slice(part.start - at, part.stop - at) for part, at in zip(piece, first, strict=True)
            )
            found[slice(piece[0].start - start, piece[0].stop - start), *piece[1:]] = read(first)[inside]
        return found

    return rows


def require_one_piece(dataset: h5py.Dataset, cure: str = "pack it again") -> None:
    """Refuse a dataset that is stored in chunks, or whose bytes are not all in the file.

    Raises:
        InputError: it is stored in this way.
    """
    if dataset.chunks is not None:
        raise InputError(
            f"dataset `{_name(dataset)}`: expected it in one piece, got chunks of {list(dataset.chunks)}; "
            f"{cure}"
        )
    stored, start = dataset.id.get_storage_size(), dataset.id.get_offset() or 0
    size = dataset.size * dataset.dtype.itemsize
    if stored != size or start + size > dataset.file.id.get_filesize():
        raise InputError(
            f"dataset `{_name(dataset)}`: expected {size} bytes in the file, but they are missing; {cure}"
        )


def columns_sha256(file: h5py.File, set_info: SetInfo) -> str:
    """Hash the file's attributes and all columns but the layers.

    A pack has four kinds of hashes, which find different damage:

    - attribute ``sha256`` of the file (this one): changed attributes and changed columns, except layers;
    - ``layers`` in column `metadata`: changed pixels, also of uncompressed chunks, and chunks of other rows;
    - the checksum of each gzip chunk: damaged rows on reading, without `--verify`;
    - HDF5's checksums of its headers and chunk indices (since 1.10): a damaged structure on opening.

    Args:
        file: the open file.
        set_info: its image set.
    """
    total = hashlib.sha256()
    for key in _HASHED_ATTRIBUTES:
        total.update(key.encode() + np.asarray(read_attribute(file, key, "S")).tobytes())
    rows = len(file["index"])
    for name in (*hdf5_columns(set_info, rows), *later_columns(file, rows)):
        if not is_layer(name):
            total.update(f"{name} {file[name].dtype.str}".encode())
            block, read = max(1, _BLOCK_BYTES // file[name].dtype.itemsize), rows_reader(file[name])
            for start in range(0, rows, block):
                total.update(read(start, min(start + block, rows)).tobytes())
    return total.hexdigest()


def _name(dataset: h5py.Dataset) -> str:
    return str(dataset.name).lstrip("/")


def _filters(dataset: h5py.Dataset, cure: str) -> tuple[int, ...]:
    """List the codes of a dataset's filters: shuffle, or one codec, or both in this order.

    HDF5 decodes with any filter; here, the size of the decoded bytes must be known.
    """
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(place) for place in range(plist.get_nfilters())]
    for code, _, _, title in filters:
        named = f"dataset `{_name(dataset)}` has filter {code} {title.decode(errors='replace')!r}"
        if code not in (_SHUFFLE, _GZIP, _BLOSC, _ZSTD):
            raise InputError(f"{named}; expected gzip, zstd or blosc; {cure}")
        if code == _BLOSC and not h5py.h5z.filter_avail(code):
            with suppress(ImportError):
                import hdf5plugin  # noqa: F401  importing it registers its filters
        if code == _BLOSC and not h5py.h5z.filter_avail(code):
            raise InputError(f"{named}, which needs hdf5plugin: `pip install hdf5plugin`, or use gzip")
    codes = tuple(code for code, *_ in filters)
    if codes and (codes[-1] == _SHUFFLE or codes[:-1] not in ((), (_SHUFFLE,))):
        raise InputError(
            f"dataset `{_name(dataset)}` has filters {list(codes)}; expected shuffle and one codec; {cure}"
        )
    return codes


def _text_row(dataset: h5py.Dataset) -> Callable[[int], ndarray]:
    """Return a function that reads strings in a tenth of the time of ``dataset[row]``."""
    identity, kind, dtype = dataset.id, dataset.id.get_type(), dataset.dtype
    memory = h5py.h5s.create(h5py.h5s.SCALAR)

    def read(row: int) -> ndarray:
        place = identity.get_space()  # a new one per call, because threads may read different rows
        place.select_hyperslab((row,), (1,))
        array = np.zeros((), dtype)  # HDF5 leaves out a chunk that was never written
        identity.read(memory, place, array, kind)
        return array

    return read


def _chunk_reader(dataset: h5py.Dataset, cure: str) -> Callable[[tuple[int, ...]], ndarray]:
    """Return a function that reads the compressed chunk that begins at given coordinates."""
    filters, identity, dtype, shape = _filters(dataset, cure), dataset.id, dataset.dtype, dataset.chunks
    size, skipped, codec = prod(shape) * dtype.itemsize, (1 << len(filters)) - 1, filters[-1]
    decode = inflate if codec == _GZIP else _decode_zstd
    if size > _LARGEST_CHUNK:
        raise InputError(
            f"dataset `{_name(dataset)}`: expected chunks of at most {_LARGEST_CHUNK} bytes, got {size}; "
            f"{cure}"
        )

    def read(place: tuple[int, ...]) -> ndarray:
        mask, data = _raw_chunk(identity, place, size, cure)
        width = dtype.itemsize if _SHUFFLE in filters else 1
        if mask & skipped == skipped:  # Blosc skips data that it cannot make smaller
            width = 1
        elif mask & skipped:
            raise InputError(f"row {place[0]}: expected a chunk with all filters, got some skipped; {cure}")
        elif codec == _BLOSC:
            if (stated := _blosc_size(data)) != size:
                raise InputError(f"row {place[0]}: expected a chunk of {size} bytes, got {stated}; {cure}")
            found: ndarray = dataset[tuple(slice(at, at + n) for at, n in zip(place, shape, strict=True))]
            return found
        else:
            try:
                data = decode(data, size)
            except (InputError, OSError) as error:
                raise InputError(f"row {place[0]}: {error}; {cure}") from None
        if len(data) != size:
            raise InputError(f"row {place[0]}: expected a chunk of {size} bytes, got {len(data)}; {cure}")
        array = np.empty(shape, dtype)
        elements = array.reshape(-1).view(np.uint8).reshape(-1, width)
        for number, plane in enumerate(np.frombuffer(data, np.uint8).reshape(width, -1)):
            elements[:, number] = plane
        return array

    return read


def _raw_chunk(
    identity: h5py.h5d.DatasetID, place: tuple[int, ...], size: int, cure: str
) -> tuple[int, bytes]:
    """Read HDF5's mask of skipped filters and the stored bytes of a compressed chunk of ``size`` bytes."""
    try:
        mask, data = identity.read_direct_chunk(place)
    except (MemoryError, RuntimeError):  # also raised for a chunk that was never written
        stored = identity.get_chunk_info_by_coord(place).size
        if 0 < stored < 2 * size + 2**16:  # no filter adds more
            raise
        raise InputError(f"row {place[0]}: its bytes are not in the file; {cure}") from None
    return int(mask), data


def _decode_zstd(data: bytes, size: int) -> bytes:
    """Decompress with Arrow, which refuses another size; hdf5plugin's filter returns memory on errors."""
    import pyarrow as pa

    decoded: bytes = pa.Codec("zstd").decompress(data, size, asbytes=True)
    return decoded


def _blosc_size(data: bytes) -> int:
    """Return the size that the header of Blosc 1 states, 0 unless all compressed bytes are there.

    Blosc does not get the number of compressed bytes, and would read on in memory.
    """
    there = len(data) >= 16 and int.from_bytes(data[12:16], "little") == len(data)
    return int.from_bytes(data[4:8], "little") if there else 0
