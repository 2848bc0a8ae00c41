"""Tables of coverage: those of the paper as CSV files, and the tables of the page."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from candlelight.evaluation.coverage.control_explainers import mask_control_note
from candlelight.evaluation.coverage.method_comparison import (
    MethodComparison,
    best_share,
    iou_by_pooling,
    split_comparisons,
    write_order,
)
from candlelight.evaluation.coverage.score_coverage import METRIC
from candlelight.evaluation.report.blocks import Block, TableBlock, TextBlock, note, number, unbroken
from candlelight.evaluation.run.json_values import to_csv
from candlelight.evaluation.run.result import Result, StatisticResult
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


_MOST_COLUMNS = 4  # of a table beside another one
_KINDS = {
    "noise": "floor: random numbers",
    "constant": "floor: one value everywhere",
    "centre": "trap: a blob in the middle of every image",
    "object": "trap: mask of the whole object",
    "exact parts": "ceiling of one map: mask of the largest part, or the k largest",
    "ideal": "ceiling: made of the annotated parts",
}
# Title, and key within the details.
_NETWORK_ROWS = (
    ("accuracy of the classifier", ("accuracy", "classifier")),
    ("of the explained network", ("accuracy", "explained")),
    ("chance level", ("network", "chance")),
    ("completeness", ("completeness",)),
    ("concepts", ("concepts",)),
)


def control_blocks(comparison: MethodComparison) -> list[Block]:
    """Tabulate mean IoU of methods and controls, and name the methods that do not exceed a control."""
    controls = comparison.shared_detail("controls")
    if not controls:
        return []
    # Shares are chosen as for the controls: scores in sample would be larger.
    means = {
        method: result.scores["mean_iou"].value
        for method, result in zip(comparison.methods, comparison.results, strict=True)
    }
    rows = [(mean, (method, "method", number(mean), "")) for method, mean in means.items()]
    for name, scores in controls.items():
        mean, alone = scores.get("mean_iou"), scores.get("waiou")
        rows.append((mean, (name, _KINDS.get(name, "control"), number(mean), number(alone))))
    rows.sort(key=lambda row: -1.0 if row[0] is None else row[0], reverse=True)
    head = ("heatmaps", "kind", "mean IoU ↑", "WAIoU alone")
    table = TableBlock("Methods and controls by mean IoU", head, tuple(row for _, row in rows))
    told = TextBlock(
        "Mean IoU of controls and methods can be compared. WAIoU cannot: each control is compared with "
        "itself only, so that it does not change the scores of the methods.",
        quiet=True,
    )
    notes = []
    for name, scores in controls.items():
        mean = scores.get("mean_iou")
        below = [method for method, value in means.items() if value <= (mean or 0)]
        if not _KINDS.get(name, "").startswith("ceiling") and below:
            notes.append(note(f"Mean IoU is not above that of the control {name}: {', '.join(below)}."))
    if told_of_masks := mask_control_note(comparison.shared_detail("mask_controls")):
        notes.append(note(f"{told_of_masks}."))
    return [table, told, *notes]


def network_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate the accuracies of the explained networks (Table 1), completeness and number of concepts."""
    columns = {}
    for title, keys in _NETWORK_ROWS:
        values = [_look_up(result.details, keys) for result in comparison.results]
        if any(value is not None for value in values):
            columns[title] = [_count_or_number(value) for value in values]
    if not columns:
        return []
    rows = tuple(zip(comparison.methods, *columns.values(), strict=True))
    return [TableBlock("Networks that the methods explain", ("method", *columns), rows)]


def label_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate the number of images by label."""
    rows = []
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        if "labels" in result.details:
            counts = [*result.details["labels"], result.details.get("unlabelled", 0)]
            total = max(sum(counts), 1)
            rows.append((method, *(unbroken(f"{count} ({100 * count / total:.0f} %)") for count in counts)))
    if not rows:
        return []
    caption = "Images by label of their explanation: the part with the largest IoU (eq. 6)"
    return [part_table(caption, (*comparison.parts, "no part"), rows)]


def dissection_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate the detectors that Network Dissection finds among the concepts of each method."""
    found = {
        method: result.details["dissection"]
        for method, result in zip(comparison.methods, comparison.results, strict=True)
        if result.details.get("dissection")
    }
    if not found:
        return []
    seen = {part for one in found.values() for part in one["detectors"]}
    parts = [*(part for part in comparison.parts if part in seen), *sorted(seen - set(comparison.parts))]
    rows = [
        (
            method,
            *map(str, (one["concepts"], one["labelled"], *(one["detectors"].get(part, 0) for part in parts))),
        )
        for method, one in found.items()
    ]
    caption = "Concepts of each method that detect a part, over all images (Network Dissection)"
    return [part_table(caption, ("concepts", "detectors", *parts), rows)]


def sensitivity_table(comparison: MethodComparison) -> list[Block]:
    """Tabulate WAIoU of all methods under other settings, and their order."""
    changes = comparison.shared_detail("sensitivity")
    if not changes:
        return []
    names, rows = comparison.whole_names, []
    for change in changes:
        scores = [number(change["scores"].get(name)) for name in names]
        order = write_order([names.get(name, name) for name in change["order"]], change["differs"])
        rows.append((change["setting"], *scores, order, number(change["agreement"])))
    default = sorted(comparison.results, key=lambda result: result.score, reverse=True)
    order = ", ".join(names[str(result.about.model["name"])] for result in default)
    first = ("as above", *(number(result.score) for result in comparison.results), order, "")
    caption = (
        "WAIoU under other settings; > stands between methods that differ, ~ where no difference is shown; "
        "agreement is Kendall's tau with the order above"
    )
    head = ("setting", *comparison.methods, "order, best first", "agreement")
    return [TableBlock(caption, head, (first, *rows))]


def share_table(comparison: MethodComparison) -> TableBlock:
    """Tabulate average IoU, by pooling, and WAIoU by share of marked points."""
    rows = []
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        for pooling, values in iou_by_pooling(result).items():
            rows.append((method, f"average IoU, threshold by {pooling}", *map(number, values)))
        if "curve" in result.details:
            rows.append((method, "WAIoU", *map(number, result.details["curve"])))
    shares = (unbroken(f"{100 * share:.3g} %") for share in comparison.proportions)
    caption = "Average IoU and WAIoU by share of marked points"
    return TableBlock(caption, ("method", "score ↑", *shares), tuple(rows), folded=True)


def part_table(
    caption: str, head: Sequence[str], rows: Sequence[tuple[str, ...]], folded: bool = False
) -> TableBlock:
    """Tabulate numbers by method and part; parts are rows if there are many, so that the page is wide enough.

    Example:
        >>> part_table("Parts", ["a", "b", "c", "d", "e"], [("vebi", *"12345")]).rows[:2]
        (('a', '1'), ('b', '2'))
    """
    if len(head) <= max(len(rows), _MOST_COLUMNS):
        return TableBlock(caption, ("method", *head), tuple(rows), folded)
    methods, *columns = zip(*rows, strict=True)
    turned = ((title, *cells) for title, cells in zip(head, columns, strict=True))
    return TableBlock(caption, ("", *methods), tuple(turned), folded)


def _look_up(details: Any, keys: Sequence[str]) -> Any:
    """Return a value of nested dictionaries; None if it is missing."""
    for key in keys:
        details = (details or {}).get(key)
    return details


def _count_or_number(value: float | str | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else number(value)
