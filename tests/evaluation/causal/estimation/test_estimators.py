"""Boosted trees, kernel ridge, lines and the covariance measure, against scikit-learn and loops."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from candlelight.evaluation.causal import estimators as boosted_trees
from candlelight.evaluation.causal.estimators import (
    PENALTIES,
    WIDTHS,
    boost_trees,
    covariance_measure_test,
    predict_by_kernel,
    predict_by_line,
)


def _coarse(seed, classes, rows=400, values=8):
    """Draw features of few values, so that two features rarely split off the same rows."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(values, 4))[rng.integers(values, size=(rows + 50, 4)), np.arange(4)]
    features = features.astype(np.float32)
    mixed = features[:, 0] + features[:, 1] * features[:, 2] + 0.5 * rng.normal(size=len(features))
    labels = np.searchsorted(np.quantile(mixed, np.arange(1, classes) / classes), mixed)
    return features[:rows], 3 * labels[:rows] + 1, features[rows:]


# In these data no two splits are equally good.
@pytest.mark.parametrize(("classes", "seed"), [(2, 0), (3, 1), (5, 0)])
def test_trees_are_those_of_scikit_learn(monkeypatch, classes, seed):
    monkeypatch.setattr(boosted_trees, "_STAGES", 8)
    train, labels, test = _coarse(seed, classes)
    model = GradientBoostingClassifier(n_estimators=8, random_state=0).fit(train, labels)
    members = labels == np.unique(labels)[:, None]
    importances, known, unknown = boosted_trees._boost(train, members, test, seed=0)
    np.testing.assert_allclose(importances, model.feature_importances_, atol=1e-10)
    np.testing.assert_allclose(np.squeeze(known.T), model.decision_function(train), atol=1e-10)
    np.testing.assert_allclose(np.squeeze(unknown.T), model.decision_function(test), atol=1e-10)


def test_classes_after_all_stages_are_those_of_scikit_learn():
    train, labels, test = _coarse(5, classes=2)
    model = GradientBoostingClassifier(random_state=0).fit(train, labels)
    importances, known, unknown = boost_trees(train, labels, test, seed=0)
    np.testing.assert_allclose(importances, model.feature_importances_, atol=1e-3)
    assert np.mean(known == model.predict(train)) > 0.99
    assert np.mean(unknown == model.predict(test)) > 0.95


def test_first_tree_by_hand(monkeypatch):
    # p = 1/4 everywhere. The best split isolates the last row: 1 * 3 / 4 * (3/4 + 1/4)^2 = 3/4. The leaves
    # are pure, so they are not split. Newton steps: 3/4 over 3/16, and -1/4 over 3/16, times 0.1.
    monkeypatch.setattr(boosted_trees, "_STAGES", 1)
    train = np.array([[0, 1, 2, 5], [0, 0, 0, 0]], dtype=np.float32).T.copy()
    members = np.array([[1, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)
    test = np.array([[3.4, 9], [3.6, 9]], dtype=np.float32)
    importances, known, unknown = boosted_trees._boost(train, members, test, seed=0)
    np.testing.assert_allclose(importances, [1, 0])
    low, high = np.log(1 / 3) - 0.1 * 4 / 3, np.log(1 / 3) + 0.1 * 4
    np.testing.assert_allclose(known, [[low, low, low, high]])
    np.testing.assert_allclose(unknown, [[low, high]])


def test_no_more_cells_than_the_limit_and_equal_values_share_one():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=5000), rng.integers(3000, size=5000), rng.normal(size=5000).round(2)):
        values = values.astype(np.float32)
        cells = boosted_trees._Cells.of(values)
        assert len(cells.lowest) <= boosted_trees._CELLS
        assert (cells.lowest[1:] > cells.highest[:-1]).all()
        np.testing.assert_array_equal(cells.lowest[cells.numbers] <= values, True)
        np.testing.assert_array_equal(cells.highest[cells.numbers] >= values, True)
        if len(np.unique(values)) <= boosted_trees._CELLS:
            np.testing.assert_array_equal(cells.lowest, np.unique(values))
        else:
            assert np.bincount(cells.numbers).max() < 20


