"""The level D_T at which people tell a distorted image from its original, from their answers or published."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Real
from torch import Tensor

from candlelight.evaluation.perception.fit_psychometric import fit_psychometric
from candlelight.evaluation.perception.published_transductions import DETECTION_LEVELS


@dataclass(frozen=True)
class DetectionLevels:
    """Lower quartile, threshold and upper quartile of D_T, with their origin.

    Attributes:
        levels: on the common scale.
        note: their origin.
        fit: the fitted psychometric function and the answers at each level, for a plot; empty if published.
    """

    levels: tuple[float, float, float] = DETECTION_LEVELS
    note: str = "D_T: 0.445, quartiles 0.390 and 0.499, published (1500 answers of 5 observers)"
    fit: dict[str, Any] = field(default_factory=dict)


def detection_levels(levels: Real[Tensor, " answers"], correct: Bool[Tensor, " answers"]) -> DetectionLevels:
    """Fit D_T to answers in a forced choice of two; published values replace it if the fit fails.

    See `fit_psychometric`.

    Args:
        levels: common distance D of the shown pair, for each answer.
        correct: whether the answer was right.

    Raises:
        InputError: the lengths differ, or levels that are not finite or all equal.

    Example:
        >>> shown = torch.linspace(0.1, 0.8, 8).repeat_interleave(40)
        >>> right = torch.arange(40).repeat(8) < 20 + 20 * torch.sigmoid(20 * (shown - 0.45))
        >>> found = detection_levels(shown, right)
        >>> [round(level, 2) for level in found.levels]
        [0.4, 0.44, 0.49]
    """
    fit = fit_psychometric(levels, correct.int(), torch.ones_like(correct, dtype=torch.int))
    if fit.converged and not fit.quartiles[0] > 0:
        flat = f"too flat: its lower quartile, {fit.quartiles[0]:.3g}, is not above 0"
        fit = replace(fit, converged=False, note=flat)
    values, places = torch.unique(levels.double(), return_inverse=True)
    trials = torch.bincount(places)
    right = torch.bincount(places, correct.double())
    shown = {
        **{"threshold": fit.score, "low": fit.low, "high": fit.high, "slope": fit.slope, "lapse": fit.lapse},
        **{"guess": fit.guess, "deviance": fit.deviance, "converged": fit.converged, "note": fit.note},
        "levels": values.tolist(),
        "correct": right.int().tolist(),
        "trials": trials.tolist(),
    }
    if not fit.converged:
        note = f"the fit to {len(levels)} answers failed ({fit.note}); {DetectionLevels.note}"
        return DetectionLevels(note=note, fit=shown)
    low, threshold, high = fit.quartiles
    return DetectionLevels(
        fit.quartiles,
        f"D_T: {threshold:.3f}, quartiles {low:.3f} and {high:.3f}, of {len(levels)} answers",
        shown,
    )
