"""Results of an evaluation.

Means over rows, statistics of all rows, their notes, tables and means over seeds.

`candlelight.evaluation.run.result_files` writes and reads results; `candlelight.evaluation.run.compare`
compares two.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64
from numpy import ndarray

from candlelight.evaluation.catalogue.record import Better as Better
from candlelight.evaluation.catalogue.record import Directions as Directions
from candlelight.evaluation.catalogue.record import direction
from candlelight.evaluation.run.intervals import Score as Score
from candlelight.evaluation.run.intervals import mean_interval, seed_interval
from candlelight.evaluation.run.json_values import (
    JSONNumber,
    to_csv,
    to_json,
    to_json_values,
    with_canonical_nan,
)
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable
from candlelight.version import code_version

_PRINTED_LINES = 18  # of a printed result, below its heading
_NAME_LENGTH = 40  # characters of a model's name in a table


@dataclass(frozen=True)
class Provenance:
    """Origin of a result: metric, model, data, settings and versions.

    Attributes:
        metric: name of the metric, such as `lmse`.
        version: version of the metric; it is raised when the same input gives other numbers.
        better: whether lower or higher values are better, in all columns and scores or by their names;
            "neither" for a score that describes a model, such as TCAV.
        model: identity of the model and its own settings, such as its layer; tables show ``name``.
        data: identity of the data.
        settings: arguments that change the numbers of every model, with the seed of random draws.
        packages: versions of packages, see `package_versions`.
    """

    metric: str
    version: int
    better: Directions
    model: dict[str, Any]
    data: dict[str, Any]
    settings: dict[str, Any]
    packages: dict[str, Any]

    def __post_init__(self) -> None:
        # Sorted, so that equal results have equal bytes.
        for name in ("model", "data", "settings", "packages"):
            text = json.dumps(to_json_values(getattr(self, name)), sort_keys=True)
            object.__setattr__(self, name, json.loads(text))

    def arrow(self, score: str) -> str:
        """Return the arrow after the name of a score, with a space before it; empty without a direction."""
        return {"lower": " ↓", "higher": " ↑"}.get(direction(self.better, score), "")


@dataclass(frozen=True, repr=False)
class MeanResult:
    """A mean over rows, such as LMSE or WHDR.

    Attributes:
        about: origin of the result.
        ids: one unique id for each row.
        groups: scene, object or unit of each row; intervals are computed over groups.
        columns: values of each row by column name, the main metric first; nan if the ground truth leaves the
            value undefined. Such rows are left out of the mean and counted.
        failed: ids of rows whose prediction failed; `fill_failures` gave their values.
        details: data for the tables and plots of a report: dictionaries, lists, strings and numbers.
        ranges: smallest and largest possible value of columns, at which their intervals are cut; a column
            that is not listed has no bounds.

    Raises:
        InputError: no column, unequal lengths, a repeated id, or a failed id that is not a row.

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
    details: dict[str, Any] = field(default_factory=dict)
    ranges: dict[str, tuple[JSONNumber, JSONNumber]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()} | {"groups": len(self.groups)}
        if not self.columns or set(lengths.values()) != {len(self.ids)}:
            raise InputError(f"expected columns and groups of {len(self.ids)} rows, as `ids`, got {lengths}")
        if len(set(self.ids)) < len(self.ids):
            raise InputError("expected each id once in `ids`")
        if surplus := set(self.failed) - set(self.ids):
            raise InputError(f"`failed` must hold ids of rows, got `{min(surplus)}`")
        object.__setattr__(self, "columns", with_canonical_nan(self.columns))
        object.__setattr__(self, "details", to_json_values(self.details))

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Mean of each column over the rows where it is defined, with its interval over groups."""
        return {
            name: mean_interval(column, self.groups).within(*self.range_of(name))
            for name, column in self.columns.items()
        }

    def range_of(self, column: str) -> tuple[float, float]:
        """Return the smallest and the largest possible value of a column."""
        return self.ranges.get(column, (-math.inf, math.inf))

    @property
    def score(self) -> float:
        """Mean of the main metric, which is the first column."""
        return next(iter(self.scores.values())).value

    @property
    def undefined(self) -> int:
        """Number of rows where the main metric is undefined."""
        return _undefined(next(iter(self.columns.values())))

    @cached_property
    def mean_of_rest(self) -> dict[str, float]:
        """Mean of each column without the failed rows."""
        failed = set(self.failed)
        kept = [row for row, name in enumerate(self.ids) if name not in failed]
        groups = [self.groups[row] for row in kept]
        return {
            name: mean_interval([column[row] for row in kept], groups).value
            for name, column in self.columns.items()
        }

    def to_json(self) -> str:
        """Write the result as strict JSON: nan is null, infinity is "inf"."""
        content = {
            "kind": "mean",
            "about": self.about,
            "scores": self.scores,
            "mean_of_rest": self.mean_of_rest,
            "undefined": self.undefined,
            "failed": self.failed,
            "columns": self.columns,
            "ranges": self.ranges,
            "ids": self.ids,
            "groups": self.groups,
            "details": self.details,
        }
        return to_json(content)

    def to_csv(self) -> str:
        """Write one CSV line for each row: id, group, columns, and whether the prediction failed."""
        failed = set(self.failed)
        flags = ["true" if name in failed else "false" for name in self.ids]
        lines = zip(self.ids, self.groups, *self.columns.values(), flags, strict=True)
        return to_csv([("id", "group", *self.columns, "failed"), *lines])

    def __repr__(self) -> str:
        return _printed(self)


@dataclass(frozen=True, repr=False)
class StatisticResult:
    """A statistic of all rows, such as CSM, IRS, DCI or WAIoU.

    Attributes:
        about: origin of the result.
        scores: values with their intervals by name, the main metric first.
        replicates: scores of resampled groups, or of each seed, for paired comparison.
        groups: distinct groups in the order of resampling; empty if the replicates are over seeds.
        failed: ids of failed rows, such as images with dead heatmaps.
        details: data for the tables and plots of a report: dictionaries, lists, strings and numbers.
        units: for scores whose replicates draw other units besides groups, the number of units by kind.

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
    units: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.scores or self.replicates.keys() - self.scores.keys():
            raise InputError(f"expected `scores` of {list(self.replicates)} or more, got {list(self.scores)}")
        object.__setattr__(self, "replicates", with_canonical_nan(self.replicates))
        object.__setattr__(self, "details", to_json_values(self.details))

    @property
    def score(self) -> float:
        """Value of the main metric, which is the first score."""
        return next(iter(self.scores.values())).value

    def units_of(self, score: str) -> dict[str, int]:
        """Count the units that the interval of a score is over, by kind; the smallest number decides on it.

        Example:
            >>> about = Provenance("csm", 4, "higher", {"name": "net"}, {"name": "demo"}, {}, {})
            >>> scores, units = {"csm_s": Score(2.0, 1.0, 3.0)}, {"csm_s": {"scenes": 8}}
            >>> StatisticResult(about, scores, {}, ("a", "b"), (), {}, units).units_of("csm_s")
            {'groups': 2, 'scenes': 8}
        """
        return {"groups": len(self.groups), **self.units.get(score, {})}

    def to_json(self) -> str:
        """Write the result as strict JSON: nan is null, infinity is "inf"."""
        names = ("about", "scores", "failed", "details", "units", "groups", "replicates")
        return to_json({"kind": "statistic", **{name: getattr(self, name) for name in names}})

    def to_csv(self) -> str:
        """Write one CSV line for each score: name, value and interval."""
        lines = [(name, one.value, one.low, one.high) for name, one in self.scores.items()]
        return to_csv([("score", "value", "low", "high"), *lines])

    def __repr__(self) -> str:
        return _printed(self)


