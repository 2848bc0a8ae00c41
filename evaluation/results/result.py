"""The two kinds of result that evaluations return: a mean over rows, and a statistic of all rows.

`evaluation.results.result_files` writes and reads them, `evaluation.results.compare` compares two.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float64
from numpy import ndarray

from evaluation.results.intervals import Score as Score
from evaluation.results.intervals import mean_interval
from evaluation.results.json_values import JSONNumber, to_csv, to_json, to_json_values, with_canonical_nan
from loaders.errors import InputError

Better = Literal["lower", "higher"]
_PRINTED_LINES = 18  # of a result that is printed, below its heading
_NAME_LENGTH = 40  # characters of a model's name in a table


@dataclass(frozen=True)
class Provenance:
    """Origin of a result.

    Attributes:
        metric: its name, such as `lmse`.
        version: of the metric; raised when the same input gives other numbers.
        better: whether lower or higher values are better, in all columns and scores.
        model: identity of the model with what belongs to it alone, such as its layer; ``name`` is printed.
        data: identity of the data.
        settings: arguments that change the numbers of any model, with the seed if one is drawn from.
        packages: versions, see `package_versions`.
    """

    metric: str
    version: int
    better: Better
    model: dict[str, Any]
    data: dict[str, Any]
    settings: dict[str, Any]
    packages: dict[str, Any]

    def __post_init__(self) -> None:
        # Sorted, for the order of these names has no meaning and equal results shall have equal bytes.
        for name in ("model", "data", "settings", "packages"):
            text = json.dumps(to_json_values(getattr(self, name)), sort_keys=True)
            object.__setattr__(self, name, json.loads(text))


@dataclass(frozen=True, repr=False)
class MeanResult:
    """A mean over rows, such as LMSE or WHDR.

    Attributes:
        about: origin of the result.
        ids: one for each row, unique.
        groups: scene, object or unit of each row; intervals are over groups.
        columns: values of each row by name, the headline metric first; nan where the truth is undefined: such
            rows are left out of the mean and counted.
        failed: ids of rows whose prediction failed; their values are those of `fill_failures`.

    Raises:
        InputError: no column, unequal lengths, an id twice, or failed ids that are no rows.

    Example:
        >>> about = Provenance("lmse", 1, "lower", {"name": "flat"}, {"name": "demo"}, {}, {})
        >>> result = MeanResult(about, ("a", "b"), ("s", "t"), {"lmse": (0.25, 1.0)}, failed=("b",))
        >>> result.score, result.mean_of_rest
        (0.625, {'lmse': 0.25})
    """

    about: Provenance
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    columns: dict[str, tuple[JSONNumber, ...]]
    failed: tuple[str, ...]

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()} | {"groups": len(self.groups)}
        if not self.columns or set(lengths.values()) != {len(self.ids)}:
            raise InputError(f"expected columns and groups of {len(self.ids)} rows, as `ids`, got {lengths}")
        if len(set(self.ids)) < len(self.ids):
            raise InputError("expected each id once in `ids`")
        if surplus := set(self.failed) - set(self.ids):
            raise InputError(f"`failed` must hold ids of rows, got `{min(surplus)}`")
        object.__setattr__(self, "columns", with_canonical_nan(self.columns))

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Mean of each column over the rows where it is defined, with its interval over groups."""
        return {name: mean_interval(column, self.groups) for name, column in self.columns.items()}

    @property
    def score(self) -> float:
        """Mean of the headline metric."""
        return next(iter(self.scores.values())).value

    @property
    def undefined(self) -> int:
        """Rows where the headline metric is undefined."""
        return _undefined(next(iter(self.columns.values())))

    @cached_property
    def mean_of_rest(self) -> dict[str, float]:
        """Mean of each column without the failed rows."""
        lost = set(self.failed)
        kept = [row for row, name in enumerate(self.ids) if name not in lost]
        groups = [self.groups[row] for row in kept]
        return {
            name: mean_interval([column[row] for row in kept], groups).value
            for name, column in self.columns.items()
        }

    def to_json(self) -> str:
        """Give strict JSON: nan is null, infinity "inf"; the scores stand beside what they are made of."""
        content = {
            "kind": "mean",
            "about": self.about,
            "scores": self.scores,
            "mean_of_rest": self.mean_of_rest,
            "undefined": self.undefined,
            "failed": self.failed,
            "columns": self.columns,
            "ids": self.ids,
            "groups": self.groups,
        }
        return to_json(content)

    def to_csv(self) -> str:
        """Give a line for each row: id, group, columns, and whether the prediction failed."""
        lost = set(self.failed)
        failed = ["true" if name in lost else "false" for name in self.ids]
        lines = zip(self.ids, self.groups, *self.columns.values(), failed, strict=True)
        return to_csv([("id", "group", *self.columns, "failed"), *lines])

    def __repr__(self) -> str:
        return _printed(self)


