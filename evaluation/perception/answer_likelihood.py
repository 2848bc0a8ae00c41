"""The likelihood of correct answers under the psychometric function, and its maximum."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Real
from numpy import ndarray
from scipy.optimize import minimize
from scipy.special import expit, xlogy
from torch import Tensor

# In shares of the range of the levels: thresholds up to one range beyond them are tried.
_THRESHOLDS = (-1.0, 2.0)
_FLATTEST = 0.5  # slope per range: a rise by an eighth of the whole over all levels
_STEEPEST = 40.0  # slope per smallest distance of two levels: a step
_NEAREST = 1e-3  # distances of levels below this share of the range count as this share
_EDGE = 1e-3  # of a bound, on which a result is said to lie
_TINY = 1e-300


@dataclass(frozen=True)
class Maximum:
    """The largest log-likelihood and its arguments; levels are shares of their range.

    Attributes:
        value: log-likelihood, without the binomial coefficients.
        threshold: from -1 to 2.
        slope: per range.
        lapse: lapse rate.
        success: whether the optimiser ended as it should.
        note: its last message.
    """

    value: float
    threshold: float
    slope: float
    lapse: float
    success: bool
    note: str


@dataclass(frozen=True, eq=False)
class AnswerLikelihood:
    """Counts of correct answers at levels that are brought to [0, 1].

    Attributes:
        start: smallest level.
        span: range of the levels.
        levels: as shares of the range.
        correct: number of correct answers.
        wrong: number of wrong answers.
        guess: guess rate.
        lapses: smallest and largest lapse rate.
    """

    start: float
    span: float
    levels: Float64[ndarray, " levels"]
    correct: Float64[ndarray, " levels"]
    wrong: Float64[ndarray, " levels"]
    guess: float
    lapses: tuple[float, float]

    @classmethod
    def of(
        cls,
        levels: Real[Tensor, " levels"],
        correct: Real[Tensor, " levels"],
        trials: Real[Tensor, " levels"],
        guess: float,
        lapses: tuple[float, float],
    ) -> "AnswerLikelihood":
        """Sum the answers of equal levels, and bring the levels to [0, 1]."""
        values, places = np.unique(levels.double().numpy(force=True), return_inverse=True)
        right, total = (
            np.bincount(places, counts.double().numpy(force=True)) for counts in (correct, trials)
        )
        span = float(np.ptp(values))
        shares = (values - values[0]) / span
        return cls(float(values[0]), span, shares, right, total - right, guess, lapses)

    @property
    def saturated(self) -> float:
        """Log-likelihood of the observed share at each level, without the binomial coefficients."""
        total = self.correct + self.wrong
        return float(
            (xlogy(self.correct, self.correct / total) + xlogy(self.wrong, self.wrong / total)).sum()
        )

    def to_level(self, share: float) -> float:
        """Convert a share of the range to a level."""
        return self.start + share * self.span

    def holds(self, threshold: float) -> bool:
        """Tell whether a threshold lies within the tried ones."""
        return _THRESHOLDS[0] <= threshold <= _THRESHOLDS[1]

    def bound_note(self, best: Maximum) -> str:
        """Say which bound a maximum lies on; "" if on none that matters."""
        if min(best.threshold - _THRESHOLDS[0], _THRESHOLDS[1] - best.threshold) < _EDGE:
            return "threshold at its bound, a range beyond the levels: test other levels"
        lowest, highest = self._slopes()
        if np.log(best.slope) < lowest + _EDGE:
            return "slope at its lower bound: the answers do not improve with the level"
        if np.log(best.slope) > highest - _EDGE:
            return "slope at its upper bound, a step between two levels: test levels between them"
        return ""

    def maximise(self, threshold: float | None = None) -> Maximum:
        """Maximise the log-likelihood over slope, lapse rate, and the threshold unless that is given.

        The best point of a coarse grid starts a quasi-Newton search (L-BFGS-B), because the likelihood may
        have several maxima.
        """
        tried = np.linspace(-0.25, 1.25, 31) if threshold is None else np.array([threshold])
        slopes = np.linspace(*self._slopes(), 16)
        lapses = np.linspace(*self.lapses, 3) if self.lapses[0] < self.lapses[1] else self.lapses[:1]
        grid = np.stack(np.meshgrid(tried, slopes, lapses, indexing="ij"), -1).reshape(-1, 3)
        start = grid[self._log_likelihoods(grid).argmax()]
        ends = _THRESHOLDS if threshold is None else (threshold, threshold)
        found = minimize(
            self._loss, start, jac=True, method="L-BFGS-B", bounds=(ends, self._slopes(), self.lapses)
        )
        place, slope, lapse = (float(number) for number in found.x)
        return Maximum(
            -float(found.fun), place, float(np.exp(slope)), lapse, bool(found.success), str(found.message)
        )

    def _slopes(self) -> tuple[float, float]:
        """Return the logarithms of the smallest and largest slope."""
        nearest = max(_NEAREST, float(np.diff(self.levels).min()))
        return float(np.log(_FLATTEST)), float(np.log(_STEEPEST / nearest))

    def _log_likelihoods(self, points: Float64[ndarray, "points 3"]) -> Float64[ndarray, " points"]:
        """Compute the log-likelihood of thresholds, logarithms of slopes, and lapse rates."""
        place, slope, lapse = points.T[:, :, None]
        steps = np.exp(slope) * (self.levels - place)
        rise = 1 - self.guess - lapse
        right = np.maximum(self.guess + rise * expit(steps), _TINY)
        wrong = np.maximum(lapse + rise * expit(-steps), _TINY)  # without the cancellation of 1 - right
        return xlogy(self.correct, right).sum(1) + xlogy(self.wrong, wrong).sum(1)

    def _loss(self, point: Float64[ndarray, "3"]) -> tuple[float, Float64[ndarray, "3"]]:
        """Compute the negative log-likelihood of one point, and its gradient."""
        place, slope, lapse = point
        steps = np.exp(slope) * (self.levels - place)
        up, down = expit(steps), expit(-steps)
        rise = 1 - self.guess - lapse
        right = np.maximum(self.guess + rise * up, _TINY)
        wrong = np.maximum(lapse + rise * down, _TINY)
        by_right = self.correct / right - self.wrong / wrong
        by_step = by_right * rise * up * down
        gradient = np.array(
            [-(by_step.sum()) * np.exp(slope), (by_step * steps).sum(), -(by_right * up).sum()]
        )
        return -float((xlogy(self.correct, right) + xlogy(self.wrong, wrong)).sum()), -gradient
