"""Arrays of all images: in memory while they are few, in a temporary file if they are many."""

import weakref
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np
from numpy import ndarray

IN_MEMORY = 2**25  # bytes of each spool that stay in memory


class ArraySpool:
    """Arrays that are appended and read by their number; the file goes with the spool.

    Example:
        >>> spool = ArraySpool()
        >>> spool.append(np.ones((2, 3), np.float32))
        >>> spool[0].shape
        (2, 3)
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(IN_MEMORY)
        self._places: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        """How many arrays there are."""
        return len(self._places)

    def append(self, array: ndarray) -> None:
        """Write one more array."""
        place = self._file.seek(0, 2)
        self._places.append((place, array.shape, array.dtype))
        self._file.write(np.ascontiguousarray(array).data)

    def __getitem__(self, number: int) -> ndarray:
        """Read an array, which cannot be written to."""
        place, shape, dtype = self._places[number]
        self._file.seek(place)
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(self._file.read(size), dtype).reshape(shape)
