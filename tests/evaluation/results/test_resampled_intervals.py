import math

import numpy as np
import pytest

from candlelight.evaluation.run.intervals import (
    Score,
    distinct_groups,
    mean_interval,
    replicate_interval,
    replicate_p_value,
    resampled_interval,
)
from tests.refusals import refused

NAN = math.nan


def defined(score):
    return [not math.isnan(number) for number in (score.value, score.low, score.high)]


def mean_of(values):
    return lambda rows: {"mean": float(values[rows].mean())}


def test_resamples_hold_whole_groups():
    groups = ["b", "a", "b", "c"]
    seen = []

    def statistic(rows):
        seen.append(sorted(rows.tolist()))
        return {"rows": float(len(rows))}

    scores, _ = resampled_interval(statistic, groups, seed=0, resamples=50)
    assert distinct_groups(groups) == ("b", "a", "c")
    assert seen[0] == [0, 1, 2, 3]
    assert scores["rows"].value == 4
    assert len(seen) == 51
    for rows in seen:
        assert rows.count(0) == rows.count(2)
        assert rows.count(0) + rows.count(1) + rows.count(3) == 3


def test_replicates_depend_on_the_seed_alone():
    values, groups = np.arange(6.0), ["a", "a", "b", "b", "c", "d"]
    first, second, other = (resampled_interval(mean_of(values), groups, seed)[1] for seed in (1, 1, 2))
    assert first == second != other


def test_the_interval_of_a_mean_is_near_the_t_interval():
    values = np.random.default_rng(0).normal(size=40)
    groups = [str(row // 2) for row in range(40)]
    scores, _ = resampled_interval(mean_of(values), groups, seed=0)
    closed = mean_interval(values.tolist(), groups)
    assert scores["mean"].value == pytest.approx(closed.value)
    width = closed.high - closed.low
    assert scores["mean"].low == pytest.approx(closed.low, abs=0.05 * width)
    assert scores["mean"].high == pytest.approx(closed.high, abs=0.05 * width)


def test_the_fewest_units_decide_on_the_interval():
    values = np.random.default_rng(0).normal(size=40)
    groups = [str(row) for row in range(40)]
    plain, eight, five = (
        resampled_interval(mean_of(values), groups, seed=0, units=units)[0]["mean"]
        for units in ({}, {"mean": {"scenes": 50, "controls": 8}}, {"mean": {"scenes": 5}, "other": {"a": 1}})
    )
    assert eight.low < plain.low < plain.value < plain.high < eight.high
    assert defined(five) == [True, False, False]


def test_intervals_keep_the_range_and_take_infinite_replicates():
    assert replicate_interval(0.5, [0.0, 0.25, 0.5, 0.75, 1.0], 6) == Score(0.5, 0.0, 1.0)
    assert replicate_interval(0.5, [0.0, 0.5, math.inf], 6) == Score(0.5, 0.0, math.inf)


@pytest.mark.parametrize(
    ("value", "replicates", "groups", "expected"),
    [
        (0.5, [0.4, 0.6], 5, [True, False, False]),
        (0.5, [], 6, [True, False, False]),
        (NAN, [0.4, 0.6], 6, [False, False, False]),
        (0.5, [0.4] * 18 + [NAN] * 2, 6, [True, False, False]),
        (0.5, [0.4] * 19 + [NAN], 6, [True, True, True]),
    ],
    ids=["few groups", "no replicates", "undefined", "too few replicates", "enough"],
)
def test_degenerate_replicates(value, replicates, groups, expected):
    assert defined(replicate_interval(value, replicates, groups)) == expected


def test_p_values_agree_with_the_intervals():
    replicates = np.random.default_rng(0).normal(size=2000)
    edge = -replicate_interval(0.0, replicates.tolist(), 10).low
    assert replicate_p_value((replicates + 0.99 * edge).tolist(), 10) > 0.05
    assert replicate_p_value((replicates + 1.02 * edge).tolist(), 10) < 0.05
    assert replicate_p_value((-replicates - 1.02 * edge).tolist(), 10) < 0.05


def test_p_values_of_no_and_of_every_difference():
    assert replicate_p_value([0.0] * 100, 10) == pytest.approx(1)
    assert 0 < replicate_p_value([1.0] * 2000, 60) < 0.01
    assert math.isnan(replicate_p_value([1.0] * 100, 5))


def test_resampling_needs_rows():
    with refused("got 0 rows, 2000 resamples"):
        resampled_interval(mean_of(np.zeros(0)), [], seed=0)


def test_subsamples_and_repeated_groups_have_the_same_spread_around_the_statistic() -> None:
    values = np.random.default_rng(0).normal(size=100)
    groups = [str(row) for row in range(100)]

    def mean(rows: np.ndarray) -> dict[str, float]:
        return {"mean": float(values[rows].mean())}

    spreads = []
    for repeats in (True, False):
        scores, replicates = resampled_interval(mean, groups, seed=0, repeats=repeats)
        spreads.append(np.std(replicates["mean"]))
        assert scores["mean"].low < scores["mean"].value < scores["mean"].high
    assert spreads[1] == pytest.approx(values.std(ddof=1) / 10, rel=0.05)
    assert spreads[0] == pytest.approx(spreads[1], rel=0.05)


def test_interval_of_subsamples_contains_a_statistic_that_repeats_would_bias() -> None:
    groups = [str(row) for row in range(60)]

    def distinct(rows: np.ndarray) -> dict[str, float]:
        return {"distinct": len(np.unique(rows)) / len(rows)}

    biased, _ = resampled_interval(distinct, groups, seed=0, resamples=200)
    subsamples, _ = resampled_interval(distinct, groups, seed=0, resamples=200, repeats=False)
    assert biased["distinct"].high < biased["distinct"].value == subsamples["distinct"].value
    assert subsamples["distinct"].low <= subsamples["distinct"].value <= subsamples["distinct"].high
