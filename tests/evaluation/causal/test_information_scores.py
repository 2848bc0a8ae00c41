"""MIG, minimality, sufficiency, modularity and InfoMEC against loops, scikit-learn and closed forms."""

import math

import numpy as np
import pytest
import torch
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from candlelight.evaluation.causal.information_scores import (
    infomec,
    mig,
    minimality_and_sufficiency,
    modularity,
)
from tests.refusals import refused

GRID = torch.cartesian_prod(torch.arange(4), torch.arange(5), torch.arange(2))
FIRST_TWO = GRID[:, :1] * 10 + GRID[:, 1:2]


def _information(codes, factors, bins):
    """Return the information of each code, cut into bins, about each factor, and the entropies of both."""
    cut = [np.digitize(code, np.histogram(code, bins)[1][:-1]) for code in codes.T]
    table = np.array([[mutual_info_score(code, factor) for factor in factors.T] for code in cut])
    entropies = [[mutual_info_score(one, one) for one in some] for some in (cut, factors.T)]
    return table, *map(np.array, entropies)


def test_equal_loops(draw_codes):
    codes, factors = draw_codes(80, 5)
    table, of_codes, of_factors = _information(codes.numpy(), factors.numpy(), 7)
    result = mig(codes, factors, bins=7)
    ordered = np.sort(table, axis=0)
    gaps = (ordered[-1] - ordered[-2]) / of_factors
    np.testing.assert_allclose(result.gaps, gaps, atol=1e-12)
    np.testing.assert_allclose(result.score, gaps.mean())
    assert result.best.tolist() == table.argmax(0).tolist()

    shares = minimality_and_sufficiency(codes, factors, bins=7)
    np.testing.assert_allclose(shares.per_code, table.max(1) / of_codes)
    np.testing.assert_allclose(shares.per_factor, table.max(0) / of_factors)
    np.testing.assert_allclose(shares.minimality, shares.per_code.mean())
    np.testing.assert_allclose(shares.sufficiency, shares.per_factor.mean())
    assert float(minimality_and_sufficiency(0 * codes, factors).minimality) == 0


def test_modularity_equals_the_deviation_from_a_template():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (90, 3))
    codes = factors @ rng.integers(0, 3, (3, 6)) + rng.integers(0, 2, (90, 6))
    expected = []
    for code in codes.T:
        information = np.array([mutual_info_score(code, factor) for factor in factors.T])
        template = np.where(information == information.max(), information, 0)
        deviation = ((information - template) ** 2).sum() / (information.max() ** 2 * (len(information) - 1))
        expected.append(1 - deviation)
    result = modularity(torch.from_numpy(codes), torch.from_numpy(factors))
    np.testing.assert_allclose(result.per_code, expected, atol=1e-12)
    np.testing.assert_allclose(result.score, np.mean(expected))


@pytest.mark.parametrize(
    ("codes", "gaps"), [([0, 1, 2, 1], [1, 0, 1]), ([0, 1, 2] * 2, [0, 0, 0]), ([0], [1, 0, 0])]
)
def test_gaps_of_duplicated_and_of_lacking_codes(codes, gaps):
    np.testing.assert_allclose(mig(GRID.double()[:, codes], GRID).gaps, gaps, atol=1e-12)


def test_a_factor_that_quantiles_merge_does_not_count(draw_codes):
    codes, factors = draw_codes(80)
    rare = (torch.arange(80) < 50).double()[:, None]
    result = mig(codes, torch.cat([factors.double(), rare], dim=1), 2, "quantile", categorical=[0, 1])
    assert result.gaps.isnan().tolist() == [False, False, True]
    with refused("at least 1 of the factors must vary among the 80 samples, got 0"):
        mig(codes, rare, 2, "quantile")


