"""Unconfoundedness: does each factor have codes of its own? (Reddy et al. 2022)."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from evaluation.causal.irs import IRS
from evaluation.inputs.check_choice import check_choice
from evaluation.inputs.check_shapes import check_shapes
from loaders.errors import InputError

SelectionCompat = Literal["exact", "candle2021"]


def unconfoundedness(
    matrix: Float[Tensor, "codes factors"] | IRS,
    rho: int = 1,
    compat: SelectionCompat = "exact",
) -> Float[Tensor, ""]:
    """Measure how disjoint the codes are that factors are found in.

    ``UC = 1 - (1 / C(k, 2)) sum_{I<J} |Z_I n Z_J| / |Z_I u Z_J|``, Z_I the ``rho`` codes that answer most
    for factor I (CANDLE, Reddy et al. 2022, Algorithm 1 of the supplement; Z_I from the columns of the IRS
    matrix). With ``rho = 1`` the values are multiples of ``1 / C(k, 2)``.

    Blind to: how strongly a code answers, and to whether it answers at all: each factor is given ``rho``
    codes even if none knows of it, so random codes often score high. Two codes may both mix two factors
    and still score 1. Jaccard similarity piles up near 1 for ``rho > 1``; compare, do not interpret.

    Args:
        matrix: how much each code answers for each factor, larger is more; or the result of `irs`.
        rho: codes per factor, 1 to the number of codes.
        compat: "exact" takes the ``rho`` largest of each column (the first of equals). "candle2021" is
            what the authors' program took, ``argpartition(column, -1)[::-rho][:rho]`` under numpy up to
            1.26: the largest is swapped to the end (the last of equals), the rest stays in place (three
            codes or fewer are sorted instead), and every rho-th from the end is taken, which are fewer
            than ``rho`` where the codes run out. For ``rho = 1`` both agree but for ties; for ``rho = 2``
            the second code is the same one for almost all factors, which is why no published value
            exceeds 2/3.

    Returns:
        A number in [0, 1], higher is better: 1 if no code serves two factors.

    Raises:
        InputError: a dimension is missing, entries that are not finite, fewer than two factors, ``rho`` out
            of range, or a misspelt ``compat``.

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
    """Rows of the largest entries of each column, the first of equals first."""
    return table.argsort(dim=0, descending=True, stable=True)[:rho]


def _candle2021(table: Tensor, rho: int) -> Tensor:
    """Rows that the authors' program took, in each column."""
    last = len(table) - 1
    if last < 3:
        # numpy sorts so few in full.
        return table.argsort(dim=0, stable=True).flip(0)[::rho][:rho]
    # argmax gives the first of equals; the partition kept the last.
    largest = last - table.flip(0).argmax(0)
    order = torch.arange(last + 1, device=table.device)[:, None].repeat(1, table.shape[1])
    order.scatter_(0, largest[None], last)
    order[last] = largest
    return order.flip(0)[::rho][:rho]
