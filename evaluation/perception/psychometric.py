"""Psychometric functions, fitted to answers by maximum likelihood, and thresholds of people."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int, Real
from numpy import ndarray
from scipy.optimize import OptimizeResult, minimize
from scipy.special import chdtri, expit, xlogy
from torch import Tensor

from candlelight.evaluation.run.intervals import LEVEL
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

FORCED_CHOICE = 0.5  # guess rate of two alternatives


def psychometric(
    levels: Real[Tensor, "*shape"],
    threshold: float,
    slope: float,
    guess: float = FORCED_CHOICE,
    lapse: float = 0.0,
) -> Float64[Tensor, "*shape"]:
    """Compute the probability that an observer finds the distorted image.

    ``p(x) = g + (1 - g - l) / (1 + exp(-k (x - t)))``. With guess rate g = 1/2 and lapse rate l = 0 this is
    ``1/2 + 1 / (2 (1 + exp(-k (D - D_T))))``, Alabau-Bosque et al. 2024, eq. 4. At the threshold the
    probability lies half way between guessing and the top: 0.75 without lapses.

    Args:
        levels: of the stimulus, in any unit, such as D or degrees.
        threshold: t, in the unit of the levels.
        slope: k, per unit of the levels; negative slopes fall.
        guess: probability of a correct guess; the paper's is 0.5.
        lapse: probability of a mistake at any level; the paper's is 0.

    Raises:
        InputError: rates that are negative, or together 1 or more.

    Example:
        >>> psychometric(torch.tensor([0.0, 0.445, 10.0]), threshold=0.445, slope=20.0).round(decimals=3)
        tensor([0.5000, 0.7500, 1.0000], dtype=torch.float64)
    """
    _check_rates(guess, lapse)
    return guess + (1 - guess - lapse) * torch.sigmoid(slope * (levels.double() - threshold))


def _check_rates(guess: float, lapse: float) -> None:
    """Refuse guess and lapse rates that leave no range for the function."""
    if not (guess >= 0 and lapse >= 0 and guess + lapse < 1):
        raise InputError(
            f"`guess` and `lapse` must be at least 0, together below 1, got {guess:g} and {lapse:g}"
        )


# In shares of the range of the levels: thresholds up to one range beyond them are tried.
_THRESHOLDS = (-1.0, 2.0)
_FLATTEST = 0.5  # slope per range: a rise by an eighth of the whole over all levels
_STEEPEST = 40.0  # slope per smallest distance of two levels: a step
_NEAREST = 1e-3  # distances of levels below this share of the range count as this share
_EDGE = 1e-3  # of a bound, on which a result is said to lie
_TINY = 1e-300
LARGEST_LAPSE = 0.06  # of a fitted lapse rate: Wichmann and Hill 2001
_CRITICAL = float(chdtri(1, 1 - LEVEL))  # 3.84: twice the loss of log-likelihood at the ends of the interval
_FIRST_STEP, _GROWTH = 0.01, 1.3  # of the search for the ends, as a share of the range of levels
_BISECTIONS = 20


@dataclass(frozen=True, eq=False)
class AnswerLikelihood:
    """Counts of correct answers at levels that are brought to [0, 1].

    A point is a threshold, the logarithm of a slope per range, and a lapse rate.

    Attributes:
        levels: as shares of their range.
        correct: number of correct answers.
        wrong: number of wrong answers.
        guess: guess rate.
        lapses: smallest and largest lapse rate.
    """

    levels: Float64[ndarray, " levels"]
    correct: Float64[ndarray, " levels"]
    wrong: Float64[ndarray, " levels"]
    guess: float
    lapses: tuple[float, float]

    @property
    def slopes(self) -> tuple[float, float]:
        """Logarithms of the smallest and largest slope."""
        nearest = max(_NEAREST, float(np.diff(self.levels).min()))
        return float(np.log(_FLATTEST)), float(np.log(_STEEPEST / nearest))

    def maximise(self, threshold: float | None = None) -> OptimizeResult:
        """Maximise the log-likelihood over slope, lapse rate, and the threshold unless that is given.

        The best point of a coarse grid starts a quasi-Newton search (L-BFGS-B), because the likelihood may
        have several maxima.

        Returns:
            The point ``x``, and ``fun``, its negative log-likelihood without the binomial coefficients.
        """
        tried = np.linspace(-0.25, 1.25, 31) if threshold is None else np.array([threshold])
        slopes = np.linspace(*self.slopes, 16)
        lapses = np.linspace(*self.lapses, 3) if self.lapses[0] < self.lapses[1] else self.lapses[:1]
        grid = np.stack(np.meshgrid(tried, slopes, lapses, indexing="ij"), -1).reshape(-1, 3)
        start = grid[self.loss(grid)[0].argmin()]
        ends = _THRESHOLDS if threshold is None else (threshold, threshold)
        bounds = (ends, self.slopes, self.lapses)
        return minimize(self.loss, start, jac=True, method="L-BFGS-B", bounds=bounds)

    def loss(self, points: Float64[ndarray, "*points 3"]) -> tuple[Any, Float64[ndarray, "*points 3"]]:
        """Compute the negative log-likelihood of points, and its gradient."""
        place, slope, lapse = (points[..., number, None] for number in range(3))
        steps = np.exp(slope) * (self.levels - place)
        up, down = expit(steps), expit(-steps)
        rise = 1 - self.guess - lapse
        right = np.maximum(self.guess + rise * up, _TINY)
        wrong = np.maximum(lapse + rise * down, _TINY)  # without the cancellation of 1 - right
        by_right = self.correct / right - self.wrong / wrong
        by_step = by_right * rise * up * down
        parts = -by_step * np.exp(slope), by_step * steps, -by_right * up
        gradient = np.stack([part.sum(-1) for part in parts], -1)
        return -(xlogy(self.correct, right) + xlogy(self.wrong, wrong)).sum(-1), -gradient

    def bound_note(self, best: OptimizeResult) -> str:
        """Say which bound a maximum lies on; "" if on none that matters."""
        threshold, slope, _ = best.x
        if min(threshold - _THRESHOLDS[0], _THRESHOLDS[1] - threshold) < _EDGE:
            return "threshold at its bound, a range beyond the levels: test other levels"
        if slope < self.slopes[0] + _EDGE:
            return "slope at its lower bound: the answers do not improve with the level"
        if slope > self.slopes[1] - _EDGE:
            return "slope at its upper bound, a step between two levels: test levels between them"
        return ""

    def end(self, best: OptimizeResult, direction: int) -> float:
        """Find the threshold beside the best one where the profile falls below the limit of the interval.

        Growing steps find a threshold beyond, and bisection the end.
        """
        limit = best.fun + _CRITICAL / 2
        inside, step = float(best.x[0]), _FIRST_STEP
        while _THRESHOLDS[0] <= (outside := inside + direction * step) <= _THRESHOLDS[1]:
            if self.maximise(outside).fun > limit:
                for _ in range(_BISECTIONS):
                    middle = (inside + outside) / 2
                    is_outside = self.maximise(middle).fun > limit
                    inside, outside = (inside, middle) if is_outside else (middle, outside)
                return (inside + outside) / 2
            inside, step = outside, step * _GROWTH
        return direction * math.inf


@dataclass(frozen=True)
class PsychometricFit:
    """A fitted psychometric function.

    Attributes:
        score: threshold, in the unit of the levels.
        low: lower end of its 95 % interval; -inf if the answers set no lower limit.
        high: upper end; inf if they set none.
        slope: per unit of the levels.
        guess: guess rate, as given.
        lapse: lapse rate, given or fitted.
        deviance: twice the log-likelihood that the fit loses to the observed share of each level, >= 0; about
            the number of levels less that of fitted numbers if the model holds.
        converged: False if the threshold must not be used; `note` says why.
        note: end of the fit.
    """

    score: float
    low: float
    high: float
    slope: float
    guess: float
    lapse: float
    deviance: float
    converged: bool
    note: str

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Levels of a quarter, half and three quarters of the way up: threshold -+ ln 3 / slope.

        Quartiles are the uncertainty of D_T in the paper; 0.390, 0.445 and 0.499 of its notebook are those of
        a slope of 20. They describe how sharply people tell images apart, and do not shrink with the number
        of answers, as `low` and `high` do.
        """
        half = math.log(3) / self.slope
        return self.score - half, self.score, self.score + half


