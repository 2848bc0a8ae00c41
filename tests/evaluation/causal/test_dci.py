import itertools
import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal import estimators
from candlelight.evaluation.causal.dci import dci, dci_fast, dci_from_classifiers
from tests.refusals import refused

BOTH = pytest.mark.parametrize("function", [dci, dci_fast])


def _from_importances(importances, factors=None):
    """Score a classifier with these importances that predicts the class 0."""
    columns = iter(np.asarray(importances, dtype=float).T)

    def fit(train, classes, test, seed):
        return next(columns), np.zeros(len(train), int), np.zeros(len(test), int)

    codes, count = np.shape(importances)
    if factors is None:
        factors = torch.tensor([[0], [1], [0], [1]]).expand(4, count)
    values = torch.zeros(len(factors), codes)
    return dci_from_classifiers(fit, values, factors, torch.arange(len(factors) - 1), torch.tensor([3]))


def _slow(importances):
    """Compute D and C with loops, as disentanglement_lib does."""
    codes, factors = importances.shape
    by_code, by_factor = [], []
    for code in range(codes):
        shares = [(value + 1e-11) / sum(importances[code] + 1e-11) for value in importances[code]]
        by_code.append(1 + sum(share * math.log(share, factors) for share in shares))
    for factor in range(factors):
        column = importances[:, factor]
        shares = [(value + 1e-11) / sum(column + 1e-11) for value in column]
        by_factor.append(1 + sum(share * math.log(share, codes) for share in shares))
    total = importances.sum()
    disentanglement = sum(by_code[code] * importances[code].sum() / total for code in range(codes))
    completeness = sum(by_factor[factor] * importances[:, factor].sum() / total for factor in range(factors))
    return disentanglement, completeness, by_code, by_factor


@pytest.mark.parametrize("shape", [(7, 3), (3, 6)], ids=str)
def test_equals_loops(shape):
    importances = np.random.default_rng(len(shape)).random(shape) ** 4
    importances[0] = 0
    found = _from_importances(importances)
    normalised = importances / importances.sum(0)
    disentanglement, completeness, by_code, by_factor = _slow(normalised)
    np.testing.assert_allclose(found.importance, normalised)
    np.testing.assert_allclose(found.code_disentanglement, by_code, atol=1e-12)
    np.testing.assert_allclose(found.factor_completeness, by_factor, atol=1e-12)
    np.testing.assert_allclose(found.disentanglement, disentanglement)
    np.testing.assert_allclose(found.completeness, completeness)
    np.testing.assert_allclose(found.weights, normalised.sum(1) / normalised.sum())


@pytest.mark.parametrize(
    ("importances", "disentanglement", "completeness"),
    [
        (np.eye(3), 1, 1),
        (np.eye(3)[[2, 0, 1]], 1, 1),
        (np.ones((4, 3)), 0, 0),
        # Two codes for each of two factors: half the bits of the choice among four codes.
        (np.repeat(np.eye(2), 2, axis=0), 1, 0.5),
        # Each factor is in one code, but one code has two of four factors: half the bits, weight one half.
        ([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], 0.75, 1),
        (np.zeros((3, 2)), 0, 0),
    ],
    ids=["identity", "permuted", "equal", "two codes a factor", "two factors a code", "none"],
)
def test_closed_forms(importances, disentanglement, completeness):
    found = _from_importances(importances)
    assert float(found.disentanglement) == pytest.approx(disentanglement, abs=1e-8)
    assert float(found.completeness) == pytest.approx(completeness, abs=1e-8)


def test_codes_without_any_importance_weigh_the_same():
    assert _from_importances(np.zeros((4, 2))).weights.tolist() == [0.25] * 4


def test_accuracy_is_the_share_of_right_classes():
    factors = torch.tensor([[0, 1], [0, 0], [3, 1], [0, 2]])
    found = _from_importances(np.eye(2), factors)
    np.testing.assert_allclose(found.train_accuracy, [2 / 3, 1 / 3])
    np.testing.assert_allclose(found.test_accuracy, [1, 0])
    np.testing.assert_allclose(found.informativeness_train, 0.5)
    np.testing.assert_allclose(found.informativeness_test, 0.5)


def _grid(repeats=3, sizes=(2, 3, 4)):
    factors = torch.tensor(list(itertools.product(*map(range, sizes)))).repeat(repeats, 1)
    rows = torch.randperm(len(factors), generator=torch.Generator().manual_seed(0))
    return factors, rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]


