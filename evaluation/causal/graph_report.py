"""Section of a report on causal graphs, with pictures of the graphs."""

from collections.abc import Sequence

import numpy as np

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TextBlock,
    note,
    scores_table,
    settings_table,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, short_name, to_svg
from candlelight.evaluation.run.result import Result, StatisticResult, model_name, notes_of, score_grid

# Colour and line of an edge by its error; "turned" has other arrowheads.
_KINDS = {"right": (COLOURS[2], "-"), "turned": (COLOURS[1], "-"), "extra": (COLOURS[5], "-")}
_KINDS |= {"missing": (COLOURS[7], ":")}


def _section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores, and draw the true graph and the estimates."""
    truth, about = results[0].details["truth"], results[0].about.settings
    drawn = {"True graph": truth} | {model_name(one): one.details["estimate"] for one in results}
    plots = [_plot(name, about["factors"], truth, one) for name, one in drawn.items() if np.any(one)]
    table = scores_table("Scores of each graph; of random graphs the mean and the range of 95 %", results)
    notes = (note(f"{line}.") for line in notes_of(results))
    blocks = (table, *notes, *plots, *pictures, settings_table(results))
    return Section("graph", f"Causal graphs, compared as {about['compared']}", blocks)


def _lines(results: Sequence[Result]) -> list[str]:
    return [f"compared as {results[0].about.settings['compared']}", *score_grid(results)]


def _plot(title: str, nodes: list[str], truth: list[list[int]], estimate: list[list[int]]) -> PlotBlock:
    """Draw the nodes on a circle, with an edge for each pair that has one in either graph."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found, counts = np.array(estimate), dict.fromkeys(_KINDS, 0)
    with drawing(4.6) as figure:
        figure.set_layout_engine("none")  # which would move the axes each time that they are drawn
        axes = figure.add_axes((0, 0, 1, 1), xlim=(-2, 2), ylim=(-1.25, 1.5))
        axes.axis("off")
        for one, other in np.argwhere(np.triu(found + found.T + truth + np.transpose(truth))):
            own, wanted = ((graph[one][other], graph[other][one]) for graph in (found, truth))
            wrong = "extra" if not any(wanted) else "turned"
            kind = "missing" if not any(own) else "right" if own == wanted else wrong
            there, back = own if any(own) else wanted
            colour, line = _KINDS[kind]
            style = "<" * bool(back > there or back & 2) + "-" + ">" * bool(there > back or there & 2)
            arrow = {"arrowstyle": style, "color": colour, "linestyle": line, "shrinkA": 3, "shrinkB": 3}
            axes.annotate("", places[other], places[one], arrowprops=arrow)
            counts[kind] += 1
        for name, (x, y) in zip(nodes, 1.04 * places, strict=True):  # outside, so that no arrow meets a name
            across, up = _side(x, "right", "left"), _side(y, "top", "bottom")
            axes.text(x, y, short_name(name), ha=across, va=up, color=INK, fontsize=9)
        for kind, (colour, line) in _KINDS.items():
            axes.plot([], [], line, color=colour, label=kind)
        axes.legend(loc="upper center", ncols=len(_KINDS), fontsize=9)
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        said = f"edges {said}" if estimate is not truth else f"{counts['right']} edges"
        alt = f"Graph of {len(nodes)} nodes: {said}."
        return PlotBlock(to_svg(figure, "graph"), alt, f"{title}: {said}.")


def _side(place: float, below: str, above: str) -> str:
    return "center" if abs(place) < 0.3 else above if place > 0 else below


_READING = (
    TextBlock(
        "Estimated causal graphs of the factors against the true one. SHD counts the pairs of factors "
        "whose edges differ; skeleton is the pairs with an edge, whatever its direction, arrows those with "
        "its direction; orientation is the share of right directions among the edges of both graphs."
    ),
    TextBlock(
        "↓ Lower SHD is better, ↑ higher is better of all others. Compare with the empty graph, whose SHD "
        "is low where edges are few, and with random graphs. Turned edges have the other direction.",
        term="How to read",
    ),
    TextBlock("the strength of effects: a weak edge counts as much as a strong one.", term="Blind to"),
)
GRAPH_PAGE = Page(
    section=_section,
    reading=_READING,
    needs=("factors", "compared", "truth", "estimate"),
    lines=_lines,
)
