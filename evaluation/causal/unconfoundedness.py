"""Unconfoundedness: do different factors use different codes? (Reddy et al. 2022)."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from evaluation.causal.irs import IRS
from evaluation.inputs.check_shapes import check_shapes
from loaders.check_choice import check_choice
from loaders.errors import InputError

SelectionCompat = Literal["exact", "candle2021"]


def unconfoundedness(
    matrix: Float[Tensor, "codes factors"] | IRS,
    rho: int = 1,
    compat: SelectionCompat = "exact",
) -> Float[Tensor, ""]:
    """Measure how disjoint the sets of codes are that represent different factors.

    ``UC = 1 - (1 / C(k, 2)) sum_{I<J} |Z_I n Z_J| / |Z_I u Z_J|``, where Z_I are the ``rho`` codes with the
    largest entries for factor I (CANDLE, Reddy et al. 2022, Algorithm 1 of the supplement; Z_I from the
    columns of the IRS matrix). With ``rho = 1`` the values are multiples of ``1 / C(k, 2)``.

    Blind to: the size of the entries. Each factor gets ``rho`` codes even if no code represents it, so random
    codes often score high. Two codes may both mix two factors and still score 1. For ``rho > 1`` most values
    are near 1: compare them, but do not interpret a single one.

    Args:
        matrix: how strongly each code represents each factor, larger is stronger; or the result of `irs`.
        rho: codes per factor, 1 to the number of codes.
        compat: "exact" selects the ``rho`` largest entries of each column (the first of equal ones).
            "candle2021" selects like the authors' program, ``argpartition(column, -1)[::-rho][:rho]`` under
            numpy up to 1.26: the largest entry (the last of equal ones) is swapped to the end, the others
            stay in place (three codes or fewer are sorted instead), and every rho-th code from the end is
            selected, which may be fewer than ``rho`` codes. For ``rho = 1`` both agree except for ties. For
            ``rho = 2`` the second code is the same for almost all factors; therefore no published value
            exceeds 2/3.

    Returns:
        A number in [0, 1], higher is better; 1 if no code represents two factors.

    Raises:
        InputError: a dimension is missing, entries are not finite, there are fewer than two factors, ``rho``
            is out of range, or ``compat`` is misspelt.

    Example:
        >>> unconfoundedness(torch.tensor([[0.9, 0.8, 0.1], [0.1, 0.2, 0.7]]))
        tensor(0.6667, dtype=torch.float64)
    """
    table = matrix.matrix if isinstance(matrix, IRS) else matrix
    check_choice("compat", compat, SelectionCompat)
    check_shapes(matrix=(table, "codes factors"))
    codes, factors = table.shape
    if factors < 2:
        raise InputError(f"`matrix` needs at least 2 factors to compare, got {factors}")
    if not 1 <= rho <= codes:
        raise InputError(f"`rho` must be 1 to {codes}, the number of codes that vary, got {rho}")
    if not bool(table.isfinite().all()):
        raise InputError("`matrix` must be finite, got nan or inf; check the codes that it was made from")
    chosen = _largest(table, rho) if compat == "exact" else _candle2021(table, rho)
    member = torch.zeros_like(table, dtype=torch.float64).scatter(0, chosen, 1)
    shared = member.T @ member
    size = member.sum(0)
    jaccard = shared / (size[:, None] + size[None, :] - shared)
    first, second = torch.triu_indices(factors, factors, offset=1, device=table.device)
    return 1 - jaccard[first, second].mean()


def _largest(table: Tensor, rho: int) -> Tensor:
    """Return the rows of the ``rho`` largest entries of each column; equal entries stay in order."""
    return table.argsort(dim=0, descending=True, stable=True)[:rho]


def _candle2021(table: Tensor, rho: int) -> Tensor:
    """Return the rows that the authors' program selects in each column."""
    last = len(table) - 1
    if last < 3:
        # numpy sorts arrays of up to three entries completely.
        return table.argsort(dim=0, stable=True).flip(0)[::rho][:rho]
    # argmax returns the first of equal entries, numpy's partition selects the last.
    largest = last - table.flip(0).argmax(0)
    order = torch.arange(last + 1, device=table.device)[:, None].repeat(1, table.shape[1])
    order.scatter_(0, largest[None], last)
    order[last] = largest
    return order.flip(0)[::rho][:rho]
