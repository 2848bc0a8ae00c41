"""Compare two models on the same data: the difference of their scores, with an interval."""

import math
import reprlib
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal

from candlelight.evaluation.catalogue.record import direction
from candlelight.evaluation.run.intervals import (
    LEAST_GROUPS,
    LEVEL,
    Score,
    mean_interval,
    mean_p_value,
    replicate_interval,
    replicate_p_value,
    seed_interval,
)
from candlelight.evaluation.run.result import Better, MeanResult, Result, StatisticResult, model_name
from candlelight.loaders.errors import InputError, did_you_mean

# Settings that list all models of a call, and the scores that do not depend on the other models of the call.
_SETTINGS_OF_CALL = ("filled_among", "compared", "ranked_among")
_INDEPENDENT_SCORES = ("lmse", "whdr", "mean_iou")


@dataclass(frozen=True)
class Comparison:
    """A paired difference of two models.

    Attributes:
        metric: name of the metric.
        column: the compared column of a mean, or the compared score of a statistic.
        better: whether lower or higher values are better, or neither.
        first: name of the first model.
        second: name of the second model.
        difference: first minus second, with its 95 % interval; no interval with fewer than 6 units of a kind.
        p_value: two-sided p-value of no difference; nan with fewer than 6 units of a kind, or if it is
            undefined.
        units: number of the units that the interval is over, by kind: groups of rows, or seeds; for CSM
            against controls also scenes and controls.
        counted: a text that says how many rows, groups or seeds were paired.
        reversed_by: controls of CSM against which alone the order is the other one; then no model is better.
        networks: a text on the networks that two methods of explanation explain, if they are different ones.
    """

    metric: str
    column: str
    better: Better
    first: str
    second: str
    difference: Score
    p_value: float
    units: dict[str, int]
    counted: str
    reversed_by: tuple[str, ...] = ()
    networks: str = ""

    @property
    def groups(self) -> int:
        """The smallest number of units of a kind, which decides on interval and p-value."""
        return min(self.units.values())

    @property
    def winner(self) -> Literal["first", "second"] | None:
        """The better model, if the difference is significant at the 5 % level; None if neither is better."""
        if not self.p_value < 1 - LEVEL or self.better == "neither" or self.reversed_by:
            return None
        return "first" if (self.difference.value < 0) == (self.better == "lower") else "second"

    @property
    def _obstacle(self) -> str:
        if not self.groups:
            return "no row is defined in both"
        if few := {kind: str(count) for kind, count in self.units.items() if count < LEAST_GROUPS}:
            return f"expected {LEAST_GROUPS} or more {' and '.join(few)}, got {' and '.join(few.values())}"
        if math.isnan(self.p_value):
            return "undefined values"
        if self.p_value >= 1 - LEVEL:
            return "no difference shown"
        return f"the order is reversed against {', '.join(self.reversed_by)} alone"

    def __str__(self) -> str:
        """Name the better model, or why none is; then give the difference, its interval and the p-value."""
        one, other = self.first, self.second
        if one == other:
            one, other = f"{one} (first)", f"{other} (second)"
        value, low, high = self.difference.value, self.difference.low, self.difference.high
        interval = f"95 % interval {low:+.3g} to {high:+.3g}, p = {self.p_value:.2g}"
        if math.isnan(self.p_value):
            interval = "no interval"
        if self.winner:
            best, rest = (one, other) if self.winner == "first" else (other, one)
            verdict = f"{best} is better than {rest}"
        elif self.p_value < 1 - LEVEL and not self.reversed_by:
            verdict = f"{one} and {other} differ"
        else:
            verdict = f"undecided between {one} and {other}: {self._obstacle}"
        if self.networks:
            verdict = f"{verdict}; {self.networks}"
        arrow = {"lower": " ↓", "higher": " ↑"}.get(self.better, "")
        told = "undefined" if math.isnan(value) else f"{value:+.3g}"
        return f"{verdict}\n{self.column}{arrow}: {one} - {other} = {told} ({interval}, {self.counted})"


