"""What the datasets of an HDF5 file are, for whoever writes it and whoever reads it."""

from typing import Any

import h5py
import numpy as np
from numpy import ndarray

from loaders.schema import LAYERS, LIGHT_PREFIX, SetInfo, layer

# Attribute `format` of every file; to be counted up when the same frames come to lie otherwise in one.
HDF5_FORMAT = 3
# Attributes whose texts are read.
HASHED_ATTRIBUTES = ("dataset", "set", "split", "split_made", "splits")
# Bytes of the longest text that is read, so that a header cannot ask for all memory.
LONGEST_TEXT = 2**24


def hdf5_columns(set_info: SetInfo, rows: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """List shape and dtype of every dataset of a file; those of texts are `S` of no size yet.

    Args:
        set_info: the image set.
        rows: how many samples the file holds.
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
    """Tell layers from the columns beside them.

    Example:
        >>> is_layer("light/left"), is_layer("metadata")
        (True, False)
    """
    return name in LAYERS or name.startswith(LIGHT_PREFIX)


def read_attribute(file: h5py.File, name: str, kind: str) -> Any:
    """Read an attribute that is one value of one kind of dtype; None if it is not, as texts of a heap.

    Args:
        file: the file, open.
        name: of the attribute.
        kind: "S" for texts, "i" for numbers.
    """
    found = file.attrs.get_id(name) if name in file.attrs else None
    return file.attrs[name] if found and found.dtype.kind == kind and found.shape == () else None


def encode_texts(values: list[str]) -> ndarray:
    """Encode texts as HDF5 keeps them at a fixed length: UTF-8, padded to the longest with zeros.

    Texts of no fixed length lie in heaps, at which HDF5 2.0 goes round for ever if a block of one is lost.

    Example:
        >>> encode_texts(["one", "three"])
        array([b'one', b'three'], dtype='|S5')
    """
    encoded = [value.encode() for value in values]
    return np.array(encoded, h5py.string_dtype("utf-8", max(1, *map(len, encoded))))


def write_attribute(node: h5py.File | h5py.Dataset, name: str, text: str) -> None:
    """Give a file or dataset an attribute, in the same form as `encode_texts`."""
    (value,) = encode_texts([text])
    node.attrs.create(name, value, dtype=h5py.string_dtype("utf-8", max(1, len(value))))
