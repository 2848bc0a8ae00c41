"""Shares of correct answers by level, with the fitted psychometric function."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy import ndarray

from candlelight.evaluation.perception.fit_psychometric import PsychometricFit
from candlelight.evaluation.perception.psychometric import FORCED_CHOICE, psychometric
from candlelight.evaluation.report.drawing import COLOURS, INK

_POINTS = 20  # at most: each rated pair has a level of its own
_CROWD = 10  # answers of a point of such pairs, at least


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


def draw_psychometric(
    axes: Any,
    magnitudes: Float64[ndarray, " answers"],
    correct: Bool[ndarray, " answers"],
    fit: PsychometricFit | None,
) -> None:
    """Draw the shares of correct answers; of a fit that converged its function, threshold and 95 % interval.

    Args:
        axes: of matplotlib.
        magnitudes: level of each answer.
        correct: whether it was right.
        fit: to these answers.
    """
    axes.plot(*share_points(magnitudes, correct), "o", color=COLOURS[0], markersize=5, clip_on=False)
    axes.axhline(FORCED_CHOICE, color=INK, alpha=0.3, linewidth=0.8)
    if fit is not None and fit.converged:
        levels = torch.linspace(float(magnitudes.min()), float(magnitudes.max()), 200).double()
        curve = psychometric(levels, fit.score, fit.slope, fit.guess, fit.lapse)
        axes.plot(levels.numpy(), curve.numpy(), color=COLOURS[0])
        axes.axvspan(fit.low, fit.high, color=COLOURS[1], alpha=0.25, linewidth=0)
        axes.axvline(fit.score, color=COLOURS[1])
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share correct")
