"""Datasets of an HDF5 pack: their shapes and attributes, and fast reading of their single rows.

Numbers are read by ``dataset[row]``, for which h5py has a fast path. `_text_row` reads strings in a tenth of
the time of ``dataset[row]``. `_gzip_row` decompresses images with ISA-L in 0.6 times HDF5's own time.
"""

from collections.abc import Callable
from contextlib import suppress
from math import prod
from typing import Any

import h5py
import numpy as np
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_decoding import inflate
from candlelight.loaders.schema import LAYERS, LIGHT_PREFIX, SetInfo, layer

# Attribute `format` of every file; increase it when the layout of a file changes.
HDF5_FORMAT = 3
# Attributes that the hash of a file covers.
HASHED_ATTRIBUTES = ("dataset", "set", "split", "split_made", "splits")
# Bytes of the longest string that is read, so that a damaged header cannot claim all memory.
LONGEST_TEXT = 2**24
_GZIP, _SHUFFLE = int(h5py.h5z.FILTER_DEFLATE), int(h5py.h5z.FILTER_SHUFFLE)


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
    return columns | {"metadata": ((rows,), np.dtype("S"))}


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


def row_reader(dataset: h5py.Dataset) -> Callable[[int], ndarray]:
    """Return the fastest function that reads one row of a dataset as a new, writable array.

    Args:
        dataset: the dataset; its first axis is the row.

    Raises:
        InputError: the dataset is compressed with a filter that is not installed.

    Example:
        >>> with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        ...     data = np.arange(6, dtype=np.float16).reshape(2, 3)
        ...     row_reader(file.create_dataset("x", data=data, chunks=(1, 3), compression="gzip"))(1)
        array([3., 4., 5.], dtype=float16)
    """
    filters = _filters(dataset)
    one_a_chunk = dataset.chunks == (1, *dataset.shape[1:])
    if one_a_chunk and filters in ((_GZIP,), (_SHUFFLE, _GZIP)):
        return _gzip_row(dataset, dataset.dtype.itemsize if _SHUFFLE in filters else 1)
    return _text_row(dataset) if dataset.dtype.kind == "S" else dataset.__getitem__


def _filters(dataset: h5py.Dataset) -> tuple[int, ...]:
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(place) for place in range(plist.get_nfilters())]
    for code, _, _, name in filters:
        if not h5py.h5z.filter_avail(code):
            with suppress(ImportError):
                import hdf5plugin  # noqa: F401  importing it registers its filters
        if not h5py.h5z.filter_avail(code):
            raise InputError(
                f"dataset `{dataset.name.lstrip('/')}` is compressed with filter {code} "
                f"{name.decode(errors='replace')!r}, which needs hdf5plugin: "
                "`pip install hdf5plugin`, or pack it with gzip"
            )
    return tuple(code for code, *_ in filters)


def _text_row(dataset: h5py.Dataset) -> Callable[[int], ndarray]:
    identity, kind, dtype = dataset.id, dataset.id.get_type(), dataset.dtype
    memory = h5py.h5s.create(h5py.h5s.SCALAR)

    def read(row: int) -> ndarray:
        place = identity.get_space()  # a new one per call, because threads may read different rows
        place.select_hyperslab((row,), (1,))
        array = np.empty((), dtype)
        identity.read(memory, place, array, kind)
        return array

    return read


def _gzip_row(dataset: h5py.Dataset, width: int) -> Callable[[int], ndarray]:
    """Read and decompress chunks; ``width`` is the element size of the shuffle filter, 1 without it."""
    identity, dtype, shape = dataset.id, dataset.dtype, dataset.shape[1:]
    size, zeros = prod(shape) * dtype.itemsize, (0,) * len(shape)

    def read(row: int) -> ndarray:
        try:
            mask, packed = identity.read_direct_chunk((row, *zeros))
        except MemoryError:  # h5py also raises it for a chunk that was never written
            if identity.get_chunk_info_by_coord((row, *zeros)).size:
                raise
            raise InputError(f"row {row}: its bytes are not in the file; pack it again") from None
        if mask:  # a filter was skipped for this chunk
            return dataset[row]
        try:
            data = inflate(packed, size)
        except InputError as error:
            raise InputError(f"row {row}: {error}; pack it again") from None
        if len(data) != size:
            raise InputError(f"row {row}: expected a chunk of {size} bytes, got {len(data)}; pack it again")
        array = np.empty(shape, dtype)
        elements = array.reshape(-1).view(np.uint8).reshape(-1, width)
        for place, plane in enumerate(np.frombuffer(data, np.uint8).reshape(width, -1)):
            elements[:, place] = plane
        return array

    return read
