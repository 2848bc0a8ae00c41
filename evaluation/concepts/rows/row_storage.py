"""The place of activations and gradients: memory if they are small, else a temporary file."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.rows.stored_rows import StoredRows

# Bytes of the rows of one layer. A call of `score_concepts` holds the rows of eight layers at a time.
_MEMORY = 1 << 27


@dataclass(frozen=True)
class RowStorage:
    """Limit of the rows in memory, and the folder of temporary files for larger rows.

    Attributes:
        memory: maximal bytes of the rows of one layer in memory.
        folder: folder for larger rows. None takes the environment variable TMPDIR, or /var/tmp, which is on
            a disk where /tmp is in memory, or else the system's folder of temporary files.

    Example:
        >>> import torch
        >>> rows = RowStorage(memory=4).fill(None, torch.ones(1, 2), start=0, rows=1)
        >>> rows.shape, type(rows).__name__
        (torch.Size([1, 2]), 'StoredRows')
    """

    memory: int = _MEMORY
    folder: Path | None = None

    def fill(
        self,
        whole: Float[Tensor, "rows dim"] | StoredRows | None,
        part: Float[Tensor, "_ dim"],
        start: int,
        rows: int,
    ) -> Float[Tensor, "rows dim"] | StoredRows:
        """Copy a batch of rows to its place among all rows.

        Args:
            whole: all rows, as the first call has returned them; None makes place for them.
            part: the batch.
            start: number of its first row.
            rows: number of all rows.

        Raises:
            InputError: rows that are too large for memory cannot be written to the folder.
        """
        if whole is None:
            whole = self._allocate(rows, part)
        if isinstance(whole, StoredRows):
            whole.write(part, start)
        else:
            whole[start : start + len(part)] = part
        return whole

    def _allocate(self, rows: int, part: Tensor) -> Tensor | StoredRows:
        dim = part.shape[1]
        if rows * dim * part.dtype.itemsize <= self.memory:
            return part.new_empty(rows, dim)
        return StoredRows((rows, dim), part.dtype, part.device, self.folder or _temporary_folder())


DEFAULT_STORAGE = RowStorage()


def _temporary_folder() -> Path:
    disk = Path("/var/tmp")
    if "TMPDIR" not in os.environ and os.access(disk, os.W_OK):
        return disk
    return Path(tempfile.gettempdir())