Result = MeanResult | StatisticResult


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on.

    Example:
        >>> list(package_versions())
        ['candlelight', 'torch', 'numpy']
    """
    return {"candlelight": code_version(), **{name: _installed(name) for name in ("torch", "numpy")}}


@cache
def _installed(package: str) -> str:
    """Read the version of a package once: the description of torch takes milliseconds to parse."""
    return version(package)


def fill_failures(
    errors: Mapping[str, Float[ndarray, "rows columns"]],
    failed: Mapping[str, Bool[ndarray, " rows"]],
    zeros: Float[ndarray, "rows columns"],
) -> dict[str, Float64[ndarray, "rows columns"]]:
    """Replace the errors of failed predictions by the worst error, so that no model gains by failing.

    The worst error is the larger of two errors: the error of an all-zero prediction for that row, and the
    largest finite error of any compared model in any row. An all-zero prediction has the largest possible
    LMSE, 1.

    Args:
        errors: errors of each model, lower is better; errors of failed predictions are not read.
        failed: for each model, the rows whose prediction failed.
        zeros: errors of the all-zero prediction, or the upper bound of an error that has one (WHDR: 1); nan
            in rows with undefined ground truth, whose errors stay nan.

    Returns:
        The errors of each model, with the errors of failed predictions replaced.

    Example:
        >>> failed = np.array([True, False])
        >>> fill_failures({"net": np.array([[0.0], [4.0]])}, {"net": failed}, np.array([[2.0], [3.0]]))
        {'net': array([[4.],
               [4.]])}
    """
    flags = {name: rows[:, None] for name, rows in failed.items()}
    read = [np.where(flags[name] | ~np.isfinite(some), -np.inf, some) for name, some in errors.items()]
    worst = np.maximum(zeros, np.concatenate(read).max(axis=0))
    return {name: np.where(flags[name], worst, some).astype(np.float64) for name, some in errors.items()}


def model_name(result: Result) -> str:
    """Return the name of a result's model, as tables show it."""
    return str(result.about.model.get("name", "?"))


