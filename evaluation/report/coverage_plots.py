"""Plots of the coverage section: Figures 5, 7 and 8 of the WAIoU paper, for the methods of one classifier."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from candlelight.evaluation.coverage.method_comparisons import MethodComparison, best_share, iou_by_pooling
from candlelight.evaluation.report.blocks import PlotBlock
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
from candlelight.evaluation.report.tables import number

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
