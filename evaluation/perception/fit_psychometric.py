"""Fit of the psychometric function to counts of correct answers, with the interval of its threshold.

F. A. Wichmann, N. J. Hill: The psychometric function: I. Fitting, sampling, and goodness of fit, Perception &
Psychophysics 63(8), 2001. N. Prins: The psychometric function: the lapse rate revisited, Journal of Vision
12(6), 2012, on the bias of a fixed lapse rate.
"""

import math
from dataclasses import dataclass

from jaxtyping import Int, Real
from scipy.special import chdtri
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.perception.answer_likelihood import AnswerLikelihood, Maximum
from candlelight.evaluation.perception.psychometric import FORCED_CHOICE, check_rates
from candlelight.evaluation.results.mean_intervals import LEVEL
from candlelight.loaders.errors import InputError

LARGEST_LAPSE = 0.06  # of a fitted lapse rate: Wichmann and Hill 2001
_CRITICAL = float(chdtri(1, 1 - LEVEL))  # 3.84: twice the loss of log-likelihood at the ends of the interval
_FIRST_STEP, _GROWTH = 0.01, 1.3  # of the search for the ends, as a share of the range of levels
_BISECTIONS = 20


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
    check_rates(guess, LARGEST_LAPSE if lapse is None else lapse)
    if not bool(levels.isfinite().all()) or bool((levels == levels[:1]).all()):
        raise InputError("`levels` must be finite, and at least 2 different ones; add levels of the stimulus")
    if not bool(((correct >= 0) & (correct <= trials) & (trials >= 1)).all()):
        raise InputError(
            "expected `correct` from 0 to `trials`, and `trials` of at least 1; count answers anew"
        )
    lapses = (0.0, LARGEST_LAPSE) if lapse is None else (lapse, lapse)
    likelihood = AnswerLikelihood.of(levels, correct, trials, guess, lapses)
    best = likelihood.maximise()
    low, high = (_end(likelihood, best, direction) for direction in (-1, 1))
    problem = likelihood.bound_note(best)
    if not problem and math.isinf(high - low):
        problem = "the answers leave the threshold without a limit on one side: test levels beyond"
    return PsychometricFit(
        score=likelihood.to_level(best.threshold),
        low=likelihood.to_level(low),
        high=likelihood.to_level(high),
        slope=best.slope / likelihood.span,
        guess=guess,
        lapse=best.lapse,
        deviance=max(0.0, 2 * (likelihood.saturated - best.value)),
        converged=best.success and not problem,
        note=problem or best.note,
    )


def _end(likelihood: AnswerLikelihood, best: Maximum, direction: int) -> float:
    """Walk from the best threshold in growing steps until the profile falls below the limit, then bisect."""
    limit = best.value - _CRITICAL / 2
    inside, step = best.threshold, _FIRST_STEP
    while likelihood.holds(inside + direction * step):
        outside = inside + direction * step
        if likelihood.maximise(outside).value < limit:
            for _ in range(_BISECTIONS):
                middle = (inside + outside) / 2
                if likelihood.maximise(middle).value < limit:
                    outside = middle
                else:
                    inside = middle
            return (inside + outside) / 2
        inside, step = outside, step * _GROWTH
    return direction * math.inf
