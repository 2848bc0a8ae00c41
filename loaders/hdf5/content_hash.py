"""The hashes of an HDF5 file: which there are, and what each alone catches.

- ``sha256`` of the file, made here: changed attributes and columns beside the layers, `metadata` among them.
- ``layers`` in `metadata`: changed pixels, also of uncompressed chunks, and chunks of other rows.
- The checksum that gzip has in each chunk: damaged rows as they are read, without `--verify`.
- HDF5's own of its headers and chunk indices (since 1.10): a damaged structure, when it is opened.
"""

import hashlib

import h5py
import numpy as np

from loaders.hdf5.columns import HASHED_ATTRIBUTES, hdf5_columns, is_layer, read_attribute
from loaders.schema import SetInfo

HASH_ATTRIBUTE = "sha256"
# What is read at once, unless one row is more.
_BLOCK_BYTES = 2**22


def columns_sha256(file: h5py.File, set_info: SetInfo) -> str:
    """Hash the file's attributes and the columns that are no layers: ids, numbers, factors, metadata.

    Args:
        file: the file, open.
        set_info: its image set.
    """
    total = hashlib.sha256()
    for key in HASHED_ATTRIBUTES:
        total.update(key.encode() + np.asarray(read_attribute(file, key, "S")).tobytes())
    rows = len(file["index"])
    for name in hdf5_columns(set_info, rows):
        if not is_layer(name):
            total.update(f"{name} {file[name].dtype.str}".encode())
            block = max(1, _BLOCK_BYTES // file[name].dtype.itemsize)
            for start in range(0, rows, block):
                total.update(file[name][start : start + block].tobytes())
    return total.hexdigest()