def _noise(rows, columns, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@BOTH
def test_identity_scores_one(function):
    factors, train, test = _grid()
    codes = torch.cat([factors.double(), torch.full((len(factors), 1), 0.1)], dim=1)
    found = function(codes, factors, train, test)
    assert float(found.disentanglement) == pytest.approx(1, abs=1e-6)
    assert float(found.completeness) == pytest.approx(1, abs=1e-6)
    assert found.test_accuracy.tolist() == [1, 1, 1]
    np.testing.assert_allclose(found.importance[:3], np.eye(3), atol=1e-8)
    # A constant code has no weight.
    assert found.importance[3].tolist() == [0, 0, 0]
    assert found.weights[3] == 0
    assert float(found.code_disentanglement[3]) == pytest.approx(0, abs=1e-12)


def _mixed():
    factors, train, test = _grid(6)
    codes = factors.double() @ _noise(3, 4, seed=1) + 0.2 * _noise(len(factors), 4, seed=2)
    return codes, factors, train, test


@pytest.fixture
def few_stages(monkeypatch) -> None:
    monkeypatch.setattr(estimators, "_STAGES", 12)


@pytest.mark.usefixtures("few_stages")
def test_order_and_monotone_changes_do_not_matter():
    # With coarse values two codes rarely split off the same rows, so there are no ties to draw for.
    codes, factors, train, test = _mixed()
    codes = (2 * codes).round()
    found = dci_fast(codes, factors, train, test)
    permuted = dci_fast(-0.5 * codes[:, [2, 0, 3, 1]], 9 - 2 * factors[:, [1, 2, 0]], train, test)
    torch.testing.assert_close(
        permuted.importance, found.importance[[2, 0, 3, 1]][:, [1, 2, 0]], atol=0.02, rtol=0
    )
    torch.testing.assert_close(permuted.test_accuracy, found.test_accuracy[[1, 2, 0]], atol=0.05, rtol=0)


def test_fast_scores_are_those_of_scikit_learn():
    codes, factors, train, test = _mixed()
    fast, slow = (function(codes, factors, train, test) for function in (dci_fast, dci))
    torch.testing.assert_close(fast.importance, slow.importance, atol=0.02, rtol=0)
    assert float(fast.disentanglement) == pytest.approx(float(slow.disentanglement), abs=0.02)
    assert float(fast.completeness) == pytest.approx(float(slow.completeness), abs=0.02)
    torch.testing.assert_close(fast.train_accuracy, slow.train_accuracy, atol=0.03, rtol=0)
    torch.testing.assert_close(fast.test_accuracy, slow.test_accuracy, atol=0.05, rtol=0)


def test_copies_of_a_code_share_its_importance():
    factors, train, test = _grid(6, (2, 3))
    found = dci_fast(factors.double().repeat(1, 2), factors, train, test)
    assert float(found.disentanglement) == pytest.approx(1, abs=1e-6)
    assert 0.3 < float(found.importance[0, 0]) < 0.7
    assert float(found.completeness) == pytest.approx(0.5, abs=0.05)


@BOTH
def test_differences_below_the_resolution_of_scikit_learn_are_ignored(function):
    factors, train, test = _grid(2, (2, 2))
    found = function(1e-8 * factors.double(), factors, train, test)
    assert found.importance.tolist() == [[0, 0], [0, 0]]


@BOTH
def test_equal_seeds_give_equal_results_and_codes_may_need_gradients(function):
    factors, train, test = _grid(3, (2, 3))
    codes = factors.float().repeat(1, 2).requires_grad_()
    first, second = (function(codes, factors, train, test, seed=5) for _ in range(2))
    torch.testing.assert_close(vars(first), vars(second), rtol=0, atol=0)


@pytest.mark.usefixtures("few_stages")
def test_continuous_factors_are_binned():
    factors = _noise(60, 2)
    codes, train, test = factors + 0.1 * _noise(60, 2, seed=1), torch.arange(40), torch.arange(40, 60)
    edges = [np.histogram(column, 4)[1][:-1] for column in factors.T.numpy()]
    classes = np.stack([np.digitize(*pair) for pair in zip(factors.T.numpy(), edges, strict=True)], axis=1)
    found = dci_fast(codes, factors, train, test, bins=4)
    torch.testing.assert_close(vars(found), vars(dci_fast(codes, torch.from_numpy(classes), train, test)))
    assert float(found.informativeness_test) > 0.5


TWO = torch.tensor([[0, 1], [1, 0], [0, 0], [1, 1]])
ROWS = {"train": torch.arange(3), "test": torch.tensor([3])}


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"codes": torch.full((4, 2), 1e39, dtype=torch.float64)}, "`codes` must be finite in float32"),
        ({"factors": TWO.float()}, "`factors` of floats are continuous and need `bins`.*got None; cast"),
        ({"factors": TWO.float(), "bins": 1}, "need `bins` of at least 2, such as 20, got 1"),
        ({"train": torch.zeros(0).long()}, "`train` needs at least one row, got none"),
        ({"test": torch.tensor([4])}, "`test` must be row numbers from 0 to 3, got 4 to 4"),
        ({"train": torch.tensor([-1, 1])}, "`train` must be row numbers from 0 to 3, got -1 to 1"),
        ({"train": torch.ones(4).bool()}, r"`train` must be row numbers, got torch.bool; use mask.nonzero"),
        ({"train": torch.ones(4, 1).long()}, r"`train` \[train\].*got \[4, 2\], \[4, 2\], \[4, 1\], \[1\]"),
    ],
)
def test_arguments_that_are_refused(replaced, message):
    with refused(message):
        dci_from_classifiers(**{"fit": None, "codes": torch.zeros(4, 2), "factors": TWO, **ROWS, **replaced})
