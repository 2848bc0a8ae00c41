"""Sections of a report on coverage: scores, plots and overview."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.coverage.control_explainers import mask_control_note
from candlelight.evaluation.coverage.coverage_pictures import coverage_pictures
from candlelight.evaluation.coverage.coverage_tables import (
    control_blocks,
    dissection_table,
    label_table,
    network_table,
    part_table,
    sensitivity_table,
    share_table,
)
from candlelight.evaluation.coverage.method_comparison import (
    MethodComparison,
    best_share,
    chance_notes,
    iou_by_pooling,
    make_comparison,
    split_comparisons,
    write_order,
)
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    scores_table,
    settings_table,
)
from candlelight.evaluation.report.drawing import (
    COLOURS,
    INK,
    draw_bars,
    drawing,
    label_rows,
    legend_columns,
    short_name,
    to_svg,
)
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.result import StatisticResult, model_name, notes_of, table

_CLASSIFIER = "classifier itself"


def coverage_overview(calls: Sequence[Sequence[StatisticResult]]) -> Section:
    """Put the results of several comparisons side by side.

    Args:
        calls: for each comparison, the results of its methods.
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


_COLOURED = ("vebi", "prototypes", "topics", "grad-cam")
# Label, line and marker of each way to pool points; the markers are those of the paper.
_POOLINGS = {
    "set": ("threshold of all images with the same strongest maps (SetHM)", "-", "o", 4),
    "image": ("threshold of each image (IndivHM)", "--", "s", 7),
}


def method_colours(methods: Sequence[str]) -> list[str]:
    """Choose a colour for each method; methods of the paper have the same colours in every comparison.

    Example:
        >>> method_colours(["topics", "own"]) == [COLOURS[2], COLOURS[0]]
        True
    """
    reserved = {name: COLOURS[place] for place, name in enumerate(_COLOURED) if name in methods}
    others = cycle([colour for colour in COLOURS if colour not in reserved.values()])
    return [reserved.get(name) or next(others) for name in methods]


def pooling_plot(comparison: MethodComparison) -> PlotBlock:
    """Draw average IoU against the share of marked points, with each way to pool points (Figure 5)."""
    poolings = dict.fromkeys(name for result in comparison.results for name in iou_by_pooling(result))
    with drawing(3 + 0.25 * (_legend_lines(comparison) + len(poolings))) as figure:
        axes = figure.subplots()
        colours = method_colours(comparison.methods)
        for result, colour in zip(comparison.results, colours, strict=True):
            for pooling, values in iou_by_pooling(result).items():
                _, line, marker, size = _POOLINGS[pooling]
                _draw_line(axes, comparison, values, colour, linestyle=line, marker=marker, markersize=size)
        styles = [_POOLINGS[pooling] for pooling in poolings]
        scenarios = [
            axes.plot(
                [], [], line, marker=marker, markersize=size, color=INK, mfc=_face(marker, INK), label=label
            )[0]
            for label, line, marker, size in styles
        ]
        _finish(axes, comparison, "average IoU")
        figure.legend(handles=scenarios, loc="outside upper center", ncols=1)
        svg = to_svg(figure, "pooling")
    best = ", ".join(_best_text(*pair) for pair in zip(comparison.methods, comparison.results, strict=True))
    return PlotBlock(
        svg,
        f"Lines of average IoU by the share of marked points{_of(comparison)}. Largest: {best}.",
        f"Average IoU{_of(comparison)} over all images and the parts that they show, by the share of marked "
        "points (Figure 5 of the paper).",
    )