class BestCell(str):
    """A cell whose first word, the best value of its column, is shown in bold."""

    is_best = True  # for templates, which know no types

    def bold(self, write: Callable[[str], str]) -> str:
        """Write the cell with its first word changed."""
        first, space, rest = self.partition(" ")
        return f"{write(first)}{space}{rest}"


def mark_best(cells: Sequence[str], values: Sequence[float | None], better: Better) -> list[str]:
    """Mark the cells of a column that begin with its best value, as it is printed.

    Args:
        cells: texts such as "0.5 (0.4 to 0.6)".
        values: value of each cell; None, as of a control, and nan do not compete, nor does a single value.
        better: direction of the column.

    Example:
        >>> marked = mark_best(["0.50", "0.50", "0.2", "1"], [0.5, 0.504, None, 1.0], "lower")
        >>> [isinstance(cell, BestCell) for cell in marked]
        [True, True, False, False]
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    if better == "neither" or len(known) < 2:
        return list(cells)
    best = cells[values.index(min(known) if better == "lower" else max(known))].split()[0]
    alike = (value is not None and cell.split()[0] == best for cell, value in zip(cells, values, strict=True))
    return [BestCell(cell) if marked else cell for cell, marked in zip(cells, alike, strict=True)]


def marked_scores(results: Sequence[Result], write: Callable[[Score], str]) -> list[dict[str, str]]:
    """Write the scores of results of one metric by name, and mark the best among those of no controls."""
    written: list[dict[str, str]] = [{name: write(one) for name, one in r.scores.items()} for r in results]
    for name in dict.fromkeys(name for cells in written for name in cells):
        some = [(result, cells) for result, cells in zip(results, written, strict=True) if name in cells]
        values = [competing(result, result.scores[name].value) for result, _ in some]
        better = direction(some[0][0].about.better, name)
        marked = mark_best([cells[name] for _, cells in some], values, better)
        for (_, cells), cell in zip(some, marked, strict=True):
            cells[name] = cell
    return written


def competing(result: Result, value: float) -> float | None:
    """Return a value with which a model competes for the best; None of a control."""
    return None if result.about.model.get("source") == "control" else value


def published_scores(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Collect the published scores, by method and column, that a protocol keeps in the details of results."""
    return {name: one for result in results for name, one in result.details.get("published", {}).items()}


