import numpy as np
import pytest
import torch
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from candlelight.evaluation.causal.information_scores import infomec
from candlelight.loaders.errors import InputError

GRID = torch.cartesian_prod(torch.arange(4), torch.arange(3), torch.arange(2))


def _drawn(samples=240, codes=4):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=samples) for size in (2, 3)], axis=1)
    return factors @ rng.normal(size=(2, codes)) + 0.5 * rng.normal(size=(samples, codes)), factors


def _slow(codes, factors, quantised):
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
def test_equals_scikit_learn(quantised):
    codes, factors = _drawn()
    codes = (2 * codes).round().astype(int) if quantised else codes
    result = infomec(torch.from_numpy(codes), torch.from_numpy(factors))
    found = [result.modularity, result.compactness, result.explicitness]
    np.testing.assert_allclose(found, _slow(codes, factors, quantised), atol=1e-6)
    assert result.active.all()


def test_classes_as_codes_score_one():
    result = infomec(GRID[:, [2, 0, 1]], GRID)
    found = [result.modularity, result.compactness, result.explicitness]
    np.testing.assert_allclose(found, 1, atol=1e-3)
    np.testing.assert_allclose(result.information, np.eye(3)[[2, 0, 1]])


def test_duplicates_lower_compactness_only():
    result = infomec(GRID.repeat(1, 2), GRID)
    np.testing.assert_allclose(result.per_factor, (1 / 2 - 1 / 6) / (1 - 1 / 6))
    np.testing.assert_allclose([result.modularity, result.explicitness], 1, atol=1e-3)


def test_a_mixed_code_lowers_modularity():
    both = GRID[:, 1:2] + 3 * GRID[:, 2:]
    np.testing.assert_allclose(infomec(both, GRID).per_code, (1 / 2 - 1 / 3) / (1 - 1 / 3))


def test_noise_is_not_explicit():
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(2000, 4)), rng.integers(0, 3, (2000, 2))
    result = infomec(torch.from_numpy(codes), torch.from_numpy(factors))
    assert 0 < float(result.explicitness) < 0.01
    assert float(result.information.max()) < 0.05


def test_codes_of_small_range_do_not_count():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    more = torch.cat([codes, codes[:, :1] / 100, 0 * codes[:, :1]], dim=1)
    result = infomec(more, factors)
    assert result.active.tolist() == [True] * 4 + [False] * 2
    assert result.per_code.isnan().tolist() == [False] * 4 + [True] * 2
    torch.testing.assert_close(result.compactness, infomec(codes, factors).compactness)


def test_one_factor_one_code_and_no_active_code():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    one = infomec(codes[:, :1], torch.cat([factors[:, :1], 0 * factors[:, :1]], dim=1))
    assert bool(one.modularity.isnan())
    assert bool(one.compactness.isnan())
    assert one.predictable.isnan().tolist() == [False, True]
    constant = infomec(0 * codes, factors)
    assert [float(constant.modularity), float(constant.compactness)] == [0, 0]
    np.testing.assert_allclose(constant.explicitness, 0, atol=1e-6)
    useless = infomec(GRID[:, :1], GRID[:, 1:])
    assert [float(useless.modularity), useless.per_factor.isnan().all()] == [0, True]


def test_order_scale_and_names_do_not_matter():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    renamed = infomec(4096 - 1024 * codes.flip(1), 9 - 2 * factors)
    expected = infomec(codes, factors)
    torch.testing.assert_close(renamed.per_code.flip(0), expected.per_code)
    torch.testing.assert_close(renamed.per_factor, expected.per_factor)
    torch.testing.assert_close(renamed.predictable, expected.predictable, atol=1e-4, rtol=0)


def test_continuous_factors_are_binned():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    numbers = torch.stack([factors[:, 0], factors[:, 1] + 0.3], dim=1).double()
    torch.testing.assert_close(infomec(codes, numbers, 3).information, infomec(codes, factors).information)


@pytest.mark.parametrize(
    ("codes", "factors", "options", "message"),
    [
        (torch.rand(1, 2), torch.ones(1, 1), {}, "at least 1 of the factors must vary among the 1 samples"),
        (torch.full((2, 1), torch.nan), torch.arange(2)[:, None], {}, "`codes` must be finite"),
        (torch.rand(4, 2), torch.rand(4, 1), {}, "`bins` must be 2 to 4, the number of samples, got 20"),
        (torch.rand(4, 2), torch.arange(4)[:, None], {"neighbours": 0}, "`neighbours` must be at least 1"),
    ],
)
def test_refused_arguments(codes, factors, options, message):
    with pytest.raises(InputError, match=message):
        infomec(codes, factors, **options)


def test_many_classes_of_few_samples_give_no_warning_and_noise_no_negative_score():
    """Warnings are errors in tests."""
    draws = torch.Generator().manual_seed(0)
    classes = torch.cat([torch.arange(12), torch.arange(8)])
    assert infomec(torch.rand(20, 2, generator=draws), classes[:, None]).explicitness > 0
    constant = infomec(torch.ones(120, 2), torch.randint(3, (120, 3), generator=draws))
    assert float(constant.predictable.min()) >= 0
