"""Checks of codes and factors that the metrics share, and the rows that a metric fits on and scores."""

from collections.abc import Collection

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.discretise import BinRule, discretise
from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.loaders.errors import InputError

_ROUNDING = 64 * torch.finfo(torch.float64).eps


def check_codes_and_factors(codes: Tensor, factors: Tensor, least: int = 1) -> Bool[Tensor, " factors"]:
    """Refuse codes and factors that cannot be compared, and tell which factors vary.

    Args:
        codes: one code vector per sample, [samples, codes].
        factors: one row of factors per sample, [samples, factors].
        least: number of factors that must vary.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, or fewer than
            ``least`` factors vary.

    Example:
        >>> check_codes_and_factors(torch.rand(2, 1), torch.tensor([[0, 3], [1, 3]]))
        tensor([ True, False])
    """
    check_shapes(codes=(codes, "samples codes"), factors=(factors, "samples factors"))
    if codes.shape[1] == 0:
        raise InputError("`codes` needs at least one code, got none")
    if not all_finite(codes):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    if not all_finite(factors):
        raise InputError("`factors` must be finite, got nan or inf; leave out samples without a value")
    varies = find_varying(factors)
    if int(varies.sum()) < least:
        raise InputError(
            f"at least {least} of the factors must vary among the {len(factors)} samples, got "
            f"{int(varies.sum())}"
        )
    return varies


def all_finite(values: Real[Tensor, "samples columns"]) -> bool:
    """Tell whether no value is nan or infinite, from the sum, which is faster than a test of each value.

    Example:
        >>> all_finite(torch.tensor([[0.0, torch.nan]]))
        False
    """
    # A sum of finite values may overflow.
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


def find_varying(values: Real[Tensor, "samples columns"]) -> Bool[Tensor, " columns"]:
    """Tell for each column whether it has different values, all of which are finite.

    Example:
        >>> find_varying(torch.tensor([[0, 3], [1, 3]]))
        tensor([ True, False])
    """
    if not len(values):
        return torch.zeros(values.shape[1], dtype=torch.bool, device=values.device)
    low, high = values.aminmax(dim=0)
    return low < high


def factor_classes(
    codes: Tensor,
    factors: Tensor,
    bins: int,
    rule: BinRule,
    categorical: Collection[int],
    least: int = 1,
) -> tuple[Int[Tensor, "samples factors"], Bool[Tensor, " factors"]]:
    """Check codes and factors, cut the factors into classes, and tell which have more than one class.

    Args:
        codes: one code vector per sample, [samples, codes].
        factors: one row of factors per sample, [samples, factors].
        bins: see `discretise`.
        rule: see `discretise`.
        categorical: see `discretise`.
        least: number of factors that must have more than one class.

    Raises:
        InputError: see `check_codes_and_factors` and `discretise`.

    Example:
        >>> factor_classes(torch.rand(3, 1), torch.tensor([[0.0], [0.1], [1.0]]), 2, "width", [])[0].T
        tensor([[0, 0, 1]])
    """
    check_codes_and_factors(codes, factors, least)
    classes = discretise(factors, bins, rule, categorical)
    # Quantile bins merge rare values, so that a factor that varies may have one class.
    return classes, check_codes_and_factors(codes, classes, least)


def split_samples(
    training: Bool[Tensor, " samples"] | None, factors: Real[Tensor, "samples factors"]
) -> tuple[Tensor | slice, Tensor | slice, Bool[Tensor, " factors"]]:
    """Return the rows to fit on and the rows to score, as indices, and tell which factors vary in both.

    Args:
        training: true for rows to fit on, the others are scored; None fits and scores all rows.
        factors: one row of factors per sample.

    Raises:
        InputError: ``training`` is not boolean or has another length, or no factor varies among both parts.

    Example:
        >>> split_samples(torch.tensor([True, False, True, False]), torch.tensor([[0], [0], [1], [1]]))
        (tensor([0, 2]), tensor([1, 3]), tensor([True]))
    """
    if training is None:
        return slice(None), slice(None), find_varying(factors)
    check_shapes(training=(training, "samples"), factors=(factors, "samples factors"))
    check_bool(training=training)
    fitted, scored = (part.nonzero().flatten() for part in (training, ~training))
    parts = (factors[fitted], factors[scored])
    varies = torch.stack([find_varying(part) for part in parts]).all(0)
    if not bool(varies.any()):
        raise InputError(
            f"no factor varies both among the {len(fitted)} rows of `training` and the {len(scored)} others"
        )
    return fitted, scored, varies


def standardise(
    values: Real[Tensor, "rows columns"], like: Real[Tensor, "fitted columns"] | None = None
) -> Float[Tensor, "rows columns"]:
    """Shift and scale columns to mean 0 and variance 1, in float64; constant columns become 0.

    Args:
        values: finite values.
        like: rows whose means and standard deviations to use; ``values`` by default.

    Example:
        >>> standardise(torch.tensor([[1.0, 7.0], [3.0, 7.0]]))
        tensor([[-1.,  0.],
                [ 1.,  0.]], dtype=torch.float64)
    """
    rows = (values if like is None else like).double()
    mean = rows.mean(0)
    centred = rows - mean
    scale = torch.linalg.vector_norm(centred, dim=0) / len(rows) ** 0.5
    # The mean of a constant column is its value up to rounding.
    scale[scale <= _ROUNDING * mean.abs()] = torch.inf
    # In place, because memory for another table takes longer than the division itself.
    return (centred if like is None else values.double() - mean).div_(scale)
