from inspect import unwrap

import numpy as np
import pytest
import torch
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif

from candlelight.evaluation.causal.information import neighbour_information
from candlelight.loaders.errors import InputError


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
def test_equals_loops(samples, size, neighbours):
    codes, factors = _drawn(samples, size)
    expected = [[_slow(code, factor, neighbours) for factor in factors.T] for code in codes.T]
    found = neighbour_information(torch.from_numpy(codes), torch.from_numpy(factors), neighbours)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_equals_scikit_learn():
    codes, factors = _drawn(300, 4)
    expected = [mutual_info_classif(codes, factor, n_neighbors=10, random_state=0) for factor in factors.T]
    found = neighbour_information(torch.from_numpy(codes), torch.from_numpy(factors))
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-12)


def test_separate_classes_have_their_entropy_and_noise_has_nothing():
    rng = np.random.default_rng(0)
    factors = torch.from_numpy(rng.integers(0, 4, (2000, 1)))
    noise = torch.from_numpy(rng.random((2000, 1)))
    np.testing.assert_allclose(neighbour_information(noise + factors, factors), np.log(4), atol=0.02)
    assert float(neighbour_information(noise, factors)) < 0.02


def test_scale_and_names_do_not_matter():
    codes, factors = (torch.from_numpy(part) for part in _drawn(60, 3))
    found = neighbour_information(4096 - 1024 * codes, 5 - 3 * factors)
    torch.testing.assert_close(found, neighbour_information(codes, factors))


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
def test_refused_arguments(codes, factors, neighbours, message):
    with pytest.raises(InputError, match=message):
        unwrap(neighbour_information)(codes, factors, neighbours)
