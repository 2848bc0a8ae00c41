"""Plot of sensitivities against the number of runs, as Figure 7 of Gupta et al. 2022."""

import math
from collections.abc import Sequence
from typing import Any

from candlelight.evaluation.concepts.set_scores import BRANCHES, METRICS, WANTED
from candlelight.evaluation.report.blocks import PlotBlock
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, short_name, to_svg
from candlelight.evaluation.report.tables import number
from candlelight.evaluation.results.result import StatisticResult, model_name

_STYLES = dict(zip(BRANCHES, ("-", "--"), strict=True))
_TWO_COLUMNS = 22  # most characters of a name of which two fit into one line of the legend
_LABELLED = (2, 5, 10, 20, 40, 100, 200, 500, 1000)


def runs_plot(results: Sequence[StatisticResult]) -> PlotBlock | None:
    """Draw the aligned scores of `concepts.score_by_runs`; None if no result has them."""
    shown = [result for result in results if result.details.get("by_runs")]
    if not shown:
        return None
    ends = "; ".join(f"{model_name(result)}: {', '.join(_end_texts(result))}" for result in shown)
    return PlotBlock(
        _draw(shown),
        f"Lines of the sensitivities of each model over the number of runs, which end at: {ends}.",
        "Aligned sensitivity, mean over all sets, by the number of runs that are averaged. Solid: "
        "reflectance; dashed: shading. Bars are standard errors over runs: where lines are level and bars "
        "short, more runs change nothing. They do not contain the choice of images and test frames.",
    )


def _scores(result: StatisticResult, concept: str) -> list[dict[str, Any]]:
    every: list[dict[str, Any]] = result.details["by_runs"]
    return [one for one in every if one["concept"] == concept and one["alignment"] == "aligned"]


def _end_texts(result: StatisticResult) -> list[str]:
    """Write the sensitivities over all runs."""
    last = {concept: some[-1] for concept in METRICS if (some := _scores(result, concept))}
    return [
        f"{branch} to {concept} {number(one['mean'][branch])}"
        for concept, one in last.items()
        for branch in BRANCHES
    ]


def _draw(results: Sequence[StatisticResult]) -> str:
    concepts = [concept for concept in METRICS if any(_scores(result, concept) for result in results)]
    names = [short_name(model_name(result)) for result in results]
    columns = 2 if max(map(len, names)) <= _TWO_COLUMNS else 1
    lines = -(-len(results) // columns)
    with drawing(2.7 + 0.25 * lines) as figure:
        panels = figure.subplots(1, len(concepts), sharey=True, squeeze=False)[0]
        for axes, concept in zip(panels, concepts, strict=True):
            for place, result in enumerate(results):
                _draw_lines(axes, _scores(result, concept), COLOURS[place % len(COLOURS)])
            axes.set_xscale("log")
            numbers = sorted({one["runs"] for result in results for one in _scores(result, concept)})
            ticks = [runs for runs in numbers if runs in _LABELLED or runs == numbers[-1]]
            axes.set_xticks(ticks, list(map(str, ticks)))
            axes.minorticks_off()
            axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.6)
            solid = int(WANTED[concept] == BRANCHES[0])
            ideal = f"ideal: solid {solid}, dashed {1 - solid}"
            axes.set(title=f"{concept} sets\n{ideal}", xlabel="runs", ylim=(-0.03, 1.03))
        panels[0].set_ylabel("sensitivity")
        handles = [
            panels[0].plot([], [], color=COLOURS[place % len(COLOURS)], label=name)[0]
            for place, name in enumerate(names)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=columns)
        return to_svg(figure, "runs")


def _draw_lines(axes: Any, scores: Sequence[dict[str, Any]], colour: str) -> None:
    """Draw the lines of both branches of one model in one panel."""
    for branch, style in _STYLES.items():
        axes.errorbar(
            [one["runs"] for one in scores],
            [one["mean"][branch] for one in scores],
            yerr=[(one["spread"][branch] or 0) / math.sqrt(one["runs"]) for one in scores],
            color=colour,
            linestyle=style,
            marker="o",
            markersize=3,
            linewidth=1.5,
            elinewidth=1,
            capsize=2,
        )
