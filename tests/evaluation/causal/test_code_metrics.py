"""The contract of all metrics of codes and factors; `test_degenerate.py` has undefined and refused input."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.code_inputs import discretise
from candlelight.evaluation.causal.information_scores import (
    infomec,
    mig,
    minimality_and_sufficiency,
    modularity,
)
from candlelight.evaluation.causal.irs import irs
from candlelight.evaluation.causal.prediction_scores import block_r2, explicitness, mcc, sap, t_mex

GRID = torch.cartesian_prod(torch.arange(4), torch.arange(3), torch.arange(2)).repeat(3, 1)


class CodeMetric(NamedTuple):
    """A metric, and the names of its scores, of its results by factor, by code, and by both."""

    function: object
    scores: tuple[str, ...] = ("score",)
    by_factor: tuple[str, ...] = ()
    by_code: tuple[str, ...] = ()
    by_both: tuple[str, ...] = ()


KERNEL = partial(block_r2, regression="kernel")
METRICS = {
    "mig": CodeMetric(partial(mig, bins=16), by_factor=("gaps",), by_both=("information",)),
    "minimality_and_sufficiency": CodeMetric(
        partial(minimality_and_sufficiency, bins=16),
        ("minimality", "sufficiency"),
        ("per_factor",),
        ("per_code",),
    ),
    "modularity": CodeMetric(partial(modularity, bins=16), by_code=("per_code",)),
    "infomec": CodeMetric(
        infomec, ("modularity", "compactness", "explicitness"), ("per_factor", "predictable"), ("per_code",)
    ),
    "explicitness": CodeMetric(explicitness, by_factor=("per_factor",)),
    "sap": CodeMetric(sap, by_factor=("gaps",), by_both=("predictability",)),
    "sap of numbers": CodeMetric(
        lambda codes, factors: sap(codes, factors / 1.0), by_factor=("gaps",), by_both=("predictability",)
    ),
    "mcc": CodeMetric(mcc, by_factor=("per_factor",), by_both=("matrix",)),
    "block_r2": CodeMetric(block_r2, by_factor=("per_factor",)),
    "block_r2 of a kernel": CodeMetric(KERNEL, by_factor=("per_factor",)),
    "t_mex": CodeMetric(
        lambda codes, factors: t_mex(
            codes, factors, torch.ones(codes.shape[1], factors.shape[1], dtype=torch.bool)
        ),
        (),
        by_both=("p_values",),
    ),
    "irs": CodeMetric(irs, by_both=("matrix",)),
}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_order_scale_and_names_do_not_matter(draw_codes, metric):
    codes, factors = draw_codes()
    draws = torch.Generator().manual_seed(0)
    # Kernel regression chooses its penalty on parts that interleave.
    rows = torch.arange(60) if metric.function is KERNEL else torch.randperm(60, generator=draws)
    found = metric.function(codes, factors)
    renamed = metric.function(3 - 1024 * codes[rows].flip(1), 9 - 2 * factors[rows].flip(1))
    axes = {**dict.fromkeys(metric.by_factor + metric.by_code, (0,)), **dict.fromkeys(metric.by_both, (0, 1))}
    for name in (*metric.scores, *axes):
        expected = getattr(found, name).flip(axes.get(name, ()))
        torch.testing.assert_close(getattr(renamed, name), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("metric", [METRICS[name] for name in METRICS if name != "irs"])
def test_a_constant_factor_does_not_count(draw_codes, metric):
    codes, factors = draw_codes()
    found = metric.function(codes, factors)
    more = metric.function(codes, torch.cat([factors, 0 * factors[:, :1] + 7], dim=1))
    for name in (*metric.scores, *metric.by_code):
        torch.testing.assert_close(getattr(more, name), getattr(found, name))
    for name in metric.by_factor:
        expected = torch.cat([getattr(found, name), torch.tensor([torch.nan])])
        torch.testing.assert_close(getattr(more, name), expected, equal_nan=True)
    for name in metric.by_both:
        torch.testing.assert_close(getattr(more, name)[:, :2], getattr(found, name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("mig", 0), ("minimality_and_sufficiency", torch.nan), ("modularity", 0)),
        *(("infomec", torch.nan), ("sap", 0), ("sap of numbers", 0), ("mcc", 0)),
    ],
)
def test_a_constant_code_knows_nothing(draw_codes, name, expected):
    codes, factors = draw_codes()
    metric = METRICS[name]
    codes[:, 1] = 0.1
    result = metric.function(codes, factors)
    [row] = {tuple(getattr(result, part)[1:2].flatten().tolist()) for part in metric.by_code + metric.by_both}
    np.testing.assert_array_equal(row, expected)
    other = torch.tensor([0, 2, 3])
    for part in metric.by_code + metric.by_both:
        torch.testing.assert_close(
            getattr(result, part)[other], getattr(metric.function(codes[:, other], factors), part)
        )


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_numpy_arrays_are_taken(draw_codes, metric):
    codes, factors = draw_codes()
    result, expected = metric.function(codes.numpy(), factors.numpy()), metric.function(codes, factors)
    for name in metric.scores + metric.by_both:
        assert torch.equal(getattr(result, name), getattr(expected, name))


@pytest.mark.parametrize("function", [mig, minimality_and_sufficiency, modularity, explicitness, infomec])
def test_continuous_factors_are_binned_unless_they_are_listed(draw_codes, function):
    codes, factors = draw_codes()
    numbers = torch.stack([factors[:, 0] / 7, factors[:, 1] + 0.1 * codes[:, 0]], dim=1)
    classes = torch.stack([factors[:, 0], discretise(numbers, 5, "quantile")[:, 1]], dim=1)
    found = vars(function(codes, numbers, bins=5, rule="quantile", categorical=[0]))
    torch.testing.assert_close(found, vars(function(codes, classes, bins=5, rule="quantile")), equal_nan=True)


# A linear machine, in SAP and explicitness, does not separate a class in the middle from both others.
@pytest.mark.parametrize("name", sorted(METRICS.keys() - {"sap", "explicitness", "t_mex", "irs"}))
def test_factors_as_codes_score_one(name):
    result = METRICS[name].function(GRID[:, [2, 0, 1]], GRID)
    found = [float(getattr(result, score)) for score in METRICS[name].scores]
    assert found == pytest.approx([1] * len(found), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        *(("mig", 0.005), ("minimality_and_sufficiency", 0.015), ("sap of numbers", 0.01), ("mcc", 0.05)),
        *(("block_r2", 0.01), ("explicitness", 0.1)),
    ],
)
def test_noise_scores_near_zero(name, bound):
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(4000, 5)), rng.integers(0, 4, (4000, 2))
    result = METRICS[name].function(torch.from_numpy(codes), torch.from_numpy(factors))
    assert all(0 < float(getattr(result, score)) < bound for score in METRICS[name].scores)


@pytest.mark.parametrize(
    ("function", "options"),
    [(mcc, {}), (explicitness, {}), (block_r2, {}), (block_r2, {"regression": "kernel"})],
)
def test_noise_of_many_codes_scores_zero_out_of_sample_only(function, options):
    rng = np.random.default_rng(0)
    codes = torch.from_numpy(rng.normal(size=(90, 40)))
    factors = torch.from_numpy(rng.integers(0, 3, (90, 4)))
    assert float(function(codes, factors, **options).score) > 0.2
    assert float(function(codes, factors, training=torch.arange(90) < 45, **options).score) < 0.2
