"""Estimators of the average effect of a treatment: difference of means, weighted, doubly robust."""

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray
from scipy.special import ndtri, stdtrit

from candlelight.loaders.errors import InputError

Arms = Int[ndarray, " n"]


class EffectEstimate(NamedTuple):
    """An estimated effect, its standard error, and its 95 % interval."""

    value: float
    error: float
    low: float
    high: float


def naive_effect(outcome: Float64[ndarray, " n"], arm: Arms) -> EffectEstimate:
    """Subtract the means of two arms: the effect if nothing decides both arm and outcome.

    ``mean(y | arm 1) - mean(y | arm 0)``, with the t interval of Welch 1947 for unequal variances.

    Blind to: confounding, all of which is in the difference.

    Args:
        outcome: outcome y of each row.
        arm: 1 for rows with the treatment, 0 for those with the value it is compared with; rows with other
            numbers have other values, and are left out.

    Returns:
        The effect, in the unit of the outcome.

    Raises:
        InputError: an arm has fewer than two rows.

    Example:
        >>> naive_effect(np.array([1.0, 2.0, 2.0, 3.0]), np.array([0, 0, 1, 1])).value
        1.0
    """
    _check_arms(arm)
    arms = outcome[arm == 1], outcome[arm == 0]
    parts = np.array([one.var(ddof=1) / len(one) for one in arms])
    spread = sum(part**2 / (len(one) - 1) for part, one in zip(parts, arms, strict=True))
    reach = float(stdtrit(parts.sum() ** 2 / spread if spread > 0 else 1.0, 0.975))
    return _estimate(float(arms[0].mean() - arms[1].mean()), float(np.sqrt(parts.sum())), reach)


def ipw_effect(
    outcome: Float64[ndarray, " n"], arm: Arms, propensity: Float64[ndarray, " n"]
) -> EffectEstimate:
    r"""Weight the rows of both arms by the inverse of their propensities, and subtract the means.

    ``m_a = sum_i w_i y_i / sum_i w_i`` over the rows of arm a, with ``w = 1 / propensity``, the modified
    estimator of Horvitz and Thompson that goes back to Hajek (Hernan and Robins 2020, Causal Inference: What
    If, Technical Point 12.1); the effect is ``m_1 - m_0``. Its variance is that of its influence function,
    ``n w_i (y_i - m_a) / sum w``, as if the propensities were known. Estimated ones make the interval too
    wide (Lunceford and Davidian 2004).

    Blind to: confounders that the propensities leave out. Where overlap is weak, the rows with the largest
    weights are rare; samples without them have a biased effect and an interval that is too narrow.

    Args:
        outcome: see `naive_effect`.
        arm: see `naive_effect`.
        propensity: probability of each row's own value given the confounders, above 0 to 1.

    Returns:
        The effect, in the unit of the outcome.

    Raises:
        InputError: an arm has fewer than two rows, or a propensity is out of range.

    Example:
        >>> y, arm = np.array([1.0, 3.0, 2.0, 4.0]), np.array([0, 0, 1, 1])
        >>> ipw_effect(y, arm, np.array([0.25, 0.75, 0.5, 0.5])).value
        1.5
    """
    _check_arms(arm, propensity)
    influence, value = np.zeros(len(outcome)), 0.0
    for one, sign in ((1, 1.0), (0, -1.0)):
        weight = (arm == one) / propensity
        mean = float((weight * outcome).sum() / weight.sum())
        influence += sign * weight * (outcome - mean) / weight.mean()
        value += sign * mean
    return _estimate(value, float(np.sqrt(np.square(influence).sum()) / len(outcome)), float(ndtri(0.975)))


def doubly_robust_effect(
    outcome: Float64[ndarray, " n"],
    arm: Arms,
    covariates: Float64[ndarray, "n k"],
    propensity: Float64[ndarray, " n"],
) -> EffectEstimate:
    """Average the score of augmented inverse-propensity weighting (AIPW).

    ``psi_a = g_a(c) + [arm = a] (y - g_a(c)) / propensity``, where g_a is the least-squares regression of the
    outcome on the covariates c in arm a; the effect is the mean of ``psi_1 - psi_0``, and its standard error
    that of this mean (Robins, Rotnitzky and Zhao 1994; Chernozhukov et al. 2018, Double/debiased machine
    learning, equation 5.3, without sample splitting). It is consistent if the propensities or the regressions
    are right.

    Blind to: confounders that are no covariates.

    Args:
        outcome: see `naive_effect`.
        arm: see `naive_effect`; rows of other values count for the covariates.
        covariates: numbers that confound arm and outcome; none leaves the means of the arms.
        propensity: see `ipw_effect`.

    Returns:
        The effect, in the unit of the outcome.

    Raises:
        InputError: an arm has fewer than two rows, or a propensity is out of range.

    Example:
        >>> c = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 3.0])
        >>> arm = np.array([0, 0, 0, 1, 1, 1])
        >>> round(doubly_robust_effect(2 * c + 5.0 * arm, arm, c[:, None], np.full(6, 0.5)).value, 9)
        5.0
    """
    _check_arms(arm, propensity)
    design = np.column_stack([np.ones(len(outcome)), covariates])
    score = np.zeros(len(outcome))
    for one, sign in ((1, 1.0), (0, -1.0)):
        inside = arm == one
        fitted = design @ np.linalg.lstsq(design[inside], outcome[inside], rcond=None)[0]
        score += sign * (fitted + inside * (outcome - fitted) / propensity)
    error = float(score.std(ddof=1) / np.sqrt(len(score)))
    return _estimate(float(score.mean()), error, float(ndtri(0.975)))


def fit_propensity(value: Int[ndarray, " n"], covariates: Float64[ndarray, "n k"]) -> Float64[ndarray, " n"]:
    """Estimate the probability of each row's own value by multinomial logistic regression, without penalty.

    Args:
        value: the value of each row, as a number.
        covariates: numbers that the value may depend on; none gives the frequencies of the values.

    Returns:
        Probabilities in [0, 1]; near 0 and 1 where the covariates tell the value.

    Example:
        >>> fit_propensity(np.array([0, 0, 0, 1]), np.zeros((4, 0))).tolist()
        [0.75, 0.75, 0.75, 0.25]
    """
    found, number, counts = np.unique(value, return_inverse=True, return_counts=True)
    spread = covariates.std(0)
    scaled = ((covariates - covariates.mean(0)) / np.where(spread > 0, spread, 1))[:, spread != 0]
    if len(found) < 2 or not scaled.shape[1]:
        return np.asarray(counts[number] / len(value))
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the covariates tell the value, the coefficients are infinite
        fitted = LogisticRegression(C=np.inf, max_iter=1000, tol=1e-8).fit(scaled, number)
    return np.asarray(fitted.predict_proba(scaled)[np.arange(len(value)), number])


def _check_arms(arm: Arms, propensity: Float64[ndarray, " n"] | None = None) -> None:
    sizes = [int((arm == one).sum()) for one in (1, 0)]
    if min(sizes) < 2:
        raise InputError(f"`arm`: expected two rows or more with 1 and with 0, got {sizes[0]} and {sizes[1]}")
    if propensity is not None and not ((propensity > 0) & (propensity <= 1)).all():
        raise InputError(f"`propensity`: positivity fails: expected above 0 to 1, got {propensity.min():g}")


def _estimate(value: float, error: float, reach: float) -> EffectEstimate:
    return EffectEstimate(value, error, value - reach * error, value + reach * error)
