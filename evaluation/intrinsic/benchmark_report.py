"""Tables and plots of the benchmark of Grosse et al. 2009."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress, pairwise

import numpy as np

from candlelight.evaluation.intrinsic.benchmark_methods import ABSOLUTE, is_absolute
from candlelight.evaluation.report.blocks import UNDEFINED, Block, PlotBlock, TableBlock, number, unbroken
from candlelight.evaluation.report.drawing import COLOURS, drawing, to_svg
from candlelight.evaluation.report.plain_section import score_bars
from candlelight.evaluation.run.compare import Comparison, compare
from candlelight.evaluation.run.result import MeanResult, align_columns, model_name

RANK = "rank"

_COLUMNS = ("lmse", "lmse_reflectance", "lmse_shading", "rank")


def method_lines(results: Sequence[MeanResult]) -> list[str]:
    """Write the table of methods in order, and the comparisons of neighbours."""
    return [align_columns(summary_rows(results)), *map(str, neighbour_comparisons(results))]


def summary_rows(results: Sequence[MeanResult]) -> list[tuple[str, ...]]:
    """Make the cells of a table with a line for each result; the first row holds the titles.

    Args:
        results: with the column ``rank`` of `candlelight.evaluation.intrinsic.score_methods.add_ranks`.
    """
    titles = (
        "method",
        "lmse ↓",
        "95 % interval",
        "reflectance",
        "shading",
        "mean rank",
        "failed",
        "undefined",
    )
    rows: list[tuple[str, ...]] = [titles]
    for result in results:
        total, reflectance, shading, rank = (result.scores[name] for name in _COLUMNS)
        name = model_name(result)
        interval = f"{total.low:.4f} to {total.high:.4f}"
        parts = (f"{score.value:.4f}" for score in (total, reflectance, shading))
        value, *others = parts
        place = "" if math.isnan(rank.value) else f"{rank.value:.2f}"
        counts = (str(count or "") for count in (len(result.failed), result.undefined))
        rows.append((name, value, interval, *others, place, *counts))
    kept = [any(row[column] for row in rows[1:]) for column in range(len(titles))]
    return [tuple(compress(row, kept)) for row in rows]


def absolute_pairs(results: Sequence[MeanResult]) -> list[tuple[MeanResult, MeanResult]]:
    """Pair each method with its result with p = 1, if there is one."""
    by_name = {model_name(result): result for result in results}
    absolute = {name: one for name, one in by_name.items() if is_absolute(one)}
    names = ((name.removesuffix(ABSOLUTE), one) for name, one in absolute.items())
    return [(by_name[name], one) for name, one in names if name in by_name]


def neighbour_comparisons(results: Sequence[MeanResult]) -> list[Comparison]:
    """Compare each ranked method with the next one, and p = 1 with p = 2, paired by object."""
    ranked = [result for result in results if np.isfinite(result.scores["rank"].value)]
    absolute = [(other, one) for one, other in absolute_pairs(results)]
    return [compare(one, other) for one, other in (*pairwise(ranked), *absolute)]


def benchmark_blocks(results: Sequence[MeanResult]) -> list[Block]:
    """Show the results of `benchmark.score_methods`, after Grosse et al. 2009, Figures 4b and 6.

    Args:
        results: of the same rows, with the column ``rank``, in the order of the page.
    """
    blocks: list[Block] = [_comparisons(results)]
    if ranked := [result for result in results if np.isfinite(result.scores[RANK].value)]:
        caption = "Mean rank by LMSE over the objects; 1 is the best method."
        blocks.insert(0, replace(score_bars(ranked, RANK), caption=caption))
    if windows := [result for result in results if "windows" in result.details]:
        blocks.insert(1, _windows(windows))
    if pairs := absolute_pairs(results):
        blocks.append(_absolute(pairs))
    return blocks


def _windows(results: Sequence[MeanResult]) -> PlotBlock:
    sides = [int(side) for side in results[0].details["windows"]]
    with drawing(3.2) as figure:
        axes = figure.subplots()
        for place, result in enumerate(results):
            values = [result.details["windows"][str(side)] for side in sides]
            heights = [np.nan if value is None else value for value in values]
            style = "--o" if place >= len(COLOURS) else "-o"
            colour, name = COLOURS[place % len(COLOURS)], model_name(result)
            axes.plot(range(len(sides)), heights, style, color=colour, markersize=4, label=name)
        axes.set_xticks(range(len(sides)), [str(side) for side in sides])
        axes.set_xlabel("side of the windows in pixels")
        axes.set_ylabel("mean LMSE")
        axes.set_ylim(0, None)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
        svg = to_svg(figure, "windows")
    return PlotBlock(
        svg,
        "Lines of mean LMSE against the side of the windows, one for each method.",
        "Mean LMSE for other windows than the 20 pixels of all tables: lower is better. Parameters are "
        "chosen for 20 pixels.",
    )


def _comparisons(results: Sequence[MeanResult]) -> TableBlock:
    rows = []
    for one in neighbour_comparisons(results):
        pair, interval = f"{one.first} - {one.second}", one.difference
        reach = f"{number(interval.low)} to {number(interval.high)}"
        if math.isnan(interval.low):
            reach = UNDEFINED
        rows.append((unbroken(pair), number(interval.value), unbroken(reach), number(one.p_value, 2)))
    head = ("difference of LMSE", "mean", "95 % interval", "p")
    return TableBlock(
        "Each method and the next one in the order, and p = 1 against p = 2, paired by object",
        head,
        tuple(rows),
    )


def _absolute(pairs: Sequence[tuple[MeanResult, MeanResult]]) -> TableBlock:
    rows = []
    for squared, absolute in pairs:
        better = sum(np.less(absolute.columns["lmse"], squared.columns["lmse"]))
        count = f"{better} of {len(squared.ids)}"
        residual = number(max(absolute.details["residual"]))
        scores = number(squared.score), number(absolute.score)
        rows.append((model_name(squared), *scores, unbroken(count), residual))
    head = ("method", "p = 2", "p = 1", "p = 1 is better", "largest residual of the solver")
    return TableBlock(
        "Mean LMSE with gradients integrated by squared and by absolute errors", head, tuple(rows)
    )
