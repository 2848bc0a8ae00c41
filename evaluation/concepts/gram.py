"""Inner products of very long rows, a slice of columns at a time."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from evaluation.shapes import check_shapes

# float64 numbers in one slice of stacked rows (64 MiB).
_SLICE_ELEMENTS = 1 << 23


def centred_gram(
    blocks: Sequence[Float[Tensor, "_ dim"]],
) -> tuple[Float[Tensor, "rows rows"], Float[Tensor, " rows"]]:
    """Gram matrix of stacked rows about their mean.

    ``K = (X - 1 mu^T)(X - 1 mu^T)^T`` with ``X`` the blocks stacked and ``mu`` the mean row. Rows that are
    all equal give exact zeros.

    Args:
        blocks: row blocks of equal length, any float type; stacked only slice by slice.

    Returns:
        ``K``, and ``(X - 1 mu^T) mu``, what turns an intercept for centred rows into one for rows as they
        are; float64 on the device of the blocks.

    Raises:
        InputError: rows of different lengths.

    Example:
        >>> centred_gram([torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 1.0]])])[0]
        tensor([[ 1., -1.],
                [-1.,  1.]], dtype=torch.float64)
    """
    check_shapes(**_named(blocks))
    rows = sum(len(block) for block in blocks)
    gram = torch.zeros(rows, rows, dtype=torch.float64, device=blocks[0].device)
    shift = gram.new_zeros(rows)
    for columns in _slices(blocks):
        centred, mean = _centred(blocks, columns)
        gram += centred @ centred.T
        shift += centred @ mean
    return gram, shift


def centred_products(
    vectors: Float[Tensor, "vectors dim"], blocks: Sequence[Float[Tensor, "_ dim"]]
) -> Float[Tensor, "vectors rows"]:
    """Inner products of vectors with stacked rows about their mean: ``G (X - 1 mu^T)^T`` in float64.

    Args:
        vectors: G, not centred.
        blocks: row blocks of X as in `centred_gram`.

    Returns:
        One product per vector and row.

    Raises:
        InputError: vectors and rows of different lengths.

    Example:
        >>> centred_products(torch.ones(1, 2), [torch.tensor([[0.0, 1.0], [2.0, 1.0]])])
        tensor([[-1.,  1.]], dtype=torch.float64)
    """
    check_shapes(vectors=(vectors, "vectors dim"), **_named(blocks))
    rows = sum(len(block) for block in blocks)
    products = torch.zeros(len(vectors), rows, dtype=torch.float64, device=vectors.device)
    for columns in _slices(blocks):
        centred, _ = _centred(blocks, columns)
        products += vectors[:, columns].double() @ centred.T
    return products


def _named(blocks: Sequence[Tensor]) -> dict[str, tuple[object, str]]:
    """Blocks of rows as `check_shapes` takes them."""
    return {f"blocks[{number}]": (block, "_ dim") for number, block in enumerate(blocks)}


def _slices(blocks: Sequence[Tensor]) -> Iterator[slice]:
    """Column slices such that the stacked rows of one fit the memory budget."""
    dim = blocks[0].shape[1]
    width = max(1, _SLICE_ELEMENTS // sum(len(block) for block in blocks))
    return (slice(start, start + width) for start in range(0, dim, width))


def _centred(
    blocks: Sequence[Tensor], columns: slice
) -> tuple[Float[Tensor, "rows width"], Float[Tensor, " width"]]:
    """Stacked rows about their mean, and the mean, for some columns."""
    stacked = torch.cat([block[:, columns].double() for block in blocks])
    first = stacked[0].clone()
    # About the first row first: the mean of equal rows is then exact, and so are their zeros.
    stacked -= first
    mean = stacked.mean(0)
    stacked -= mean
    return stacked, first + mean
