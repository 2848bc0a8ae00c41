"""Rows outside memory, read in slices of columns."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor


class RowSource(ABC):
    """Rows outside memory, in blocks of columns, of which the last one stays in memory.

    Read slices of columns in their order. Functions that take rows as a tensor or as a source give the same
    results for both.

    Args:
        shape: number of rows and of columns, at least one row.
        dtype: type of the numbers.
        device: torch device of the slices.
        width: columns of a block.
    """

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, device: torch.device, width: int) -> None:
        self.shape, self.dtype, self.device = torch.Size(shape), dtype, device
        self._width = width
        self._last: tuple[int, Tensor] | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def columns(self, columns: slice) -> Float[Tensor, "rows _"]:
        """Read all rows of a slice of columns with step 1; the tensor must not be modified."""
        start, stop, _ = columns.indices(self.shape[1])
        parts = []
        for block in range(start - start % self._width, stop, self._width):
            if self._last is None or self._last[0] != block:
                self._last = None  # its memory is free for the next block
                self._last = block, self._block(slice(block, min(block + self._width, self.shape[1])))
            parts.append(self._last[1][:, max(start - block, 0) : stop - block])
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    @abstractmethod
    def _block(self, columns: slice) -> Tensor:
        """Read or compute all rows of one block."""


def columns_of(rows: Float[Tensor, "rows dim"] | RowSource, columns: slice) -> Float[Tensor, "rows _"]:
    """Read a slice of columns of rows in memory or elsewhere.

    Example:
        >>> columns_of(torch.tensor([[1.0, 2.0, 3.0]]), slice(1, 3))
        tensor([[2., 3.]])
    """
    return rows[:, columns] if isinstance(rows, Tensor) else rows.columns(columns)