@pytest.mark.parametrize(
    ("codes", "per_code", "per_factor"),
    [
        (torch.cat([FIRST_TWO, GRID[:, 2:]], 1), [math.log(5) / math.log(20), 1], [1, 1, 1]),
        (torch.stack([GRID[:, 0] // 2, GRID[:, 1], GRID[:, 2]], 1), [1, 1, 1], [0.5, 1, 1]),
        (GRID[:, [0, 0]], [1, 1], [1, 0, 0]),
        (torch.arange(40)[:, None], [math.log(5) / math.log(40)], [1, 1, 1]),
    ],
    ids=["two factors in a code", "merged values", "a code twice", "all factors in a code"],
)
def test_minimality_and_sufficiency_are_shares_of_entropies(codes, per_code, per_factor):
    result = minimality_and_sufficiency(codes, GRID)
    np.testing.assert_allclose(result.per_code, per_code)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=1e-12)


def test_dependent_factors_lower_the_gap_of_perfect_codes_but_not_their_sufficiency():
    first, other, kept = torch.rand(3, 4000, generator=torch.Generator().manual_seed(0))
    first, other = (4 * first).long(), (4 * other).long()
    factors = torch.stack([first, torch.where(kept < 0.95, first, other)], dim=1)
    result = minimality_and_sufficiency(factors.double(), factors)
    np.testing.assert_allclose([result.minimality, result.sufficiency], 1)
    assert float(mig(factors.double(), factors).score) < 0.2


def test_modularity_of_duplicated_and_of_mixed_codes():
    grid = torch.cartesian_prod(*[torch.arange(4)] * 3)
    result = modularity(grid[:, [2, 0, 0]], grid)
    assert (float(result.score), result.parents.tolist()) == (1, [2, 0, 0])
    np.testing.assert_allclose(modularity(grid[:, :1] + 4 * grid[:, 1:2], grid).score, 0.5)


def _slow_infomec(codes, factors, quantised):
    """Compute the three scores from scikit-learn's estimates, factor by factor."""
    nmi, explicit = [], []
    rows = (OneHotEncoder() if quantised else StandardScaler()).fit_transform(codes)
    for factor in factors.T:
        entropy = mutual_info_score(factor, factor)
        nmi.append(
            [mutual_info_score(code, factor) / entropy for code in codes.T]
            if quantised
            else mutual_info_classif(codes, factor, n_neighbors=10, random_state=0) / entropy
        )
        model = LogisticRegression(C=np.inf).fit(rows, factor)
        explicit.append(1 - log_loss(factor, model.predict_proba(rows)) / entropy)
    nmi = np.array(nmi)
    chance = 1 / nmi.shape[0], 1 / nmi.shape[1]
    shares = (nmi.max(0) / nmi.sum(0)).mean(), (nmi.max(1) / nmi.sum(1)).mean()
    return *((share - low) / (1 - low) for share, low in zip(shares, chance, strict=True)), np.mean(explicit)


@pytest.mark.parametrize("quantised", [False, True])
def test_infomec_equals_scikit_learn(quantised):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=240) for size in (2, 3)], axis=1)
    codes = factors @ rng.normal(size=(2, 4)) + 0.5 * rng.normal(size=(240, 4))
    codes = (2 * codes).round().astype(int) if quantised else codes
    result = infomec(torch.from_numpy(codes), torch.from_numpy(factors))
    found = [result.modularity, result.compactness, result.explicitness]
    np.testing.assert_allclose(found, _slow_infomec(codes, factors, quantised), atol=1e-6)
    assert result.active.all()


def test_duplicates_lower_compactness_and_mixtures_modularity():
    grid = torch.cartesian_prod(torch.arange(4), torch.arange(3), torch.arange(2))
    result = infomec(grid.repeat(1, 2), grid)
    np.testing.assert_allclose(result.per_factor, (1 / 2 - 1 / 6) / (1 - 1 / 6))
    np.testing.assert_allclose([result.modularity, result.explicitness], 1, atol=1e-3)
    np.testing.assert_allclose(result.information, np.tile(np.eye(3), (2, 1)), atol=1e-12)
    both = grid[:, 1:2] + 3 * grid[:, 2:]
    np.testing.assert_allclose(infomec(both, grid).per_code, (1 / 2 - 1 / 3) / (1 - 1 / 3))


def test_codes_of_small_range_do_not_count(draw_codes):
    codes, factors = draw_codes()
    more = torch.cat([codes, codes[:, :1] / 100, 0 * codes[:, :1]], dim=1)
    result = infomec(more, factors)
    assert result.active.tolist() == [True] * 4 + [False] * 2
    assert result.per_code.isnan().tolist() == [False] * 4 + [True] * 2
    torch.testing.assert_close(result.compactness, infomec(codes, factors).compactness)


def test_infomec_of_one_factor_one_code_and_useless_codes(draw_codes):
    codes, factors = draw_codes()
    one = infomec(codes[:, :1], factors[:, :1])
    assert one.modularity.isnan()
    assert one.compactness.isnan()
    constant = infomec(0 * codes, factors)
    found = [constant.modularity, constant.compactness, constant.explicitness]
    np.testing.assert_allclose(found, 0, atol=1e-6)
    useless = infomec(GRID[:, :1], GRID[:, 1:])
    assert float(useless.modularity) == 0
    assert useless.per_factor.isnan().all()


def test_many_classes_of_few_samples_give_no_warning_and_noise_no_negative_score():
    draws = torch.Generator().manual_seed(0)
    classes = torch.cat([torch.arange(12), torch.arange(8)])
    assert infomec(torch.rand(20, 2, generator=draws), classes[:, None]).explicitness > 0
    constant = infomec(torch.ones(120, 2), torch.randint(3, (120, 3), generator=draws))
    assert float(constant.predictable.min()) >= 0
    noise = torch.rand(2000, 4, generator=draws)
    result = infomec(noise, torch.randint(3, (2000, 2), generator=draws))
    assert 0 < float(result.explicitness) < 0.01
    assert float(result.information.max()) < 0.05
