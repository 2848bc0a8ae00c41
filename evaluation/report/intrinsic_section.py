"""Section of a report on the errors of intrinsic image models."""

from collections.abc import Sequence

import numpy as np

from candlelight.evaluation.report.benchmark_blocks import RANK, benchmark_blocks
from candlelight.evaluation.report.blocks import Block, PlotBlock, Section, TextBlock, note
from candlelight.evaluation.report.drawing import INK, draw_bars, drawing, label_rows, to_svg
from candlelight.evaluation.report.tables import number, scores_table, settings_table
from candlelight.evaluation.results.result import MeanResult, model_name

NEEDS = ("lmse", "lmse_reflectance", "lmse_shading")
READING = (
    TextBlock(
        "The errors of predicted reflectance and shading: LMSE (Grosse et al. 2009) in windows of 20 pixels, "
        "with the best scale in each window, and si-MSE, the MSE with the best single scale."
    ),
    TextBlock(
        "↓ Lower is better. 0 is perfect. A prediction of zeros has LMSE 1, and a failed prediction counts "
        "as 1.",
        term="How to read",
    ),
    TextBlock(
        "colour, and the scale in each window, so errors that vary slowly (LMSE); scale and sign (si-MSE).",
        term="Blind to",
    ),
)


def intrinsic_section(results: Sequence[MeanResult], pictures: Sequence[Block]) -> Section:
    """Report the errors of models on the same data."""
    notes = [note for result in results for note in _notes(result)]
    notes.append("MSE includes the scale: it is meaningful only for models that predict the scale.")
    caption = "Error of each model: mean over rows, with 95 % intervals over groups of rows"
    means = ", ".join(f"{model_name(result)} {number(result.score)}" for result in results)
    plot = PlotBlock(
        _draw(results),
        f"Bars of LMSE for reflectance and shading of each model. Mean of both: {means}.",
        "LMSE by model. Whiskers are 95 % intervals; vertical lines are means of reflectance and shading.",
    )
    scores, settings = scores_table(caption, results), settings_table(results)
    ranked = benchmark_blocks(results) if all(RANK in result.columns for result in results) else []
    blocks = (scores, *map(note, notes), plot, *ranked, *pictures, settings)
    return Section("intrinsic", "Intrinsic images", blocks)


def _notes(result: MeanResult) -> list[str]:
    """Report the numbers of failed rows and of rows with undefined ground truth."""
    name, notes = model_name(result), []
    if result.failed:
        notes.append(
            f"{name}: {len(result.failed)} of {len(result.ids)} predictions failed (missing or not finite) "
            f"and count as LMSE 1. The LMSE of the other rows is {number(result.mean_of_rest['lmse'])}."
        )
    if result.undefined:
        notes.append(
            f"{name}: {result.undefined} of {len(result.ids)} rows are left out, because LMSE is not "
            "defined: the ground truth is 0 or masked in every window."
        )
    return notes


def _draw(results: Sequence[MeanResult]) -> str:
    pairs = [[result.scores["lmse_reflectance"], result.scores["lmse_shading"]] for result in results]
    means = np.array([[score.value for score in pair] for pair in pairs])
    ends = np.array(
        [[(score.value - score.low, score.high - score.value) for score in pair] for pair in pairs]
    )
    with drawing(1.0 + 0.6 * len(results)) as figure:
        axes = figure.subplots()
        draw_bars(axes, means, ("reflectance", "shading"), ends)
        for row, result in enumerate(results):
            axes.plot([result.score] * 2, [row - 0.42, row + 0.42], color=INK, linewidth=2)
        label_rows(axes, [model_name(result) for result in results])
        axes.set_xlabel("LMSE")
        return to_svg(figure, "lmse")
