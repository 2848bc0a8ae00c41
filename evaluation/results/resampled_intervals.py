"""Confidence intervals and p-values of any statistic, from resampled groups of rows."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from candlelight.evaluation.results.mean_intervals import LEVEL, Score, group_numbers
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bars import progress_bar

RESAMPLES = 2000
SUBSAMPLE = 0.7  # share of the groups in a subsample; with 0.5 the spread of IRS is a sixth too small
# Fewer groups are not resampled: all n groups lie on one side of the true value in 2 of 2^n samples, which
# is more than 5 % for n = 5.
LEAST_GROUPS = 6
LEAST_DEFINED = 0.95  # share of replicates that must be defined: the defined ones alone spread too little


def resampled_groups(count: int, seed: int, resamples: int = RESAMPLES) -> Int[ndarray, "resamples count"]:
    """Draw ``count`` groups with replacement for each replicate; equal seeds give equal draws.

    Example:
        >>> resampled_groups(3, seed=0, resamples=2).shape
        (2, 3)
    """
    return np.random.default_rng(seed).integers(count, size=(resamples, count))


def resampled_interval(
    statistic: Callable[[Int[ndarray, " rows"]], Mapping[str, float]],
    groups: Sequence[str],
    seed: int,
    resamples: int = RESAMPLES,
    repeats: bool = True,
    units: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[dict[str, Score], dict[str, tuple[float, ...]]]:
    """Recompute statistics on resampled groups; the rows of a group stay together.

    Args:
        statistic: maps row numbers, some of which may repeat, to numbers by name; called ``resamples`` + 1
            times.
        groups: the group of each row, at least one.
        seed: seed of the resampling; two models are compared on the same resamples.
        resamples: number of resamples.
        repeats: True draws all groups with replacement. False is for a statistic that is biased by repeated
            rows, such as a quantile within small classes: it draws a share `SUBSAMPLE` of the groups without
            replacement, scales the deviations of the replicates from their mean to the size of the whole data
            (the delete-d jackknife, Shao and Wu 1989) and centres them on the statistic of all rows.
        units: for a statistic that itself draws other units with each choice of rows, their number by kind,
            such as ``{"csm_s": {"scenes": 8}}``; the smallest number decides on the interval.

    Returns:
        Each statistic of all rows with its interval (see `replicate_interval`), and its replicates.

    Raises:
        InputError: no rows, or fewer than one resample.

    Example:
        >>> values = np.array([1.0, 2.0, 3.0, 4.0])
        >>> def top(rows):
        ...     return {"top": float(values[rows].max())}
        >>> scores, replicates = resampled_interval(top, ["a", "a", "b", "c"], seed=0, resamples=5)
        >>> scores["top"].value, replicates["top"]
        (4.0, (4.0, 2.0, 2.0, 4.0, 4.0))
    """
    if not len(groups) or resamples < 1:
        raise InputError(f"expected rows and resamples, got {len(groups)} rows, {resamples} resamples")
    numbers = group_numbers(groups)
    members = [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
    whole = statistic(np.arange(len(numbers)))
    draws = resampled_groups(len(members), seed, resamples)
    kept = max(1, round(SUBSAMPLE * len(members)))
    if not repeats:
        draws = np.random.default_rng(seed).random((resamples, len(members))).argsort(1)[:, :kept]
    bar = progress_bar(draws, desc="intervals", unit="resample", delay=1)
    drawn = [statistic(np.concatenate([members[group] for group in draw])) for draw in bar]
    replicates = {name: tuple(float(one[name]) for one in drawn) for name in whole}
    if not repeats:
        scale = math.sqrt(kept / max(1, len(members) - kept))
        replicates = {name: _centred(float(whole[name]), some, scale) for name, some in replicates.items()}
    scores = {
        name: replicate_interval(
            float(value), replicates[name], min([len(members), *(units or {}).get(name, {}).values()])
        )
        for name, value in whole.items()
    }
    return scores, replicates


def _centred(value: float, replicates: Sequence[float], scale: float) -> tuple[float, ...]:
    """Scale the deviations of replicates from their mean, and centre them on a value."""
    column = np.asarray(replicates, dtype=np.float64)
    finite = column[np.isfinite(column)]
    return tuple((value + scale * (column - finite.mean())).tolist()) if len(finite) else tuple(replicates)


def replicate_interval(value: float, replicates: Sequence[float], groups: int) -> Score:
    """Compute the expanded percentile interval of a statistic from its replicates.

    Ordinary percentile intervals of n resampled groups are too narrow, like a normal interval that uses the
    sample variance of n values. Expanded ones (Hesterberg 2015, "What teachers should know about the
    bootstrap") use the percentiles ``Phi(+-t sqrt(n / (n - 1)))``, where t is the quantile of Student's
    distribution with n - 1 degrees of freedom. They stay within the range of the statistic. Resamples of
    fewer than 6 groups spread too little for a 95 % interval.

    Args:
        value: the statistic of all rows.
        replicates: the statistic of resampled groups; undefined (nan) replicates are left out.
        groups: number of resampled groups; of several kinds of units, the smallest number.

    Returns:
        The interval is nan if the value is nan, with fewer than 6 groups, or if fewer than 95 % of the
        replicates are defined.

    Example:
        >>> replicate_interval(0.5, [0.4, 0.5, 0.6], groups=6)
        Score(value=0.5, low=0.4, high=0.6)
    """
    kept = _defined(replicates)
    if math.isnan(value) or groups < LEAST_GROUPS or not len(kept):
        return Score(value, math.nan, math.nan)
    place = float(ndtr(stdtrit(groups - 1, (1 + LEVEL) / 2) * math.sqrt(groups / (groups - 1))))
    # Percentiles without interpolation, because one of two neighbouring replicates may be infinite.
    low = np.quantile(kept, 1 - place, method="lower")
    high = np.quantile(kept, place, method="higher")
    return Score(value, float(low), float(high))


def replicate_p_value(differences: Sequence[float], groups: int) -> float:
    """Compute the two-sided p-value of no difference, consistent with `replicate_interval`.

    Args:
        differences: replicates of a difference; undefined (nan) replicates are left out.
        groups: as for `replicate_interval`.

    Returns:
        1 if all differences are 0; nan if `replicate_interval` gives no interval.

    Example:
        >>> replicate_p_value([-1.0, 1.0], groups=8)
        1.0
    """
    kept = _defined(differences)
    if groups < LEAST_GROUPS or not len(kept):
        return math.nan
    # Ties count half. The added half keeps the p-value above 0, as the number of replicates is finite.
    below = (kept < 0).sum() + (kept == 0).sum() / 2
    place = ndtri((below + 0.5) / (len(kept) + 1))
    return float(2 * stdtr(groups - 1, -abs(place) * math.sqrt((groups - 1) / groups)))


def _defined(replicates: Sequence[float]) -> Float64[ndarray, " defined"]:
    """Return the replicates that are not nan; an empty array if they are too few."""
    column = np.asarray(replicates, dtype=np.float64)
    kept = column[~np.isnan(column)]
    return kept if len(kept) >= LEAST_DEFINED * len(column) else kept[:0]
