"""Section of a report on the Concept Sensitivity Metrics of intrinsic image models."""

from collections.abc import Sequence
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
from candlelight.evaluation.report.blocks import Block, PlotBlock, Section, TableBlock, TextBlock, note
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, label_rows, to_svg
from candlelight.evaluation.report.factor_tables import factor_tables
from candlelight.evaluation.report.runs_plot import runs_plot
from candlelight.evaluation.report.tables import number, scores_table, settings_table, with_deviation
from candlelight.evaluation.results.notes import notes_of
from candlelight.evaluation.results.result import StatisticResult, model_name
from candlelight.loaders.looking.sheet_rows import value_text

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
        _draw(results),
        f"Aligned sensitivities of each model by branch and concept. Means over all sets, {heads}: {means}.",
        "Aligned sensitivity of each model's branches to the concepts. Each dot is a concept set; a filled "
        'dot is significant for the branch. In the rows "against control" the vectors '
        "separate a set from its control. Vertical lines are means over all sets; the broad line is the "
        "ideal.",
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


def _draw(results: Sequence[StatisticResult]) -> str:
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
