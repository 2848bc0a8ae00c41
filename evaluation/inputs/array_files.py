"""Read arrays from files of other programs: npy, npz, PNG and Parquet.

The files are not trusted: nothing is unpickled, and the size in a header is compared with the size of the
file before memory is allocated.
"""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from candlelight.loaders.errors import InputError, blaming
from candlelight.loaders.files.png16 import decode_png16, is_png16
from candlelight.loaders.files.safe_decoding import open_image

MAX_BYTES = 2**32  # largest size of one array
_CURE = "write it again"
_npy: Any = np.lib.format  # numpy 1.26 has no type annotations for this module
_HEADERS = {(1, 0): _npy.read_array_header_1_0, (2, 0): _npy.read_array_header_2_0}


def read_npy(path: Path) -> ndarray:
    """Read an npy file, in C or Fortran order.

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged or pickled, or holds more than `MAX_BYTES`.
    """
    with blaming(f"{path}: cannot be read", _CURE):
        mapped = _npy.open_memmap(path, "r")  # raises an error for pickled arrays
        _check_bytes(mapped.nbytes)
        return np.array(mapped)


def read_npz(path: Path, *names: str) -> list[ndarray]:
    """Read arrays of an npz file by name.

    Args:
        path: the file.
        names: names of the arrays.

    Raises:
        InputError: an array is missing, or see `read_npy`.
    """
    with blaming(f"{path}: cannot be read", _CURE), zipfile.ZipFile(path) as archive:
        known = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for name in names:
            if name not in known:
                raise InputError(f"expected an array `{name}`, got {', '.join(known) or 'none'}")
        return [_read_member(archive, known[name]) for name in names]


def read_png(path: Path) -> ndarray:
    """Read a gray or RGB PNG of 8 or 16 bits as float32 in [0, 1]: (H W) or (H W 3).

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged, or holds another kind of image.
    """
    with blaming(f"{path}: cannot be read as PNG", _CURE):
        data = path.read_bytes()
        if is_png16(data):
            return decode_png16(data).astype(np.float32) / np.float32(65535)
        with open_image(data, ("PNG",)) as image:
            if image.mode not in ("L", "RGB"):
                raise ValueError(f"expected gray or RGB, got {image.mode}")
            return np.asarray(image).astype(np.float32) / np.float32(255)


def read_parquet(path: Path) -> tuple[list[str], ndarray]:
    """Read a column ``id``, and numeric columns or one column ``codes`` of lists of equal length.

    Args:
        path: the file.

    Returns:
        The ids, and the numbers in float64, one row for each id; nan for an empty cell.

    Raises:
        InputError: the file is damaged, lacks the column ``id``, or has columns of other kinds.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    reading = blaming(f"{path}: cannot be read as Parquet", _CURE)
    with reading, path.open("rb") as opened, pq.ParquetFile(opened) as file:
        _check_bytes(sum(file.metadata.row_group(one).total_byte_size for one in range(file.num_row_groups)))
        table = file.read()
        names = [name for name in table.column_names if name != "id"]
        if "id" not in table.column_names or not names:
            raise InputError(f"expected a column `id` and columns of numbers, got {table.column_names}")
        ids = [str(value) for value in table["id"].to_pylist()]
        if names == ["codes"] and not _is_number(pa, table["codes"].type):
            return ids, _lists(table["codes"].combine_chunks(), len(ids))
        for name in names:
            if not _is_number(pa, table[name].type) or name.startswith("__index_level_"):
                raise InputError(f"expected `id` and columns of numbers, got `{name}`; remove that column")
        return ids, np.stack([table[name].to_numpy().astype(np.float64) for name in names], axis=1)


def describe_array(array: ndarray) -> str:
    """Describe the dtype and shape of an array for a message.

    Example:
        >>> describe_array(np.zeros((2, 3)))
        'float64 [2, 3]'
    """
    return f"{array.dtype} {list(array.shape)}"


def _lists(column: Any, count: int) -> ndarray:
    import pyarrow.compute

    # Raises an error unless the column holds lists.
    lengths = set(pyarrow.compute.list_value_length(column).to_pylist())
    if not _is_number(pyarrow, column.type.value_type):
        raise InputError(f"expected `codes` as lists of numbers, got {column.type}")
    if len(lengths) != 1 or None in lengths:
        raise InputError(f"expected `codes` of one length, got {', '.join(sorted(map(str, lengths))[:3])}")
    return column.flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(count, lengths.pop())


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ndarray:
    with archive.open(info) as member:
        form = _npy.read_magic(member)
        if form not in _HEADERS:
            raise ValueError(f"expected npy format 1.0 or 2.0, got {form}")
        shape, _, dtype = _HEADERS[form](member)
        if dtype.hasobject:
            raise ValueError(f"`{info.filename}` is pickled, which is refused; write texts as a text array")
        _check_bytes(info.file_size)
        if member.tell() + dtype.itemsize * math.prod(shape) != info.file_size:
            raise ValueError(f"the header of `{info.filename}` does not fit its size")
    with archive.open(info) as member:
        return _npy.read_array(member, allow_pickle=False)


def _check_bytes(count: int) -> None:
    if count > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, got {count}")
