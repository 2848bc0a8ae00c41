import math

import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

from candlelight.evaluation.causal.information_scores import mig, minimality_and_sufficiency
from candlelight.loaders.errors import InputError

GRID = torch.cartesian_prod(torch.arange(4), torch.arange(5), torch.arange(2))


def _drawn(samples=80, codes=5):
    rng = np.random.default_rng(1)
    factors = np.stack([rng.integers(size, size=samples) for size in (3, 6)], axis=1)
    mixed = factors @ rng.normal(size=(2, codes)) + 0.4 * rng.normal(size=(samples, codes))
    return torch.from_numpy(mixed), torch.from_numpy(factors)


def _dependent(share, samples=4000):
    """Draw two factors of four values; the second repeats the first in a share of the samples."""
    rng = np.random.default_rng(0)
    first, other = rng.integers(4, size=(2, samples))
    return torch.from_numpy(np.stack([first, np.where(rng.random(samples) < share, first, other)], axis=1))


def _slow(codes, factors, bins):
    """Compute both scores with explicit loops."""
    cut = [np.digitize(code, np.linspace(code.min(), code.max(), bins + 1)[:-1]) for code in codes.T]
    per_code = [
        max(mutual_info_score(code, factor) for factor in factors.T) / mutual_info_score(code, code)
        for code in cut
    ]
    per_factor = [
        max(mutual_info_score(code, factor) for code in cut) / mutual_info_score(factor, factor)
        for factor in factors.T
    ]
    return per_code, per_factor


def test_equals_loops():
    codes, factors = _drawn()
    result = minimality_and_sufficiency(codes, factors, bins=7)
    per_code, per_factor = _slow(codes.numpy(), factors.numpy(), 7)
    np.testing.assert_allclose(result.per_code, per_code)
    np.testing.assert_allclose(result.per_factor, per_factor)
    np.testing.assert_allclose(result.minimality, np.mean(per_code))
    np.testing.assert_allclose(result.sufficiency, np.mean(per_factor))


def test_factors_as_codes_score_one_however_dependent():
    for share in (0, 0.5, 0.95, 1):
        factors = _dependent(share)
        result = minimality_and_sufficiency(factors.double(), factors)
        np.testing.assert_allclose([result.minimality, result.sufficiency], 1)
    # The gap of information falls with the dependence of the same perfect codes.
    assert float(mig(_dependent(0.95).double(), _dependent(0.95)).score) < 0.2


def test_a_code_of_two_factors_has_their_share_of_its_entropy():
    both = GRID[:, 0] * 10 + GRID[:, 1]
    result = minimality_and_sufficiency(torch.stack([both, GRID[:, 2]], dim=1), GRID)
    np.testing.assert_allclose(result.per_code, [math.log(5) / math.log(20), 1])
    np.testing.assert_allclose(result.per_factor, 1)


def test_a_code_that_merges_values_has_their_share_of_the_entropy():
    codes = torch.stack([GRID[:, 0] // 2, GRID[:, 1], GRID[:, 2]], dim=1)
    result = minimality_and_sufficiency(codes, GRID)
    np.testing.assert_allclose(result.per_factor, [0.5, 1, 1])
    np.testing.assert_allclose(result.minimality, 1)


def test_lost_factors_and_mixed_codes_each_lower_one_score():
    one_factor = minimality_and_sufficiency(GRID[:, [0, 0, 0]], GRID)
    np.testing.assert_allclose([one_factor.minimality, one_factor.sufficiency], [1, 1 / 3])
    everything = minimality_and_sufficiency(torch.arange(40)[:, None], GRID)
    np.testing.assert_allclose(
        [everything.minimality, everything.sufficiency], [math.log(5) / math.log(40), 1]
    )


def test_noise_scores_near_zero():
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(4000, 5)), rng.integers(0, 4, (4000, 2))
    result = minimality_and_sufficiency(torch.from_numpy(codes), torch.from_numpy(factors))
    assert 0 < float(result.minimality) < 0.01
    assert 0 < float(result.sufficiency) < 0.01


def test_order_scale_and_names_do_not_matter():
    codes, factors = _drawn()
    rows = torch.randperm(len(codes), generator=torch.Generator().manual_seed(0))
    renamed = minimality_and_sufficiency(-3 * codes[rows].flip(1) + 8, 50 - 7 * factors[rows], 16)
    result = minimality_and_sufficiency(codes, factors, 16)
    torch.testing.assert_close(renamed.per_code.flip(0), result.per_code)
    torch.testing.assert_close(renamed.per_factor, result.per_factor)


def test_constant_codes_and_factors_are_left_out():
    codes, factors = _drawn()
    codes[:, 1] = 0.1
    result = minimality_and_sufficiency(codes, torch.cat([factors, 0 * factors[:, :1]], dim=1))
    assert result.per_code.isnan().tolist() == [False, True, False, False, False]
    assert result.per_factor.isnan().tolist() == [False, False, True]
    torch.testing.assert_close(result.minimality, result.per_code[[0, 2, 3, 4]].mean())
    torch.testing.assert_close(result.sufficiency, result.per_factor[:2].mean())
    constant = minimality_and_sufficiency(0 * codes, factors)
    assert [float(constant.minimality), float(constant.sufficiency)] == [0, 0]


@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (torch.rand(6, 2), torch.zeros(6, 2).long(), "at least 1 of the factors must vary among the 6"),
        (torch.rand(6, 0), torch.arange(6)[:, None], "`codes` needs at least one code, got none"),
        (torch.full((6, 2), torch.nan), torch.arange(6)[:, None], "`codes` must be finite"),
        (torch.rand(6, 2), torch.arange(6)[:, None], "`bins` must be 2 to 6, the number of samples, got 15"),
    ],
)
def test_refused_arguments(codes, factors, message):
    with pytest.raises(InputError, match=message):
        minimality_and_sufficiency(codes, factors)
