import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from candlelight.evaluation.causal.estimators import (
    PENALTIES,
    WIDTHS,
    predict_by_kernel,
    r2_score_of_factors,
)
from candlelight.loaders.errors import InputError


@pytest.mark.parametrize("noise", [0, 3])
def test_equals_scikit_learn(noise):
    rng = np.random.default_rng(0)
    codes, scored = rng.normal(size=(40, 2)), rng.normal(size=(20, 2))
    factors = np.stack([np.sin(2 * codes[:, 0]), 5 + codes[:, 1] ** 2], axis=1) + noise * rng.normal(
        size=(40, 2)
    )
    to_codes, to_factors = StandardScaler().fit(codes), StandardScaler().fit(factors)
    folds = [(np.flatnonzero(np.arange(40) % 3 != part), np.arange(part, 40, 3)) for part in range(3)]
    grid = {"alpha": PENALTIES, "gamma": WIDTHS}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=folds)
    search.fit(to_codes.transform(codes), to_factors.transform(factors))
    expected = to_factors.inverse_transform(search.predict(to_codes.transform(scored)))
    found = predict_by_kernel(*map(torch.from_numpy, (codes, factors, scored)))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_constant_codes_predict_the_mean():
    found = predict_by_kernel(torch.full((9, 1), 0.1), torch.arange(9)[:, None], torch.full((2, 1), 0.1))
    np.testing.assert_allclose(found, 4)


def test_r2_equals_scikit_learn_and_is_nan_for_one_value():
    rng = np.random.default_rng(0)
    predicted, factors = rng.normal(size=(9, 3)), rng.integers(0, 3, (9, 3))
    expected = r2_score(factors, predicted, multioutput="raw_values")
    found = r2_score_of_factors(torch.from_numpy(predicted), torch.from_numpy(factors))
    np.testing.assert_allclose(found, expected)
    assert r2_score_of_factors(torch.rand(4, 1), torch.ones(4, 1)).isnan().all()


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="kernel regression needs at least 3 rows to fit on, got 2"):
        predict_by_kernel(torch.rand(2, 1), torch.rand(2, 1), torch.rand(2, 1))


def test_separate_pairs_are_those_of_each_factor_alone():
    rng = np.random.default_rng(0)
    codes, scored = torch.from_numpy(rng.normal(size=(40, 2))), torch.from_numpy(rng.normal(size=(7, 2)))
    factors = torch.stack([codes[:, 0].sin(), torch.from_numpy(rng.normal(size=40))], dim=1)
    alone = [predict_by_kernel(codes, factor, scored) for factor in factors.split(1, dim=1)]
    together = predict_by_kernel(codes, factors, scored, separate=True)
    torch.testing.assert_close(together, torch.cat(alone, dim=1))
    assert not torch.allclose(together, predict_by_kernel(codes, factors, scored))
