"""Rows that fit neither in memory nor on disk, computed again for each block of columns."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.rows.row_source import RowSource, columns_of
from candlelight.loaders.errors import InputError


class RecomputedRows(RowSource):
    """Rows of which one block of columns is kept; for the next block all rows are computed again.

    n rows of d numbers of b bytes have ``n d b / memory`` blocks, and each pass over the columns computes all
    rows as often. `fit_cavs` takes four passes over the negatives and three over the concept, `sensitivity`
    two over the negatives and the gradients and one over the concept. A larger ``memory`` makes this faster;
    a file (`StoredRows`) is faster still.

    Args:
        compute: maps a slice of row numbers to these rows, which must be the same at each call.
        rows: number of rows.
        memory: bytes of the block that is kept.
        batch_size: rows that are computed at a time.

    Raises:
        InputError: there is no row, or ``memory`` cannot hold one column.

    Example:
        >>> numbers = torch.arange(6.0).reshape(2, 3)
        >>> recomputed = RecomputedRows(lambda rows: numbers[rows], rows=2, memory=8)
        >>> recomputed.columns(slice(1, 3))
        tensor([[1., 2.],
                [4., 5.]])
    """

    def __init__(
        self,
        compute: Callable[[slice], Float[Tensor, "_ dim"] | RowSource],
        rows: int,
        memory: int,
        batch_size: int = 16,
    ) -> None:
        if rows < 1:
            raise InputError(f"`rows` must be at least 1, got {rows}")
        first = compute(slice(0, 1))
        column = rows * first.dtype.itemsize
        if memory < column:
            raise InputError(f"`memory` must hold a column of {rows} rows, {column} bytes, got {memory}")
        super().__init__((rows, first.shape[1]), first.dtype, first.device, memory // column)
        self._compute, self._batch_size = compute, batch_size

    def _block(self, columns: slice) -> Tensor:
        """Compute all rows, and keep one block."""
        width = columns.stop - columns.start
        values = torch.empty(len(self), width, dtype=self.dtype, device=self.device)
        for start in range(0, len(self), self._batch_size):
            rows = slice(start, min(start + self._batch_size, len(self)))
            values[rows] = columns_of(self._compute(rows), columns)
        return values