def table(results: Sequence[Result], styled: bool = False) -> str:
    """Format the scores of results as a text table; arrows tell whether lower or higher is better.

    Args:
        results: results of one metric.
        styled: whether the best values are bold, by the codes of a terminal.

    Example:
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {}, {}, {})
        >>> print(table([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, ("a", "b"), (), {})]))
        model  metric  value  95 % interval  groups  failed
        vae    irs ↑   0.5    0.4 to 0.6     2       0
    """
    header = "model", "metric", "value", "95 % interval", "oracle", "accuracy", "without failed"
    header_of_counts = "rows", "groups", "failed", "undefined"
    marked = marked_scores(results, lambda score: _number(score.value))
    lines = [line for pair in zip(results, marked, strict=True) for line in _table_lines(*pair)]
    for name, scores in published_scores(results).items():
        lines += [(name, score, _number(value), *[""] * 8) for score, value in scores.items()]
    columns = [c for c in zip(header + header_of_counts, *lines, strict=True) if any(c[1:])]
    return align_columns(list(zip(*columns, strict=True)), styled)


def align_columns(rows: Sequence[Sequence[str]], styled: bool = False) -> str:
    r"""Write rows of cells as text, each column as wide as its widest cell.

    Args:
        rows: the cells.
        styled: whether each `BestCell` is bold, by the codes of a terminal.

    Example:
        >>> align_columns([("a", "b"), ("long", "c")])
        'a     b\nlong  c'
    """
    widths = [max(len(printable(cell)) for cell in column) for column in zip(*rows, strict=True)]

    def padded(cell: str, width: int) -> str:
        text = printable(cell).ljust(width)
        return f"\x1b[1m{text}\x1b[0m" if styled and isinstance(cell, BestCell) else text

    lines = (map(padded, row, widths) for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _table_lines(result: Result, values: Mapping[str, str]) -> list[tuple[str, ...]]:
    name = model_name(result)
    half = _NAME_LENGTH // 2
    name = name if len(name) <= _NAME_LENGTH else f"{name[: half - 1]}…{name[-half:]}"
    oracle = result.details.get("oracle", {})
    # Explanations: of the network that the method explains.
    accuracy = _known_number(result.details.get("network", {}).get("accuracy", [None])[0])
    lines: list[tuple[str, ...]] = []
    for metric, score in result.scores.items():
        interval = "" if math.isnan(score.low) else f"{score.low:.4g} to {score.high:.4g}"
        rest = rows = undefined = ""
        groups = len(set(result.groups))
        if isinstance(result, StatisticResult):
            groups = min(result.units_of(metric).values())
        else:
            rest = _number(result.mean_of_rest[metric]) if result.failed else ""
            rows, undefined = str(len(result.ids)), str(_undefined(result.columns[metric]))
        counts = rows, str(groups or ""), str(len(result.failed)), undefined
        reached = _known_number(oracle.get(metric))
        title, value = f"{metric}{result.about.arrow(metric)}", values[metric]
        lines.append((name, title, value, interval, reached, accuracy, rest, *counts))
    return lines


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4g}"


def _known_number(value: float | None) -> str:
    return "" if value is None else _number(value)


def _printed(result: Result) -> str:
    about = result.about
    where = ", ".join(str(about.data[name]) for name in ("name", "set_name", "split") if about.data.get(name))
    lines = [f"{about.metric} (version {about.version}) on {where or 'data without a name'}"]
    lines += table([result]).splitlines()
    more = len(lines) - _PRINTED_LINES
    return "\n".join([*lines[:_PRINTED_LINES], *([f"... and {more} more"] if more > 0 else [])])


def _undefined(column: Sequence[float]) -> int:
    return sum(map(math.isnan, column))


