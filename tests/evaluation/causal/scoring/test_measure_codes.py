"""Codes of layers and of control networks, and scores of codes with their intervals and notes."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.causal import layer_codes
from candlelight.evaluation.causal.control_codes import supervised_codes
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.measure_codes import (
    cut_at_bounds,
    dependence_shares,
    measure_codes,
    pack_measured,
    unpack_measured,
)
from candlelight.evaluation.run.intervals import Score
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused

CLASSES = torch.cartesian_prod(torch.arange(2), torch.arange(3)).repeat(10, 1)
ROWS = [str(row) for row in range(60)]


def test_negative_explicitness_lies_in_its_interval():
    """The factors are waves so short that few random features fit nothing, and many fit them a little."""
    codes = torch.rand(400, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    waves = (12 * codes).sin().prod(1), (12 * codes).cos().prod(1)
    values = torch.stack(waves, dim=1)
    table = FactorTable(("one", "other"), values, (values > 0).long(), (), (), ())
    score = measure_codes(codes, table, [str(row) for row in range(400)], "dci_es", splits=2).scores
    explicitness = score["dci_es(explicitness)"]
    assert -1 <= explicitness.low <= explicitness.value < 0


@pytest.mark.parametrize(("groups", "defined"), [(2, False), (5, False), (6, True)])
def test_few_groups_give_no_interval_over_halves(groups, defined):
    table = FactorTable(("shape", "size"), CLASSES.double(), CLASSES, (0, 1), (), ())
    codes = CLASSES + torch.rand(CLASSES.shape, generator=torch.Generator().manual_seed(0))
    score = measure_codes(codes.double(), table, [str(row % groups) for row in range(60)], "sap").scores[
        "sap"
    ]
    assert math.isfinite(score.value)
    assert [math.isfinite(score.low), math.isfinite(score.high)] == [defined, defined]


@pytest.mark.parametrize("metric", ["mcc", "r2", "t_mex"])
def test_values_without_an_order_are_the_reason_of_a_missing_score(metric):
    table = FactorTable(("shape", "color"), CLASSES.double(), CLASSES, (0, 1), (0, 1), ())
    found = unpack_measured(pack_measured(measure_codes(CLASSES.double(), table, ROWS, metric)))
    assert found.scores == {}
    assert found.failure == "the values of all factors have no order"


def test_intervals_are_cut_at_the_bounds_of_each_score():
    wide = Score(0.5, -9, 9)
    assert [cut_at_bounds(name, wide).low for name in ("mig", "explicitness", "r2(kernel)")] == [0, -1, -9]
    assert cut_at_bounds("mig", wide).high == 1
    assert cut_at_bounds("blocks(spearman, mlp), off-diagonal", wide) == Score(0.5, -1, 1)
    undefined = Score(0.5, math.nan, math.nan)
    assert cut_at_bounds("mig", undefined) == undefined


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


class Turned(nn.Module):
    def forward(self, tokens):
        return tokens.transpose(0, 1)


def test_tokens_before_images_are_averaged_over_tokens():
    network = nn.Sequential(nn.Flatten(2), Turned(), nn.Identity())  # [3 tokens, 3 images, 4 channels]
    images = torch.rand(3, 3, 2, 2)
    torch.testing.assert_close(layer_codes(network, "2")(images), images.flatten(2).mean(1))


def test_a_value_that_half_of_the_images_lack_is_refused(memory_view):
    """The last value has one image, so that no network of the other half can predict it."""
    classes = torch.stack([torch.arange(160) % 2, (torch.arange(160) == 7).long()], dim=1)
    infos = tuple(FactorInfo(name=name, kind="categorical", values=(0, 1)) for name in ("shape", "rare"))
    view = memory_view([torch.zeros(3, 32, 32)] * 160, factors=infos, table=classes.double().numpy())
    table = FactorTable(("shape", "rare"), classes.double(), classes, (0, 1), (), ())
    with refused(r"half of the images lacks a value, or bin, of `rare`"):
        supervised_codes(view, table, epochs=1)
