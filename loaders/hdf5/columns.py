"""Datasets and attributes of an HDF5 pack, for its writer and its reader."""

from typing import Any

import h5py
import numpy as np
from numpy import ndarray

from loaders.schema import LAYERS, LIGHT_PREFIX, SetInfo, layer

# Attribute `format` of every file; increase it when the layout of a file changes.
HDF5_FORMAT = 3
# Attributes that the hash of a file covers.
HASHED_ATTRIBUTES = ("dataset", "set", "split", "split_made", "splits")
# Bytes of the longest string that is read, so that a damaged header cannot claim all memory.
LONGEST_TEXT = 2**24


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
