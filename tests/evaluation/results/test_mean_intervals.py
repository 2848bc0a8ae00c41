import math

import numpy as np
import pytest
from scipy import stats

from candlelight.evaluation.run.intervals import (
    Score,
    clustered_mean,
    mean_interval,
    mean_p_value,
    seed_interval,
)
from tests.refusals import refused

NAN = math.nan


def defined(score):
    return [not math.isnan(number) for number in (score.value, score.low, score.high)]


def test_rows_in_groups_of_their_own_have_the_t_interval():
    values = np.random.default_rng(0).normal(size=9)
    names = [str(row) for row in range(9)]
    expected = stats.ttest_1samp(values, 0)
    bounds = expected.confidence_interval(0.95)
    score = mean_interval(values.tolist(), names)
    assert (score.value, score.low, score.high) == pytest.approx((values.mean(), bounds.low, bounds.high))
    assert mean_p_value(values.tolist(), names) == pytest.approx(expected.pvalue)
    assert seed_interval(values.tolist()) == score


def test_another_level_is_another_quantile():
    narrow = mean_interval([0.0, 1.0, 5.0], ["a", "b", "c"], level=0.5)
    wide = mean_interval([0.0, 1.0, 5.0], ["a", "b", "c"])
    quantiles = stats.t.ppf(0.75, 2), stats.t.ppf(0.975, 2)
    assert (narrow.high - 2) / (wide.high - 2) == pytest.approx(quantiles[0] / quantiles[1])


def test_equal_rows_of_a_group_count_as_one():
    repeated = mean_interval([1.0] * 4 + [2.0] * 4 + [6.0] * 4, ["a"] * 4 + ["b"] * 4 + ["c"] * 4)
    once = mean_interval([1.0, 2.0, 6.0], ["a", "b", "c"])
    assert repeated.value == once.value
    assert repeated.high == pytest.approx(once.high)


def test_groups_of_unequal_size_by_hand():
    # Residuals sum to -3, -1 and 4 in groups of 2, 1 and 1 of 4 rows, whose mean is 3.
    variance = 2 / 3 * ((3 / 2) ** 2 + (1 / 3) ** 2 + (4 / 3) ** 2)
    assert clustered_mean([1.0, 2.0, 2.0, 7.0], ["a", "a", "b", "c"]) == (3, pytest.approx(variance**0.5), 3)


def test_order_and_names_of_groups_do_not_matter():
    first = mean_interval([1.0, 2.0, 4.0, 7.0], ["a", "b", "a", "c"])
    second = mean_interval([2.0, 1.0, 4.0, 7.0], ["z", "y", "y", "x"])
    assert second.value == first.value
    assert second.low == pytest.approx(first.low)


def test_undefined_rows_are_left_out_with_groups_that_have_no_other():
    values, groups = [1.0, NAN, 2.0, NAN, 4.0], ["a", "a", "b", "c", "d"]
    assert mean_interval(values, groups) == mean_interval([1.0, 2.0, 4.0], ["a", "b", "d"])


@pytest.mark.parametrize(
    ("values", "groups", "expected"),
    [
        ([], [], [False, False, False]),
        ([NAN], ["a"], [False, False, False]),
        ([1.0, 2.0], ["a", "a"], [True, False, False]),
        ([1.0, math.inf], ["a", "b"], [True, False, False]),
        ([1.0, 1.0], ["a", "b"], [True, True, True]),
    ],
    ids=["none", "undefined", "one group", "infinite", "equal"],
)
def test_degenerate_means(values, groups, expected):
    assert defined(mean_interval(values, groups)) == expected
    assert math.isnan(mean_p_value(values, groups)) == (not expected[1])


def test_p_values_without_spread():
    assert mean_p_value([0.0, 0.0], ["a", "b"]) == 1
    assert mean_p_value([1.0, 1.0], ["a", "b"]) == 0


def test_an_undefined_seed_leaves_the_result_undefined():
    assert defined(seed_interval([0.5, NAN, 0.6])) == [False, False, False]
    assert defined(seed_interval([0.5])) == [True, False, False]


@pytest.mark.parametrize("level", [0, 1])
def test_levels_lie_between_0_and_1(level):
    with refused(f"`level` must lie between 0 and 1, got {level}"):
        mean_interval([1.0], ["a"], level)


def test_each_value_has_a_group():
    with refused("expected one group for each value, got 1 groups, 2 values"):
        mean_interval([1.0, 2.0], ["a"])


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (Score(0.5, -0.2, 1.3), Score(0.5, 0, 1)),
        (Score(0.5, 0.4, 0.6), Score(0.5, 0.4, 0.6)),
        (Score(1 + 1e-9, 0.9, 1.2), Score(1 + 1e-9, 0.9, 1 + 1e-9)),
        (Score(0.5, NAN, NAN), Score(0.5, NAN, NAN)),
    ],
    ids=["wide", "narrow", "rounded", "none"],
)
def test_intervals_are_cut_at_the_range_of_a_score(score, expected):
    assert score.within(0, 1) == expected
