"""The numbers of the figures and tables of the WAIoU paper, as tables for CSV files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from candlelight.evaluation.coverage.method_comparisons import (
    MethodComparison,
    best_share,
    iou_by_pooling,
    split_comparisons,
)
from candlelight.evaluation.coverage.score_coverage import METRIC
from candlelight.evaluation.results.json_values import to_csv
from candlelight.evaluation.results.result import Result, StatisticResult
from candlelight.loaders.errors import InputError
from candlelight.loaders.looking.sheet import write_file

_CALL = ("comparison", "data", "classifier")
_Lines = Iterator[tuple[object, ...]]
_NETWORK = ("completeness", "concepts")


def coverage_tables(results: Sequence[Result]) -> dict[str, list[tuple[object, ...]]]:
    """Tabulate the numbers of figures and tables of Behzadi-Khormouji and Oramas, sec. 5.

    Each line is one number, or a few numbers of the same item, behind the number of the comparison, its data,
    its classifier and, in most tables, the method. None stands for a number that is not defined.

    Args:
        results: results of one or more calls of `score_coverage`.

    Returns:
        Tables by name, each with its column titles as first line: ``figure5`` to ``figure8``, ``table1`` and
        ``table2`` of the paper, labels (eq. 6; an empty part counts the images without a label), controls,
        changes of settings, and detectors. A table without numbers is left out.

    Raises:
        InputError: a result of another metric.

    Example:
        >>> from candlelight.evaluation.results.result import Provenance, Score
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
        result for result in results if isinstance(result, StatisticResult) and result.about.metric == METRIC
    ]
    if len(kept) < len(results):
        others = sorted({result.about.metric for result in results} - {METRIC})
        raise InputError(f"expected results of `{METRIC}`, got `{'`, `'.join(others)}`; leave them out")
    comparisons = split_comparisons(kept)
    tables = {}
    for name, (columns, lines_of) in _TABLES.items():
        lines = [
            (place, comparison.data, comparison.classifier, *line)
            for place, comparison in enumerate(comparisons, 1)
            for line in lines_of(comparison)
        ]
        if lines:
            tables[name] = [(*_CALL, *columns), *lines]
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


def _figure5(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        for pooling, values in iou_by_pooling(result).items():
            for proportion, value in zip(comparison.proportions, values, strict=True):
                yield method, pooling, proportion, value


def _figure6(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        for end, images in result.details.get("extremes", {}).items():
            for place, (image, value) in enumerate(images, 1):
                yield method, end, place, image, value


def _figure7(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        if "curve" in result.details:
            for proportion, value in zip(comparison.proportions, result.details["curve"], strict=True):
                yield method, proportion, value


def _figure8(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        columns = [result.details[name] for name in ("parts", "mean_iou", "counts")]
        for line in zip(comparison.parts, *columns, strict=True):
            yield method, *line


def _table1(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        accuracy = result.details.get("accuracy") or {}
        numbers = [accuracy.get("classifier"), accuracy.get("explained")]
        numbers += [result.details.get(name) for name in _NETWORK]
        if any(number is not None for number in numbers):
            yield method, *numbers


def _table2(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        yield method, *best_share(result)


def _labels(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        if "labels" in result.details:
            for part, count in zip(comparison.parts, result.details["labels"], strict=True):
                yield method, part, count
            yield method, "", result.details.get("unlabelled")


def _controls(comparison: MethodComparison) -> _Lines:
    for control, scores in (comparison.shared_detail("controls") or {}).items():
        yield control, scores.get("mean_iou"), scores.get("waiou")


def _sensitivity(comparison: MethodComparison) -> _Lines:
    names = comparison.whole_names
    for change in comparison.shared_detail("sensitivity") or ():
        for name, value in change["scores"].items():
            rank = change["order"].index(name) + 1
            yield names.get(name, name), change["setting"], value, rank, change["agreement"]


def _dissection(comparison: MethodComparison) -> _Lines:
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        found = result.details.get("dissection") or {}
        for part, count in found.get("detectors", {}).items():
            yield method, found["concepts"], found["labelled"], part, count


_TABLES: dict[str, tuple[tuple[str, ...], Callable[[MethodComparison], _Lines]]] = {
    "figure5": (("method", "pooling", "proportion", "average_iou"), _figure5),
    "figure6": (("method", "end", "place", "id", "iou"), _figure6),
    "figure7": (("method", "proportion", "waiou"), _figure7),
    "figure8": (("method", "part", "waiou", "mean_iou", "count"), _figure8),
    "table1": (("method", "accuracy_classifier", "accuracy_explained", *_NETWORK), _table1),
    "table2": (("method", "proportion", "mean_iou"), _table2),
    "labels": (("method", "part", "images"), _labels),
    "controls": (("control", "mean_iou", "waiou"), _controls),
    "sensitivity": (("method", "setting", "waiou", "rank", "agreement"), _sensitivity),
    "dissection": (("method", "concepts", "labelled", "part", "detectors"), _dissection),
}
