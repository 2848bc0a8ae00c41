"""Section of a report on causal graphs, with pictures of the estimated graphs."""

from collections.abc import Sequence

import numpy as np

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.causal.causal_report import score_blocks
from candlelight.evaluation.report.blocks import Block, PlotBlock, Section, TextBlock, settings_table
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, short_name, to_svg
from candlelight.evaluation.run.result import StatisticResult, competing, model_name, score_grid

# By what is wrong with an edge: its colour and line.
_KINDS = {
    "right": (COLOURS[2], "-"),
    "reversed or other mark": (COLOURS[1], "-"),
    "extra": (COLOURS[5], "-"),
    "missing": (COLOURS[7], ":"),
}


def _section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores, and draw the true graph and each estimate."""
    drawn = [one for one in results if one.details["estimate"] and competing(one, 0.0) is not None]
    plots = [_plot("True graph", results[0].details["nodes"], *2 * [results[0].details["truth"]])]
    plots += [
        _plot(model_name(one), *(one.details[part] for part in ("nodes", "truth", "estimate")))
        for one in drawn
    ]
    blocks = (*score_blocks(results), *plots, *pictures, settings_table(results))
    return Section("graph", f"Causal graphs: {results[0].about.settings['compared']}", blocks)


def _plot(title: str, nodes: list[str], truth: list[list[int]], estimate: list[list[int]]) -> PlotBlock:
    """Draw the nodes on a circle, with an edge for each pair that has one in either graph."""
    found, true = np.array(estimate), np.array(truth)
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    counts = dict.fromkeys(_KINDS, 0)
    with drawing(4.6) as figure:
        axes = figure.subplots()
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.25, 1.25), aspect="equal")
        axes.axis("off")
        for one, other in zip(*np.triu_indices(len(nodes), 1), strict=True):
            own, wanted = ((graph[one, other], graph[other, one]) for graph in (found, true))
            if not any((*own, *wanted)):
                continue
            kind = (
                "missing"
                if not any(own)
                else "extra"
                if not any(wanted)
                else "right"
                if own == wanted
                else "reversed or other mark"
            )
            counts[kind] += 1
            there, back = own if any(own) else wanted
            heads = (back & 2 or back > there, there & 2 or there > back)
            style = f"{'<' * bool(heads[0])}-{'>' * bool(heads[1])}"
            colour, line = _KINDS[kind]
            arrow = {
                "arrowstyle": style,
                "color": colour,
                "linestyle": line,
                "lw": 1.6,
                "shrinkA": 16,
                "shrinkB": 16,
            }
            axes.annotate("", places[other], places[one], arrowprops=arrow)
        for name, (x, y) in zip(nodes, places, strict=True):
            axes.text(1.06 * x, 1.06 * y, short_name(name), ha="center", va="center", color=INK, fontsize=9)
        handles = [
            axes.plot([], [], line, color=colour, label=kind)[0] for kind, (colour, line) in _KINDS.items()
        ]
        axes.legend(handles=handles, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1), fontsize=9)
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        return PlotBlock(
            to_svg(figure, "graph"), f"Graph of {len(nodes)} nodes: {said}.", f"{title}: edges {said}."
        )


GRAPH_PAGE = Page(
    section=_section,
    reading=(
        TextBlock(
            "SHD counts the pairs of nodes whose edges differ from the true graph. Skeleton ignores "
            "directions; arrows are the arrowheads alone; orientation is the share of right edges among the "
            "pairs that have one in both graphs. MCC is the mean correlation of the factors with their codes."
        ),
        TextBlock(
            "\u2193 Of SHD lower is better, of all others higher. Compare with the empty graph, which has a low "
            "SHD where edges are few, and with random graphs of as many edges; their interval holds 95 % of "
            "them.",
            term="How to read",
        ),
        TextBlock(
            "what an error costs, and why a search fails: read the notes below the table.", term="Blind to"
        ),
    ),
    needs=("compared", "nodes", "truth", "estimate"),
    lines=score_grid,
)
