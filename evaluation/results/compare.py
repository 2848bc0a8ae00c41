"""Whether one of two models is better on the same data, with an interval of the difference."""

import math
import reprlib
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal

from evaluation.results.intervals import (
    LEVEL,
    Score,
    mean_interval,
    mean_p_value,
    replicate_interval,
    replicate_p_value,
    seed_interval,
)
from evaluation.results.result import Better, MeanResult, Result, StatisticResult, model_name
from loaders.errors import InputError, did_you_mean

# Settings that name the models of a call, and scores that do not depend on them.
_TOGETHER = ("filled_among", "compared")
_BOUNDED = ("lmse", "whdr", "mean_iou")


@dataclass(frozen=True)
class Comparison:
    """A paired difference of two models.

    Attributes:
        metric: name of the metric.
        column: the column of a mean, or the score of a statistic, that is compared.
        better: whether lower or higher values are better.
        first: name of the first model.
        second: name of the second model.
        difference: first minus second, with its 95 % interval.
        p_value: two-sided, of no difference; nan if that cannot be told.
        groups: groups of rows, or seeds, that the interval is over.
        counted: what was paired, in words.
    """

    metric: str
    column: str
    better: Better
    first: str
    second: str
    difference: Score
    p_value: float
    groups: int
    counted: str

    @property
    def winner(self) -> Literal["first", "second"] | None:
        """Which model is better at the level of 5 %; None if neither is shown to be."""
        if not self.p_value < 1 - LEVEL:
            return None
        return "first" if (self.difference.value < 0) == (self.better == "lower") else "second"

    def __str__(self) -> str:
        """Say who is better, then give the difference, its interval and the p-value."""
        one, other = self.first, self.second
        if one == other:
            one, other = f"{one} (first)", f"{other} (second)"
        value, low, high = self.difference.value, self.difference.low, self.difference.high
        interval = f"95 % interval {low:+.3g} to {high:+.3g}, p = {self.p_value:.2g}"
        verdict = f"no difference shown between {one} and {other}"
        if math.isnan(self.p_value):
            verdict = f"no telling whether {one} or {other} is better"
            interval = "no interval"
        elif self.winner:
            best, rest = (one, other) if self.winner == "first" else (other, one)
            verdict = f"{best} is better than {rest}"
        arrow = "↓" if self.better == "lower" else "↑"
        return (
            f"{verdict}\n{self.column} {arrow}: {one} - {other} = {value:+.3g} ({interval}, {self.counted})"
        )


def compare(first: Result, second: Result, column: str | None = None) -> Comparison:
    """Compare two models on the same data.

    Means are paired by id over the rows that both define, and their differences clustered by group.
    Statistics are paired by their replicates: resamples of the same groups, or the same seeds.

    Args:
        first: result of one model.
        second: result of the other, of the same kind, metric, data and settings.
        column: column of a mean or score of a statistic; the headline metric if None.

    Returns:
        The difference and who is better, one in twenty of which is found where there is none.

    Raises:
        InputError: the results differ in kind, metric, data, settings or groups, have no such column, no row
            in common, or no replicates.

    Example:
        >>> def result(name, values):
        ...     about = Provenance("lmse", 1, "lower", {"name": name}, {}, {}, {})
        ...     return MeanResult(about, tuple("abc"), tuple("rst"), {"lmse": values}, failed=())
        >>> from evaluation.results.result import Provenance
        >>> print(compare(result("flat", (0.5, 0.6, 0.75)), result("net", (0.3, 0.4, 0.5))))
        net is better than flat
        lmse ↓: flat - net = +0.217 (95 % interval +0.145 to +0.288, p = 0.0059, 3 rows in 3 groups)
    """
    _check_alike(first, second)
    name = _column(first, second, column)
    _check_together(first, second, name)
    if isinstance(first, MeanResult) and isinstance(second, MeanResult):
        return _compare_means(first, second, name)
    assert isinstance(first, StatisticResult)  # for the type checker: both are of one kind
    assert isinstance(second, StatisticResult)
    return _compare_statistics(first, second, name)


def _check_alike(first: Result, second: Result) -> None:
    if type(first) is not type(second):
        metrics = f"`{first.about.metric}` and `{second.about.metric}`"
        raise InputError(f"expected two results of one metric, got {metrics}: evaluate both alike")
    for name in ("metric", "version", "better", "data", "settings"):
        one, other = (
            {key: value for key, value in part.items() if key not in _TOGETHER}
            if name == "settings"
            else part
            for part in (getattr(first.about, name), getattr(second.about, name))
        )
        # The hash of all rows tells more than their names: a pack and its frames are the same data.
        same = name == "data" and one.get("sha256") and one["sha256"] == other.get("sha256")
        if one != other and not same:
            raise InputError(f"the results differ in {_differing(name, one, other)}: evaluate both alike")