def fit_psychometric(
    levels: Real[Tensor, " levels"],
    correct: Int[Tensor, " levels"],
    trials: Int[Tensor, " levels"],
    guess: float = FORCED_CHOICE,
    lapse: float | None = None,
) -> PsychometricFit:
    """Fit threshold and slope of `psychometric` to correct answers, by maximum likelihood.

    Alabau-Bosque et al. 2024, eq. 4, with a lapse rate: slips of an observer at clear levels would flatten a
    function that ends at 1, and move its threshold. The 95 % interval is that of the profile likelihood: the
    thresholds whose best slope and lapse rate lose at most 1.92 of the log-likelihood.

    Blind to: differences between observers and the order of answers: all answers count as independent, so the
    interval of pooled observers is too narrow; fit each observer too. A large `deviance` shows it.

    Args:
        levels: of the stimulus, at least 2 different ones; equal levels are allowed, such as one row for each
            answer.
        correct: number of correct answers at each level.
        trials: number of answers at each level, at least 1.
        guess: probability of a correct guess; 0.5 for two alternatives, as in the paper.
        lapse: probability of a mistake at any level; None fits it in [0, 0.06]. The paper's is 0.

    Returns:
        The fit, in the unit of the levels. It has not converged if the best threshold lies a range beyond the
        levels, if its interval is infinite, or if the slope ends at its bound: flat, falling, or a step
        between two levels.

    Raises:
        InputError: the lengths differ, levels that are not finite or all equal, counts that are negative or
            more than the trials, or rates out of range.

    Example:
        >>> import torch
        >>> levels = torch.tensor([0.1, 0.3, 0.4, 0.5, 0.6, 0.9])
        >>> correct, trials = torch.tensor([20, 21, 26, 34, 38, 39]), torch.full((6,), 40)
        >>> found = fit_psychometric(levels, correct, trials)
        >>> round(found.score, 2), round(found.low, 2), round(found.high, 2), found.converged
        (0.44, 0.39, 0.49, True)
    """
    check_shapes(levels=(levels, "levels"), correct=(correct, "levels"), trials=(trials, "levels"))
    _check_rates(guess, LARGEST_LAPSE if lapse is None else lapse)
    if not bool(levels.isfinite().all()) or bool((levels == levels[:1]).all()):
        raise InputError("`levels` must be finite, and at least 2 different ones; add levels of the stimulus")
    if not bool(((correct >= 0) & (correct <= trials) & (trials >= 1)).all()):
        raise InputError(
            "expected `correct` from 0 to `trials`, and `trials` of at least 1; count answers anew"
        )
    lapses = (0.0, LARGEST_LAPSE) if lapse is None else (lapse, lapse)
    values, places = np.unique(levels.double().numpy(force=True), return_inverse=True)
    right, total = (np.bincount(places, counts.double().numpy(force=True)) for counts in (correct, trials))
    start, span = float(values[0]), float(np.ptp(values))
    likelihood = AnswerLikelihood((values - start) / span, right, total - right, guess, lapses)
    best = likelihood.maximise()
    ends = float(best.x[0]), likelihood.end(best, -1), likelihood.end(best, 1)
    score, low, high = (start + share * span for share in ends)
    problem = likelihood.bound_note(best)
    if not problem and math.isinf(high - low):
        problem = "the answers leave the threshold without a limit on one side: test levels beyond"
    observed = float((xlogy(right, right / total) + xlogy(total - right, 1 - right / total)).sum())
    return PsychometricFit(
        score=score,
        low=low,
        high=high,
        slope=float(np.exp(best.x[1])) / span,
        guess=guess,
        lapse=float(best.x[2]),
        deviance=max(0.0, 2 * (observed + float(best.fun))),
        converged=bool(best.success and not problem),
        note=problem or str(best.message),
    )


# D_T: the lower quartile, the threshold and the upper quartile of the human psychometric function, from the
# paper's notebook; the paper rounds to 0.44 +- 0.05.
DETECTION_LEVELS = (0.390, 0.445, 0.499)


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


@dataclass(frozen=True)
class MeasuredThresholds:
    """Thresholds of people; the published ones where nothing is given.

    Attributes:
        detection: D_T.
        human: thresholds of a user's own observers by transform, in the unit of its magnitudes.
        notes: origin of each threshold, the reason why a fit failed, and the answers that are not used.
    """

    detection: DetectionLevels = field(default_factory=DetectionLevels)
    human: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
