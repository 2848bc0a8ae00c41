"""Texts of an HDF5 file, read so that damage cannot hang the reader.

HDF5 keeps texts of no fixed length in heaps ("global heap collections", HDF5 file format specification,
version 3, III.E). Its library, 2.0 at least, walks a heap from object to object and goes round for ever at an
object of no size, as a block of zeros makes one; so heaps are walked here first, and metadata are read here.
"""

import os
import struct
import weakref
from pathlib import Path
from typing import overload

import h5py

from loaders.errors import InputError

# A collection: signature, version, size. An object: index, references, size. A text: length, heap, index.
_HEAP, _OBJECT, _TEXT = struct.Struct("<4sB3xQ"), struct.Struct("<HH4xQ"), struct.Struct("<IQI")
_SIGNATURE = b"GCOL\x01\x00\x00\x00"
# Attributes are written before any row, and so lie in the beginning of a file.
_BEGINNING = 2**20
_DAMAGED = "the texts are damaged; pack it again"


def check_heaps(path: Path) -> None:
    """Walk the heaps in the beginning of a file, where those of the attributes are.

    Raises:
        InputError: one would never come to its end.
    """
    with path.open("rb") as file:
        data = file.read(_BEGINNING)
        place = data.find(_SIGNATURE)
        while place >= 0:
            file.seek(place)
            size = _HEAP.unpack(data[place : place + _HEAP.size].ljust(_HEAP.size, b"\0"))[2]
            _objects(file.read(min(size, _BEGINNING)), whole=size <= _BEGINNING)
            place = data.find(_SIGNATURE, place + 1)


def _objects(heap: bytes, whole: bool = True) -> dict[int, tuple[int, int]]:
    """Find where the objects of a heap begin and how long they are, by their indices.

    Raises:
        InputError: an object has no size, or is longer than the heap.
    """
    found: dict[int, tuple[int, int]] = {}
    place = _HEAP.size
    while place + _OBJECT.size <= len(heap):
        index, _, size = _OBJECT.unpack_from(heap, place)
        start = place + _OBJECT.size
        # What is free at the end counts itself; objects are padded to eight bytes.
        place += size if index == 0 else _OBJECT.size + -(-size // 8) * 8
        if place < start or (whole and place > len(heap)):
            raise InputError(_DAMAGED)
        if index:
            found[index] = (start, size)
    return found


class Texts:
    """A dataset of texts, one per row, that lies in a file in one piece.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.h5"
        >>> with h5py.File(path, "w") as file:
        ...     file["x"] = ["one", "", "three"]
        >>> with h5py.File(path) as file:
        ...     texts = Texts(path, file["x"])
        >>> texts[2], texts[0:2]
        (b'three', [b'one', b''])
    """

    def __init__(self, path: Path, dataset: h5py.Dataset) -> None:
        """Open the file besides.

        Args:
            path: the file.
            dataset: the dataset, of which only the place is asked.

        Raises:
            InputError: it holds no texts, or does not lie in one piece.
        """
        text = h5py.check_string_dtype(dataset.dtype)
        offset = dataset.id.get_offset()
        if (
            text is None
            or text.length is not None
            or len(dataset.shape) != 1
            or (len(dataset) and not offset)
        ):
            raise InputError(
                f"expected dataset `{dataset.name.strip('/')}` of texts in one piece; pack it again"
            )
        self._offset, self._rows = offset or 0, len(dataset)
        self._handle = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)

    @overload
    def __getitem__(self, rows: int) -> bytes: ...
    @overload
    def __getitem__(self, rows: slice) -> list[bytes]: ...

    def __getitem__(self, rows: int | slice) -> bytes | list[bytes]:
        """Read the text of a row, or of several.

        Raises:
            InputError: the heap of one is damaged.
        """
        if isinstance(rows, slice):
            return [self[row] for row in range(self._rows)[rows]]
        row = range(self._rows)[rows]
        length, address, index = _TEXT.unpack(self._read(_TEXT.size, self._offset + row * _TEXT.size))
        if length == 0:
            return b""
        signature, version, size = _HEAP.unpack(self._read(_HEAP.size, address))
        # A length that no file has is caught before memory is taken for it.
        if (signature, version) != (b"GCOL", 1) or not length <= size <= os.fstat(self._handle).st_size:
            raise InputError(_DAMAGED)
        heap = self._read(size, address)
        start, found = _objects(heap).get(index, (0, -1))
        if found != length:
            raise InputError(_DAMAGED)
        return heap[start : start + length]

    def _read(self, size: int, place: int) -> bytes:
        data = os.pread(self._handle, size, place) if place < 2**63 else b""
        if len(data) < size:
            raise InputError(_DAMAGED)
        return data
