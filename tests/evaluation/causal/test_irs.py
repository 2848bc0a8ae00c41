import itertools

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.irs import irs
from tests.refusals import refused


def _slow(codes, factors, quantile):
    """Compute IRS with explicit loops; codes without variance are skipped."""
    active = [code for code in range(codes.shape[1]) if codes[:, code].min() < codes[:, code].max()]
    matrix, weights = [], []
    for code in active:
        z = codes[:, code]
        largest = max(abs(value - z.mean()) for value in z)
        row = []
        for factor in range(factors.shape[1]):
            deviations = []
            for value in sorted(set(factors[:, factor])):
                group = z[factors[:, factor] == value]
                deviations.append(np.percentile(abs(group - group.mean()), 100 * quantile))
            row.append(1 - np.mean(deviations) / largest)
        matrix.append(row)
        weights.append(largest)
    matrix, weights = np.array(matrix), np.array(weights)
    return (weights * matrix.max(1)).sum() / weights.sum(), matrix, weights, active


def _random(seed, samples=120, codes=5, sizes=(3, 4, 7)):
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, size, samples) for size in sizes], axis=1)
    mixed = factors @ rng.normal(size=(len(sizes), codes))
    return mixed + 0.3 * rng.normal(size=(samples, codes)), factors


@pytest.mark.parametrize("quantile", [0.99, 1.0, 0.01])
@pytest.mark.parametrize("sizes", [(3, 4, 7), (90, 2), (60, 60, 3), (119,)], ids=str)
def test_equals_loops(sizes, quantile):
    # Of 120 rows in 90 classes some classes have one row, and most share their size with others.
    codes, factors = _random(11, sizes=sizes)
    codes[:, 2] = 1.25
    result = irs(torch.from_numpy(codes), torch.from_numpy(factors), quantile)
    score, matrix, weights, active = _slow(codes, factors, quantile)
    np.testing.assert_allclose(result.matrix, matrix, atol=1e-12)
    np.testing.assert_allclose(result.weights, weights)
    np.testing.assert_allclose(result.score, score, atol=1e-12)
    assert result.codes.tolist() == active
    assert result.parents.tolist() == matrix.argmax(1).tolist()


def test_by_hand():
    # Code 0 is factor 0; code 1 is 10 times factor 1 plus factor 0.
    factors = torch.tensor(list(itertools.product([0, 1], [0, 1])))
    codes = torch.stack([factors[:, 0], 10 * factors[:, 1] + factors[:, 0]], dim=1).double()
    result = irs(codes, factors, 1.0)
    # Given factor 0, code 1 deviates by 5 of at most 5.5; given factor 1, by 0.5.
    np.testing.assert_allclose(result.matrix, [[1, 0], [1 - 5 / 5.5, 1 - 0.5 / 5.5]], atol=1e-12)
    np.testing.assert_allclose(result.score, (0.5 * 1 + 5.5 * (1 - 0.5 / 5.5)) / 6)


def test_class_sizes_are_those_of_each_factor():
    factors = torch.tensor([[5, 0], [5, 0], [2, 0], [9, 1], [5, 1], [9, 1]])
    result = irs(torch.rand(6, 2, generator=torch.Generator().manual_seed(0)), factors)
    assert result.class_sizes == ((1, 2, 3), (3, 3))
    constant = irs(torch.ones(6, 2), factors)
    assert (constant.class_sizes, constant.codes.tolist()) == (((1, 2, 3), (3, 3)), [])
    assert constant.matrix.shape == (0, 2)


def _histogram_classes(column, bins=20):
    """Bin a factor like disentanglement_lib."""
    return np.digitize(column, np.histogram(column, bins)[1][:-1])


def test_continuous_factors_are_binned():
    rng = np.random.default_rng(0)
    factors = rng.uniform(-3, 5, (200, 2))
    codes = rng.normal(size=(200, 4))
    bin_values = np.stack([_histogram_classes(column, 7) for column in factors.T], axis=1)
    found = irs(torch.from_numpy(codes), torch.from_numpy(factors), bins=7)
    torch.testing.assert_close(
        found.matrix, irs(torch.from_numpy(codes), torch.from_numpy(bin_values), bins=2).matrix
    )
    # Bins do not change class numbers. Unbinned, every class had one sample, and random codes scored 1.
    assert float(found.score) < 0.5


@pytest.mark.parametrize("classes", [20, 21])
def test_the_library_bins_every_factor(classes):
    codes, factors = _random(5, samples=400, sizes=(classes, 4))
    factors[:classes, 0] = np.arange(classes)
    bin_values = np.stack([_histogram_classes(column) for column in factors.T], axis=1)
    codes, factors = torch.from_numpy(codes), torch.from_numpy(factors)
    found = irs(codes, factors, compat="disentanglement_lib")
    torch.testing.assert_close(found.matrix, irs(codes, torch.from_numpy(bin_values)).matrix)
    as_they_are = torch.equal(found.matrix, irs(codes, factors).matrix)
    assert as_they_are == (classes <= 20)
    finer = irs(codes, factors, bins=500, compat="disentanglement_lib")
    torch.testing.assert_close(finer.matrix, irs(codes, factors).matrix)


def test_constant_continuous_factor_is_one_class():
    codes = torch.from_numpy(_random(6)[0])
    constant = torch.full((len(codes), 1), 0.3)
    classes = torch.zeros(len(codes), 1, dtype=torch.int64)
    torch.testing.assert_close(irs(codes, constant, bins=5).matrix, irs(codes, classes).matrix)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quantile": 0.0}, "`quantile` must be above 0 and at most 1, got 0.0"),
        ({"quantile": 1.1}, "`quantile` must be above 0 and at most 1, got 1.1"),
        ({"factors": torch.arange(6.0)[:, None], "bins": 500}, "has as many classes as samples, 6"),
        ({"factors": torch.rand(6, 2), "bins": 1}, "`bins` must be at least 2, got 1"),
        ({"codes": torch.rand(6, 8, 4, 4)}, r"`codes` \[samples, codes\].*got \[6, 8, 4, 4\], \[6, 1\]"),
        ({"factors": torch.zeros(6).long()}, r"got \[6, 3\], \[6\]"),
        ({"compat": "disentangle"}, "`compat` must be one of: exact, disentanglement_lib; got dis"),
    ],
)
def test_arguments_that_are_refused(change, message):
    with refused(message):
        irs(**{"codes": torch.rand(6, 3), "factors": torch.zeros(6, 1).long(), **change})
