"""Plot of answers: the share of correct ones at each level, and the fitted psychometric functions."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from matplotlib.figure import Figure
from numpy import ndarray

from evaluation.perception.experiment.fit_answers import AnswerFit
from evaluation.perception.experiment.read_answers import ExperimentAnswers
from evaluation.perception.psychometric import FORCED_CHOICE, psychometric
from evaluation.report.drawing import COLOURS, INK, drawing

_POINTS = 20  # at most: each rated pair has a level of its own
_CROWD = 10  # answers of a point of such pairs, at least
_PANEL = 2.6  # inches


def share_points(
    magnitudes: Float64[ndarray, " answers"], correct: Bool[ndarray, " answers"]
) -> tuple[Float64[ndarray, " points"], Float64[ndarray, " points"]]:
    """Compute the share of correct answers at each level, or of groups of neighbours.

    Levels are grouped where there are more than 20, as of rated pairs.

    Returns:
        Mean magnitude and share of each point, ascending.

    Example:
        >>> share_points(np.array([2.0, 1.0, 2.0]), np.array([True, False, False]))
        (array([1., 2.]), array([0. , 0.5]))
    """
    values, places = np.unique(magnitudes, return_inverse=True)
    if len(values) > _POINTS:
        ranks = np.empty(len(magnitudes), dtype=np.int64)
        ranks[magnitudes.argsort(kind="stable")] = np.arange(len(magnitudes))
        places = ranks * min(_POINTS, len(magnitudes) // _CROWD) // len(magnitudes)
    count = np.bincount(places)
    return np.bincount(places, magnitudes) / count, np.bincount(places, correct) / count


def draw_answers(answers: ExperimentAnswers, fits: Sequence[AnswerFit], kind: str) -> bytes:
    """Draw a panel for each transform, with the fit of all observers.

    Args:
        answers: from `read_answers`.
        fits: from `fit_answers`.
        kind: format of matplotlib: "svg", "png" or "pdf".
    """
    shown = [fit for fit in fits if fit.observer is None]
    with drawing(_PANEL * max(1, len(shown))) as figure:
        for axes, fit in zip(_panels(figure, len(shown)), shown, strict=True):
            _draw_panel(axes, answers, fit)
        buffer = io.BytesIO()
        dated = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
        figure.savefig(buffer, format=kind, facecolor="white", metadata=dated, dpi=150)
    return buffer.getvalue()


def _panels(figure: Figure, count: int) -> list[Any]:
    return list(figure.subplots(count, 1, squeeze=False)[:, 0]) if count else []


def _draw_panel(axes: Any, answers: ExperimentAnswers, one: AnswerFit) -> None:
    magnitudes, correct = answers.magnitudes[one.rows], answers.correct[one.rows]
    axes.plot(*share_points(magnitudes, correct), "o", color=COLOURS[0], markersize=5, clip_on=False)
    axes.axhline(FORCED_CHOICE, color=INK, alpha=0.3, linewidth=0.8)
    if one.fit is not None and one.fit.converged:
        fit = one.fit
        levels = torch.linspace(float(magnitudes.min()), float(magnitudes.max()), 200).double()
        curve = psychometric(levels, fit.score, fit.slope, fit.guess, fit.lapse)
        axes.plot(levels.numpy(), curve.numpy(), color=COLOURS[0])
        axes.axvspan(fit.low, fit.high, color=COLOURS[1], alpha=0.25, linewidth=0)
        axes.axvline(fit.score, color=COLOURS[1])
    if one.published is not None:
        axes.axvline(one.published, color=INK, linestyle=":", label=f"paper: {one.published:g}")
        axes.legend(loc="lower right")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share correct")
    axes.set_xlabel("D" if one.name == "D_T" else f"{one.name} ({one.unit})")
