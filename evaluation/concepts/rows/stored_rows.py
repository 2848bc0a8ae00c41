"""Rows that are too large for memory, kept in a temporary file."""

import errno
import os
import shutil
import tempfile
import weakref
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.rows.row_source import RowSource
from candlelight.loaders.errors import InputError

# Numbers in one block of the file (16 MiB of float32): long reads, and little memory for each object.
_BLOCK_ELEMENTS = 1 << 22


class StoredRows(RowSource):
    """Rows in a temporary file without a name, which the system deletes with the object or the process.

    The file holds the blocks of columns one after another, each with all rows, so that a block is read in one
    piece.

    Args:
        shape: number of rows and of columns.
        dtype: type of the numbers, in the file too.
        device: device of the slices that are read.
        folder: folder of the file.

    Raises:
        InputError: the folder cannot be written, or has too little room.

    Example:
        >>> folder = Path(tempfile.gettempdir())
        >>> stored = StoredRows((2, 3), torch.float32, torch.device("cpu"), folder)
        >>> stored.write(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), start=0)
        >>> stored.columns(slice(1, 3))
        tensor([[2., 3.],
                [5., 6.]])
    """

    def __init__(
        self, shape: tuple[int, int], dtype: torch.dtype, device: torch.device, folder: Path
    ) -> None:
        super().__init__(shape, dtype, device, max(1, _BLOCK_ELEMENTS // shape[0]))
        self._folder, self._unwritten = folder, shape[0]
        try:
            if shutil.disk_usage(folder).free < self._bytes():
                raise OSError(errno.ENOSPC, "")
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
        except OSError as error:
            raise self._failure(error) from None
        weakref.finalize(self, self._file.close)

    def write(self, part: Float[Tensor, "_ dim"], start: int) -> None:
        """Write rows to their place, each row once.

        Args:
            part: rows of the type of the file, on any device.
            start: number of the first of them.

        Raises:
            InputError: the file cannot be written; its room is free again then.
        """
        part = part.detach().cpu()
        try:
            for block in range(0, self.shape[1], self._width):
                values = part[:, block : block + self._width].contiguous()
                self._file.seek(self._place(block) + start * values.shape[1] * self.dtype.itemsize)
                unwritten = _memory(values)
                while unwritten:
                    unwritten = unwritten[self._file.write(unwritten) :]
        except OSError as error:
            self._file.close()
            raise self._failure(error) from None
        self._unwritten -= len(part)

    def _block(self, columns: slice) -> Tensor:
        """Read one block.

        Raises:
            InputError: rows are missing.
        """
        if self._unwritten:
            raise InputError(f"{self._unwritten} of {len(self)} rows are not written yet; write them first")
        values = torch.empty(len(self), columns.stop - columns.start, dtype=self.dtype)
        self._file.seek(self._place(columns.start))
        unread = _memory(values)
        while unread:
            unread = unread[self._file.readinto(unread) :]
        return values.to(self.device)

    def _place(self, block: int) -> int:
        """Return the position in the file of the block whose first column is ``block``."""
        return block * len(self) * self.dtype.itemsize

    def _bytes(self) -> int:
        return self._place(self.shape[1])

    def _failure(self, error: OSError) -> InputError:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return InputError(
            f"{self._folder}: cannot keep {self._bytes() / 1e9:.3g} GB of activations: {reason}; use "
            "another folder (TMPDIR, or `folder` of `RowStorage`), or choose a smaller layer"
        )


def _memory(values: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor, of a type that numpy may not know."""
    return memoryview(values.view(torch.uint8).numpy().reshape(-1).data)
