"""Parts of the trained methods: stumps, contours and belief propagation of TAP-05, experts of TAP-06."""

from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from candlelight.evaluation.models.tap05 import (
    BoostedStumps,
    ContourAgreement,
    contour_cues,
    fit_agreement,
    propagate_beliefs,
    train_stumps,
)
from candlelight.evaluation.models.tap06 import LocalExperts, grow_experts

# ---------------------------------------------------------------------------------------- belief propagation


def exact_log_odds(evidence: np.ndarray, agreements: list[np.ndarray]) -> np.ndarray:
    """Sum the probability of all labellings."""
    totals = np.zeros((2, *evidence.shape))
    for bits in product((0, 1), repeat=evidence.size):
        labels = np.array(bits).reshape(evidence.shape)
        probability = np.exp((evidence * labels).sum())
        for place in np.ndindex(evidence.shape):
            for axis, agreement in enumerate(agreements):
                before = tuple(p - (a == axis) for a, p in enumerate(place))
                if min(before) >= 0:
                    equal = labels[place] == labels[before]
                    probability *= agreement[place] if equal else 1 - agreement[place]
        totals[0][labels == 0] += probability
        totals[1][labels == 1] += probability
    return np.log(totals[1] / totals[0])


@pytest.mark.parametrize(("shape", "damping"), [((1, 7), 0.0), ((7, 1), 0.5), ((1, 1, 6), 0.5)])
def test_chain_has_exact_marginals(shape: tuple[int, ...], damping: float) -> None:
    rng = np.random.default_rng(0)
    evidence = rng.normal(0, 2, shape)
    agreements = [rng.uniform(0.05, 0.95, shape) for _ in shape]
    found = propagate_beliefs(evidence, agreements, sweeps=100, damping=damping)
    np.testing.assert_allclose(found, exact_log_odds(evidence, agreements), atol=1e-9)


def test_comb_has_exact_marginals() -> None:
    # Rows are joined by the first column alone: a tree with branches.
    rng = np.random.default_rng(0)
    evidence = rng.normal(0, 2, (3, 4))
    agreements = [np.full((3, 4), 0.5), rng.uniform(0.6, 0.95, (3, 4))]
    agreements[0][:, 0] = 0.8
    found = propagate_beliefs(evidence, agreements, sweeps=100)
    np.testing.assert_allclose(found, exact_log_odds(evidence, agreements), atol=1e-9)


def test_loops_count_evidence_twice() -> None:
    evidence, agreements = np.array([[1.0, 1.0], [1.0, 1.0]]), [np.full((2, 2), 0.8)] * 2
    found, exact = propagate_beliefs(evidence, agreements, 200), exact_log_odds(evidence, agreements)
    assert (found > exact + 0.1).all()
    assert (exact > 1).all()


def test_a_sweep_moves_evidence_by_one_node() -> None:
    evidence = np.zeros((1, 6))
    evidence[0, 0] = 3.0
    found = propagate_beliefs(evidence, [np.full((1, 6), 0.9)] * 2, sweeps=2)
    assert (found[0, :3] > 0).all()
    assert (found[0, 3:] == 0).all()


def test_values_before_the_first_node_are_not_read() -> None:
    agreements = [np.full((2, 3), 0.7), np.full((2, 3), 0.7)]
    changed = [agreement.copy() for agreement in agreements]
    changed[0][0], changed[1][:, 0] = np.nan, np.nan
    evidence = np.random.default_rng(0).normal(size=(2, 3))
    np.testing.assert_array_equal(
        propagate_beliefs(evidence, agreements), propagate_beliefs(evidence, changed)
    )


def test_certain_evidence_stays_finite() -> None:
    found = propagate_beliefs(np.array([[1e3, -1e3, 0.0]]), [np.full((1, 3), 1 - 1e-9)] * 2)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("shape", [(1, 1), (0, 3)], ids=str)
def test_grid_without_neighbours(shape: tuple[int, int]) -> None:
    evidence = np.full(shape, 0.3)
    np.testing.assert_array_equal(propagate_beliefs(evidence, [np.full(shape, 0.9)] * 2), evidence)


# -------------------------------------------------------------------------------------------- boosted stumps


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


# -------------------------------------------------------------------------------------------------- contours


def test_weights_of_drawn_pairs_are_recovered() -> None:
    rng = np.random.default_rng(0)
    count = 40_000
    cues = np.stack([np.ones(count), *rng.normal(size=(3, count))])
    true = np.array([1.0, 0.5, -0.8, 0.3])
    evidence = rng.normal(0, 2, (2, count))
    # Both labels of an isolated pair are drawn from the model: four labellings with their probabilities.
    agreement = expit(true @ cues)
    chances = np.stack(
        [np.where(a == b, agreement, 1 - agreement) * np.exp(evidence[0] * a + evidence[1] * b)
         for a in (0, 1) for b in (0, 1)]
    )  # fmt: skip
    drawn = (rng.random(count) > (chances / chances.sum(0)).cumsum(0)).sum(0)
    found = fit_agreement(cues, evidence, np.isin(drawn, (0, 3)), np.ones(count))
    np.testing.assert_allclose(found, true, atol=0.06)


