"""Read arrays of numbers from npy files of public data sets, without trusting the files."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy import ndarray

from candlelight.loaders.errors import InputError, blaming
from candlelight.loaders.files.safe_decoding import MAX_PIXELS
from candlelight.loaders.public.missing_files import require_path

NumberKind = Literal["integers", "floats"]
_CODES = {"integers": "iu", "floats": "f"}  # kinds of numpy dtypes
_npy: Any = np.lib.format  # numpy 1.26 has no types for it


def read_numbers(path: Path, source: str, kind: NumberKind, axes: int) -> ndarray:
    """Read an npy file of integers or floats, and check its header before memory is allocated.

    Args:
        path: the file.
        source: where to get the data set, for messages.
        kind: expected numbers.
        axes: expected number of axes.

    Returns:
        The numbers as int64 or float64.

    Raises:
        InputError: the file is missing, damaged or pickled, holds other numbers, or claims more values than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.

    Example:
        >>> read_numbers(Path("nowhere/54.npy"), "https://example.org", "integers", 2)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/54.npy is missing; get it from https://example.org
    """
    require_path(path, source)
    with blaming(f"{path}: cannot be read", f"get it again from {source}"):
        mapped = _npy.open_memmap(path, "r")  # numpy refuses pickled objects here
    if mapped.dtype.kind not in _CODES[kind] or mapped.ndim != axes:
        found = f"{mapped.dtype} {list(mapped.shape)}"
        raise InputError(f"{path}: expected {kind} of {axes} axes, got {found}; get it again from {source}")
    if mapped.size > MAX_PIXELS:
        raise InputError(f"{path}: expected at most {MAX_PIXELS} values, got {mapped.size}")
    return np.array(mapped, np.int64 if kind == "integers" else np.float64)
