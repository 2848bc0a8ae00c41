"""Confidence intervals and p-values of means over groups of rows.

Rows of one scene, object or unit depend on each other, but groups are independent. `docs/intervals.md` lists
which metric uses which interval, and the measured coverage of each. For other statistics than means see
`candlelight.evaluation.results.resampled_intervals`.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from scipy.special import stdtr, stdtrit

from candlelight.evaluation.results.json_values import JSONNumber, canonical_nan
from candlelight.loaders.errors import InputError

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
