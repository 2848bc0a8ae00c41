"""Choose candidates by leaving one object out, and split objects into two halves."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from candlelight.evaluation.results.mean_intervals import distinct_groups, group_numbers
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.mit import MIT_SETS


def choose_left_out(
    scores: Float[ndarray, "rows candidates"], groups: Sequence[str]
) -> Int[ndarray, " rows"]:
    """Choose for each row the candidate with the lowest mean score over the rows of all other groups.

    Args:
        scores: score of each candidate (thresholds of a method) on each row; lower is better. Rows with an
            undefined (nan) score are not counted.
        groups: object or scene of each row.

    Returns:
        Number of the chosen candidate, the first of equals.

    Raises:
        InputError: there are fewer than two groups.

    Example:
        >>> choose_left_out(np.array([[0.0, 1.0], [5.0, 1.0], [0.0, 3.0]]), ["a", "b", "c"]).tolist()
        [1, 0, 1]
    """
    numbers = group_numbers(groups)
    if len(distinct_groups(groups)) < 2:
        raise InputError("leave-one-out needs at least two objects or scenes, got one; add rows")
    chosen = np.empty(len(scores), np.int64)
    defined = ~np.isnan(scores).any(1)
    for group in np.unique(numbers):
        others = scores[defined & (numbers != group)]
        chosen[numbers == group] = others.sum(0).argmin() if len(others) else 0
    return chosen


def two_halves(groups: Sequence[str], seed: int) -> Bool[ndarray, " rows"]:
    """Split rows into two halves by group, for two-fold cross-validation.

    Args:
        groups: object or scene of each row.
        seed: of the random split. Objects of MIT Intrinsic Images are split into the published sets 1 and 2
            instead.

    Returns:
        Whether each row belongs to the first half.

    Raises:
        InputError: there are fewer than two groups.

    Example:
        >>> two_halves(["box", "deer", "cup1"], seed=0).tolist()
        [True, False, True]
    """
    names = distinct_groups(groups)
    if len(names) < 2:
        raise InputError("two-fold cross-validation needs at least two objects or scenes, got one; add rows")
    first = set(MIT_SETS["set1"])
    if not set(names) <= first | set(MIT_SETS["set2"]) or set(names) <= first or not set(names) & first:
        order = np.random.default_rng(seed).permutation(len(names))
        first = {names[number] for number in order[: (len(names) + 1) // 2]}
    return np.array([name in first for name in groups])
