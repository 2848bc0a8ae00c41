import numpy as np
import pytest

from candlelight.evaluation.models.tap06 import LocalExperts, grow_experts


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