def _differing(name: str, one: Any, other: Any) -> str:
    """Name the first entry that differs, and both its values."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = ((key, one.get(key, "nothing"), other.get(key, "nothing")) for key in sorted({*one, *other}))
        key, one, other = next(pair for pair in pairs if pair[1] != pair[2])
        return _differing(f"{name}.{key}", one, other)
    return f"{name}, {reprlib.repr(one)} and {reprlib.repr(other)}"


def _column(first: Result, second: Result, column: str | None) -> str:
    shared = [name for name in first.scores if name in second.scores]
    name = next(iter(first.scores)) if column is None else column
    if name not in shared:
        raise InputError(
            f"no column `{name}` in both results; expected one of {', '.join(shared)}"
            f"{did_you_mean(name, shared)}"
        )
    return name


def _check_together(first: Result, second: Result, column: str) -> None:
    """Refuse scores that depend on the models of the call, unless both are of one call.

    These are WAIoU, and values put in for failed predictions where a score has no bound.
    """
    ours, theirs = (
        next((result.about.settings[key] for key in _TOGETHER if key in result.about.settings), None)
        for result in (first, second)
    )
    if ours != theirs and not column.startswith(_BOUNDED):
        names = [some or [model_name(result)] for some, result in ((ours, first), (theirs, second))]
        raise InputError(
            f"`{column}` is relative to the models that were scored together, {names[0]} and {names[1]}: "
            "score all of them in one call"
        )


def _compare_means(first: MeanResult, second: MeanResult, column: str) -> Comparison:
    place = {name: row for row, name in enumerate(second.ids)}
    pairs = [(row, place[name]) for row, name in enumerate(first.ids) if name in place]
    if not pairs:
        raise InputError(
            "expected results of the same rows, got none in common: evaluate both on the same rows"
        )
    for row, other in pairs:
        if first.groups[row] != second.groups[other]:
            raise InputError(
                f"row `{first.ids[row]}` belongs to group `{first.groups[row]}` in one result and to "
                f"`{second.groups[other]}` in the other: evaluate both on the same data"
            )
    ours, theirs = first.columns[column], second.columns[column]
    differences = [ours[row] - theirs[other] for row, other in pairs]
    groups = [first.groups[row] for row, _ in pairs]
    defined = [not math.isnan(one) for one in differences]
    rows, count = sum(defined), len(set(compress(groups, defined)))
    counted = f"{rows} rows in {count} groups"
    if left_out := len({*first.ids, *second.ids}) - rows:
        counted += f", {left_out} rows that one lacks or does not define left out"
    for result in (first, second):
        if result.failed:
            counted += f", {len(result.failed)} predictions of {model_name(result)} failed"
    tested = mean_interval(differences, groups), mean_p_value(differences, groups)
    return _comparison(first, second, column, *tested, count, counted)


def _compare_statistics(first: StatisticResult, second: StatisticResult, column: str) -> Comparison:
    pair = [one.replicates.get(column, ()) for one in (first, second)]
    if not pair[0] or len(pair[0]) != len(pair[1]) or first.groups != second.groups:
        counts = " and ".join(f"{len(one)}" for one in pair)
        raise InputError(
            f"expected equal numbers of replicates of `{column}` on the same groups, got {counts}: "
            "evaluate both on the same rows"
        )
    differences = [one - other for one, other in zip(*pair, strict=True)]
    value = first.scores[column].value - second.scores[column].value
    if not first.groups:
        seeds = [str(seed) for seed in range(len(differences))]
        tested = seed_interval(differences), mean_p_value(differences, seeds)
        return _comparison(first, second, column, *tested, len(seeds), f"{len(seeds)} seeds")
    count = len(first.groups)
    tested = replicate_interval(value, differences, count), replicate_p_value(differences, count)
    return _comparison(first, second, column, *tested, count, f"{count} groups")


def _comparison(
    first: Result, second: Result, column: str, difference: Score, p_value: float, groups: int, counted: str
) -> Comparison:
    about = first.about
    names = model_name(first), model_name(second)
    return Comparison(about.metric, column, about.better, *names, difference, p_value, groups, counted)
