"""Section of a report on CSM: scores, curves over runs, and tables by factor."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from candlelight.evaluation.concepts.set_scores import (
    ALIGNMENTS,
    BRANCHES,
    CONTROLLED,
    METRICS,
    UNWANTED,
    WANTED,
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
    unbroken,
    with_deviation,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, label_rows, short_name, to_svg
from candlelight.evaluation.run.result import StatisticResult, model_name, notes_of
from candlelight.loaders.looking.sheet_rows import value_text
from candlelight.loaders.schema import FactorValue

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


_COLUMNS = {
    "mean_of_ratios": "mean of ratios ↑",
    "ratio_of_means": "ratio of means ↑",
    "bounded_mean_of_ratios": "bounded, mean of ratios ↑",
    "bounded_ratio_of_means": "bounded, ratio of means ↑",
    "wanted": "wanted sensitivity ↑",
    "unwanted": "unwanted sensitivity ↓",
}
_Groups = dict[tuple[str, tuple[FactorValue, ...], str], dict[str, Any]]


def factor_tables(results: Sequence[StatisticResult]) -> list[TableBlock]:
    """Tabulate the groups of `concepts.csm_by_factor`: two tables for each choice of factors.

    The first has aligned means of ratios with the sensitivities behind them, the second everything. Only the
    first table is open.
    """
    tables: list[TableBlock] = []
    for factors in dict.fromkeys(tuple(one["values"]) for result in results for one in _groups(result)):
        found: _Groups = {
            (model_name(result), tuple(one["values"].values()), one["concept"]): one
            for result in results
            for one in _groups(result)
            if tuple(one["values"]) == factors
        }
        tables += [_short_table(factors, found, folded=bool(tables)), _whole_table(factors, found)]
    return tables


def _groups(result: StatisticResult) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = result.details.get("groups", ())
    return found


def _short_table(factors: tuple[str, ...], found: _Groups, folded: bool) -> TableBlock:
    """Tabulate the aligned metrics of each model and value, and the sensitivities behind them."""
    concepts = [concept for concept in METRICS if any(key[2] == concept for key in found)]
    head = [*factors, "model"]
    for concept in concepts:
        arrows = {name: "↑" if name == WANTED[concept] else "↓" for name in BRANCHES}
        columns = (f"{name} to {concept} {arrow}" for name, arrow in arrows.items())
        head += [f"{METRICS[concept]} ↑", *columns, "sets"]
    rows = []
    for values in dict.fromkeys(values for _, values, _ in found):
        for model in dict.fromkeys(name for name, _, _ in found):
            groups = [found.get((model, values, concept)) for concept in concepts]
            if any(groups):
                cells = [cell for group in groups for cell in _short_cells(group)]
                rows.append((*map(value_text, values), model, *cells))
    caption = f"CSM by {' and '.join(factors)}: aligned, all sets, mean of ratios, with 95 % intervals"
    return TableBlock(caption, tuple(head), tuple(rows), folded)


def _short_cells(group: dict[str, Any] | None) -> Iterator[str]:
    if group is None:
        yield from ("",) * 4
        return
    scores = group["scores"]["aligned"]
    yield _with_range(scores["mean_of_ratios"])
    for branch in BRANCHES:
        name = "wanted" if branch == WANTED[group["concept"]] else "unwanted"
        yield number(scores[name]["value"])
    yield str(group["sets"]["aligned"])


def _whole_table(factors: tuple[str, ...], found: _Groups) -> TableBlock:
    rows = [
        (
            *map(value_text, values),
            model,
            METRICS[concept],
            alignment,
            str(group["sets"][alignment]),
            *(_with_range(group["scores"][alignment][name]) for name in _COLUMNS),
        )
        for concept in METRICS
        for values in dict.fromkeys(values for _, values, _ in found)
        for model in dict.fromkeys(name for name, _, _ in found)
        if (group := found.get((model, values, concept)))
        for alignment in ALIGNMENTS
    ]
    caption = f"CSM by {' and '.join(factors)}: both losses, both orders of averaging, bounded variants"
    head = (*factors, "model", "metric", "loss", "sets", *_COLUMNS.values())
    return TableBlock(caption, head, tuple(rows), folded=True)


def _with_range(score: dict[str, Any]) -> str:
    """Write a score in its JSON form, with its interval if there is one."""
    if score["low"] is None:
        return number(score["value"])
    return f"{number(score['value'])} " + unbroken(
        f"({number(score['low'], 2)} to {number(score['high'], 2)})"
    )


NEEDS = ("sets",)
READING = (
    TextBlock(
        "The Concept Sensitivity Metrics (Gupta et al. 2022) measure whether reflectance responds to albedo "
        "and shading responds to illumination, and not the other way round. CSM_S is the sensitivity of "
        "reflectance to albedo, divided by the sensitivity of shading to albedo. CSM_R is the sensitivity of "
        "shading to illumination, divided by the sensitivity of reflectance to illumination. Aligned scores "
        "ignore the scale of a prediction; unaligned scores, as in the paper, also depend on it."
    ),
    TextBlock(
        "↑ Higher is better. 1 means that both branches respond equally to the concept; the ideal is ∞.",
        term="How to read",
    ),
    TextBlock(
        "the correctness of a prediction; the strength of an effect, because only shares of test images "
        "count; and, but for rows against controls, the common scene of the images of a set, which vectors "
        "may represent in place of the concept.",
        term="Blind to",
    ),
)
_PANELS = tuple((branch, concept) for concept in WANTED for branch in BRANCHES)


def concepts_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the metrics of models on the same concept sets and test frames."""
    caption = (
        "Ratios by alignment of the loss and rule on significance, with 95 % intervals over groups of test "
        "frames"
    )
    means = "; ".join(f"{model_name(result)}: {', '.join(_means(result))}" for result in results)
    heads = ", ".join(f"{branch} to {concept}" for branch, concept in _PANELS)
    plot = PlotBlock(
        _draw_scores(results),
        f"Aligned sensitivities of each model by branch and concept. Means over all sets, {heads}: {means}.",
        "Aligned sensitivity of each model's branches to the concepts: the nearer to the broad line, the "
        "ideal, the better. Each dot is a concept set; a filled dot is significant for the branch. Vertical "
        'lines are means over all sets. In the rows "against control" the vectors separate a set from its '
        "control.",
    )
    lines = [*(f"{line}." for line in notes_of(results)), *(line for one in results for line in _notes(one))]
    by_runs = runs_plot(results)
    plots = (plot,) if by_runs is None else (plot, by_runs)
    before: tuple[Block, ...] = (
        scores_table(caption, results),
        *map(note, lines),
        *plots,
        *factor_tables(results),
    )
    after = (_every_set(results), settings_table(results))
    return Section("concepts", "Concept sensitivity", (*before, *pictures, *after))


