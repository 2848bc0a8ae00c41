"""Tables beside the scores of the coverage section: controls, other settings, networks, labels, detectors."""

from collections.abc import Sequence
from typing import Any

from candlelight.evaluation.coverage.mask_controls import mask_control_note
from candlelight.evaluation.coverage.method_comparisons import (
    MethodComparison,
    iou_by_pooling,
    write_order,
)
from candlelight.evaluation.report.blocks import Block, TableBlock, TextBlock, note
from candlelight.evaluation.report.tables import number, unbroken

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
_NETWORK = (
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
    for title, keys in _NETWORK:
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
