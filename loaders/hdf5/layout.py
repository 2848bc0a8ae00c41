"""What the datasets of an HDF5 file are, for whoever writes it and whoever reads it."""

from typing import Any

import h5py
import numpy as np

from loaders.schema import SetInfo, layer

TEXT = h5py.string_dtype()


def columns(set_info: SetInfo, rows: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """List shape and dtype of every dataset of a file but ``objects/*``.

    Args:
        set_info: the image set.
        rows: how many samples the file holds.
    """
    columns: dict[str, tuple[tuple[int, ...], Any]] = {
        name: ((rows, *layer(name).shape(set_info.height, set_info.width)), np.dtype(layer(name).dtype))
        for name in set_info.layers
    }
    columns |= {"id": ((rows,), TEXT), "metadata": ((rows,), TEXT), "index": ((rows,), np.dtype("int64"))}
    for factor in set_info.factors:
        kind = "int64" if factor.kind == "categorical" else "float64"
        columns[f"factors/{factor.name}"] = ((rows,), np.dtype(kind))
    return columns