def _sensitivities(
    result: StatisticResult, branch: str, concept: str, condition: str = "aligned"
) -> list[dict[str, Any]]:
    sets = (one for one in result.details["sets"] if one["concept"] == concept)
    return [one[branch][condition] for one in sets if condition in one[branch]]


def _means(result: StatisticResult) -> list[str]:
    """Write the mean aligned sensitivities in the order of the panels."""
    columns = ([one["sensitivity"] for one in _sensitivities(result, *panel)] for panel in _PANELS)
    return [number(float(np.mean(column))) if column else "none" for column in columns]


def _notes(result: StatisticResult) -> list[str]:
    """Tell why a ratio over all sets is infinite or not defined."""
    notes = []
    for concept, metric in METRICS.items():
        for alignment in ALIGNMENTS:
            score = result.scores.get(f"{metric} {alignment}, all sets")
            if score is not None and not np.isfinite(score.value):
                how = "is infinite" if np.isinf(score.value) else "is not defined"
                notes.append(
                    f"{model_name(result)}: {metric} {alignment} {how}, because the {UNWANTED[concept]} does "
                    f"not respond to some {concept} set."
                )
    return notes


def _every_set(results: Sequence[StatisticResult]) -> TableBlock:
    rows = []
    for result in results:
        for one in result.details["sets"]:
            fixed = ", ".join(f"{name} {value_text(value)}" for name, value in one["fixed"].items())
            for condition in one[BRANCHES[0]]:
                cells = [cell for branch in BRANCHES for cell in _cells(one[branch][condition])]
                rows.append(
                    (model_name(result), one["concept"], fixed, str(one["images"]), condition, *cells)
                )
    tests = ("accuracy", "cosine", "effect", "p of permutation", "p of t-test")
    branches = [head for branch in BRANCHES for head in (branch, *tests)]
    head = ("model", "concept", "fixed factors", "images", "condition", *branches)
    caption = (
        "Every concept set: sensitivity ± deviation over runs, held-out accuracy, mean cosine of vector and "
        "descent, effect in deviations of the exchanges, its p-value for all sets together, p of the t-test"
    )
    return TableBlock(caption, head, tuple(rows), folded=True)


def _cells(score: dict[str, Any]) -> tuple[str, ...]:
    return (
        with_deviation(score["sensitivity"], score["spread"]),
        number(score["accuracy"]),
        number(score["cosine"]),
        f"{number(score['effect'][0])} ({number(score['effect'][1])} to {number(score['effect'][2])})",
        number(score["adjusted_p"]),
        number(score["t_test_p"]),
    )


def _draw_scores(results: Sequence[StatisticResult]) -> str:
    shown = [
        (result, condition)
        for result in results
        for condition in ("aligned", "aligned" + CONTROLLED)
        if any(_sensitivities(result, *panel, condition) for panel in _PANELS)
    ]
    panels = [panel for panel in _PANELS if any(_sensitivities(result, *panel) for result in results)]
    rows = len(panels) // 2  # of panels: one for each concept
    with drawing(0.4 + rows * (0.75 + 0.3 * len(shown))) as figure:
        grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
        for axes, (branch, concept) in zip(grid.flat, panels, strict=True):
            ideal = int(WANTED[concept] == branch)
            axes.axvline(ideal, color=COLOURS[2], linewidth=5, alpha=0.6)
            axes.axvline(0.5, color=INK, linewidth=0.6, linestyle=":")
            axes.set_title(f"{branch} to\n{concept}, ideal {ideal}")
            for row, (result, condition) in enumerate(shown):
                _draw_row(axes, row, _sensitivities(result, branch, concept, condition))
            names = [CONTROLLED.strip() if CONTROLLED in how else model_name(one) for one, how in shown]
            label_rows(axes, names)
        for axes in grid[-1]:
            axes.set(xlabel="sensitivity", xlim=(-0.05, 1.05))
        return to_svg(figure, "csm")


def _draw_row(axes: Any, row: int, sets: Sequence[dict[str, Any]]) -> None:
    """Draw one model's sensitivities in one panel."""
    colour = COLOURS[0]
    for significant in (False, True):
        values = [one["sensitivity"] for one in sets if one["significant"] == significant]
        face = colour if significant else "none"
        axes.scatter(
            values, [row] * len(values), s=24, color=face, edgecolors=colour, alpha=0.8, linewidths=1
        )
    if sets:
        mean = np.mean([one["sensitivity"] for one in sets])
        axes.plot([mean] * 2, [row - 0.3, row + 0.3], color=INK, linewidth=2)
