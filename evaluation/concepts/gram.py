"""Inner products of very long rows, a slice of columns at a time."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from evaluation.inputs.check_shapes import check_shapes

# Numbers in one slice of both factors (2 MiB of float32), which stays in a processor's cache.
_SLICE_ELEMENTS = 1 << 19
# Columns that are added up in float32 at most: errors grow with their number.
_SLICE_COLUMNS = 1 << 12
# A row of products that are all below this may have lost digits, or signs, to float32's smallest numbers.
_SMALLEST = 1e-25


class SharedRows:
    """Rows that are stacked with others again and again, and the inner products that need these rows alone.

    All rows are taken about the mean of the shared ones, so that little cancels where they lie far from the
    origin. Slices of columns are multiplied in float32, or float64 if the rows are, and added up in float64:
    entries of the Gram matrix are off by about 1e-7 of its mean diagonal at most.

    Args:
        rows: at least one, of any float type; kept by reference.
        vectors: blocks of vectors as long as the rows, whose products with all rows are asked for.

    Raises:
        InputError: vectors and rows of different lengths.

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
        rows: Float[Tensor, "shared dim"],
        vectors: Sequence[Float[Tensor, "_ dim"]] = (),
    ) -> None:
        named = {f"vectors[{number}]": (block, "_ dim") for number, block in enumerate(vectors)}
        check_shapes(rows=(rows, "shared dim"), **named)
        self.rows = rows
        self._vectors = tuple(vectors)
        self._mean = mean_row(rows)
        self._gram = _products(rows, rows, self._mean, self._mean)
        self._shared_products = [_products(block, rows, None, self._mean) for block in vectors]

    def stacked(
        self, others: Float[Tensor, "others dim"] | None = None
    ) -> tuple[Float[Tensor, "rows rows"], list[Float[Tensor, "_ rows"]]]:
        """Stack other rows before the shared ones; none if None.

        Args:
            others: rows of the length of the shared ones.

        Returns:
            The Gram matrix of all rows, and for each block of vectors its products with all rows; float64,
            with exact zeros where all rows are equal.

        Raises:
            InputError: others of another length.
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

    def offsets(self, others: Float[Tensor, "others dim"] | None = None) -> Float[Tensor, " rows"]:
        """Products of the mean of the shared rows with all rows about it.

        Args:
            others: rows that are stacked before the shared ones, as in `stacked`.

        Returns:
            For weights w that add up to 0, ``w . offsets`` is the product of the vector ``w @ X`` with the
            mean of the shared rows: what an intercept for rows about it has over one for rows as they are.
        """
        blocks = (self.rows,) if others is None else (others, self.rows)
        return products_about_mean(self._mean[None], blocks)[0]


def products_about_mean(
    vectors: Float[Tensor, "vectors dim"], blocks: Sequence[Float[Tensor, "_ dim"]]
) -> Float[Tensor, "vectors rows"]:
    """Products of vectors with stacked rows about the mean of the last block, as `SharedRows` has them.

    Args:
        vectors: taken as they are.
        blocks: row blocks of equal length, any float type.

    Returns:
        One product per vector and row, float64.

    Raises:
        InputError: vectors and rows of different lengths.

    Example:
        >>> products_about_mean(torch.ones(1, 2), [torch.tensor([[0.0, 1.0], [2.0, 1.0]])])
        tensor([[-1.,  1.]], dtype=torch.float64)
    """
    named = {f"blocks[{number}]": (block, "_ dim") for number, block in enumerate(blocks)}
    check_shapes(vectors=(vectors, "vectors dim"), **named)
    mean = mean_row(blocks[-1])
    return torch.cat([_products(vectors, block, None, mean) for block in blocks], dim=1)


def mean_row(rows: Float[Tensor, "rows dim"]) -> Float[Tensor, " dim"]:
    """Mean of the rows, float32 or, for float64, float64; exact for equal rows.

    Example:
        >>> mean_row(torch.full((10, 1), 0.1)) == 0.1
        tensor([True])
    """
    mean = rows.new_empty(rows.shape[1], dtype=_working_type(rows))
    for columns in _slices(len(rows), rows.shape[1]):
        part = rows[:, columns].to(mean.dtype)
        # About the first row: the mean of equal rows is then exact.
        mean[columns] = part[0] + (part - part[0]).mean(0)
    return mean


def _products(left: Tensor, right: Tensor, left_origin: Tensor | None, right_origin: Tensor) -> Tensor:
    """``(L - l)(R - r)^T`` in float64, ``l`` 0 if None."""
    dtype = torch.promote_types(_working_type(left), _working_type(right))
    products = _sum_of_slices(left, right, left_origin, right_origin, dtype)
    size = products.abs().amax(1) if products.shape[1] else products.new_ones(len(left))
    lost = ~(size.isfinite() & (size > _SMALLEST))
    if dtype != torch.float64 and bool(lost.any()):
        # Beyond the range of float32; rows that are all zero come by as well.
        products[lost] = _sum_of_slices(left[lost], right, left_origin, right_origin, torch.float64)
    return products


def _sum_of_slices(
    left: Tensor, right: Tensor, left_origin: Tensor | None, right_origin: Tensor, dtype: torch.dtype
) -> Tensor:
    """Multiply and add up slices of columns."""
    total = torch.zeros(len(left), len(right), dtype=torch.float64, device=left.device)
    for columns in _slices(len(left) + len(right), left.shape[1]):
        factor = _minus_origin(right, right_origin, columns, dtype)
        same = left is right and left_origin is right_origin
        total += (factor if same else _minus_origin(left, left_origin, columns, dtype)) @ factor.T
    return total


def _minus_origin(rows: Tensor, origin: Tensor | None, columns: slice, dtype: torch.dtype) -> Tensor:
    part = rows[:, columns].to(dtype)
    return part if origin is None else part - origin[columns].to(dtype)


def _working_type(rows: Tensor) -> torch.dtype:
    return torch.promote_types(rows.dtype, torch.float32)


def _slices(rows: int, dim: int) -> Iterator[slice]:
    """Column slices such that those of so many rows fit the cache."""
    width = min(_SLICE_COLUMNS, max(1, _SLICE_ELEMENTS // max(1, rows)))
    return (slice(start, start + width) for start in range(0, dim, width))
