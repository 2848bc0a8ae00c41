"""Dependence of factors is found where it is, and only there."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.measure_codes import dependence_shares


def bins_of_normals(rng: np.random.Generator, images: int) -> torch.Tensor:
    values = rng.normal(size=(images, 4))
    scaled = (values - values.min(0)) / np.ptp(values, 0)
    return torch.from_numpy(np.minimum(scaled * 20, 19).astype(np.int64))


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng, images: torch.from_numpy(rng.integers(0, 20, (images, 4))), id="uniform"),
        pytest.param(bins_of_normals, id="rare classes"),
    ],
)
@pytest.mark.parametrize("images", [60, 600])
def test_independent_factors_are_found_independent(draw, images):
    rng = np.random.default_rng(0)
    tables = [dependence_shares(draw(rng, images)) for _ in range(40)]
    found = sum(int((table > 0.01).sum()) - 4 for table in tables) // 2
    assert found <= 2  # of 240 pairs at level 0.001; the G-test finds about 30 among 600 images


def test_a_weak_dependence_is_found():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 5, 600)
    second = np.where(rng.random(600) < 0.4, first, rng.integers(0, 5, 600))
    shares = dependence_shares(torch.from_numpy(np.stack([first, second], 1)))
    assert 0.05 < shares[0, 1] < 0.3
    assert shares[0, 1] == shares[1, 0]


def test_a_factor_that_determines_another_by_rare_values_depends_on_it():
    columns = torch.zeros(200, 2, dtype=torch.long)
    columns[:5] = 1
    assert torch.equal(dependence_shares(columns).round(decimals=9), torch.ones(2, 2, dtype=torch.float64))