def notes_of(results: Sequence[Result]) -> list[str]:
    """Collect the notes in the details of results, each once.

    Example:
        >>> from candlelight.evaluation.run.result import MeanResult, Provenance
        >>> about = Provenance("tcav", 1, "neither", {"name": "net"}, {}, {}, {})
        >>> one = MeanResult(about, ("a",), ("a",), {"red at one": (1.0,)}, (), {"notes": ["few images"]})
        >>> notes_of([one, one])
        ['few images']
    """
    return list(dict.fromkeys(note for result in results for note in result.details.get("notes", ())))


_SEED = re.compile(r"(.+)#(\d+)")


def pool_seeds(results: Sequence[StatisticResult]) -> list[StatisticResult]:
    """Make a result for each method of several seeds, whose models are named METHOD#SEED.

    Args:
        results: results of one call; names of another form are left out.

    Returns:
        For each method with two seeds or more, the mean of each score and its 95 % interval over seeds, with
        the values of the seeds as replicates. The interval describes other seeds on the same data.

    Example:
        >>> from candlelight.evaluation.run.intervals import Score
        >>> from candlelight.evaluation.run.result import Provenance
        >>> def result(name, value):
        ...     about = Provenance("causal", 4, "higher", {"name": name}, {}, {}, {})
        ...     return StatisticResult(about, {"irs": Score(value, 0, 1)}, {}, (), (), {})
        >>> pooled = pool_seeds([result("vae#0", 0.25), result("vae#1", 0.75), result("net", 0.1)])
        >>> [(model_name(one), one.score) for one in pooled]
        [('vae, 2 seeds', 0.5)]
    """
    methods: dict[str, dict[int, StatisticResult]] = {}
    for result in results:
        if found := _SEED.fullmatch(model_name(result)):
            methods.setdefault(found[1], {})[int(found[2])] = result
    return [_pool(name, seeds) for name, seeds in methods.items() if len(seeds) > 1]


def _pool(name: str, seeds: dict[int, StatisticResult]) -> StatisticResult:
    some = [seeds[seed] for seed in sorted(seeds)]
    shared = [score for score in some[0].scores if all(score in one.scores for one in some)]
    values = {score: tuple(one.scores[score].value for one in some) for score in shared}
    model = {"name": f"{name}, {len(some)} seeds", "source": "seeds", "seeds": sorted(seeds)}
    scores = {score: seed_interval(column) for score, column in values.items()}
    # Codes of different seeds do not correspond, so lists and tables of the details have no mean.
    details = {label: type(part)() for label, part in some[0].details.items()} | {"seeds": len(some)}
    return StatisticResult(replace(some[0].about, model=model), scores, values, (), (), details)


_COLUMNS = 4  # models side by side


def score_grid(results: Sequence[Result]) -> list[str]:
    """Tabulate the scores of results of one call; a row for each score, a column for each model.

    Args:
        results: results of one metric; more than four models are written below each other.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> about = Provenance("causal", 4, "higher", {"name": "vae"}, {}, {}, {})
        >>> print(*score_grid([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})]))
        higher is better  vae
        irs               0.5 (0.4 to 0.6)
    """
    names = list(dict.fromkeys(name for result in results for name in result.scores))
    better = results[0].about.better
    head = f"{better} is better" if better in ("lower", "higher") else "score"
    titles = {name: name if head != "score" else f"{name}{results[0].about.arrow(name)}" for name in names}
    tables, marked = [], marked_scores(results, _cell)
    for start in range(0, len(results), _COLUMNS):
        some = slice(start, start + _COLUMNS)
        rows = [(titles[name], *(cells.get(name, "") for cells in marked[some])) for name in names]
        tables.append(align_columns([(head, *map(model_name, results[some])), *rows], styled=True))
    return tables


def _cell(score: Score) -> str:
    if math.isnan(score.value):
        return "undefined"
    interval = "" if math.isnan(score.low) else f" ({score.low:.3g} to {score.high:.3g})"
    return f"{score.value:.3g}{interval}"
