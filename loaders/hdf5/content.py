"""The hash of an HDF5 file that covers what the hashes in its metadata do not: all but pixels."""

import hashlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from loaders.hdf5.heaps import Texts
from loaders.schema import LAYERS, LIGHT_PREFIX

ATTRIBUTE = "sha256"
# Rows that are read at once.
_BLOCK = 256


def content_sha256(file: h5py.File) -> str:
    """Hash attributes, and the datasets that are no layers: ids, factors, objects, metadata.

    Metadata hold the hashes of the layers, so this one proves a whole file together with them.

    Args:
        file: the file, open; its attribute `ATTRIBUTE` is left out.
    """
    file.flush()  # texts are read past h5py
    total = hashlib.sha256()
    _add_attributes(total, "/", file)
    names: list[str] = []
    file.visit(names.append)  # links that lead elsewhere are not followed
    for name in sorted(names):
        found = file[name]
        _add_attributes(total, name, found)
        if isinstance(found, h5py.Dataset) and name not in LAYERS and not name.startswith(LIGHT_PREFIX):
            _add_rows(total, found)
    return total.hexdigest()


def _add_attributes(total: Any, name: str, owner: h5py.File | h5py.Group | h5py.Dataset) -> None:
    for key in sorted(owner.attrs):
        if (name, key) != ("/", ATTRIBUTE):
            value = owner.attrs[key]
            data = value.encode() if isinstance(value, str) else np.asarray(value).tobytes()
            total.update(repr((name, key, len(data))).encode() + data)


def _add_rows(total: Any, dataset: h5py.Dataset) -> None:
    total.update(repr((dataset.name, dataset.shape, str(dataset.dtype))).encode())
    texts = Texts(Path(dataset.file.filename), dataset) if dataset.dtype.kind == "O" else None
    for start in range(0, len(dataset), _BLOCK):
        if texts is not None:
            for text in texts[start : start + _BLOCK]:
                total.update(b"%d " % len(text) + text)
        else:
            total.update(np.ascontiguousarray(dataset[start : start + _BLOCK]).tobytes())