def test_evidence_that_explains_the_labels_leaves_little_agreement() -> None:
    cues = np.concatenate([np.ones((1, 100)), np.zeros((3, 100))])
    equal = np.ones(100, bool)
    none, certain = (fit_agreement(cues, np.full((2, 100), odds), equal, np.ones(100)) for odds in (0.0, 9.0))
    assert none[0] > certain[0] > 0


def test_no_pairs_give_no_agreement() -> None:
    found = fit_agreement(np.zeros((4, 0)), np.zeros((2, 0)), np.zeros(0, bool), np.zeros(0))
    np.testing.assert_array_equal(found, np.zeros(4))


def test_contour_runs_along_the_edge() -> None:
    step = np.repeat([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 6).reshape(6, 6).T
    pixel, down, right = contour_cues(step)
    assert down[2, :, 3, 3].min() > 0.99
    assert max(right[2, :, 3, 3].max(), pixel[2, :, 3, 3].max()) < 0.01
    for cue, turned in zip((pixel, right, down), contour_cues(step.T), strict=True):
        np.testing.assert_allclose(cue.swapaxes(2, 3), turned, atol=1e-12)
    diagonal = np.add.outer(np.arange(6.0), np.arange(6.0))
    np.testing.assert_allclose(contour_cues(diagonal)[0][2, :, 3, 3], np.sqrt(0.5), atol=1e-3)


def test_agreement_lies_above_one_half_and_is_one_half_to_the_background() -> None:
    log_image = np.random.default_rng(0).normal(size=(5, 6))
    inside = np.random.default_rng(1).random((2, 5, 6)) < 0.7
    strong = ContourAgreement(np.array([[2.0, 0, 0, 0]] * 3)).agreements(log_image, inside)
    for axis, agreement in enumerate(strong):
        for place in np.ndindex(2, 5, 6):
            before = tuple(p - (a == axis) for a, p in enumerate(place))
            if min(before) >= 0:
                assert agreement[place] == (expit(2.0) if inside[place] and inside[before] else 0.5)
    opposed = ContourAgreement(np.array([[-2.0, 0, 0, 0]] * 3)).agreements(log_image, inside)
    assert all((agreement == 0.5).all() for agreement in opposed)


# --------------------------------------------------------------------------------------------- local experts


def test_prediction_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    model = LocalExperts(rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), 0.7)
    inputs = rng.normal(size=(6, 3))
    for x, found in zip(inputs, model.predict(inputs), strict=True):
        weights = [np.exp(-((x - p) ** 2).sum() / (2 * 0.7**2)) for p in model.prototypes]
        values = [sum(c * v for c, v in zip(row, x, strict=True)) for row in model.coefficients]
        wanted = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        assert found == pytest.approx(wanted)


def test_nearest_expert_answers_far_away() -> None:
    model = LocalExperts(np.array([[0.0], [1.0]]), np.array([[2.0], [3.0]]), 0.01)
    np.testing.assert_allclose(model.predict(np.array([[1e6], [-1e6]])), [3e6, -2e6])


@pytest.mark.parametrize("experts", [1, 5])
def test_linear_function_is_recovered(experts: int) -> None:
    rng = np.random.default_rng(0)
    inputs, slope = rng.normal(size=(500, 4)), np.array([1.0, -2.0, 0.5, 0.0])
    model = grow_experts(inputs, inputs @ slope, experts, rng)
    unseen = rng.normal(size=(50, 4))
    np.testing.assert_allclose(model.predict(unseen), unseen @ slope, atol=0.05)


def test_large_inputs_can_have_another_function_than_small_ones() -> None:
    # As shading and reflectance: small steps pass, large steps do not.
    inputs = np.random.default_rng(0).uniform(-2, 2, (2000, 1))
    targets = np.where(np.abs(inputs[:, 0]) < 1, inputs[:, 0], 0.0)
    grown = [grow_experts(inputs, targets, count, np.random.default_rng(0)) for count in (1, 4, 16)]
    errors = [np.square(targets - model.predict(inputs)).mean() for model in grown]
    assert errors[2] < 0.4 * errors[0]
    assert errors[2] < errors[1] < errors[0]


def test_nothing_to_predict() -> None:
    rng = np.random.default_rng(0)
    model = grow_experts(rng.normal(size=(20, 3)), np.zeros(20), 5, rng)
    assert len(model.prototypes) == 1
    assert (model.predict(np.ones((2, 3))) == 0).all()
    assert (grow_experts(np.zeros((20, 3)), np.zeros(20), 5, rng).predict(np.zeros((2, 3))) == 0).all()
