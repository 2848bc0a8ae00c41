import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

from candlelight.evaluation.causal.information_scores import modularity
from candlelight.loaders.errors import InputError

GRID = torch.cartesian_prod(torch.arange(4), torch.arange(4), torch.arange(4))


def _slow(codes, factors):
    """Compute the modularity of each code from its deviation from a template, as in the paper."""
    found = []
    for code in codes.T:
        information = np.array([mutual_info_score(code, factor) for factor in factors.T])
        template = np.zeros_like(information)
        template[information.argmax()] = information.max()
        deviation = ((information - template) ** 2).sum() / (information.max() ** 2 * (len(information) - 1))
        found.append(1 - deviation)
    return found


def test_equals_loops():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (90, 3))
    codes = factors @ rng.integers(0, 3, (3, 6)) + rng.integers(0, 2, (90, 6))
    result = modularity(torch.from_numpy(codes), torch.from_numpy(factors))
    np.testing.assert_allclose(result.per_code, _slow(codes, factors), atol=1e-12)
    np.testing.assert_allclose(result.score, np.mean(_slow(codes, factors)))


def test_factors_as_codes_and_duplicates_score_one():
    assert float(modularity(GRID.double()[:, [2, 0, 0]], GRID, bins=4).score) == 1
    assert modularity(GRID, GRID).parents.tolist() == [0, 1, 2]


def test_a_code_of_two_factors_of_three():
    both = GRID[:, :1] + 4 * GRID[:, 1:2]
    np.testing.assert_allclose(modularity(both, GRID).score, 0.5)


def test_a_constant_code_scores_zero_and_a_constant_factor_is_left_out():
    codes = torch.cat([GRID, 0 * GRID[:, :1]], dim=1)
    factors = torch.cat([GRID, 0 * GRID[:, :1]], dim=1)
    result = modularity(codes, factors)
    assert result.per_code.tolist() == [1, 1, 1, 0]
    both = GRID[:, :1] + 4 * GRID[:, 1:2]
    torch.testing.assert_close(modularity(both, factors).score, modularity(both, GRID).score)


def test_order_scale_and_names_do_not_matter():
    rng = np.random.default_rng(2)
    factors = torch.from_numpy(rng.integers(0, 3, (60, 3)))
    codes = factors.double() @ torch.from_numpy(rng.normal(size=(3, 4)))
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    renamed = modularity(-16 * codes[rows], 9 - 2 * factors[rows].flip(1), 6, "quantile")
    torch.testing.assert_close(
        renamed.per_code.sort().values, modularity(-codes, factors, 6, "quantile").per_code.sort().values
    )


def test_one_factor_is_refused():
    with pytest.raises(InputError, match="at least 2 of the factors must vary among the 64 samples, got 1"):
        modularity(GRID, GRID[:, :1])
    with pytest.raises(InputError, match="at least 2 of the factors must vary among the 1 samples, got 0"):
        modularity(GRID[:1], GRID[:1])
    with pytest.raises(InputError, match="`codes` must be finite"):
        modularity(torch.full((64, 1), torch.nan), GRID)
