"""Hash the attributes of an HDF5 pack and all columns but the layers.

A pack has four kinds of hashes, which find different damage:

- attribute ``sha256`` of the file (this module): changed attributes and changed columns, except layers;
- ``layers`` in column `metadata`: changed pixels, also of uncompressed chunks, and chunks of other rows;
- the checksum of each gzip chunk: damaged rows on reading, without `--verify`;
- HDF5's checksums of its headers and chunk indices (since 1.10): a damaged structure on opening.
"""

import hashlib

import h5py
import numpy as np

from candlelight.loaders.hdf5.hdf5_datasets import (
    HASHED_ATTRIBUTES,
    hdf5_columns,
    is_layer,
    read_attribute,
    rows_reader,
)
from candlelight.loaders.schema import SetInfo

HASH_ATTRIBUTE = "sha256"
# Bytes that are read at once, or one row if a row is larger.
_BLOCK_BYTES = 2**22


def columns_sha256(file: h5py.File, set_info: SetInfo) -> str:
    """Hash the file's attributes and all columns but the layers: ids, indices, factors, metadata.

    Args:
        file: the open file.
        set_info: its image set.
    """
    total = hashlib.sha256()
    for key in HASHED_ATTRIBUTES:
        total.update(key.encode() + np.asarray(read_attribute(file, key, "S")).tobytes())
    rows = len(file["index"])
    for name in hdf5_columns(set_info, rows):
        if not is_layer(name):
            total.update(f"{name} {file[name].dtype.str}".encode())
            block, read = max(1, _BLOCK_BYTES // file[name].dtype.itemsize), rows_reader(file[name])
            for start in range(0, rows, block):
                total.update(read(start, min(start + block, rows)).tobytes())
    return total.hexdigest()