def test_cells_at_both_ends_have_one_row_each():
    values = np.random.default_rng(0).normal(size=9000).astype(np.float32)
    counts = np.bincount(boosted_trees._Cells.of(values).numbers)
    assert counts[:40].max() == counts[-40:].max() == 1
    assert 6 < counts[900:1100].mean() < 8


def test_neighbouring_cells_without_rows_do_not_move_the_threshold():
    cells = boosted_trees._Cells.of(np.arange(6, dtype=np.float32))
    assert cells.threshold(np.array([0, 1, 4]), 1) == 2.5
    assert cells.threshold(np.array([0, 1, 4]), 3) == 2.5


def test_many_values_give_nearly_the_trees_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(boosted_trees, "_CELLS", 64)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 3)).astype(np.float32)
    labels = (features[:, 0] + 0.5 * features[:, 1] > 0.3 * rng.normal(size=600)).astype(int)
    model = GradientBoostingClassifier(random_state=0).fit(features[:400], labels[:400])
    importances, _, predicted = boost_trees(features[:400], labels[:400], features[400:], seed=0)
    np.testing.assert_allclose(importances, model.feature_importances_, atol=0.05)
    assert np.mean(predicted == model.predict(features[400:])) > 0.93


@pytest.mark.parametrize("noise", [0, 3])
def test_kernel_ridge_equals_scikit_learn(noise):
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


def test_constant_codes_predict_the_mean_by_kernel():
    found = predict_by_kernel(torch.full((9, 1), 0.1), torch.arange(9)[:, None], torch.full((2, 1), 0.1))
    np.testing.assert_allclose(found, 4)


def test_separate_pairs_are_those_of_each_factor_alone():
    rng = np.random.default_rng(0)
    codes, scored = torch.from_numpy(rng.normal(size=(40, 2))), torch.from_numpy(rng.normal(size=(7, 2)))
    factors = torch.stack([codes[:, 0].sin(), torch.from_numpy(rng.normal(size=40))], dim=1)
    alone = [predict_by_kernel(codes, factor, scored) for factor in factors.split(1, dim=1)]
    together = predict_by_kernel(codes, factors, scored, separate=True)
    torch.testing.assert_close(together, torch.cat(alone, dim=1))
    assert not torch.allclose(together, predict_by_kernel(codes, factors, scored))


def test_lines_equal_scikit_learn():
    rng = np.random.default_rng(0)
    codes, factors, scored = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.normal(size=(5, 3))
    codes[:, 2] = codes[:, 0] - codes[:, 1]  # collinear
    scored[:, 2] = scored[:, 0] - scored[:, 1]
    expected = LinearRegression().fit(codes, factors).predict(scored)
    found = predict_by_line(*(torch.from_numpy(part) for part in (codes, factors, scored)))
    np.testing.assert_allclose(found, expected)


def test_without_codes_the_mean_is_predicted():
    found = predict_by_line(torch.zeros(4, 0), torch.tensor([[1], [2], [3], [6]]), torch.zeros(2, 0))
    assert found.tolist() == [[3], [3]]


def test_covariance_measure_equals_loops():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(30, 3)), rng.normal(size=30)
    first[:, 1] += 0.5 * second
    found = covariance_measure_test(torch.from_numpy(first), torch.from_numpy(second))
    for column in range(3):
        products = [one * other for one, other in zip(first[:, column], second, strict=True)]
        statistic = np.sqrt(30) * np.mean(products) / np.std(products)
        np.testing.assert_allclose(found[column], 2 * norm.sf(abs(statistic)))


def test_closed_forms_of_the_covariance_measure():
    second = torch.tensor([1.0, 1, -1, -1, 1, 1])
    # Products without spread are certain; products 2, 0, 0, 0, 0, 0 have T = sqrt(6) / sqrt(5).
    first = torch.stack([second, -second, 0 * second, 2 * (torch.arange(6) == 0)], dim=1)
    expected = [0, 0, 1, 2 * norm.sf(np.sqrt(6 / 5))]
    np.testing.assert_allclose(covariance_measure_test(first, second), expected)