def curve_plot(comparison: MethodComparison) -> PlotBlock | None:
    """Draw WAIoU against the share of marked points (Figure 7); None if no result has it."""
    curves = [result.details.get("curve") for result in comparison.results]
    if not any(curves):
        return None
    with drawing(2.8 + 0.25 * _legend_lines(comparison)) as figure:
        axes = figure.subplots()
        for values, colour in zip(curves, method_colours(comparison.methods), strict=True):
            if values:
                _draw_line(axes, comparison, values, colour, marker="o", markersize=4)
        _finish(axes, comparison, "WAIoU")
        svg = to_svg(figure, "curve")
    ends = ", ".join(
        f"{method} {number(values[0])} to {number(values[-1])}"
        for method, values in zip(comparison.methods, curves, strict=True)
        if values
    )
    return PlotBlock(
        svg,
        f"Lines of WAIoU by the share of marked points{_of(comparison)}. First to last share: {ends}.",
        f"WAIoU{_of(comparison)} over all parts, by the share of points that every method marks (Figure 7 of "
        "the paper). At each share, methods are weighed against each other anew.",
    )


def part_plot(comparison: MethodComparison) -> PlotBlock:
    """Draw WAIoU of each part and of all parts as bars, at the best share of each method (Figure 8)."""
    results, rows = comparison.results, (*comparison.parts, "all parts")
    table = np.array([[*result.details["parts"], result.score] for result in results], dtype=float).T
    with drawing(1.1 + (0.12 + 0.16 * len(results)) * len(rows)) as figure:
        axes = figure.subplots()
        draw_bars(axes, table, comparison.methods, colours=method_colours(comparison.methods))
        label_rows(axes, rows)
        axes.set_xlabel("WAIoU")
        svg = to_svg(figure, "waiou")
    total = ", ".join(
        f"{method} {number(result.score)}" for method, result in zip(comparison.methods, results, strict=True)
    )
    return PlotBlock(
        svg,
        f"Bars of WAIoU by part{_of(comparison)}. All parts: {total}.",
        f"WAIoU{_of(comparison)} by part and method, at the best share of points of each method (Figure 8 of "
        "the paper).",
    )


def _of(comparison: MethodComparison) -> str:
    return f" of explanations of {comparison.classifier}" if comparison.classifier else ""


def _best_text(method: str, result: Any) -> str:
    share, value = best_share(result)
    return f"{method} {number(value)} at {100 * share:.3g} %"


def _legend_lines(comparison: MethodComparison) -> int:
    return -(-len(comparison.methods) // legend_columns(comparison.methods))


def _draw_line(
    axes: Any, comparison: MethodComparison, values: Sequence[float | None], colour: str, **style: Any
) -> None:
    heights = np.array(values, dtype=float)  # None, the JSON form of nan, leaves a gap
    shares = 100 * np.array(comparison.proportions)
    order = shares.argsort(kind="stable")
    face = _face(style["marker"], colour)
    axes.plot(shares[order], heights[order], color=colour, linewidth=1.5, mfc=face, **style)


def _face(marker: str, colour: str) -> str:
    """Choose the fill of a marker: squares are open, so that a circle in the same place is seen."""
    return "none" if marker == "s" else colour


def _finish(axes: Any, comparison: MethodComparison, label: str) -> None:
    """Label the axes, and add a legend of the methods above them."""
    axes.set(xlabel="points marked in %", ylabel=label)
    axes.set_ylim(0, None)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    handles = [
        axes.plot([], [], color=colour, linewidth=3, label=short_name(method))[0]
        for method, colour in zip(comparison.methods, method_colours(comparison.methods), strict=True)
    ]
    columns = legend_columns(comparison.methods)
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=columns)


NEEDS = ("parts", "proportions", "best_proportion", "average_iou", "mean_iou", "counts")
READING = (
    TextBlock(
        "WAIoU (Behzadi-Khormouji and Oramas) measures how well the points that an explanation marks agree "
        "with the annotated parts: the IoU with each part, weighted by the method's share of all "
        "explanations that cover the part."
    ),
    TextBlock("↑ Higher is better, among these methods only.", term="How to read"),
    TextBlock(
        "whether the model uses the marked points; and everything except the rank: adding a method changes "
        "every score.",
        term="Blind to",
    ),
)


