"""Rows of an HDF5 dataset that keeps one row in each chunk, read past HDF5's own filters."""

from collections.abc import Callable

import h5py
import numpy as np
from numpy import ndarray

from loaders.errors import InputError
from loaders.inflate import inflate

_GZIP, _SHUFFLE = int(h5py.h5z.FILTER_DEFLATE), int(h5py.h5z.FILTER_SHUFFLE)
_PLUGINS = {32001: "blosc", 32015: "zstd", 32026: "blosc2"}


def row_reader(dataset: h5py.Dataset) -> Callable[[int], ndarray]:
    """Choose how rows of a dataset are read: as a new array each, free to be changed.

    Uncompressed chunks come about twice as fast as through ``dataset[row]``, gzip a tenth faster (measured
    on images of 320 x 240). Chunks of several rows, and filters other than gzip, are left to HDF5.

    Args:
        dataset: first axis the row.

    Raises:
        InputError: it is compressed with a filter that is not installed.

    Example:
        >>> with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        ...     data = np.arange(6, dtype=np.float16).reshape(2, 3)
        ...     row_reader(file.create_dataset("x", data=data, chunks=(1, 3), compression="gzip"))(1)
        array([3., 4., 5.], dtype=float16)
    """
    filters = _filters(dataset)
    if dataset.chunks != (1, *dataset.shape[1:]):
        return lambda row: dataset[row]
    if filters == ():
        return lambda row: _plain_row(dataset, row)
    if filters in ((_GZIP,), (_SHUFFLE, _GZIP)):
        shuffled = _SHUFFLE in filters
        return lambda row: _gzip_row(dataset, row, shuffled)
    return lambda row: dataset[row]


def _filters(dataset: h5py.Dataset) -> tuple[int, ...]:
    plist = dataset.id.get_create_plist()
    filters = tuple(plist.get_filter(place)[0] for place in range(plist.get_nfilters()))
    for code in filters:
        if not h5py.h5z.filter_avail(code) and not _plugins_have(code):
            name = _PLUGINS.get(code, f"filter {code}")
            raise InputError(
                f"dataset `{dataset.name.lstrip('/')}` is compressed with {name}, which needs hdf5plugin: "
                "`pip install candlelight[fast]`, or pack it with gzip"
            )
    return filters


def _plugins_have(code: int) -> bool:
    try:
        import hdf5plugin  # noqa: F401  importing it registers its filters
    except ImportError:
        return False
    return bool(h5py.h5z.filter_avail(code))


def _plain_row(dataset: h5py.Dataset, row: int) -> ndarray:
    array = np.empty(dataset.shape[1:], dataset.dtype)
    _, data = dataset.id.read_direct_chunk(_place(dataset, row), out=array.reshape(-1).view(np.uint8))
    _check_size(row, len(data), array.nbytes)
    return array


def _gzip_row(dataset: h5py.Dataset, row: int, shuffled: bool) -> ndarray:
    mask, packed = dataset.id.read_direct_chunk(_place(dataset, row))
    if mask:  # a chunk that left filters out
        return np.asarray(dataset[row])
    array = np.empty(dataset.shape[1:], dataset.dtype)
    try:
        data = inflate(packed, array.nbytes)
    except InputError as error:
        raise InputError(f"row {row}: {error}; pack it again") from None
    _check_size(row, len(data), array.nbytes)
    kept = np.frombuffer(data, np.uint8)
    if shuffled:
        size = array.itemsize
        pixels = array.reshape(-1).view(np.uint8).reshape(-1, size)
        for place, plane in enumerate(kept.reshape(size, -1)):
            pixels[:, place] = plane
    else:
        array.reshape(-1).view(np.uint8)[:] = kept
    return array


def _place(dataset: h5py.Dataset, row: int) -> tuple[int, ...]:
    return (row, *[0] * (dataset.ndim - 1))


def _check_size(row: int, found: int, due: int) -> None:
    if found != due:
        raise InputError(f"row {row}: expected a chunk of {due} bytes, got {found}; pack it again")
