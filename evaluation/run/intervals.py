"""Confidence intervals and p-values: of means over groups, of resampled statistics, and of random halves.

Rows of one scene, object or unit depend on each other, but groups are independent. `docs/intervals.md` lists
which metric uses which interval, and the measured coverage of each.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from numpy import ndarray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from candlelight.evaluation.run.json_values import JSONNumber, canonical_nan
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bars import progress_bar

LEVEL = 0.95


@dataclass(frozen=True)
class Score:
    """A number and its 95 % interval; each of the three is nan if it is undefined.

    Example:
        >>> Score(0.5, 0.4, 0.6).value
        0.5
    """

    value: JSONNumber
    low: JSONNumber
    high: JSONNumber

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            object.__setattr__(self, name, canonical_nan(getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        # As tuples, in which one nan equals itself: since Python 3.13 a data class compares number by number.
        return isinstance(other, Score) and astuple(self) == astuple(other)

    def within(self, least: float, largest: float) -> "Score":
        """Cut the interval at the range of the score.

        The true value lies in the range, so the cut interval holds it as often as the whole one.

        Args:
            least: smallest possible value.
            largest: largest possible value.

        Example:
            >>> Score(0.5, -0.2, 1.2).within(0, 1)
            Score(value=0.5, low=0.0, high=1.0)
        """
        if math.isnan(self.low):
            return self
        # A value that rounding has put outside stays in its interval.
        low, high = min(self.value, max(self.low, least)), max(self.value, min(self.high, largest))
        return Score(self.value, low, high)


class ClusteredMean(NamedTuple):
    """A mean over rows, its standard error over groups, and the number of groups with a defined row."""

    mean: float
    error: float
    groups: int


def clustered_mean(values: Sequence[float], groups: Sequence[str]) -> ClusteredMean:
    """Compute the mean over rows, and its standard error by the jackknife over groups.

    The variance for G groups is ``(G - 1) / G sum_g (r_g / (n - n_g))^2``, where r_g is the sum of the
    residuals of group g, n_g its number of rows and n the number of all rows: r_g / (n - n_g) is the change
    of the mean when the group is left out. With one row in each group this is the usual variance of a mean.

    Args:
        values: one value for each row; undefined (nan) rows are left out.
        groups: the group of each row.

    Returns:
        Mean and error are nan without a defined row. The error is nan with one group, or if a value is not
        finite.

    Raises:
        InputError: the numbers of values and groups differ.

    Example:
        >>> clustered_mean([1.0, 3.0, math.nan], ["a", "b", "b"])
        ClusteredMean(mean=2.0, error=1.0, groups=2)
    """
    if len(values) != len(groups):
        raise InputError(f"expected one group for each value, got {len(groups)} groups, {len(values)} values")
    column = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(column)
    kept, numbers = column[defined], group_numbers(groups)[defined]
    if not len(kept):
        return ClusteredMean(math.nan, math.nan, 0)
    mean = float(kept.sum() / len(kept))
    rows = np.bincount(numbers)
    rows = rows[rows > 0]
    if len(rows) < 2 or not math.isfinite(mean):
        return ClusteredMean(mean, math.nan, len(rows))
    residuals = np.bincount(numbers, kept - mean)[np.unique(numbers)]
    variance = (len(rows) - 1) / len(rows) * ((residuals / (len(kept) - rows)) ** 2).sum()
    return ClusteredMean(mean, float(np.sqrt(variance)), len(rows))


def mean_interval(values: Sequence[float], groups: Sequence[str], level: float = LEVEL) -> Score:
    """Compute a mean over rows with its t interval over groups; see `clustered_mean`.

    Args:
        values: one value for each row; undefined (nan) rows are left out.
        groups: the group of each row.
        level: confidence level between 0 and 1.

    Returns:
        The interval is nan with fewer than two groups, or if a value is not finite. It is not cut at the
        range of the values: see `Score.within`.

    Raises:
        InputError: the numbers of values and groups differ, or the level is out of range.

    Example:
        >>> mean_interval([0.0, 2.0, 1.0, 1.0], ["a", "a", "b", "c"])
        Score(value=1.0, low=1.0, high=1.0)
    """
    if not 0 < level < 1:
        raise InputError(f"`level` must lie between 0 and 1, got {level}")
    mean, error, count = clustered_mean(values, groups)
    reach = float(stdtrit(count - 1, (1 + level) / 2)) * error if count > 1 else math.nan
    return Score(mean, mean - reach, mean + reach)


def mean_p_value(values: Sequence[float], groups: Sequence[str]) -> float:
    """Compute the two-sided p-value of a mean of zero, consistent with `mean_interval`.

    Args:
        values: one value for each row; undefined (nan) rows are left out.
        groups: the group of each row.

    Returns:
        1 if all values are 0; nan if `mean_interval` gives no interval.

    Raises:
        InputError: the numbers of values and groups differ.

    Example:
        >>> mean_p_value([1.0, -1.0, 0.0], ["a", "b", "c"])
        1.0
    """
    mean, error, count = clustered_mean(values, groups)
    if math.isnan(error):
        return math.nan
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stdtr(count - 1, -abs(mean) / error))


def seed_interval(values: Sequence[float]) -> Score:
    """Compute the mean over seeds with its t interval, which describes other seeds on the same data.

    Args:
        values: one value for each seed. If one is infinite, the interval is nan; if one is nan, the mean is
            nan too.

    Example:
        >>> seed_interval([0.25, 0.75]).value
        0.5
    """
    if any(map(math.isnan, values)):
        return Score(math.nan, math.nan, math.nan)
    return mean_interval(values, [str(seed) for seed in range(len(values))])


def distinct_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """List each group once, in order of first occurrence, which is the order of resampling.

    Example:
        >>> distinct_groups(["b", "a", "b"])
        ('b', 'a')
    """
    return tuple(dict.fromkeys(groups))


def group_numbers(groups: Sequence[str]) -> Int[ndarray, " rows"]:
    """Return the number of each row's group, in the order of `distinct_groups`.

    Example:
        >>> group_numbers(["b", "a", "b"])
        array([0, 1, 0])
    """
    order = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return np.array([order[group] for group in groups], dtype=np.int64)


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


def split_groups(groups: Sequence[str], splits: int, seed: int) -> list[Bool[ndarray, " rows"]]:
    """Choose half of the groups at random for each split; the rows of a group stay together.

    Args:
        groups: group of each row.
        splits: number of splits.
        seed: seed of the choices.

    Returns:
        For each split, true for the rows to fit on.

    Raises:
        InputError: there are fewer than two groups, or fewer than two splits.

    Example:
        >>> [chosen.tolist() for chosen in split_groups(["a", "a", "b"], 2, seed=0)]
        [[True, True, False], [True, True, False]]
    """
    numbers = group_numbers(groups)
    count = int(numbers.max(initial=-1)) + 1
    if count < 2 or splits < 2:
        raise InputError(f"expected two groups and two splits or more, got {count} groups, {splits} splits")
    draws = np.random.default_rng(seed)
    return [draws.permutation(count)[numbers] < (count + 1) // 2 for _ in range(splits)]


def split_interval(values: Sequence[float]) -> Score:
    """Compute the mean of the scores of random halves, and its corrected interval.

    The rows of the halves overlap, so that the usual standard error of the mean is far too small. Nadeau and
    Bengio 2003 (Inference for the Generalization Error, Machine Learning 52), sec. 3: the variance of the
    mean of J splits is estimated as ``(1 / J + scored / fitted)`` times the sample variance,
    here (1 / J + 1), with Student's distribution of J - 1 degrees of freedom.

    Args:
        values: score of each split; nan if the score is undefined there.

    Returns:
        Undefined (nan) if the score of a split is. A single split has no interval.

    Example:
        >>> split_interval([0.5, 0.5, 0.5]), split_interval([0.4, math.nan]).value
        (Score(value=0.5, low=0.5, high=0.5), nan)
        >>> round(split_interval([0.4, 0.6]).high, 2)
        2.7
    """
    column = np.asarray(values, dtype=np.float64)
    if not np.isfinite(column).all():
        return Score(math.nan, math.nan, math.nan)
    number = len(column)
    if number == 1:
        return Score(float(column[0]), math.nan, math.nan)
    error = math.sqrt((1 / number + 1) * column.var(ddof=1)) if np.ptp(column) else 0.0
    reach = float(stdtrit(number - 1, (1 + LEVEL) / 2)) * error
    mean = float(column.mean())
    return Score(mean, mean - reach, mean + reach)
