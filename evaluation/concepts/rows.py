"""Rows of activations or gradients, kept on disk or computed again, and their inner products."""

import errno
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError


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


# Bytes of the rows of one layer, of which CSM holds eight at a time; on a GPU a share of the free memory.
_MEMORY, _SHARE = 1 << 27, 16


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


def row_storage(mebibytes: int | None, device: str) -> RowStorage:
    """Limit the rows of one layer in memory.

    Args:
        mebibytes: the limit; None for 128 MiB, or on a GPU for 1/16 of its free memory, so that its rows stay
            on it.
        device: torch device of the rows.

    Example:
        >>> row_storage(2, "cpu").memory == 2 * 2**20, row_storage(None, "cpu") == DEFAULT_STORAGE
        (True, True)
    """
    if mebibytes is not None:
        return RowStorage(mebibytes << 20)
    if torch.device(device).type != "cuda" or not torch.cuda.is_available():
        return DEFAULT_STORAGE
    return RowStorage(max(_MEMORY, torch.cuda.mem_get_info(device)[0] // _SHARE))


def _temporary_folder() -> Path:
    disk = Path("/var/tmp")
    if "TMPDIR" not in os.environ and os.access(disk, os.W_OK):
        return disk
    return Path(tempfile.gettempdir())


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


# Numbers in one slice of both factors (2 MiB of float32), which fits in a processor's cache.
_SLICE_ELEMENTS = 1 << 19
# Maximal number of columns that are summed in float32, because rounding errors grow with this number.
_SLICE_COLUMNS = 1 << 12
# Products below this value may have lost digits to the underflow of float32 and are computed in float64.
_SMALLEST = 1e-25


class SharedRows:
    """Rows that are stacked with different other rows, and the inner products among the shared rows.

    The mean of the shared rows is subtracted from all rows, which avoids cancellation if they lie far from
    the origin. Slices of columns are multiplied in float32 (float64 for float64 rows) and summed in float64:
    the error of an entry of the Gram matrix is at most about 1e-7 of its mean diagonal.

    Args:
        rows: at least one row, of any float type; kept by reference. Rows outside memory are read in slices
            of columns, and the results are the same.
        vectors: blocks of vectors of the length of the rows; `stacked` returns their products with all rows.

    Raises:
        InputError: vectors and rows differ in length.

    Example:
        >>> shared = SharedRows(torch.tensor([[2.0, 1.0]]), [torch.ones(1, 2)])
        >>> gram, (products,) = shared.stacked(torch.tensor([[0.0, 1.0]]))
        >>> gram
        tensor([[4., 0.],
                [0., 0.]], dtype=torch.float64)
        >>> products
        tensor([[-2.,  0.]], dtype=torch.float64)
    """

    def __init__(
        self,
        rows: Float[Tensor, "shared dim"] | RowSource,
        vectors: Sequence[Float[Tensor, "_ dim"] | RowSource] = (),
    ) -> None:
        named = {f"vectors[{number}]": (block, "_ dim") for number, block in enumerate(vectors)}
        check_shapes(rows=(rows, "shared dim"), **named)
        self.rows = rows
        self._vectors = tuple(vectors)
        self._mean = mean_row(rows)
        self._gram = _products(rows, rows, self._mean, self._mean)
        self._shared_products = [_products(block, rows, None, self._mean) for block in vectors]

    def stacked(
        self, others: Float[Tensor, "others dim"] | RowSource | None = None
    ) -> tuple[Float[Tensor, "rows rows"], list[Float[Tensor, "_ rows"]]]:
        """Compute the products of other rows, stacked before the shared rows.

        Args:
            others: rows of the length of the shared rows; None for the shared rows alone.

        Returns:
            The Gram matrix of all rows, and for each block of vectors its products with all rows; float64,
            exactly 0 if all rows are equal.

        Raises:
            InputError: the other rows have another length.
        """
        if others is None:
            return self._gram, self._shared_products
        check_shapes(others=(others, "others dim"), rows=(self.rows, "shared dim"))
        mean = self._mean
        corner, side = (_products(others, rows, mean, mean) for rows in (others, self.rows))
        gram = torch.cat([torch.cat([corner, side], dim=1), torch.cat([side.T, self._gram], dim=1)])
        products = [
            torch.cat([_products(block, others, None, mean), known], dim=1)
            for block, known in zip(self._vectors, self._shared_products, strict=True)
        ]
        return gram, products

    def offsets(
        self, others: Float[Tensor, "others dim"] | RowSource | None = None
    ) -> Float[Tensor, " rows"]:
        """Compute the products of the mean of the shared rows with all centred rows.

        Args:
            others: rows that are stacked before the shared rows, as in `stacked`.

        Returns:
            For weights w that add up to 0, ``w . offsets`` is the product of the vector ``w @ X`` with the
            mean of the shared rows: the difference of the intercepts for centred rows and for original rows.
        """
        blocks = (self.rows,) if others is None else (others, self.rows)
        return products_about_mean(self._mean[None], blocks)[0]


def products_about_mean(
    vectors: Float[Tensor, "vectors dim"] | RowSource, blocks: Sequence[Float[Tensor, "_ dim"] | RowSource]
) -> Float[Tensor, "vectors rows"]:
    """Compute products of vectors with stacked rows minus the mean of the last block, as in `SharedRows`.

    Args:
        vectors: vectors, which are not centred.
        blocks: row blocks of equal row length, any float type.

    Returns:
        One product per vector and row, float64.

    Raises:
        InputError: vectors and rows differ in length.

    Example:
        >>> products_about_mean(torch.ones(1, 2), [torch.tensor([[0.0, 1.0], [2.0, 1.0]])])
        tensor([[-1.,  1.]], dtype=torch.float64)
    """
    named = {f"blocks[{number}]": (block, "_ dim") for number, block in enumerate(blocks)}
    check_shapes(vectors=(vectors, "vectors dim"), **named)
    mean = mean_row(blocks[-1])
    return torch.cat([_products(vectors, block, None, mean) for block in blocks], dim=1)


def mean_row(rows: Float[Tensor, "rows dim"] | RowSource) -> Float[Tensor, " dim"]:
    """Compute the mean of the rows in float32, or in float64 for float64 rows; exact for equal rows.

    Example:
        >>> mean_row(torch.full((10, 1), 0.1)) == 0.1
        tensor([True])
    """
    mean = torch.empty(rows.shape[1], dtype=_working_type(rows), device=rows.device)
    for columns in _slices(len(rows), rows.shape[1]):
        part = _columns(rows, columns, mean.dtype)
        # Relative to the first row, so that the mean of equal rows is exact.
        mean[columns] = part[0] + (part - part[0]).mean(0)
    return mean


def row_norms(rows: Float[Tensor, "rows dim"] | RowSource) -> Float[Tensor, " rows"]:
    """Compute the Euclidean norm of each row in float64.

    Example:
        >>> row_norms(torch.tensor([[3.0, 4.0]]))
        tensor([5.], dtype=torch.float64)
    """
    squares = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for columns in _slices(len(rows), rows.shape[1]):
        squares += _columns(rows, columns, torch.float64).square().sum(1)
    return squares.sqrt()


def _products(
    left: Tensor | RowSource, right: Tensor | RowSource, left_origin: Tensor | None, right_origin: Tensor
) -> Tensor:
    """Compute ``(L - l)(R - r)^T`` in float64; ``l`` is 0 if None."""
    dtype = torch.promote_types(_working_type(left), _working_type(right))
    every = torch.arange(len(left), device=left.device)
    products = _sum_of_slices(left, every, right, left_origin, right_origin, dtype)
    size = products.abs().amax(1) if products.shape[1] else products.new_ones(len(products))
    lost = ~(size.isfinite() & (size > _SMALLEST))
    if dtype != torch.float64 and bool(lost.any()):
        # Products beyond the range of float32; this also recomputes rows that are all zero.
        chosen = every[lost]
        products[lost] = _sum_of_slices(left, chosen, right, left_origin, right_origin, torch.float64)
    return products


def _sum_of_slices(
    left: Tensor | RowSource,
    chosen: Tensor,
    right: Tensor | RowSource,
    left_origin: Tensor | None,
    right_origin: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Multiply slices of columns, for the chosen rows on the left, and sum the products."""
    total = torch.zeros(len(chosen), len(right), dtype=torch.float64, device=left.device)
    same, every = left is right and left_origin is right_origin, len(chosen) == len(left)
    for columns in _slices(len(chosen) + len(right), left.shape[1]):
        factor = _minus_origin(right, right_origin, columns, dtype)
        other = factor if same else _minus_origin(left, left_origin, columns, dtype)
        total += (other if every else other[chosen]) @ factor.T
    return total


def _minus_origin(
    rows: Tensor | RowSource, origin: Tensor | None, columns: slice, dtype: torch.dtype
) -> Tensor:
    part = _columns(rows, columns, dtype)
    return part if origin is None else part - origin[columns].to(dtype)


def _columns(rows: Tensor | RowSource, columns: slice, dtype: torch.dtype) -> Tensor:
    """Read a slice of columns; in one layout, so that rows in memory and in a file give equal bits."""
    return columns_of(rows, columns).to(dtype).contiguous()


def _working_type(rows: Tensor | RowSource) -> torch.dtype:
    return torch.promote_types(rows.dtype, torch.float32)


def _slices(rows: int, dim: int) -> Iterator[slice]:
    """Cut columns into slices that fit in the cache for this number of rows."""
    width = min(_SLICE_COLUMNS, max(1, _SLICE_ELEMENTS // max(1, rows)))
    return (slice(start, start + width) for start in range(0, dim, width))
