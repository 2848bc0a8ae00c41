"""Mutual information of classes, and by nearest neighbours, against scikit-learn and loops."""

import math

import numpy as np
import pytest
import torch
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics import mutual_info_score

from candlelight.evaluation.causal import information as module
from candlelight.evaluation.causal.information import (
    entropy,
    mutual_information_matrix,
    neighbour_information,
)
from tests.refusals import refused


def _drawn_classes(samples=70, sizes=(2, 5, 9), columns=6):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=samples) for size in sizes], axis=1)
    mixed = np.stack([factors @ rng.integers(0, 3, len(sizes)) for _ in range(columns)], axis=1)
    return torch.from_numpy(mixed), torch.from_numpy(factors)


@pytest.mark.parametrize("cells", [1, 60, 2**22])
def test_information_of_classes_equals_scikit_learn(cells, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", cells)
    codes, factors = _drawn_classes()
    expected = [[mutual_info_score(code, factor) for factor in factors.T] for code in codes.T]
    renamed = mutual_information_matrix(-1000 * codes, 10**9 * factors - 7)
    np.testing.assert_allclose(renamed, expected, atol=1e-12)


def test_entropy_of_one_class_and_of_equal_classes():
    classes = torch.stack([torch.zeros(12), torch.arange(12) % 4, torch.arange(12)], dim=1).long()
    np.testing.assert_allclose(entropy(classes), [0, math.log(4), math.log(12)])
    np.testing.assert_allclose(mutual_information_matrix(classes, classes).diagonal(), entropy(classes))


def test_independent_columns_have_exactly_no_information():
    grid = torch.cartesian_prod(torch.arange(3), torch.arange(7), torch.arange(11))
    information = mutual_information_matrix(grid, grid)
    assert (information - information.diagonal().diag() == 0).all()


def test_no_columns():
    codes, factors = _drawn_classes()
    assert mutual_information_matrix(codes[:, :0], factors).shape == (0, 3)
    assert mutual_information_matrix(codes, factors[:, :0]).shape == (6, 0)
    assert entropy(codes[:, :0]).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (torch.rand(4, 1), torch.ones(4, 1).long()),
            "`codes` must be class numbers, got torch.float32; call",
        ),
        ((torch.ones(4, 1).long(), torch.rand(4, 1)), "`factors` must be class numbers"),
        ((torch.ones(0, 1).long(), torch.ones(0, 1).long()), "`codes` needs at least one sample, got none"),
        ((torch.ones(4, 1).long(), torch.ones(3, 1).long()), r"got \[4, 1\], \[3, 1\]"),
        ((torch.rand(3, 1),), "`classes` must be class numbers"),
        ((torch.zeros(0, 1).long(),), "`classes` needs at least one sample"),
    ],
)
def test_refused_classes(arguments, message):
    with refused(message):
        (mutual_information_matrix if len(arguments) == 2 else entropy)(*arguments)


def _drawn(samples, size):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, size, (samples, 2))
    return factors @ rng.normal(size=(2, 3)) + rng.normal(size=(samples, 3)), factors


def _slow(code, factor, neighbours):
    """Estimate the information with explicit loops."""
    kept = np.array([(factor == value).sum() > 1 for value in factor])
    code, factor = code[kept], factor[kept]
    terms = []
    for value, known in zip(code, factor, strict=True):
        distances = np.sort(abs(code[factor == known] - value))
        count = min(neighbours, len(distances) - 1)
        within = (abs(code - value) < distances[count]).sum()
        terms.append(digamma(count) - digamma(len(distances)) - digamma(within))
    return max(0, digamma(len(code)) + np.mean(terms))


@pytest.mark.parametrize(
    ("samples", "size", "neighbours"), [(80, 3, 10), (50, 20, 10), (30, 2, 1), (9, 2, 50)]
)
def test_neighbour_information_equals_loops(samples, size, neighbours):
    codes, factors = _drawn(samples, size)
    expected = [[_slow(code, factor, neighbours) for factor in factors.T] for code in codes.T]
    found = neighbour_information(torch.from_numpy(codes), torch.from_numpy(factors), neighbours)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_neighbour_information_equals_scikit_learn():
    codes, factors = _drawn(300, 4)
    expected = [mutual_info_classif(codes, factor, n_neighbors=10, random_state=0) for factor in factors.T]
    found = neighbour_information(torch.from_numpy(codes), torch.from_numpy(factors))
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-12)


def test_constant_codes_and_classes_of_one_sample():
    codes, factors = (torch.from_numpy(part) for part in _drawn(60, 3))
    assert float(neighbour_information(0 * codes, factors).max()) < 0.1
    single = torch.arange(60)[:, None]
    assert neighbour_information(codes, single).tolist() == [[0], [0], [0]]


@pytest.mark.parametrize(
    ("codes", "factors", "neighbours", "message"),
    [
        (torch.rand(4, 1), torch.ones(4, 1).long(), 0, "`neighbours` must be at least 1, got 0"),
        (torch.full((4, 1), torch.nan), torch.ones(4, 1).long(), 3, "`codes` must be finite, got nan or inf"),
        (torch.rand(4, 1), torch.rand(4, 1), 3, "`factors` must be class numbers"),
        (torch.rand(0, 1), torch.ones(0, 1).long(), 3, "`factors` needs at least one sample, got none"),
        (torch.rand(4, 1), torch.ones(3, 1).long(), 3, r"got \[4, 1\], \[3, 1\]"),
    ],
)
def test_refused_codes(codes, factors, neighbours, message):
    with refused(message):
        neighbour_information(codes, factors, neighbours)
