import math
from typing import get_args

import pytest
import torch

from candlelight.evaluation.causal import PLANTED_CODES, PlantedName, planted_codes
from tests.refusals import refused

GRID = torch.cartesian_prod(*[torch.arange(n) for n in (2, 3, 4, 5)]).double()
GRID.mul_(torch.tensor([1.0, 2.0, 0.5, 3.0]))


def scaled(factors):
    return (factors - factors.mean(0)) / factors.std(0, correction=0)


def recovered(name, codes):
    """Invert the maps that are said to be invertible, from codes back to standardised factors or ranks."""
    if name == "rotated":
        turned = codes.clone()
        for one in (0, 2):
            a, b = codes[:, one], codes[:, one + 1]
            turned[:, one] = math.sqrt(3) / 2 * a - b / 2
            turned[:, one + 1] = a / 2 + math.sqrt(3) / 2 * b
        return turned
    undone = codes.clone()
    for one in (0, 2):
        undone[:, one + 1] -= 1.5 * torch.sin(2 * undone[:, one])
        undone[:, one] -= 1.5 * torch.sin(2 * undone[:, one + 1])
    return undone


def test_every_name_has_a_truth():
    assert tuple(PLANTED_CODES) == get_args(PlantedName)
    for truth in PLANTED_CODES.values():
        assert not truth.robust or truth.disentangled  # robust is disentangled without noise
        if truth.informative and truth.complete:
            assert truth.sufficient
        if truth.informative is False:
            assert truth.sufficient is False


def test_closed_forms():
    exact = scaled(GRID)
    two = scaled(GRID[:, :1])
    assert torch.allclose(planted_codes("identity", GRID, 0), exact)
    assert torch.allclose(planted_codes("redundant", GRID, 0), exact[:, [0, 1, 2, 3] * 2])
    assert torch.allclose(planted_codes("missing", GRID, 0), exact[:, :3])
    assert torch.allclose(planted_codes("monotone", two, 0), torch.exp(3 * two))
    assert not planted_codes("constant", GRID, 0).any()
    assert torch.allclose(planted_codes("entangled", GRID, 0) - exact, exact[:, [1]] * torch.eye(4)[0])
    column = torch.tensor([[10.0], [30.0], [20.0], [99.0]])  # phases 0, 1/2, 1/4, 3/4
    assert planted_codes("wrapped", column, 0).flatten().tolist() == [0.5, 0, 0.75, 0.25]
    circle = planted_codes("circular", column, 0)
    assert torch.allclose(circle, torch.tensor([[0.0, 1], [0, -1], [1, 0], [-1, 0]]).double())


@pytest.mark.parametrize("name", ["rotated", "mixed"])
def test_mixtures_are_inverted_and_mix_only_pairs(name):
    codes = planted_codes(name, GRID, 0)
    assert torch.allclose(recovered(name, codes), scaled(GRID))
    changed = GRID.clone()
    changed[:, 1] = changed[:, 1].flip(0)  # same mean and variance
    same = planted_codes(name, changed, 0)[:, 2:]
    assert torch.equal(same, codes[:, 2:])
    assert not torch.equal(planted_codes(name, changed, 0)[:, 0], codes[:, 0])


def test_the_last_of_an_odd_number_is_mixed_with_the_first():
    codes = planted_codes("rotated", GRID[:, :3], 0, degrees=90)
    exact = scaled(GRID[:, :3])
    # (a, b, c) -> (b, -a, c), then c with b: (c, b) -> (b, -c).
    assert torch.allclose(codes, torch.stack([-exact[:, 2], -exact[:, 0], exact[:, 1]], 1))


def test_permuted_codes_are_factors_in_another_order_and_scale():
    codes, exact = planted_codes("permuted", GRID, 3), scaled(GRID)
    correlation = (scaled(codes).T @ exact / len(GRID)).abs()
    assert torch.allclose(correlation.sum(0), torch.ones(4).double())
    assert torch.allclose(correlation.sum(1), torch.ones(4).double())
    assert (codes.std(0, correction=0) >= 0.1).all()
    assert (codes.std(0, correction=0) <= 10).all()


def test_noise_has_the_given_ratio_and_errors_the_given_share():
    factors = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(1)).double()
    noise = planted_codes("noisy", factors, 0, signal_to_noise=4) - scaled(factors)
    assert noise.var(0).tolist() == pytest.approx([0.25, 0.25], rel=0.05)
    wrong = planted_codes("supervised", factors, 0, errors=0.2) != planted_codes("identity", factors, 0)
    assert wrong.double().mean(0).tolist() == pytest.approx([0.2, 0.2], abs=0.02)
    assert torch.allclose(planted_codes("supervised", factors, 0, errors=0), scaled(factors))
    both = torch.cat([planted_codes("random", factors, 0), factors], 1)
    assert (both.T.corrcoef() - torch.eye(4)).abs().max() < 0.03


@pytest.mark.parametrize("name", get_args(PlantedName))
def test_seeds_decide_and_constant_factors_stay_finite(name):
    factors = torch.cat([GRID, torch.ones(len(GRID), 1)], dim=1)
    first = planted_codes(name, factors, 5)
    assert first.dtype == torch.float64
    assert first.isfinite().all()
    assert torch.equal(first, planted_codes(name, factors, 5))
    seeded = name in ("permuted", "noisy", "supervised", "random")
    assert torch.equal(first, planted_codes(name, factors, 6)) != seeded


@pytest.mark.parametrize(
    ("name", "factors", "options", "message"),
    [
        ("rotatet", GRID, {}, "`name` must be one of: identity, .*did you mean `rotated`"),
        ("identity", GRID[0], {}, "`factors`"),
        ("identity", GRID * math.nan, {}, "`factors` must be finite"),
        ("mixed", GRID[:, :1], {}, "`mixed` codes need at least 2 factors, got 1"),
        ("noisy", GRID, {"signal_to_noise": 0}, "`signal_to_noise` must be above 0, got 0"),
        ("supervised", GRID, {"errors": 1.5}, r"`errors` must lie in \[0, 1\], got 1.5"),
    ],
)
def test_messages(name, factors, options, message):
    with refused(message):
        planted_codes(name, factors, 0, **options)
