import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import Lasso

from candlelight.evaluation.coverage.filter_methods import nonnegative_lasso, project_bounded
from tests.refusals import refused


def _problem(seed, samples=40, features=6, targets=3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(samples, features, generator=generator, dtype=torch.float64)
    y = torch.randn(samples, targets, generator=generator, dtype=torch.float64) + x[:, :targets]
    return x, y


def _fit(x, y, bound):
    return nonnegative_lasso(x.T @ x, y.T @ x, bound)


@pytest.mark.parametrize("penalty", [1e-4, 0.05])
@pytest.mark.parametrize("seed", range(2))
def test_equals_scikit_learn(seed, penalty):
    # The penalised form gives the solution of the constrained form, for the sum of weights that it finds.
    x, y = _problem(seed)
    for target in y.T:
        model = Lasso(penalty, fit_intercept=False, positive=True, tol=1e-14, max_iter=100_000)
        expected = model.fit(x.numpy(), target.numpy()).coef_
        assert expected.sum() > 0
        found = _fit(x, target[:, None], float(expected.sum()))
        np.testing.assert_allclose(found.weights[0], expected, atol=1e-6)
        assert float(found.gap) < 1e-9


@pytest.mark.parametrize("bound", [0.1, 3.0])
def test_equals_scipy(bound):
    x, y = _problem(7)
    found = _fit(x, y, bound).weights
    for weights, target in zip(found, y.T, strict=True):
        solved = minimize(
            lambda w, target=target: 0.5 * float(((x @ torch.from_numpy(w) - target) ** 2).sum()),
            np.full(6, bound / 12),
            jac=lambda w, target=target: (x.T @ (x @ torch.from_numpy(w) - target)).numpy(),
            method="SLSQP",
            bounds=[(0, None)] * 6,
            constraints={
                "type": "ineq",
                "fun": lambda w: bound - w.sum(),
                "jac": lambda w: -np.ones_like(w),
            },
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        np.testing.assert_allclose(weights, solved.x, atol=1e-6)


def test_by_hand():
    # Orthonormal features: the weights are the projection of (3, 1, -2).
    products = torch.tensor([[3.0, 1.0, -2.0]])
    cases = {1.0: [1, 0, 0], 3.0: [2.5, 0.5, 0], 4.0: [3, 1, 0], 9.0: [3, 1, 0]}
    for bound, expected in cases.items():
        found = nonnegative_lasso(torch.eye(3), products, bound)
        np.testing.assert_allclose(found.weights, [expected], atol=1e-12)
        np.testing.assert_allclose(found.gap, [0], atol=1e-11)


def test_unequal_scales_converge_by_momentum(monkeypatch):
    # Curvatures from 1 to 1e4: steps along the gradient alone would need about 1e5 of them.
    monkeypatch.setattr("candlelight.evaluation.coverage.filter_methods._STEPS", 3000)
    gram = torch.logspace(0, 4, 9, dtype=torch.float64).diag()
    expected = torch.linspace(-1, 2, 9, dtype=torch.float64)
    found = nonnegative_lasso(gram, (gram @ expected)[None], 100.0)
    np.testing.assert_allclose(found.weights[0], expected.clamp(min=0), atol=1e-9)


def test_zeros_are_exact():
    x, y = _problem(1, features=20)
    weights = _fit(x, y, 0.5).weights
    assert (weights == 0).sum() >= 40
    assert (weights >= 0).all()
    assert (weights.sum(1) <= 0.5 + 1e-12).all()


def test_scale_does_not_matter():
    x, y = _problem(3)
    weights = 1e6 * _fit(x, y, 1.0).weights
    np.testing.assert_allclose(_fit(1e-6 * x, y, 1e6).weights, weights, rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(_fit(x, 1e6 * y, 1e6).weights, weights, rtol=1e-6, atol=1e-3)


def test_equal_features_share_the_weight():
    x, y = _problem(4, features=2, targets=1)
    once = _fit(x, y, 9.0).weights[0]
    twice = _fit(x[:, [0, 0, 1]], y, 9.0).weights[0]
    np.testing.assert_allclose(twice, [once[0] / 2, once[0] / 2, once[1]], atol=1e-9)


def test_features_and_targets_without_information():
    gram, products = torch.zeros(2, 2), torch.zeros(3, 2)
    assert nonnegative_lasso(gram, products, 1.0).weights.tolist() == [[0, 0]] * 3
    products = torch.tensor([[0.0, 0.0], [-1.0, -2.0], [1.0, 0.0]])
    found = nonnegative_lasso(torch.eye(2), products, 5.0)
    assert found.weights.tolist() == [[0, 0], [0, 0], [1, 0]]
    assert nonnegative_lasso(torch.eye(2), torch.zeros(0, 2), 1.0).weights.shape == (0, 2)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=6), st.floats(0.01, 20))
def test_projection_by_bisection(entries, bound):
    point = np.array(entries)
    low, high = 0.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(point - middle, 0).sum() > bound else (low, middle)
    projected = project_bounded(torch.from_numpy(point)[None], bound)[0]
    np.testing.assert_allclose(projected, np.maximum(point - high, 0), atol=1e-9)


@pytest.mark.parametrize("bound", [0.0, math.inf, math.nan])
def test_bound_out_of_range(bound):
    with refused(f"`bound` must be finite and above 0, got {bound}"):
        nonnegative_lasso(torch.eye(2), torch.ones(1, 2), bound)


@pytest.mark.parametrize(("gram", "products"), [(math.nan, 1.0), (1.0, math.inf)])
def test_values_that_are_not_finite(gram, products):
    with refused("`gram` and `products` must be finite, got nan or inf"):
        nonnegative_lasso(torch.full((2, 2), gram), torch.full((1, 2), products), 1.0)
