"""Objects and their parts as columns of an HDF5 file: padded to the largest number, names as numbers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np
from numpy import ndarray

from loaders.schema import Metadata, ObjectRecord, PartRecord

# Fields of ObjectRecord and PartRecord: dtype and shape of the elements.
_OBJECT: dict[str, tuple[str, tuple[int, ...]]] = {
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
_PART: dict[str, tuple[str, tuple[int, ...]]] = {
    "name": ("int64", ()),
    "index": ("int64", ()),
    "material": ("int64", ()),
    "base_color": ("float64", (3,)),
    "bbox": ("int64", (4,)),
    "area": ("int64", ()),
}


def object_columns(most_objects: int, most_parts: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """List shape (without the rows) and dtype of each dataset of the group ``objects``.

    Args:
        most_objects: largest number of objects in a row.
        most_parts: largest number of parts of an object.

    Example:
        >>> columns = object_columns(3, 0)
        >>> columns["count"], columns["bbox"], columns["parts/count"], columns["parts/name"]
        (((), 'int64'), ((3, 4), 'int64'), ((3,), 'int64'), ((3, 1), 'int64'))
    """
    # `datasets` cannot read an axis of length 0.
    objects, parts = max(most_objects, 1), max(most_parts, 1)
    columns: dict[str, tuple[tuple[int, ...], str]] = {"count": ((), "int64")}
    columns |= {name: ((objects, *shape), dtype) for name, (dtype, shape) in _OBJECT.items()}
    columns["parts/count"] = ((objects,), "int64")
    columns |= {f"parts/{name}": ((objects, parts, *shape), dtype) for name, (dtype, shape) in _PART.items()}
    return columns


def object_rows(
    metadata: Sequence[Metadata], most_objects: int, most_parts: int, names: Mapping[str, list[str]]
) -> dict[str, ndarray]:
    """Fill the datasets of the group ``objects`` for some rows.

    Args:
        metadata: of these rows.
        most_objects: as for `object_columns`.
        most_parts: as for `object_columns`.
        names: what the numbers of a dataset stand for, by its name, for each dataset that numbers names.

    Returns:
        Arrays [row, ...] by name of the dataset; -1 or nan where there is nothing.
    """
    arrays = {
        name: np.full((len(metadata), *shape), np.nan if dtype == "float64" else -1, dtype)
        for name, (shape, dtype) in object_columns(most_objects, most_parts).items()
    }
    for row, sample in enumerate(metadata):
        arrays["count"][row] = len(sample.objects)
        for place, record in enumerate(sample.objects):
            _fill(arrays, "", _OBJECT, (row, place), record, names)
            arrays["parts/count"][row, place] = len(record.parts)
            for number, part in enumerate(record.parts):
                _fill(arrays, "parts/", _PART, (row, place, number), part, names)
    return arrays


def create_objects(
    file: h5py.File, rows: int, most_objects: int, most_parts: int, names: Mapping[str, list[str]]
) -> None:
    """Create the datasets of the group ``objects``, with their names as attributes."""
    for name, (shape, dtype) in object_columns(most_objects, most_parts).items():
        column = file.create_dataset(f"objects/{name}", (rows, *shape), dtype)
        if name in names:
            column.attrs["names"] = json.dumps(names[name])


def _fill(
    arrays: Mapping[str, ndarray],
    prefix: str,
    fields: Mapping[str, Any],
    place: tuple[int, ...],
    record: ObjectRecord | PartRecord,
    names: Mapping[str, list[str]],
) -> None:
    for field in fields:
        value, column = getattr(record, field), prefix + field
        if value is not None:
            arrays[column][place] = names[column].index(value) if column in names else value
