"""A list of arrays: the first arrays in memory, the others in a temporary file."""

import weakref
from functools import cached_property
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
from numpy import ndarray

BYTES_IN_MEMORY = 2**25  # largest size in memory of one spool


class ArraySpool:
    """Arrays that are appended and read by number; the temporary file is deleted with the spool.

    Example:
        >>> spool = ArraySpool()
        >>> spool.append(np.ones((2, 3), np.float32))
        >>> spool[0].shape
        (2, 3)
    """

    def __init__(self) -> None:
        self._kept: list[ndarray] = []
        self._room = BYTES_IN_MEMORY
        self._places: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []

    def __len__(self) -> int:
        """Number of arrays."""
        return len(self._kept) + len(self._places)

    def append(self, array: ndarray) -> None:
        """Append an array, which must not be modified afterwards."""
        if array.nbytes <= self._room and not self._places:
            self._room -= array.nbytes
            self._kept.append(array)
            return
        place = self._file.seek(0, 2)
        self._places.append((place, array.shape, array.dtype))
        self._file.write(np.ascontiguousarray(array).data)

    @cached_property
    def _file(self) -> BinaryIO:
        file = TemporaryFile()
        weakref.finalize(self, file.close)
        return file

    def __getitem__(self, number: int) -> ndarray:
        """Read an array, which must not be modified."""
        if number < len(self._kept):
            return self._kept[number]
        place, shape, dtype = self._places[number - len(self._kept)]
        self._file.seek(place)
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(self._file.read(size), dtype).reshape(shape)
