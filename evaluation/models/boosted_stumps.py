"""AdaBoost with decision stumps on numpy arrays: the trained classifier is three short arrays.

Y. Freund, R. E. Schapire: A decision-theoretic generalization of on-line learning and an application to
boosting, 1997; the log odds are those of J. Friedman, T. Hastie, R. Tibshirani: Additive logistic regression,
2000, section 4.1.

scikit-learn's AdaBoostClassifier with stumps is as good, but sorts all samples in each round. In TAP-05 on
MIT Intrinsic Images, version 1.9.1 took 45 times as long to train and 3.6 times as long in all, for a mean
LMSE of 0.0556 instead of 0.0562 (difference -0.0041 to +0.0030).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

# Thresholds are quantiles of each feature; sums over bins replace the sorting of samples in each round.
_BINS = 64


@dataclass(frozen=True, eq=False)
class BoostedStumps:
    """Weighted vote of stumps, each of which compares one feature with a threshold.

    Attributes:
        features: number of the feature of each stump.
        thresholds: threshold of each stump.
        votes: vote of each stump for values above its threshold; values up to it have the opposite vote.
    """

    features: Int[ndarray, " rounds"]
    thresholds: Float[ndarray, " rounds"]
    votes: Float[ndarray, " rounds"]

    def log_odds(self, values: Float[ndarray, "features ..."]) -> Float[ndarray, "..."]:
        """Return ``log P(true) / P(false)``, twice the sum of the votes.

        Example:
            >>> stumps = BoostedStumps(np.array([0]), np.array([0.5]), np.array([1.5]))
            >>> stumps.log_odds(np.array([[0.2, 0.9]])).tolist()
            [-3.0, 3.0]
        """
        total = np.zeros(values.shape[1:])
        for feature, threshold, vote in zip(self.features, self.thresholds, self.votes, strict=True):
            total += np.where(values[feature] > threshold, 2 * vote, -2 * vote)
        return total


def train_stumps(
    values: Float[ndarray, "features samples"],
    labels: Bool[ndarray, " samples"],
    weights: Float[ndarray, " samples"],
    rounds: int,
) -> BoostedStumps:
    """Train by discrete AdaBoost.

    Args:
        values: features of each sample, finite.
        labels: class of each sample.
        weights: initial weight of each sample, at least 0; their sum is positive.
        rounds: largest number of stumps; a perfect or useless stump ends the training.

    Example:
        >>> values = np.array([[0.0, 1.0, 2.0, 3.0]])
        >>> stumps = train_stumps(values, values[0] > 1, np.ones(4), rounds=3)
        >>> (stumps.log_odds(values) > 0).tolist()
        [False, False, True, True]
    """
    thresholds = np.quantile(values, np.arange(_BINS) / _BINS, axis=1, method="lower").T.astype(float)
    # The first stump of each feature says "true" always: it learns the share of each class.
    thresholds[:, 0] = -np.inf
    bins = np.stack([np.searchsorted(*pair) for pair in zip(thresholds, values, strict=True)])
    bins += (_BINS + 1) * np.arange(len(values))[:, None]
    signs = np.where(labels, 1.0, -1.0)
    weights = weights / weights.sum()
    chosen: list[tuple[int, float, float]] = []
    for _ in range(rounds):
        signed = weights * signs
        sums = np.bincount(bins.ravel(), np.tile(signed, len(values)), len(values) * (_BINS + 1))
        below = sums.reshape(len(values), _BINS + 1)[:, :-1].cumsum(1)
        # Weighted agreement of "above the threshold" with the labels: 1 is perfect, -1 perfect if reversed.
        agreement = signed.sum() - 2 * below
        feature, place = np.unravel_index(np.abs(agreement).argmax(), agreement.shape)
        # A perfect stump would have an infinite vote.
        edge = np.clip(agreement[feature, place], -1 + 1e-6, 1 - 1e-6)
        vote = np.arctanh(edge)
        chosen.append((int(feature), float(thresholds[feature, place]), float(vote)))
        if not 1e-9 < abs(edge) < 1 - 1e-6:
            break
        above = np.where(values[feature] > thresholds[feature, place], 1.0, -1.0)
        weights = weights * np.exp(-vote * above * signs)
        weights /= weights.sum()
    columns = [np.array(column) for column in zip(*chosen, strict=True)]
    return BoostedStumps(*columns)
