import itertools
import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.concepts.permutation import (
    effect_interval,
    exchange_derivatives,
    input_scores,
    permutation_test,
)
from candlelight.evaluation.run.intervals import replicate_interval, resampled_groups
from tests.evaluation.concepts.conftest import generator
from tests.refusals import refused


def _scores(sets, draws, seed=0):
    return torch.randn(sets, draws, generator=generator(seed), dtype=torch.float64)


def _slow_p_values(scores):
    """Westfall and Young by loops: raw and adjusted p-values of every row."""
    distances = []
    for row in scores.tolist():
        mean = sum(row) / len(row)
        deviation = math.sqrt(sum((one - mean) ** 2 for one in row) / len(row))
        distances.append([abs(one - mean) / deviation for one in row])
    raw, adjusted = [], []
    for row in distances:
        raw.append(sum(one >= row[0] for one in row) / len(row))
        largest = [max(column) for column in zip(*distances, strict=True)]
        adjusted.append((1 + sum(one >= row[0] for one in largest[1:])) / len(row))
    return raw, adjusted


def test_p_values_equal_loops():
    scores = _scores(6, 60)
    scores[0, 0] = 6
    scores[1:, 0] /= 4
    test = permutation_test(scores)
    raw, adjusted = _slow_p_values(scores)
    np.testing.assert_allclose(test.p_value, raw)
    np.testing.assert_allclose(test.adjusted, adjusted)
    assert (test.adjusted >= test.p_value).all()
    assert test.adjusted[0] < 0.05 < test.adjusted[1:].min()


def test_effect_by_hand():
    # The exchanges have mean 1 and standard deviation 1.
    test = permutation_test(torch.tensor([[4.0, 0.0, 1.0, 2.0], [-2.0, 0.0, 1.0, 2.0]]))
    assert test.effect.tolist() == [3, -3]
    assert test.score.tolist() == [4, -2]
    assert (test.permutations, test.resolution) == (3, 0.25)


@pytest.mark.parametrize("value", [0.1, 1 / 3])
def test_equal_draws_are_not_significant(value):
    scores = torch.stack([torch.full((50,), value, dtype=torch.float64), _scores(1, 50)[0]])
    test = permutation_test(scores)
    assert (test.p_value[0], test.adjusted[0], test.effect[0]) == (1, 1, 0)


def test_input_scores_by_hand():
    derivatives = torch.tensor([[-2.0, 0.0, 3.0]])
    assert input_scores(derivatives).tolist() == [[2, 0, -3]]
    assert input_scores(derivatives, gradient_of="logit").tolist() == [[-2, 0, 3]]
    assert input_scores(derivatives, "share").tolist() == [[1, 0, 0]]
    assert input_scores(derivatives, "share", "logit").tolist() == [[0, 0, 1]]


def _null_derivatives(seed, shift=0.0):
    """Derivatives for images without a concept; with a shift the concept's images differ at right angles."""
    stream = generator(seed)
    images = torch.randn(24, 20, generator=stream)
    slopes = torch.randn(5, 20, generator=stream) + torch.randn(20, generator=stream)
    slopes[:, 0] = 0
    images[:12, 0] += shift
    return exchange_derivatives(images[:12], images[12:], slopes, seed=seed, permutations=99)


def _most_rejections(level, runs):
    """Largest number of rejections that a test of this level exceeds in one of 1000 experiments."""
    chance, number = 0.0, -1
    while chance < 0.999:
        number += 1
        chance += math.comb(runs, number) * level**number * (1 - level) ** (runs - number)
    return number


@pytest.mark.parametrize("shift", [0.0, 8.0], ids=["nothing", "at right angles"])
def test_rejects_as_rarely_as_the_level_says(shift):
    runs = 200
    derivatives = [_null_derivatives(seed, shift) for seed in range(runs)]
    for score in ("derivative", "share"):
        scores = torch.stack([input_scores(one, score).mean(1) for one in derivatives])
        p_values = permutation_test(scores).p_value
        for level in (0.05, 0.2):
            assert (p_values <= level).sum() <= _most_rejections(level, runs), (score, level)
        # A test that never rejects would pass as well.
        if score == "derivative":
            assert (p_values <= 0.2).sum() >= runs - _most_rejections(0.8, runs)
    # Families of 10 sets: any set is found in at most a share of 0.2.
    derivative_scores = torch.stack([input_scores(one).mean(1) for one in derivatives])
    families = [permutation_test(ten).adjusted.min() for ten in derivative_scores.split(10)]
    assert sum(float(one) <= 0.2 for one in families) <= _most_rejections(0.2, len(families))


def _slow_effect(scores, rows):
    means = scores[:, rows].mean(1)
    return (means[0] - means[1:].mean()) / means[1:].std(ddof=1)


def test_interval_equals_loops_over_resamples():
    scores = torch.randn(30, 9, generator=generator(), dtype=torch.float64)
    groups = [f"scene {number // 2 if number < 4 else number}" for number in range(9)]
    members = [[row for row, one in enumerate(groups) if one == group] for group in dict.fromkeys(groups)]
    slow = [
        _slow_effect(scores.numpy(), list(itertools.chain.from_iterable(members[group] for group in draw)))
        for draw in resampled_groups(7, 3, 50)
    ]
    whole = _slow_effect(scores.numpy(), list(range(9)))
    expected = replicate_interval(whole, slow, 7)
    found = effect_interval(scores, groups, seed=3, resamples=50)
    np.testing.assert_allclose(
        (found.value, found.low, found.high), (expected.value, expected.low, expected.high)
    )
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(float(permutation_test(scores.mean(1)[None]).effect[0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: permutation_test(torch.zeros(1, 2)), r"at least 2 exchanges, got shape \[1, 2\]"),
        (lambda: permutation_test(torch.zeros(0, 5)), "needs the true set"),
        (lambda: permutation_test(torch.full((1, 5), torch.nan)), "`scores` must be finite, got nan or inf"),
        (lambda: effect_interval(torch.zeros(5, 3), ["a", "b"], seed=0), "2 groups for 3 inputs and 2000"),
        (lambda: effect_interval(torch.full((5, 1), torch.inf), ["a"], seed=0), "`scores` must be finite"),
    ],
)
def test_refusals(call, message):
    with refused(message):
        call()