@dataclass(frozen=True, repr=False)
class StatisticResult:
    """A statistic of all rows, such as CSM, IRS, DCI or WAIoU.

    Attributes:
        about: origin of the result.
        scores: values with their intervals by name, the headline metric first.
        replicates: scores recomputed on resampled groups, or of each seed, for paired comparison.
        groups: distinct groups in the order of resampling; empty if the replicates are over seeds.
        failed: ids or names of what failed, such as dead maps.
        details: tables that a report draws, of dictionaries, lists, strings and numbers.

    Raises:
        InputError: no score, or replicates without a score.

    Example:
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {"name": "demo"}, {}, {})
        >>> StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {}).score
        0.5
    """

    about: Provenance
    scores: dict[str, Score]
    replicates: dict[str, tuple[JSONNumber, ...]]
    groups: tuple[str, ...]
    failed: tuple[str, ...]
    details: dict[str, Any]

    def __post_init__(self) -> None:
        if not self.scores or self.replicates.keys() - self.scores.keys():
            raise InputError(f"expected `scores` of {list(self.replicates)} or more, got {list(self.scores)}")
        object.__setattr__(self, "replicates", with_canonical_nan(self.replicates))
        object.__setattr__(self, "details", to_json_values(self.details))

    @property
    def score(self) -> float:
        """Value of the headline metric."""
        return next(iter(self.scores.values())).value

    def to_json(self) -> str:
        """Give strict JSON: nan is null, infinity "inf"."""
        names = ("about", "scores", "failed", "details", "groups", "replicates")
        return to_json({"kind": "statistic", **{name: getattr(self, name) for name in names}})

    def to_csv(self) -> str:
        """Give a line for each score: its name, value and interval."""
        lines = [(name, one.value, one.low, one.high) for name, one in self.scores.items()]
        return to_csv([("score", "value", "low", "high"), *lines])

    def __repr__(self) -> str:
        return _printed(self)


Result = MeanResult | StatisticResult


def package_versions() -> dict[str, str]:
    """Give the versions of the packages that the numbers depend on.

    Example:
        >>> list(package_versions())
        ['candlelight', 'torch', 'numpy']
    """
    return {name: version(name) for name in ("candlelight", "torch", "numpy")}


def fill_failures(
    errors: Mapping[str, Float[ndarray, "columns rows"]],
    failed: Mapping[str, Bool[ndarray, " rows"]],
    zeros: Float[ndarray, "columns rows"],
) -> dict[str, Float64[ndarray, "columns rows"]]:
    """Put the worst error where a prediction failed, so that no model gains by failing.

    It is the worse of the error of the all-zero prediction on that row, and the worst finite row of any model
    compared. An all-zero prediction has the largest LMSE there is, 1.

    Args:
        errors: of each model, lower is better. Those of failed predictions are not read.
        failed: for each model, the rows whose prediction failed.
        zeros: errors of the all-zero prediction, or the bound where an error has one (WHDR: 1); nan where the
            truth is undefined, and so stay the errors there.

    Returns:
        The errors of each model with those of failed predictions filled in.

    Example:
        >>> lost = np.array([True, False])
        >>> fill_failures({"net": np.array([[0.0, 4.0]])}, {"net": lost}, np.array([[2.0, 3.0]]))
        {'net': array([[4., 4.]])}
    """
    read = [np.where(failed[name] | ~np.isfinite(some), -np.inf, some) for name, some in errors.items()]
    worst = np.maximum(zeros, np.concatenate(read, axis=1).max(axis=1, keepdims=True))
    return {name: np.where(failed[name], worst, some).astype(np.float64) for name, some in errors.items()}


def model_name(result: Result) -> str:
    """Name the model of a result as tables do."""
    return str(result.about.model.get("name", "?"))


def table(results: Sequence[Result]) -> str:
    """Lay out the scores of results: an arrow says what is better; columns that no result fills are left out.

    Example:
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {}, {}, {})
        >>> print(table([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, ("a", "b"), (), {})]))
        model  metric  value  95 % interval  groups  failed
        vae    irs ↑   0.5    0.4 to 0.6     2       0
    """
    header = "model", "metric", "value", "95 % interval", "without failed"
    header_of_counts = "rows", "groups", "failed", "undefined"
    lines = [line for result in results for line in _table_lines(result)]
    columns = [c for c in zip(header + header_of_counts, *lines, strict=True) if any(c[1:])]
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*columns, strict=True)
    )


def _table_lines(result: Result) -> list[tuple[str, ...]]:
    name = model_name(result)
    name = name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
    arrow = "↓" if result.about.better == "lower" else "↑"
    groups = str(len(set(result.groups)) or "")
    lines: list[tuple[str, ...]] = []
    for metric, score in result.scores.items():
        interval = "" if math.isnan(score.low) else f"{score.low:.4g} to {score.high:.4g}"
        rest = rows = undefined = ""
        if isinstance(result, MeanResult):
            rest = _number(result.mean_of_rest[metric]) if result.failed else ""
            rows, undefined = str(len(result.ids)), str(_undefined(result.columns[metric]))
        value = _number(score.value)
        counts = rows, groups, str(len(result.failed)), undefined
        lines.append((name, f"{metric} {arrow}", value, interval, rest, *counts))
    return lines


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4g}"


def _printed(result: Result) -> str:
    about = result.about
    where = ", ".join(str(about.data[name]) for name in ("name", "set_name", "split") if about.data.get(name))
    lines = [f"{about.metric} (version {about.version}) on {where or 'data without a name'}"]
    lines += table([result]).splitlines()
    more = len(lines) - _PRINTED_LINES
    return "\n".join([*lines[:_PRINTED_LINES], *([f"... and {more} more"] if more > 0 else [])])


def _undefined(column: Sequence[float]) -> int:
    return sum(map(math.isnan, column))
