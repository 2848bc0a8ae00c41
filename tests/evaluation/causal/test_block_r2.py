from inspect import unwrap

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from candlelight.evaluation.causal.prediction_scores import block_r2
from candlelight.loaders.errors import InputError


def _drawn(samples=50, codes=3):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(samples, 2))
    return factors @ rng.normal(size=(2, codes)) + 0.5 * rng.normal(size=(samples, codes)), factors


@pytest.mark.parametrize("split", [False, True])
def test_linear_equals_scikit_learn(split):
    codes, factors = _drawn()
    training = np.arange(50) % 2 == 0 if split else np.ones(50, dtype=bool)
    scored = ~training if split else training
    model = LinearRegression().fit(codes[training], factors[training])
    expected = r2_score(factors[scored], model.predict(codes[scored]), multioutput="raw_values")
    chosen = torch.from_numpy(training) if split else None
    found = block_r2(torch.from_numpy(codes), torch.from_numpy(factors), training=chosen)
    np.testing.assert_allclose(found.per_factor, expected)
    np.testing.assert_allclose(found.score, expected.mean())


def test_an_invertible_linear_map_scores_one_and_half_the_block_less():
    factors = torch.from_numpy(_drawn()[1])
    mixed = factors @ torch.tensor([[1.0, 3.0], [2.0, -1.0]]).double() - 7
    np.testing.assert_allclose(block_r2(mixed, factors).per_factor, 1)
    assert float(block_r2(mixed[:, :1], factors).score) < 0.7


def test_the_kernel_sees_nonlinear_maps():
    angle = torch.linspace(0, 6, 60)[:, None]
    circle = torch.cat([angle.cos(), angle.sin()], dim=1)
    training = torch.arange(60) % 3 > 0
    assert float(block_r2(circle, angle, training=training).score) < 0.7
    assert float(block_r2(circle, angle, "kernel", training).score) > 0.95


def test_noise_scores_zero_out_of_sample_only():
    rng = np.random.default_rng(0)
    codes, factors = torch.from_numpy(rng.normal(size=(60, 30))), torch.from_numpy(rng.normal(size=(60, 1)))
    assert float(block_r2(codes, factors).score) > 0.3
    assert float(block_r2(codes, factors, training=torch.arange(60) < 40).score) < 0
    assert float(block_r2(codes, factors, "kernel", torch.arange(60) < 40).score) < 0.1


def test_collinear_constant_and_many_codes():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    more = torch.cat([codes, codes @ torch.ones(3, 2).double(), torch.ones(50, 1)], dim=1)
    torch.testing.assert_close(block_r2(more, factors).score, block_r2(codes, factors).score)
    np.testing.assert_allclose(block_r2(torch.ones(50, 2), factors).per_factor, 0, atol=1e-12)
    np.testing.assert_allclose(block_r2(codes[:3], factors[:3]).per_factor, 1)


@pytest.mark.parametrize("regression", ["linear", "kernel"])
def test_scale_and_order_of_columns_do_not_matter(regression):
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    training = torch.arange(50) < 30
    expected = block_r2(codes, factors, regression, training).per_factor
    found = block_r2(1e5 * codes.flip(1) - 3, 9 - 2 * factors.flip(1), regression, training).per_factor
    torch.testing.assert_close(found.flip(0), expected)


def test_a_factor_with_one_value_does_not_count():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    result = block_r2(codes, torch.cat([factors, torch.full((50, 1), 0.1)], dim=1))
    assert result.per_factor.isnan().tolist() == [False, False, True]
    torch.testing.assert_close(result.score, block_r2(codes, factors).score)


@pytest.mark.parametrize(
    ("rows", "regression", "message"),
    [
        (1, "linear", "at least 1 of the factors must vary among the 1 samples, got 0"),
        (2, "kernel", "kernel regression needs at least 3 rows to fit on, got 2"),
        (5, "lasso", "`regression` must be one of: linear, kernel; got lasso"),
    ],
)
def test_refused_arguments(rows, regression, message):
    with pytest.raises(InputError, match=message):
        unwrap(block_r2)(torch.rand(rows, 1), torch.arange(rows)[:, None], regression)


def test_nan_is_refused():
    with pytest.raises(InputError, match="`factors` must be finite"):
        block_r2(torch.rand(2, 1), torch.tensor([[0.0], [torch.nan]]))
