import itertools
from inspect import unwrap

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from candlelight.evaluation.causal.prediction_scores import block_r2, mcc
from candlelight.loaders.errors import InputError


def _drawn(samples=40, codes=4):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(samples, 3))
    mixed = factors @ rng.normal(size=(3, codes)) + 0.3 * rng.normal(size=(samples, codes))
    return np.exp(mixed).round(1), factors


def _slow(codes, factors, correlation, training, scored):
    """Try all assignments."""

    def one(rows, code, factor):
        pair = codes[rows, code], factors[rows, factor]
        return abs(spearmanr(*pair)[0] if correlation == "spearman" else np.corrcoef(*pair)[0, 1])

    numbers = range(factors.shape[1])
    best = max(
        itertools.permutations(range(codes.shape[1]), len(numbers)),
        key=lambda order: sum(one(training, order[number], number) for number in numbers),
    )
    return best, [one(scored, best[number], number) for number in numbers]


@pytest.mark.parametrize("correlation", ["pearson", "spearman"])
@pytest.mark.parametrize("split", [False, True])
def test_equals_loops(correlation, split):
    codes, factors = _drawn()
    training = np.arange(40) % 2 == 0 if split else np.ones(40, dtype=bool)
    scored = ~training if split else training
    best, expected = _slow(codes, factors, correlation, training, scored)
    chosen = torch.from_numpy(training) if split else None
    result = mcc(*map(torch.from_numpy, (codes, factors)), correlation, chosen)
    assert tuple(result.assigned.tolist()) == best
    np.testing.assert_allclose(result.per_factor, expected)
    np.testing.assert_allclose(result.score, np.mean(expected))


@pytest.mark.parametrize("correlation", ["pearson", "spearman"])
def test_permuted_and_scaled_factors_score_one(correlation):
    factors = torch.from_numpy(_drawn()[1])
    result = mcc(
        torch.stack([7 - factors[:, 2], 5 * factors[:, 0], factors[:, 1]], dim=1), factors, correlation
    )
    np.testing.assert_allclose(result.score, 1)
    assert result.assigned.tolist() == [1, 2, 0]


def test_maps_that_each_correlation_sees():
    factors = torch.linspace(-1, 1, 41).double()[:, None]
    for codes, seen in ((factors, "psk"), ((2 * factors).exp(), "sk")):
        for correlation in ("pearson", "spearman", "kernel"):
            score = float(mcc(codes, factors, correlation).score)
            assert (score > 0.98) == (correlation[0] in seen), (correlation, score)
    # A square is not monotone: the code cannot tell the sign, but its own square is known from it.
    assert float(mcc(factors, factors.square(), "kernel").score) > 0.99
    assert float(mcc(factors, factors.square(), "spearman").score) < 1e-6
    assert float(mcc(factors.square(), factors, "kernel").score) < 0.1


def test_the_kernel_matrix_is_the_root_of_r2():
    codes, factors = (torch.from_numpy(part[:, :2]) for part in _drawn(30))
    training = torch.arange(30) % 3 > 0
    result = mcc(codes, factors, "kernel", training)
    for code in range(2):
        r2 = block_r2(codes[:, code : code + 1], factors, "kernel", training).per_factor
        torch.testing.assert_close(result.matrix[code], r2.clamp(min=0).sqrt())


def test_duplicates_do_not_matter():
    factors = torch.from_numpy(_drawn()[1])
    np.testing.assert_allclose(mcc(factors.repeat(1, 2), factors).score, 1)


def test_noise_finds_less_out_of_sample():
    rng = np.random.default_rng(0)
    codes, factors = torch.from_numpy(rng.normal(size=(60, 20))), torch.from_numpy(rng.normal(size=(60, 4)))
    assert float(mcc(codes, factors).score) > 0.2
    assert float(mcc(codes, factors, training=torch.arange(60) < 30).score) < 0.2


def test_a_factor_without_a_code_counts_as_zero():
    factors = torch.from_numpy(_drawn()[1])
    result = mcc(factors[:, 1:2], factors)
    np.testing.assert_allclose(result.per_factor, [0, 1, 0])
    assert result.assigned.tolist() == [-1, 0, -1]


def test_constant_codes_and_factors():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    codes[:, 0] = 0.1
    result = mcc(codes, torch.cat([torch.full((40, 1), 0.1), factors], dim=1))
    assert result.matrix[0, 1:].tolist() == [0, 0, 0]
    assert result.per_factor.isnan().tolist() == [True, False, False, False]
    assert int(result.assigned[0]) == -1
    torch.testing.assert_close(result.score, result.per_factor[1:].mean())


@pytest.mark.parametrize(
    ("codes", "factors", "correlation", "message"),
    [
        (torch.rand(1, 2), torch.ones(1, 1), "pearson", "must vary among the 1 samples, got 0"),
        (torch.full((2, 1), torch.nan), torch.arange(2)[:, None], "pearson", "`codes` must be finite"),
        (torch.rand(2, 1), torch.arange(2)[:, None], "kernel", "needs at least 3 rows"),
        (torch.rand(2, 1), torch.arange(2)[:, None], "kendall", "`correlation` must be one of: pearson"),
    ],
)
def test_refused_arguments(codes, factors, correlation, message):
    with pytest.raises(InputError, match=message):
        unwrap(mcc)(codes, factors, correlation)
