"""Blocks of a report on the benchmark of 2009 and on named protocols."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from candlelight.evaluation.intrinsic.protocol_records import NEVER_COMPARE, PROTOCOLS
from candlelight.evaluation.intrinsic.score_methods import absolute_pairs, neighbour_comparisons
from candlelight.evaluation.intrinsic.score_protocols import changed_orders, model_ranks, protocol_rows
from candlelight.evaluation.report.blocks import (
    UNDEFINED,
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    number,
    scores_table,
    settings_table,
    unbroken,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, draw_bars, drawing, label_rows, to_svg
from candlelight.evaluation.run.result import MeanResult, Result, model_name

RANK = "rank"


def benchmark_blocks(results: Sequence[MeanResult]) -> list[Block]:
    """Show the results of `benchmark.score_methods`, after Grosse et al. 2009, Figures 4b and 6.

    Args:
        results: of the same rows, with the column ``rank``, in the order of the page.
    """
    blocks: list[Block] = [_comparisons(results), _objects(results)]
    if ranked := [result for result in results if np.isfinite(result.scores[RANK].value)]:
        blocks.insert(0, _ranks(ranked))
    if windows := [result for result in results if "windows" in result.details]:
        blocks.insert(1, _windows(windows))
    if pairs := absolute_pairs(results):
        blocks.append(_absolute(pairs))
    return blocks


def _ranks(ranked: Sequence[MeanResult]) -> PlotBlock:
    table = np.array([[result.scores[RANK].value] for result in ranked])
    with drawing(0.8 + 0.35 * len(ranked)) as figure:
        axes = figure.subplots()
        draw_bars(axes, table, ("mean rank",))
        label_rows(axes, [model_name(result) for result in ranked])
        axes.set_xlabel("mean rank by LMSE")
        svg = to_svg(figure, "rank")
    means = ", ".join(f"{model_name(result)} {number(result.scores[RANK].value)}" for result in ranked)
    return PlotBlock(
        svg,
        f"Bars of the mean rank of each method: {means}.",
        "Mean rank over the objects; 1 is the best method.",
    )


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
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
        svg = to_svg(figure, "windows")
    return PlotBlock(
        svg,
        "Lines of mean LMSE against the side of the windows, one for each method.",
        "Mean LMSE for other windows than the 20 pixels of all tables; candidates are chosen for 20 pixels.",
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


def _objects(results: Sequence[MeanResult]) -> TableBlock:
    names = [model_name(result) for result in results]
    rows = [
        (name, *(number(result.columns["lmse"][row]) for result in results))
        for row, name in enumerate(results[0].ids)
    ]
    return TableBlock("LMSE of each object", ("object", *names), tuple(rows), folded=True)


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


_CHOICES = ("colour_space", "scale", "mask", "resize", "window", "mean", "trial")


def protocols_section(results: Sequence[Result]) -> Section:
    """Report results of protocols on one data set.

    Args:
        results: with the setting ``protocol``.
    """
    by_protocol: dict[str, dict[str, Result]] = {}
    for name in PROTOCOLS:
        some = [result for result in results if result.about.settings["protocol"] == name]
        if some:
            by_protocol[name] = {model_name(result): result for result in some}
    head, *rows = protocol_rows(by_protocol)
    caption = "Main score of each protocol (rank of the model); the last row has the ranks of all protocols"
    table = TableBlock(caption, head, tuple(tuple(map(unbroken, row)) for row in rows))
    models = {name for some in by_protocol.values() for name in some}
    several = len(by_protocol) > 1 and len(models) > 1
    moved: list[Block] = [_protocol_ranks(by_protocol), *_changes(by_protocol)] if several else []
    never = [
        TextBlock(text, term="Never compare" if place == 0 else "")
        for place, text in enumerate(NEVER_COMPARE)
    ]
    blocks = (table, *moved, *never, _choices(by_protocol), *_all_scores(by_protocol))
    return Section("protocols", "Evaluation protocols", blocks)


def _protocol_ranks(results: Mapping[str, Mapping[str, Result]]) -> PlotBlock:
    """Draw the rank of each model in each protocol, and a line along the protocols."""
    ranks = {protocol: model_ranks(protocol, some) for protocol, some in results.items()}
    models = list(dict.fromkeys(name for some in results.values() for name in some))
    with drawing(1.2 + 0.26 * len(ranks)) as figure:
        axes = figure.subplots()
        for place, name in enumerate(models):
            places = [(some[name], row) for row, some in enumerate(ranks.values()) if name in some]
            colour, style = COLOURS[place % len(COLOURS)], "--o" if place >= len(COLOURS) else "-o"
            # A small shift keeps equal ranks apart.
            shift = 0.12 * (place - (len(models) - 1) / 2) / len(models)
            xs, ys = [rank + shift for rank, _ in places], [row for _, row in places]
            axes.plot(xs, ys, style, color=colour, markersize=5, label=name)
        label_rows(axes, list(ranks))
        axes.set_xticks(range(1, len(models) + 1))
        axes.set_xlim(0.7, len(models) + 0.3)
        axes.set_xlabel("rank; 1 is best")
        axes.grid(axis="x", color=INK, alpha=0.15, linewidth=0.6)
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
        svg = to_svg(figure, "protocols")
    lists = "; ".join(
        f"{protocol} {', '.join(f'{name} {rank}' for name, rank in some.items())}"
        for protocol, some in ranks.items()
    )
    return PlotBlock(
        svg,
        f"Lines of the rank of each model along the protocols: {lists}.",
        "Rank of each model by the main score of each protocol, on the same data.",
    )


def _changes(results: Mapping[str, Mapping[str, Result]]) -> list[TextBlock]:
    lines = changed_orders(results)
    text = (
        f"{len(lines)} of {len(results) - 1} pairs of neighbours in the table order the models differently."
    )
    return [TextBlock(text, term="Changes of order"), *(TextBlock(line, quiet=True) for line in lines)]


def _choices(results: Mapping[str, object]) -> TableBlock:
    rows = tuple(
        (name, *(getattr(PROTOCOLS[name], choice).replace("`", "") for choice in _CHOICES))
        for name in results
    )
    head = ("protocol", *(choice.replace("_", " ") for choice in _CHOICES))
    return TableBlock("Choices of each protocol", head, rows, folded=True)


def _all_scores(results: Mapping[str, Mapping[str, Result]]) -> list[Block]:
    blocks: list[Block] = []
    for name, some in results.items():
        same = list(some.values())
        scores = scores_table(f"All scores of {name}, with 95 % intervals", same)
        blocks.append(TableBlock(scores.caption, scores.head, scores.rows, folded=True))
    last = [result for some in results.values() for result in some.values()][:1]
    return [*blocks, settings_table(last)]
