import math

import pytest
import torch

from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.measure_codes import (
    cut_at_bounds,
    measure_codes,
    pack_measured,
    unpack_measured,
)
from candlelight.evaluation.run.intervals import Score

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
    undefined = Score(0.5, math.nan, math.nan)
    assert cut_at_bounds("mig", undefined) == undefined
