import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

from candlelight.evaluation.causal.code_inputs import discretise
from candlelight.evaluation.causal.information_scores import mig
from candlelight.loaders.errors import InputError

GRID = torch.cartesian_prod(torch.arange(4), torch.arange(5), torch.arange(2))


def _drawn(samples=80, codes=5):
    rng = np.random.default_rng(1)
    factors = np.stack([rng.integers(size, size=samples) for size in (3, 6)], axis=1)
    mixed = factors @ rng.normal(size=(2, codes)) + 0.4 * rng.normal(size=(samples, codes))
    return torch.from_numpy(mixed), torch.from_numpy(factors)


def _slow(codes, factors, bins):
    """Compute MIG with explicit loops."""
    gaps = []
    for factor in factors.T:
        information = []
        for code in codes.T:
            edges = np.histogram(code, bins)[1][:-1]
            information.append(mutual_info_score(np.digitize(code, edges), factor))
        second, first = sorted(information)[-2:]
        gaps.append((first - second) / mutual_info_score(factor, factor))
    return np.mean(gaps), gaps


def test_equals_loops():
    codes, factors = _drawn()
    result = mig(codes, factors, bins=7)
    score, gaps = _slow(codes.numpy(), factors.numpy(), 7)
    np.testing.assert_allclose(result.gaps, gaps, atol=1e-12)
    np.testing.assert_allclose(result.score, score)
    assert result.best.tolist() == result.information.argmax(0).tolist()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_factors_as_codes_score_one(order):
    result = mig(GRID.double()[:, order], GRID, bins=20)
    np.testing.assert_allclose(result.score, 1)
    assert [order[code] for code in result.best] == [0, 1, 2]


def test_a_duplicated_code_has_no_gap():
    np.testing.assert_allclose(mig(GRID.double()[:, [0, 1, 2, 1]], GRID, bins=20).gaps, [1, 0, 1])
    np.testing.assert_allclose(mig(GRID.double().repeat(1, 2), GRID, bins=20).score, 0, atol=1e-12)


def test_a_single_code():
    np.testing.assert_allclose(mig(GRID.double()[:, :1], GRID, bins=4).gaps, [1, 0, 0], atol=1e-12)


def test_noise_has_a_small_gap():
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(4000, 5)), rng.integers(0, 4, (4000, 2))
    assert 0 < float(mig(torch.from_numpy(codes), torch.from_numpy(factors)).score) < 0.005


def test_order_scale_and_names_do_not_matter():
    codes, factors = _drawn()
    rows = torch.randperm(len(codes), generator=torch.Generator().manual_seed(0))
    renamed = mig(-3 * codes[rows].flip(1) + 8, 50 - 7 * factors[rows], 16)
    torch.testing.assert_close(renamed.gaps, mig(codes, factors, 16).gaps)
    monotone = mig(codes.exp(), factors, 6, "quantile")
    torch.testing.assert_close(monotone.gaps, mig(codes, factors, 6, "quantile").gaps)


def test_continuous_and_mixed_factors():
    codes, factors = _drawn()
    numbers = torch.stack([factors[:, 0] / 7, codes[:, 0]], dim=1)
    classes = torch.stack([factors[:, 0], discretise(codes, 5)[:, 0]], dim=1)
    torch.testing.assert_close(
        mig(codes, numbers, 5, categorical=[0]).information, mig(codes, classes, 5).information
    )


def test_a_factor_with_one_value_and_a_constant_code():
    codes, factors = _drawn()
    codes[:, 1] = 0.1
    result = mig(codes, torch.cat([factors, 0 * factors[:, :1]], dim=1))
    assert result.gaps.isnan().tolist() == [False, False, True]
    assert result.information[1].tolist() == [0, 0, 0]
    torch.testing.assert_close(result.score, result.gaps[:2].mean())
    assert float(mig(0 * codes, factors).score) == 0


def test_a_factor_that_quantiles_merge_does_not_count():
    codes, factors = _drawn(samples=80)
    rare = (torch.arange(80) < 50).double()[:, None]
    result = mig(codes, torch.cat([factors.double(), rare], dim=1), 2, "quantile", categorical=[0, 1])
    assert result.gaps.isnan().tolist() == [False, False, True]
    with pytest.raises(InputError, match="at least 1 of the factors must vary among the 80 samples, got 0"):
        mig(codes, rare, 2, "quantile")


@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (
            torch.rand(6, 2),
            torch.zeros(6, 2).long(),
            "at least 1 of the factors must vary among the 6 samples",
        ),
        (torch.rand(1, 2), torch.zeros(1, 2).long(), "must vary among the 1 samples, got 0"),
        (torch.rand(6, 2), torch.zeros(6, 0).long(), "at least 1 of the factors must vary"),
        (torch.rand(6, 0), torch.arange(6)[:, None], "`codes` needs at least one code, got none"),
        (torch.full((6, 2), torch.nan), torch.arange(6)[:, None], "`codes` must be finite"),
        (torch.rand(2, 2), torch.tensor([[0.0], [torch.inf]]), "`factors` must be finite"),
        (torch.rand(6, 2), torch.arange(6)[:, None], "`bins` must be 2 to 6, the number of samples, got 20"),
    ],
)
def test_refused_arguments(codes, factors, message):
    with pytest.raises(InputError, match=message):
        mig(codes, factors)
