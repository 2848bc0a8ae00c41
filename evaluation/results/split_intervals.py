"""Confidence intervals of scores that are fitted on some groups of rows and computed on the others."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool
from numpy import ndarray
from scipy.special import stdtrit

from candlelight.evaluation.results.mean_intervals import LEVEL, Score, group_numbers
from candlelight.loaders.errors import InputError


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
