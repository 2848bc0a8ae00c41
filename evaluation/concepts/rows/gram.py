"""Inner products of very long rows, computed in slices of columns."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.rows.row_source import RowSource, columns_of
from candlelight.evaluation.inputs.check_shapes import check_shapes

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
