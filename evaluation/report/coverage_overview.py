"""Section of a report with one column for each classifier: Tables 1 and 2 of the WAIoU paper."""

from collections import Counter
from collections.abc import Callable, Sequence

from candlelight.evaluation.coverage.method_comparisons import MethodComparison, best_share, make_comparison
from candlelight.evaluation.report.blocks import Section, TableBlock, TextBlock
from candlelight.evaluation.report.tables import number
from candlelight.evaluation.results.result import StatisticResult

_CLASSIFIER = "classifier itself"


def coverage_overview(calls: Sequence[Sequence[StatisticResult]]) -> Section:
    """Put the results of several calls of `score_coverage` side by side.

    Args:
        calls: for each call, the results of its methods.
    """
    comparisons = [make_comparison(results) for results in calls]
    told = TextBlock(
        "Each column is one comparison. On the same data, mean IoU, shares and accuracies can be compared "
        "across columns. WAIoU cannot, and is not repeated here. Mean IoU in sample has the share that is "
        "best on the scored images themselves; the shares of the score mean_iou are chosen on other images."
    )
    tables = (
        _table("Mean IoU of each method at its best share of points, in sample ↑", comparisons, _mean_iou),
        _table("Share of points with the largest average IoU (Table 2 of the paper)", comparisons, _share),
        _table(
            "Accuracy of classifiers and explained networks (Table 1 of the paper)", comparisons, _accuracy
        ),
    )
    shown = (table for table in tables if table.rows)
    return Section("coverage-classifiers", "Coverage of parts, all comparisons", (told, *shown))


def comparison_labels(comparisons: Sequence[MethodComparison]) -> list[str]:
    """Name comparisons by classifier, by data if there are several, and by number if the names are equal."""
    several = len({comparison.data for comparison in comparisons}) > 1
    names = [
        ", ".join(filter(None, (comparison.classifier, comparison.data if several else "")))
        for comparison in comparisons
    ]
    equal = Counter(names)
    return [
        f"{name or 'comparison'} {place}" if equal[name] > 1 or not name else name
        for place, name in enumerate(names, 1)
    ]


def _table(
    caption: str,
    comparisons: Sequence[MethodComparison],
    cells_of: Callable[[MethodComparison], dict[str, str]],
) -> TableBlock:
    columns = [cells_of(comparison) for comparison in comparisons]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = tuple((name, *(column.get(name, "") for column in columns)) for name in names)
    return TableBlock(caption, ("method", *comparison_labels(comparisons)), rows)


def _mean_iou(comparison: MethodComparison) -> dict[str, str]:
    pairs = zip(comparison.methods, comparison.results, strict=True)
    return {method: number(best_share(result)[1]) for method, result in pairs}


def _share(comparison: MethodComparison) -> dict[str, str]:
    pairs = zip(comparison.methods, comparison.results, strict=True)
    return {method: f"{best_share(result)[0]:.3g}" for method, result in pairs}


def _accuracy(comparison: MethodComparison) -> dict[str, str]:
    cells: dict[str, str] = {}
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        accuracy = result.details.get("accuracy") or {}
        if accuracy.get("classifier") is not None:
            cells.setdefault(_CLASSIFIER, number(accuracy["classifier"]))
        if accuracy.get("explained") is not None:
            cells[method] = number(accuracy["explained"])
    return cells
