"""Compression of HDF5 packs: the filters of a dataset, and chunks encoded in the same way."""

import zlib
from threading import get_ident
from typing import Any, Literal, get_args

import h5py
import numpy as np
from numpy import ndarray

from candlelight.loaders.errors import InputError

Compression = Literal["gzip", "none", "zstd", "blosc"]
_LEVEL = {"gzip": 4, "zstd": 3, "blosc": 3}


def dataset_filters(dtype: np.dtype[Any], compression: str) -> dict[str, Any]:
    """Choose the filters of one dataset, as arguments of `h5py.Group.create_dataset`.

    Floats are shuffled (bytes of one significance together), which halves their compressed size; 8-bit
    pixels are not.

    Args:
        dtype: dtype of the dataset.
        compression: "gzip" (level 4), "none", or, with hdf5plugin, "zstd" (level 3) or "blosc" (Blosc 1 with
            zstd, level 3).

    Raises:
        InputError: the compression is unknown, or hdf5plugin is not installed.

    Example:
        >>> dataset_filters(np.dtype("float16"), "gzip")
        {'compression': 'gzip', 'compression_opts': 4, 'shuffle': True}
    """
    if compression not in get_args(Compression):
        raise InputError(
            f"compression: expected one of {', '.join(get_args(Compression))}, got {compression}"
        )
    if compression == "none":
        return {}
    shuffle = dtype.kind == "f"
    if compression == "gzip":
        return {"compression": "gzip", "compression_opts": _LEVEL["gzip"], "shuffle": shuffle}
    try:
        import hdf5plugin
    except ImportError:
        raise InputError(
            f"compression {compression} needs hdf5plugin: `pip install hdf5plugin`, or choose gzip"
        ) from None
    if compression == "zstd":
        return {"shuffle": shuffle, **hdf5plugin.Zstd(clevel=_LEVEL["zstd"])}
    kind = hdf5plugin.Blosc.SHUFFLE if shuffle else hdf5plugin.Blosc.NOSHUFFLE
    return dict(hdf5plugin.Blosc(cname="zstd", clevel=_LEVEL["blosc"], shuffle=kind))


def encode_chunk(array: ndarray, compression: Compression) -> tuple[int, bytes]:
    """Encode one array as the chunk that HDF5 would write for it.

    gzip runs without HDF5, whose lock would stop other threads; the bytes are the same.

    Returns:
        HDF5's mask of skipped filters (Blosc skips data that it cannot make smaller), and the bytes.

    Example:
        >>> mask, chunk = encode_chunk(np.zeros((60, 80), np.float32), "gzip")
        >>> mask, len(chunk) < 100
        (0, True)
    """
    if compression == "none":
        return 0, array.tobytes()
    if compression == "gzip":
        data = _shuffled(array) if array.dtype.kind == "f" else array.tobytes()
        return 0, zlib.compress(data, _LEVEL["gzip"])
    # Files in memory that are open at the same time need different names.
    with h5py.File(f"chunk-{get_ident()}", "w", driver="core", backing_store=False) as file:
        filters = dataset_filters(array.dtype, compression)
        dataset = file.create_dataset(
            "x", (1, *array.shape), array.dtype, chunks=(1, *array.shape), **filters
        )
        dataset[0] = array
        mask, chunk = dataset.id.read_direct_chunk((0,) * dataset.ndim)
        return int(mask), bytes(chunk)


def _shuffled(array: ndarray) -> memoryview:
    """Apply HDF5's shuffle filter: the low bytes of all elements first, then their next bytes."""
    words = np.ascontiguousarray(array).reshape(-1).view(f"<u{array.itemsize}")
    planes = np.empty((array.itemsize, len(words)), np.uint8)
    for place, plane in enumerate(planes):
        # Shifting words takes a twentieth of the time of copying bytes with a stride.
        np.right_shift(words, 8 * place, out=plane, dtype=words.dtype, casting="unsafe")
    return planes.data