def coverage_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of methods that were compared in one call."""
    comparison = make_comparison(results)
    chosen = {"others": "other", "same": "the same"}[results[0].about.settings.get("choose", "others")]
    caption = (
        f"WAIoU and mean IoU of each method, at the share of points that is best on {chosen} images, with "
        "95 % intervals over groups of images"
    )
    curve = curve_plot(comparison)
    blocks: tuple[Block, ...] = (
        scores_table(caption, results),
        *map(note, _notes(comparison)),
        *control_blocks(comparison),
        *network_table(comparison),
        part_plot(comparison),
        _parts(comparison),
        *label_table(comparison),
        *dissection_table(comparison),
        pooling_plot(comparison),
        *([curve] if curve else []),
        *sensitivity_table(comparison),
        *pictures,
        share_table(comparison),
        _means(comparison),
        settings_table(results),
    )
    return Section("coverage", "Coverage of parts", blocks)


def _notes(comparison: MethodComparison) -> list[str]:
    """Tell which images, parts and heatmaps are missing, and which networks have not learned the classes."""
    results = comparison.results
    notes = [f"{one}." for one in notes_of(results)]
    notes += [
        f"WAIoU of {part} is not defined: no image shows it."
        for column, part in enumerate(comparison.parts)
        if all(result.details["parts"][column] is None for result in results)
    ]
    notes += [
        f"{model_name(result)}: {len(result.failed)} heatmaps are missing, not finite or constant; they mark "
        "no points."
        for result in results
        if result.failed
    ]
    pairs = zip(comparison.methods, results, strict=True)
    notes += [f"{one}." for one in chance_notes({name: one.details.get("network") for name, one in pairs})]
    if len(results) == 1:
        notes.append("With one method, WAIoU is its mean IoU over the images where it covers the part.")
    return notes


def _parts(comparison: MethodComparison) -> TableBlock:
    rows = []
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        share, mean = best_share(result)
        rows.append((method, f"{100 * share:.3g}%", *map(number, (mean, *result.details["parts"]))))
    head = (
        "best share of points",
        "mean IoU there, in sample ↑",
        *(f"{part} ↑" for part in comparison.parts),
    )
    return part_table("WAIoU of each part", head, rows)


def _means(comparison: MethodComparison) -> TableBlock:
    rows = []
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        pairs = zip(result.details["mean_iou"], result.details["counts"], strict=True)
        rows.append((method, *(f"{number(mean)} ({count})" for mean, count in pairs)))
    caption = "Mean IoU where a method covers the part (number of images)"
    return part_table(caption, comparison.parts, rows, folded=True)


def coverage_lines(results: Sequence[StatisticResult]) -> list[str]:
    """Write the scores of each comparison, its paired differences, its controls and its other options."""
    lines: list[str] = []
    for comparison in split_comparisons(results):
        lines += score_lines(comparison.results)
        details = comparison.results[0].details
        for name, scores in details.get("controls", {}).items():
            lines.append(
                f"control {name}: mean_iou {scores['mean_iou']:.4g}, alone WAIoU {scores['waiou']:.4g}"
            )
        if len(comparison.results) > 1 and "sensitivity" in details:
            lines.append(
                "order by WAIoU with other values of one parameter (~ where no difference is shown), and "
                "Kendall's tau with the order above:"
            )
            lines += [
                f"  {one['setting']:24} {_tau(one['agreement'])}  {write_order(one['order'], one['differs'])}"
                for one in details["sensitivity"]
            ]
        notes = [mask_control_note(details.get("mask_controls")), *network_notes(comparison.results)]
        lines += [f"note: {note}" for note in notes if note]
    return lines


def score_lines(results: Sequence[StatisticResult]) -> list[str]:
    """Write the scores of a comparison, and the differences of the first method from the others."""
    return [table(results), *(str(compare(results[0], other)) for other in results[1:])]


def network_notes(results: Sequence[StatisticResult]) -> list[str]:
    """Name the networks whose accuracy is not shown to be above chance."""
    return chance_notes({model_name(result): result.details.get("network") for result in results})


def _tau(agreement: float | None) -> str:
    return "    -" if agreement is None else f"{agreement:5.2f}"


COVERAGE_PAGE = Page(
    section=coverage_section,
    reading=READING,
    needs=NEEDS,
    pictures=coverage_pictures,
    overview=coverage_overview,
    lines=coverage_lines,
)
