"""Results of methods that were compared in one call, and the tables of the paper as CSV files."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candlelight.evaluation.report.blocks import split_method_names
from candlelight.evaluation.run.json_values import to_csv
from candlelight.evaluation.run.result import Result, StatisticResult, model_name
from candlelight.loaders.errors import InputError
from candlelight.loaders.looking.sheet import write_file


@dataclass(frozen=True)
class MethodComparison:
    """Results of methods that were compared in one call.

    Attributes:
        classifier: first words that the names of all methods share, such as ``birds`` of ``birds vebi`` and
            ``birds topics``; empty if they share none, or for a single method.
        results: a result for each method, by its name without the classifier.
    """

    classifier: str
    results: dict[str, StatisticResult]

    @property
    def first(self) -> StatisticResult:
        """The first result; data and settings are those of all."""
        return next(iter(self.results.values()))

    @property
    def parts(self) -> list[str]:
        """Names of the parts."""
        return list(self.first.about.settings["parts"])

    @property
    def proportions(self) -> list[float]:
        """Shares of marked points that were tried."""
        return list(self.first.about.settings["proportions"])

    @property
    def data(self) -> str:
        """Name of the data, its set and its split."""
        data = self.first.about.data
        return ", ".join(str(data[name]) for name in ("name", "set_name", "split") if data.get(name))

    def shared_detail(self, name: str) -> Any:
        """Return a detail of the whole comparison, which only one of its results has; None if none has it."""
        return next((one.details[name] for one in self.results.values() if one.details.get(name)), None)


def make_comparison(results: Sequence[StatisticResult]) -> MethodComparison:
    """Make the comparison of the results of one comparison; equal names of methods are numbered."""
    classifier, methods = split_method_names([model_name(result) for result in results])
    numbered: dict[str, StatisticResult] = {}
    for method, result in zip(methods, results, strict=True):
        count = sum(model_name(result) == model_name(one) for one in numbered.values())
        numbered[f"{method} ({count + 1})" if count else method] = result
    return MethodComparison(classifier, numbered)


def split_comparisons(results: Sequence[StatisticResult]) -> list[MethodComparison]:
    """Find the comparisons in results of several calls, which differ in data or settings."""
    calls: dict[str, list[StatisticResult]] = {}
    for result in results:
        calls.setdefault(repr((result.about.data, result.about.settings)), []).append(result)
    return [make_comparison(some) for some in calls.values()]


def iou_by_pooling(result: StatisticResult) -> dict[str, list[float | None]]:
    """Return average IoU by share of marked points, for each way to pool points that was computed."""
    pooling = result.about.settings.get("pooling", "set")
    found: dict[str, list[float | None]] = result.details.get("by_pooling") or {
        pooling: result.details["average_iou"]
    }
    return found


def best_share(result: StatisticResult) -> tuple[float, float | None]:
    """Return the share of marked points with the largest average IoU, and this IoU."""
    best = result.details["best_proportion"]
    return result.about.settings["proportions"][best], result.details["average_iou"][best]


_Lines = Iterable[tuple[object, ...]]
_NETWORK = ("completeness", "concepts")


def coverage_tables(results: Sequence[Result]) -> dict[str, list[tuple[object, ...]]]:
    """Tabulate the numbers of figures and tables of Behzadi-Khormouji and Oramas, sec. 5.

    Each line is one number, or a few numbers of the same item, behind the number of the comparison, its data,
    its classifier and, in most tables, the method. None stands for a number that is not defined.

    Args:
        results: results of one or more comparisons.

    Returns:
        Tables by name, each with its column titles as first line: ``figure5`` to ``figure8``, ``table1`` and
        ``table2`` of the paper, labels (eq. 6; an empty part counts the images without a label), controls,
        changes of settings, and detectors. A table without numbers is left out.

    Raises:
        InputError: a result of another metric.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, Score
        >>> settings = {"parts": ["head"], "proportions": [0.01, 0.1]}
        >>> about = Provenance("waiou", 2, "higher", {"name": "vebi"}, {"name": "birds"}, settings, {})
        >>> details = {"best_proportion": 1, "average_iou": [0.2, 0.4]}
        >>> details |= {"parts": [0.5], "mean_iou": [0.4], "counts": [9]}
        >>> result = StatisticResult(about, {"waiou": Score(0.5, 0.4, 0.6)}, {}, (), (), details)
        >>> for line in coverage_tables([result])["figure8"]:
        ...     print(line)
        ('comparison', 'data', 'classifier', 'method', 'part', 'waiou', 'mean_iou', 'count')
        (1, 'birds', '', 'vebi', 'head', 0.5, 0.4, 9)
    """
    kept = [
        result for result in results if isinstance(result, StatisticResult) and result.about.metric == "waiou"
    ]
    if len(kept) < len(results):
        others = sorted({result.about.metric for result in results} - {"waiou"})
        raise InputError(f"expected results of `waiou`, got `{'`, `'.join(others)}`; leave them out")
    tables = {}
    for name, (columns, lines_of) in _TABLES.items():
        lines = [
            (place, one.data, one.classifier, *line)
            for place, one in enumerate(split_comparisons(kept), 1)
            for line in lines_of(one)
        ]
        if lines:
            tables[name] = [("comparison", "data", "classifier", *columns), *lines]
    return tables


def write_coverage_tables(folder: Path, results: Sequence[Result]) -> list[Path]:
    """Write each table of `coverage_tables` as a CSV file, such as ``figure5.csv``.

    Args:
        folder: made if it is missing; files of the same names are replaced.
        results: see `coverage_tables`.

    Returns:
        The files.

    Raises:
        InputError: a result of another metric, or a file cannot be written.
    """
    paths = []
    for name, lines in coverage_tables(results).items():
        paths.append(folder / f"{name}.csv")
        write_file(paths[-1], to_csv(lines).encode())
    return paths


def _shares(result: StatisticResult, values: Sequence[object], *before: object) -> _Lines:
    return [(*before, *pair) for pair in zip(result.about.settings["proportions"], values, strict=True)]


def _figure5(result: StatisticResult) -> _Lines:
    return [
        line
        for pooling, values in iou_by_pooling(result).items()
        for line in _shares(result, values, pooling)
    ]


def _figure6(result: StatisticResult) -> _Lines:
    for end, images in result.details.get("extremes", {}).items():
        for place, (image, value) in enumerate(images, 1):
            yield end, place, image, value


def _figure7(result: StatisticResult) -> _Lines:
    return _shares(result, result.details["curve"]) if "curve" in result.details else []


def _figure8(result: StatisticResult) -> _Lines:
    columns = [result.details[name] for name in ("parts", "mean_iou", "counts")]
    return zip(result.about.settings["parts"], *columns, strict=True)


def _table1(result: StatisticResult) -> _Lines:
    accuracy = result.details.get("accuracy") or {}
    numbers = [accuracy.get("classifier"), accuracy.get("explained")]
    numbers += [result.details.get(name) for name in _NETWORK]
    return [tuple(numbers)] if any(number is not None for number in numbers) else []


def _labels(result: StatisticResult) -> _Lines:
    if "labels" not in result.details:
        return []
    counts = zip(result.about.settings["parts"], result.details["labels"], strict=True)
    return [*counts, ("", result.details.get("unlabelled"))]


def _dissection(result: StatisticResult) -> _Lines:
    found = result.details.get("dissection") or {}
    for part, count in found.get("detectors", {}).items():
        yield found["concepts"], found["labelled"], part, count


def _controls(comparison: MethodComparison) -> _Lines:
    for control, scores in (comparison.shared_detail("controls") or {}).items():
        yield control, scores.get("mean_iou"), scores.get("waiou")


def _sensitivity(comparison: MethodComparison) -> _Lines:
    names = {model_name(result): method for method, result in comparison.results.items()}
    for change in comparison.shared_detail("sensitivity") or ():
        for name, value in change["scores"].items():
            rank = change["order"].index(name) + 1
            yield names.get(name, name), change["setting"], value, rank, change["agreement"]


def _of_each(lines_of: Callable[[StatisticResult], _Lines]) -> Callable[[MethodComparison], _Lines]:
    """Join the lines of all methods, each behind the name of its method."""
    return lambda one: [
        (method, *line) for method, result in one.results.items() for line in lines_of(result)
    ]


_TABLES: dict[str, tuple[tuple[str, ...], Callable[[MethodComparison], _Lines]]] = {
    "figure5": (("method", "pooling", "proportion", "average_iou"), _of_each(_figure5)),
    "figure6": (("method", "end", "place", "id", "iou"), _of_each(_figure6)),
    "figure7": (("method", "proportion", "waiou"), _of_each(_figure7)),
    "figure8": (("method", "part", "waiou", "mean_iou", "count"), _of_each(_figure8)),
    "table1": (("method", "accuracy_classifier", "accuracy_explained", *_NETWORK), _of_each(_table1)),
    "table2": (("method", "proportion", "mean_iou"), _of_each(lambda result: [best_share(result)])),
    "labels": (("method", "part", "images"), _of_each(_labels)),
    "controls": (("control", "mean_iou", "waiou"), _controls),
    "sensitivity": (("method", "setting", "waiou", "rank", "agreement"), _sensitivity),
    "dissection": (("method", "concepts", "labelled", "part", "detectors"), _of_each(_dissection)),
}
