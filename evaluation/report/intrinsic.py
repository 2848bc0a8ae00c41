"""The report's section on errors of intrinsic image models."""

import math
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from evaluation.intrinsic.protocol import IntrinsicScores
from evaluation.report.drawing import INK, bars, drawing, name_rows, to_svg
from evaluation.report.parts import Plot, Reading, Section, Table, number, spread

_READING = Reading(
    key="intrinsic",
    title="Intrinsic images",
    measures="How far predicted reflectance and shading are from the rendered truth: LMSE in windows of 20 "
    "pixels, each with a scale of its own (Grosse et al. 2009), and MSE with the best single scale (si-MSE).",
    better="↓ Lower is better. 0 is perfect; a prediction of zeros has LMSE 1.",
    blind="colour and the scale in each window, so errors that vary slowly (LMSE); scale and sign (si-MSE).",
)
_ERRORS = {
    "LMSE ↓": "lmse",
    "LMSE reflectance ↓": "lmse_reflectance",
    "LMSE shading ↓": "lmse_shading",
    "si-MSE reflectance ↓": "si_mse_reflectance",
    "si-MSE shading ↓": "si_mse_shading",
    "MSE reflectance ↓": "mse_reflectance",
    "MSE shading ↓": "mse_shading",
}


def intrinsic_section(scores: Mapping[str, IntrinsicScores]) -> Section:
    """Report the errors of models, by model name."""
    rows, notes = [], []
    for model, one in scores.items():
        missing = int(one.lmse.isnan().sum())
        errors = (spread(*_over_samples(getattr(one, field))) for field in _ERRORS.values())
        rows.append((model, f"{len(one.ids) - missing} of {len(one.ids)}", *errors))
        if missing:
            notes.append(
                f"{model}: LMSE is not defined for {missing} of {len(one.ids)} samples and leaves them out: "
                "the truth is 0 or masked in every window, or the prediction is not finite."
            )
    notes.append("MSE judges the scale too: read it only for models that claim to predict the scale.")
    caption = "Error of each model, mean ± standard deviation over samples"
    means = ", ".join(f"{model} {number(one.score)}" for model, one in scores.items())
    plot = Plot(
        _draw(scores),
        f"Bars of LMSE for reflectance and shading of each model. Mean of both: {means}.",
        "LMSE by model. Whiskers are one standard deviation over samples, upright lines means of both parts.",
    )
    table = Table(caption, ("model", "samples scored", *_ERRORS), tuple(rows))
    return Section(_READING, (table,), plot, tuple(notes))


def _over_samples(values: Tensor) -> tuple[float, float]:
    """Mean and standard deviation over the samples where an error is defined."""
    kept = values[~values.isnan()].double()
    return float(kept.mean()), float(kept.std()) if len(kept) > 1 else math.nan


def _draw(scores: Mapping[str, IntrinsicScores]) -> str:
    pairs = [
        [_over_samples(one.lmse_reflectance), _over_samples(one.lmse_shading)] for one in scores.values()
    ]
    means, spreads = np.moveaxis(np.array(pairs), 2, 0)
    with drawing(1.0 + 0.6 * len(scores)) as figure:
        axes = figure.subplots()
        bars(axes, means, ("reflectance", "shading"), spreads)
        for row, one in enumerate(scores.values()):
            axes.plot([one.score] * 2, [row - 0.42, row + 0.42], color=INK, linewidth=2)
        name_rows(axes, list(scores))
        axes.set_xlabel("LMSE")
        return to_svg(figure, "lmse")
