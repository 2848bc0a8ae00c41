"""Select the codes that represent each factor, from a matrix of codes and factors such as that of IRS."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.causal.irs import IRS
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

SelectionCompat = Literal["exact", "candle2021"]

_SORTED_LENGTH = 3  # numpy sorts columns of up to three entries instead of partitioning them


def select_codes(
    matrix: Float[Tensor, "codes factors"] | IRS, rho: int = 1, compat: SelectionCompat = "exact"
) -> Int[Tensor, "factors selected"]:
    """Select the ``rho`` codes with the largest entries for each factor: Z_I of Reddy et al. 2022.

    Args:
        matrix: how strongly each code represents each factor, larger is stronger; or the result of `irs`.
        rho: codes per factor, 1 to the number of codes.
        compat: "exact" selects the ``rho`` largest entries of each column, in descending order; the first of
            equal ones. "candle2021" selects like the authors' program,
            ``argpartition(column, -1)[::-rho][:rho]`` under numpy up to 1.26: the largest entry (the last of
            equal ones) changes places with the last entry, the others stay in place (three codes or fewer are
            sorted instead), and every rho-th code from the end is selected. This gives fewer than ``rho``
            codes if there are at most rho (rho - 1). For ``rho = 1`` both agree except for ties; for ``rho =
            2`` the second code is the third from the end for almost all factors.

    Returns:
        Row numbers of the matrix; of a result of `irs`, columns of the codes that `irs` was given.

    Raises:
        InputError: a dimension is missing, entries are not finite, ``rho`` is out of range, or ``compat`` is
            misspelt.

    Example:
        >>> select_codes(torch.tensor([[0.9, 0.1], [0.1, 0.2], [0.2, 0.7]]), rho=2)
        tensor([[0, 2],
                [2, 1]])
    """
    table = matrix.matrix if isinstance(matrix, IRS) else matrix
    check_choice("compat", compat, SelectionCompat)
    check_shapes(matrix=(table, "codes factors"))
    if not 1 <= rho <= len(table):
        raise InputError(f"`rho` must be 1 to {len(table)}, the number of codes that vary, got {rho}")
    if not bool(table.isfinite().all()):
        raise InputError("`matrix` must be finite, got nan or inf; check the codes that it was made from")
    if compat == "exact":
        order = table.argsort(dim=0, descending=True, stable=True)[:rho]
    else:
        order = _partition_largest(table).flip(0)[::rho][:rho]
    return (matrix.codes[order] if isinstance(matrix, IRS) else order).T


def _partition_largest(table: Tensor) -> Int[Tensor, "codes factors"]:
    """Return the order of rows to which numpy up to 1.26 partitions each column by its largest entry."""
    codes = len(table)
    order = torch.arange(codes, device=table.device)[:, None].repeat(1, table.shape[1])
    if codes <= _SORTED_LENGTH:
        for place in range(codes):
            smallest = place + table.gather(0, order)[place:].argmin(0)  # the first of equal entries
            _swap(order, place, smallest)
    else:
        largest = codes - 1 - table.flip(0).argmax(0)  # the last of equal entries
        _swap(order, codes - 1, largest)
    return order


def _swap(order: Int[Tensor, "codes factors"], place: int, others: Int[Tensor, " factors"]) -> None:
    """Exchange a row of ``order`` with another row of each column."""
    moved = order.gather(0, others[None])
    order.scatter_(0, others[None], order[place : place + 1].clone())
    order[place] = moved[0]
