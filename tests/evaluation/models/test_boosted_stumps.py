import numpy as np
import pytest

from candlelight.evaluation.models.tap05 import BoostedStumps, train_stumps


def slow_adaboost(values: np.ndarray, labels: np.ndarray, weights: np.ndarray, rounds: int) -> np.ndarray:
    """Try each threshold between samples in each round; return the log odds of the samples."""
    signs, weights = np.where(labels, 1.0, -1.0), weights / weights.sum()
    total = np.zeros(len(signs))
    for _ in range(rounds):
        best = (0.0, signs)
        for feature in values:
            for threshold in (-np.inf, *sorted(feature)[1:]):
                answers = np.where(feature > threshold, 1.0, -1.0)
                error = weights[answers != signs].sum()
                if abs(error - 0.5) > abs(best[0]) + 1e-12:
                    best = (0.5 - error, answers)
        error = 0.5 - best[0]
        vote = 0.5 * np.log((1 - error) / error)
        total += vote * best[1]
        weights = weights * np.exp(-vote * signs * best[1])
        weights /= weights.sum()
    return 2 * total


def test_equals_a_loop_over_all_stumps() -> None:
    rng = np.random.default_rng(0)
    # As many samples as bins: each sample's value is a threshold.
    values = rng.normal(size=(3, 64))
    labels = values[0] + values[1] ** 2 + 0.5 * rng.normal(size=64) > 0.5
    weights = rng.uniform(0.1, 1, 64)
    found = train_stumps(values, labels, weights, 8)
    np.testing.assert_allclose(found.log_odds(values), slow_adaboost(values, labels, weights, 8), atol=1e-9)


def test_more_rounds_fit_an_additive_boundary() -> None:
    rng = np.random.default_rng(0)
    values, unseen = rng.normal(size=(2, 4, 2000))
    labels, truth = values[1] + values[2] > 0, unseen[1] + unseen[2] > 0
    one, many = (train_stumps(values, labels, np.ones(2000), rounds) for rounds in (1, 60))
    accuracy = [((model.log_odds(unseen) > 0) == truth).mean() for model in (one, many)]
    assert accuracy[0] < 0.8
    assert accuracy[1] > 0.93


def test_zero_weight_removes_a_sample() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 50))
    labels = values[0] > 0
    weights = np.ones(50)
    weights[:10] = 0
    flipped = labels.copy()
    flipped[:10] = ~flipped[:10]
    first, second = (train_stumps(values, each, weights, 5) for each in (labels, flipped))
    np.testing.assert_array_equal(first.log_odds(values), second.log_odds(values))


@pytest.mark.parametrize("label", [True, False])
def test_one_class_is_always_the_answer(label: bool) -> None:
    found = train_stumps(np.arange(6.0).reshape(2, 3), np.full(3, label), np.ones(3), 10)
    assert ((found.log_odds(np.linspace(-99, 99, 8).reshape(2, 4)) > 0) == label).all()
    assert len(found.votes) == 1


def test_log_odds_keep_the_shape_of_the_points() -> None:
    stumps = BoostedStumps(np.array([1, 0]), np.array([0.0, 1.0]), np.array([1.0, -0.25]))
    values = np.array([[[0.0, 2.0]], [[1.0, -1.0]]])
    np.testing.assert_array_equal(stumps.log_odds(values), [[2.5, -2.5]])
