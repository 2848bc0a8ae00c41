"""Rows that are too large for memory: kept in a temporary file, and read back in blocks of columns."""

import errno
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from loaders.errors import InputError

# Numbers in one block of the file (16 MiB of float32): long reads, and little memory for each object.
_BLOCK_ELEMENTS = 1 << 22


@runtime_checkable
class RowSource(Protocol):
    """Rows outside memory, of which slices of columns can be read.

    Attributes:
        shape: number of rows and of columns.
        dtype: type of the numbers.
        device: torch device of the tensors that `columns` returns.
    """

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    def __len__(self) -> int:
        """Number of rows."""

    def columns(self, columns: slice) -> Tensor:
        """Read all rows of a slice of columns, [rows, columns]; the tensor must not be modified."""


class StoredRows:
    """Rows in a temporary file without a name; the system deletes it with the object or the process.

    The file holds blocks of columns one after another, each with all rows, so that a slice of columns is read
    in one piece. The block that was read last stays in memory. Slices are best read in their order.

    Args:
        rows: number of rows.
        dim: number of columns.
        dtype: type of the numbers, in the file too.
        device: device of the tensors that are read.
        folder: folder of the file.

    Raises:
        InputError: the folder cannot be written, or has too little room.

    Example:
        >>> stored = StoredRows(2, 3, torch.float32, torch.device("cpu"), Path(tempfile.gettempdir()))
        >>> stored.write(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), start=0)
        >>> stored.columns(slice(1, 3))
        tensor([[2., 3.],
                [5., 6.]])
    """

    def __init__(self, rows: int, dim: int, dtype: torch.dtype, device: torch.device, folder: Path) -> None:
        self.shape, self.dtype, self.device = torch.Size((rows, dim)), dtype, device
        self._folder, self._bytes = folder, rows * dim * dtype.itemsize
        self._width = max(1, _BLOCK_ELEMENTS // rows)
        self._read: tuple[int, Tensor] | None = None
        try:
            free = shutil.disk_usage(folder).free
            if free < self._bytes:
                raise OSError(errno.ENOSPC, "")
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
            weakref.finalize(self, self._file.close)
            self._file.truncate(self._bytes)
        except OSError as error:
            raise self._failure(error) from None

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def write(self, part: Float[Tensor, "_ dim"], start: int) -> None:
        """Write rows to their place.

        Args:
            part: rows of the type of the file, on any device.
            start: number of the first of them.

        Raises:
            InputError: the file cannot be written; it is closed then.
        """
        self._read = None
        part = part.detach().cpu()
        try:
            for block in range(0, self.shape[1], self._width):
                values = part[:, block : block + self._width].contiguous()
                self._file.seek(self._place(block) + start * values.shape[1] * self.dtype.itemsize)
                unwritten = _bytes_of(values)
                while unwritten:
                    unwritten = unwritten[self._file.write(unwritten) :]
        except OSError as error:
            self._file.close()
            raise self._failure(error) from None

    def columns(self, columns: slice) -> Float[Tensor, "rows _"]:
        """Read all rows of a slice of columns; the tensor must not be modified.

        Args:
            columns: a slice with step 1.
        """
        start, stop, _ = columns.indices(self.shape[1])
        parts = []
        for block in range(start - start % self._width, stop, self._width):
            values = self._block(block)
            parts.append(values[:, max(start - block, 0) : stop - block])
        if not parts:
            return torch.empty(len(self), 0, dtype=self.dtype, device=self.device)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _block(self, block: int) -> Tensor:
        """Read the block whose first column is ``block``."""
        if self._read is None or self._read[0] != block:
            self._read = None  # its memory is free for the next block
            width = min(self._width, self.shape[1] - block)
            values = torch.empty(len(self), width, dtype=self.dtype)
            self._file.seek(self._place(block))
            unread = _bytes_of(values)
            while unread:
                unread = unread[self._file.readinto(unread) :]
            self._read = block, values.to(self.device)
        return self._read[1]

    def _failure(self, error: OSError) -> InputError:
        size = f"{self._bytes / 1e9:.2f} GB of activations or gradients"
        reason = os.strerror(error.errno) if error.errno else str(error)
        return InputError(
            f"{self._folder}: {size} cannot be kept here: {reason}; set TMPDIR to a folder with more room, "
            "or choose a smaller layer"
        )

    def _place(self, block: int) -> int:
        """Return the position in the file of the block whose first column is ``block``."""
        return block * len(self) * self.dtype.itemsize


def _bytes_of(values: Tensor) -> memoryview:
    """Return the memory of a contiguous tensor, whose type numpy may not know."""
    return memoryview(values.view(torch.uint8).numpy().reshape(-1).data)
