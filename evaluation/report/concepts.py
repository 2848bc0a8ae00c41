"""The report's section on the Concept Sensitivity Metrics of intrinsic image models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.concepts.csm import CSM
from evaluation.concepts.protocol import BranchScore, Concept, ConceptScores, SetScore
from evaluation.report.drawing import COLOURS, INK, drawing, name_rows, to_svg
from evaluation.report.parts import Plot, Reading, Section, Table, number, settings_table, spread
from loaders.looking.sheet import value_text

_READING = Reading(
    key="concepts",
    title="Concept sensitivity",
    measures="Whether the reflectance follows albedo and the shading follows illumination, and not the other "
    "way round (Gupta et al. 2022). CSM_S is the sensitivity of the reflectance to albedo over that of the "
    "shading, CSM_R that of the shading to illumination over that of the reflectance.",
    better="↑ Higher is better. 1 is indifferent and ∞ ideal; for the bounded variants 0.5 and 1.",
    blind="whether a prediction is right, and how strong an effect is: only shares of test images count.",
)
# Branch, concept, and the sensitivity of a perfect separation.
_SENSITIVITIES: tuple[tuple[str, Concept, int], ...] = (
    ("reflectance", "albedo", 1),
    ("shading", "albedo", 0),
    ("reflectance", "illumination", 0),
    ("shading", "illumination", 1),
)
_HEADS = tuple(f"{branch} to {concept} (ideal {ideal})" for branch, concept, ideal in _SENSITIVITIES)


def concepts_section(scores: Mapping[str, ConceptScores]) -> Section:
    """Report the metrics of models, by model name."""
    kept = {model: one.csm() for model, one in scores.items()}
    every = {model: one.csm(significant_only=False) for model, one in scores.items()}
    means = "; ".join(f"{model}: {', '.join(_means(csm))}" for model, csm in every.items())
    plot = Plot(
        _draw(scores),
        f"Sensitivities of each model in four panels. Means over all sets, {', '.join(_HEADS)}: {means}.",
        "Sensitivity of each model's branches to the concepts. A dot is a concept set, filled if it is "
        "significant for both branches; upright lines are means of filled dots, the broad line is the ideal.",
    )
    tables = (
        _metrics("Concept sets that are significant for both branches, as in the paper", scores, kept),
        _metrics("All concept sets, significant or not", scores, every),
        _every_set(scores),
        settings_table({model: one.settings for model, one in scores.items()}),
    )
    notes = tuple(note for model in scores for note in _notes(model, scores[model], kept[model]))
    return Section(_READING, tables, plot, notes)


def _means(csm: CSM) -> list[str]:
    """Mean sensitivities in order of ``_SENSITIVITIES``."""
    columns = (csm.r_albedo, csm.s_albedo, csm.r_illumination, csm.s_illumination)
    return [number(float(column.mean())) for column in columns]


def _metrics(caption: str, scores: Mapping[str, ConceptScores], results: Mapping[str, CSM]) -> Table:
    rows = []
    for model, csm in results.items():
        ratios = (csm.csm_s, csm.csm_r, csm.bounded_s, csm.bounded_r)
        used = {"albedo": len(csm.r_albedo), "illumination": len(csm.r_illumination)}
        given = {concept: sum(one.concept == concept for one in scores[model].sets) for concept in used}
        counts = (f"{used[concept]} of {given[concept]}" for concept in used)
        rows.append((model, *(number(float(ratio)) for ratio in ratios), *_means(csm), *counts))
    head = ("model", "CSM_S ↑", "CSM_R ↑", "bounded S ↑", "bounded R ↑", *_HEADS)
    return Table(caption, (*head, "albedo sets", "illumination sets"), tuple(rows))


def _notes(model: str, scores: ConceptScores, csm: CSM) -> list[str]:
    """Say why a metric of a model is infinite or not defined."""
    notes = []
    for name, value, concept, unwanted, branch in (
        ("CSM_S", csm.csm_s, "albedo", csm.s_albedo, "shading"),
        ("CSM_R", csm.csm_r, "illumination", csm.r_illumination, "reflectance"),
    ):
        zeros = int((unwanted == 0).sum())
        if not len(unwanted):
            given = any(one.concept == concept for one in scores.sets)
            why = f"no {concept} set {'is significant for both branches' if given else 'was given'}"
            notes.append(f"{model}: {name} is not defined: {why}.")
        elif bool(value.isinf()):
            why = f"the {branch} does not respond to {zeros} of {len(unwanted)} {concept} sets"
            notes.append(f"{model}: {name} is infinite: {why}.")
        elif bool(value.isnan()):
            notes.append(f"{model}: {name} is not defined: neither branch responds to some {concept} set.")
    return notes


def _every_set(scores: Mapping[str, ConceptScores]) -> Table:
    def cells(branch: BranchScore) -> tuple[str, ...]:
        return spread(branch.sensitivity, branch.spread), number(branch.accuracy), number(branch.p_value)

    rows = []
    for model, one in scores.items():
        for item in one.sets:
            fixed = ", ".join(f"{name} {value_text(value)}" for name, value in item.factors.items())
            branches = (*cells(item.reflectance), *cells(item.shading))
            counts = "yes" if _counts(item) else "no"
            rows.append((model, item.concept, fixed, str(item.images), *branches, counts))
    branches = ("reflectance", "accuracy", "p", "shading", "accuracy", "p")
    head = ("model", "concept", "fixed factors", "images", *branches, "significant")
    caption = "Every concept set: sensitivity ± deviation over runs, held-out accuracy, p of the t-test"
    return Table(caption, head, tuple(rows), folded=True)


def _counts(one: SetScore) -> bool:
    """Tell whether a concept set is significant for both branches, as the metrics ask for."""
    return one.reflectance.significant and one.shading.significant


def _draw(scores: Mapping[str, ConceptScores]) -> str:
    with drawing(1.7 + 0.6 * len(scores)) as figure:
        grid = figure.subplots(2, 2, sharex=True, sharey=True)
        for axes, title, (branch, concept, ideal) in zip(grid.flat, _HEADS, _SENSITIVITIES, strict=True):
            axes.axvline(ideal, color=COLOURS[2], linewidth=5, alpha=0.6)
            axes.axvline(0.5, color=INK, linewidth=0.6, linestyle=":")
            axes.set_title(title.replace(" (", "\n("))
            for row, one in enumerate(scores.values()):
                _draw_row(axes, row, branch, [item for item in one.sets if item.concept == concept])
            name_rows(axes, list(scores))
        for axes in grid[1]:
            axes.set(xlabel="sensitivity", xlim=(-0.05, 1.05))
        return to_svg(figure, "csm")


def _draw_row(axes: Any, row: int, branch: str, sets: Sequence[SetScore]) -> None:
    """Draw one model's sensitivities in one panel."""
    colour = COLOURS[0]
    for counts in (False, True):
        values = [getattr(one, branch).sensitivity for one in sets if _counts(one) == counts]
        face = colour if counts else "none"
        axes.scatter(
            values, [row] * len(values), s=24, color=face, edgecolors=colour, alpha=0.8, linewidths=1
        )
        if counts and values:
            axes.plot([np.mean(values)] * 2, [row - 0.3, row + 0.3], color=INK, linewidth=2)
