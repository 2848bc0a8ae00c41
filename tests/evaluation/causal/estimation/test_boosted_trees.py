import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from candlelight.evaluation.causal import estimators as boosted_trees
from candlelight.evaluation.causal.estimators import boost_trees


def _coarse(seed, classes, rows=400, values=8):
    """Draw features of few values, so that two features rarely split off the same rows."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(values, 4))[rng.integers(values, size=(rows + 50, 4)), np.arange(4)]
    features = features.astype(np.float32)
    mixed = features[:, 0] + features[:, 1] * features[:, 2] + 0.5 * rng.normal(size=len(features))
    labels = np.searchsorted(np.quantile(mixed, np.arange(1, classes) / classes), mixed)
    return features[:rows], 3 * labels[:rows] + 1, features[rows:]


# In these data no two splits are equally good.
@pytest.mark.parametrize(("classes", "seed"), [(2, 0), (2, 1), (3, 0), (3, 1), (5, 0)])
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