def compare(first: Result, second: Result, column: str | None = None) -> Comparison:
    """Compare two models on the same data.

    Means are paired by id over the rows where both are defined; their differences are clustered by group.
    Statistics are paired by their replicates: resamples of the same groups, or the same seeds.

    Args:
        first: result of one model.
        second: result of the other model, of the same kind, metric, data and settings.
        column: column of a mean or score of a statistic; the first one if None.

    Returns:
        The difference and the better model. Between equal models a difference is found in one of twenty
        comparisons, because the level is 5 %. With fewer than 6 groups, or seeds, there is no verdict, nor
        with fewer than 6 of other units that the replicates draw (`StatisticResult.units_of`).

    Raises:
        InputError: the results differ in kind, metric, data, settings or groups; or they have no such column,
            no row in common, or no replicates.

    Example:
        >>> def result(name, values):
        ...     about = Provenance("lmse", 1, "lower", {"name": name}, {}, {}, {})
        ...     return MeanResult(about, tuple("abcdef"), tuple("rstuvw"), {"lmse": values}, failed=())
        >>> from candlelight.evaluation.run.result import Provenance
        >>> flat = result("flat", (0.5, 0.6, 0.75, 0.5, 0.6, 0.7))
        >>> print(compare(flat, result("net", (0.3, 0.4, 0.5, 0.4, 0.5, 0.5))))
        net is better than flat
        lmse ↓: flat - net = +0.175 (95 % interval +0.111 to +0.239, p = 0.00092, 6 rows in 6 groups)
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
        raise InputError(f"expected two results of one metric, got {metrics}: evaluate both in the same way")
    for name in ("metric", "version", "better", "data", "settings"):
        one, other = (
            {key: value for key, value in part.items() if key not in _SETTINGS_OF_CALL}
            if name == "settings"
            else part
            for part in (getattr(first.about, name), getattr(second.about, name))
        )
        # Equal hashes of all rows mean equal data, whatever their names: a pack and its frames, for example.
        same = name == "data" and one.get("sha256") and one["sha256"] == other.get("sha256")
        if one != other and not same:
            raise InputError(
                f"the results differ in {_differing(name, one, other)}: evaluate both in the same way"
            )


def _differing(name: str, one: Any, other: Any) -> str:
    """Name the first entry that differs, with both values."""
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
    """Refuse scores that depend on the other models of a call, unless both results are of one call.

    Such scores are WAIoU, and means of an unbounded error in which failed predictions were filled in.
    """
    keys = [key for key in _SETTINGS_OF_CALL if (key == "ranked_among") == (column == "rank")]
    calls = [
        next((result.about.settings[key] for key in keys if key in result.about.settings), None)
        for result in (first, second)
    ]
    if calls[0] != calls[1] and not column.startswith(_INDEPENDENT_SCORES):
        names = [call or [model_name(result)] for call, result in zip(calls, (first, second), strict=True)]
        raise InputError(
            f"`{column}` depends on all models that were scored in one call, here {names[0]} and {names[1]}: "
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
    one, two = first.columns[column], second.columns[column]
    differences = [one[row] - two[other] for row, other in pairs]
    groups = [first.groups[row] for row, _ in pairs]
    defined = [not math.isnan(difference) for difference in differences]
    rows, count = sum(defined), len(set(compress(groups, defined)))
    counted = f"{rows} rows in {count} groups"
    if left_out := len({*first.ids, *second.ids}) - rows:
        counted += f", without {left_out} rows that are missing or undefined in one result"
    for result in (first, second):
        if result.failed:
            counted += f", {len(result.failed)} predictions of {model_name(result)} failed"
    (least, largest), (others_least, others_largest) = first.range_of(column), second.range_of(column)
    difference = mean_interval(differences, groups).within(least - others_largest, largest - others_least)
    p_value = mean_p_value(differences, groups)
    return _comparison(first, second, column, difference, p_value, {"groups": count}, counted)


def _compare_statistics(first: StatisticResult, second: StatisticResult, column: str) -> Comparison:
    pair = [one.replicates.get(column, ()) for one in (first, second)]
    if not any(pair):
        raise InputError(
            f"`{column}` cannot be compared, because it has no replicates; read its intervals, or choose "
            "another score"
        )
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
        return _comparison(first, second, column, *tested, {"seeds": len(seeds)}, f"{len(seeds)} seeds")
    others = second.units_of(column)  # a rule on significance may keep other sets of each model
    units = {kind: min(count, others[kind]) for kind, count in first.units_of(column).items()}
    least = min(units.values())
    tested = replicate_interval(value, differences, least), replicate_p_value(differences, least)
    counted = ", ".join(f"{count} {kind}" for kind, count in units.items())
    found = _comparison(first, second, column, *tested, units, counted)
    reversing = _reversing_controls(first, second, column, value)
    return replace(found, reversed_by=reversing, networks=_different_networks(first, second))


def _different_networks(first: StatisticResult, second: StatisticResult) -> str:
    """Tell the accuracies of the networks that two methods of explanation explain; empty if it is one."""
    hashes = [result.about.model.get("classifier_sha256") for result in (first, second)]
    calls = [result.about.settings.get("compared") for result in (first, second)]
    networks = [result.details.get("network") for result in (first, second)]
    one_network = hashes[0] == hashes[1] if all(hashes) else calls[0] != calls[1]
    if one_network or not all(networks) or len({network["of"] for network in networks if network}) == 1:
        return ""
    told = [
        f"{model_name(result)} {network['accuracy'][0]:.3g}"
        for result, network in zip((first, second), networks, strict=True)
        if network and "accuracy" in network
    ]
    accuracy = f"accuracy {', '.join(told)}" if told else "of unknown accuracy"
    return f"they explain different networks ({accuracy})"


def _reversing_controls(
    first: StatisticResult, second: StatisticResult, column: str, difference: float
) -> tuple[str, ...]:
    """Name the controls of CSM against which alone the two models are in the other order."""
    one, other = (result.details.get("by_control", {}).get(column, {}) for result in (first, second))
    pairs = {name: (one[name], other[name]) for name in one if name in other}
    return tuple(
        name
        for name, pair in pairs.items()
        if None not in pair and (float(pair[0]) - float(pair[1])) * difference < 0  # infinity is a text here
    )


def _comparison(
    first: Result,
    second: Result,
    column: str,
    difference: Score,
    p_value: float,
    units: dict[str, int],
    counted: str,
) -> Comparison:
    about = first.about
    if min(units.values()) < LEAST_GROUPS:
        difference, p_value = Score(difference.value, math.nan, math.nan), math.nan
    names = model_name(first), model_name(second)
    return Comparison(
        about.metric, column, direction(about.better, column), *names, difference, p_value, units, counted
    )
