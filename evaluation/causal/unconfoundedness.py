"""Unconfoundedness: do different factors use different codes? (Reddy et al. 2022)."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal.irs import IRS
from candlelight.evaluation.causal.select_codes import SelectionCompat, select_codes
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

ScoreTransform = Literal["none", "exponential"]


def unconfoundedness(
    matrix: Float[Tensor, "codes factors"] | IRS,
    rho: int = 1,
    compat: SelectionCompat = "exact",
    transform: ScoreTransform = "none",
) -> Float[Tensor, ""]:
    """Measure how disjoint the sets of codes are that represent different factors.

    ``UC = 1 - (1 / C(k, 2)) sum_{I<J} |Z_I n Z_J| / |Z_I u Z_J|``, where Z_I are the ``rho`` codes with the
    largest entries for factor I (CANDLE, Reddy et al. 2022, Algorithm 1 of the supplement; Z_I from the
    columns of the IRS matrix). With k factors and "exact", the values are multiples of ``1 / C(k, 2)`` for
    ``rho = 1``, and of ``1 / (3 C(k, 2))`` for ``rho = 2``.

    Blind to: the size of the entries. Each factor gets ``rho`` codes even if no code represents it, so random
    codes often score high. Two codes may both mix two factors and still score 1. For ``rho > 1`` most values
    are near 1: compare them, but do not interpret a single one. With fewer than rho k codes it cannot be 1.

    Args:
        matrix: how strongly each code represents each factor, larger is stronger; or the result of `irs`.
        rho: codes per factor, 1 to the number of codes.
        compat: how `select_codes` selects them. With "candle2021", ``rho = 2`` and more than two codes, the
            second code is the same for all factors but those that have it as their first. Therefore a value
            is at most 2/3, and without such factors 2/3 of the value for ``rho = 1``; 28 of the 48 published
            pairs have this ratio.
        transform: "exponential" returns ``exp(2 (UC - 1))``, which spreads values near 1 (section 9 of the
            supplement), from exp(-2) = 0.135 to 1; for ``rho > 1`` only. The order of values stays the same,
            and published values are without it.

    Returns:
        A number in [0, 1], higher is better; 1 if no code represents two factors.

    Raises:
        InputError: a dimension is missing, entries are not finite, there are fewer than two factors or fewer
            codes than ``rho``, ``compat`` or ``transform`` is misspelt, or a single code for each factor is
            to be transformed.

    Example:
        >>> unconfoundedness(torch.tensor([[0.9, 0.8, 0.1], [0.1, 0.2, 0.7]]))
        tensor(0.6667, dtype=torch.float64)
    """
    table = matrix.matrix if isinstance(matrix, IRS) else matrix
    check_choice("transform", transform, ScoreTransform)
    check_shapes(matrix=(table, "codes factors"))
    factors = table.shape[1]
    if factors < 2:
        raise InputError(f"`matrix` needs at least 2 factors to compare, got {factors}")
    if transform == "exponential" and rho == 1:
        raise InputError("`transform` is for `rho` above 1, got `rho` 1; leave it out")
    chosen = select_codes(table, rho, compat).T
    member = torch.zeros_like(table, dtype=torch.float64).scatter(0, chosen, 1)
    shared = member.T @ member
    size = member.sum(0)
    jaccard = shared / (size[:, None] + size[None, :] - shared)
    first, second = torch.triu_indices(factors, factors, offset=1, device=table.device)
    score = 1 - jaccard[first, second].mean()
    return score if transform == "none" else torch.exp(2 * (score - 1))
