import math

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime

from candlelight.evaluation.perception.psychometric import (
    LARGEST_LAPSE,
    AnswerLikelihood,
    PsychometricFit,
    fit_psychometric,
    psychometric,
)
from tests.refusals import refused

LEVELS = torch.linspace(0.1, 1.0, 20, dtype=torch.float64)
TRIALS = torch.full((20,), 75)  # the paper's 15 repetitions by 5 observers


def _answers(rng: np.random.Generator, threshold=0.445, slope=20.0, lapse=0.02) -> torch.Tensor:
    chance = psychometric(LEVELS, threshold, slope, lapse=lapse).numpy()
    return torch.from_numpy(rng.binomial(75, chance))


def _log_likelihood(correct, threshold: float, slope: float, lapse: float, guess: float = 0.5) -> float:
    total = 0.0
    for level, right in zip(LEVELS.tolist(), correct.tolist(), strict=True):
        p = guess + (1 - guess - lapse) / (1 + math.exp(-slope * (level - threshold)))
        total += right * math.log(p) + (75 - right) * math.log(1 - p)
    return total


def test_exact_shares_give_the_exact_function() -> None:
    # A million answers at each level in the shares of the function itself.
    trials = torch.full((20,), 1_000_000)
    correct = (psychometric(LEVELS, 0.445, 20.0, lapse=0.02) * trials).round().long()
    found = fit_psychometric(LEVELS, correct, trials)
    assert (found.score, found.slope, found.lapse) == pytest.approx((0.445, 20.0, 0.02), rel=2e-3)
    assert found.deviance < 0.01
    assert 0.44 < found.low < found.score < found.high < 0.45
    assert found.converged
    fixed = fit_psychometric(LEVELS, correct, trials, lapse=0.02)
    assert fixed.lapse == 0.02
    assert fixed.score == pytest.approx(0.445, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_likelihood_is_largest_and_the_interval_loses_what_it_should(seed: int) -> None:
    correct = _answers(np.random.default_rng(seed))
    found = fit_psychometric(LEVELS, correct, TRIALS)
    best = _log_likelihood(correct, found.score, found.slope, found.lapse)
    shares = (correct / 75).tolist()
    observed = sum(
        75 * (share * math.log(share) + ((1 - share) * math.log(1 - share) if share < 1 else 0))
        for share in shares
    )
    assert found.deviance == pytest.approx(2 * (observed - best), abs=1e-4)
    slopes, lapses = np.geomspace(5, 80, 60), np.linspace(0.001, LARGEST_LAPSE, 25)
    profile = {
        threshold: max(_log_likelihood(correct, threshold, k, lapse) for k in slopes for lapse in lapses)
        for threshold in (found.low, found.score, found.high)
    }
    assert profile[found.score] <= best + 1e-9
    for end in (found.low, found.high):
        assert best - profile[end] == pytest.approx(3.841 / 2, abs=0.03)


def test_gradient_equals_differences() -> None:
    correct = _answers(np.random.default_rng(0))
    right = correct.double().numpy()
    shares = ((LEVELS - LEVELS[0]) / (LEVELS[-1] - LEVELS[0])).numpy()
    likelihood = AnswerLikelihood(shares, right, 75 - right, 0.5, (0.0, LARGEST_LAPSE))
    for point in ([0.4, 3.0, 0.02], [0.1, 1.0, 0.05], [0.9, 2.0, 0.001]):
        wanted = approx_fprime(np.array(point), lambda at: likelihood.loss(at)[0], 1e-7)
        np.testing.assert_allclose(likelihood.loss(np.array(point))[1], wanted, rtol=1e-4, atol=1e-2)


def test_intervals_hold_the_threshold() -> None:
    rng = np.random.default_rng(0)
    found = [fit_psychometric(LEVELS, _answers(rng), TRIALS) for _ in range(100)]
    assert sum(fit.low < 0.445 < fit.high for fit in found) >= 90
    assert all(fit.converged for fit in found)
    assert max(fit.high - fit.low for fit in found) < 0.1


def test_slips_move_a_fit_without_lapses() -> None:
    trials = torch.full((20,), 1_000_000)
    correct = (psychometric(LEVELS, 0.445, 20.0, lapse=0.04) * trials).round().long()
    with_lapses, without = (fit_psychometric(LEVELS, correct, trials, lapse=lapse) for lapse in (None, 0.0))
    assert (with_lapses.score, with_lapses.slope) == pytest.approx((0.445, 20.0), rel=1e-3)
    assert abs(without.score - 0.445) > 0.005
    assert without.slope < 13
    assert without.lapse == 0.0
    assert with_lapses.deviance < 1 < 1000 < without.deviance


def test_single_answers_equal_their_counts() -> None:
    correct = _answers(np.random.default_rng(1))
    wanted = fit_psychometric(LEVELS, correct, TRIALS)
    levels = LEVELS.repeat_interleave(75)
    answers = torch.cat([(torch.arange(75) < right).long() for right in correct])
    order = torch.randperm(1500, generator=torch.Generator().manual_seed(0))
    found = fit_psychometric(levels[order], answers[order], torch.ones(1500, dtype=torch.int64))
    assert (found.score, found.low, found.high) == pytest.approx((wanted.score, wanted.low, wanted.high))


def test_units_of_the_levels_do_not_matter() -> None:
    correct = _answers(np.random.default_rng(2))
    plain, scaled = (fit_psychometric(levels, correct, TRIALS) for levels in (LEVELS, 5 + 100 * LEVELS))
    assert (scaled.score, scaled.low, scaled.high) == pytest.approx(
        tuple(5 + 100 * level for level in (plain.score, plain.low, plain.high)), rel=1e-4
    )
    assert scaled.slope == pytest.approx(plain.slope / 100, rel=1e-2)


def test_other_numbers_of_alternatives() -> None:
    trials = torch.full((20,), 100_000)
    correct = (psychometric(LEVELS, 0.5, 15.0, guess=0.25, lapse=0.01) * trials).round().long()
    found = fit_psychometric(LEVELS, correct, trials, guess=0.25)
    assert (found.score, found.slope, found.guess) == pytest.approx((0.5, 15.0, 0.25), rel=1e-2)


def test_quartiles_of_the_paper() -> None:
    found = PsychometricFit(0.445, 0.43, 0.46, 20.16, 0.5, 0.0, 10.0, True, "")
    assert found.quartiles == pytest.approx((0.390, 0.445, 0.499), abs=1e-3)
    low, middle, high = psychometric(torch.tensor(found.quartiles), 0.445, 20.16).tolist()
    assert (low, middle, high) == pytest.approx((0.625, 0.75, 0.875), abs=1e-6)


@pytest.mark.parametrize(
    ("correct", "note"),
    [
        ([20, 20, 20, 40, 40, 40], "slope at its upper bound, a step between two levels"),
        ([40, 40, 40, 40, 40, 40], "at its bound|without a limit"),
        ([20, 20, 20, 20, 20, 20], "at its bound|without a limit"),
        ([40, 38, 33, 26, 21, 20], "at its|without a limit"),
    ],
    ids=["step", "all correct", "chance", "falling"],
)
def test_fits_that_fail_say_so(correct: list[int], note: str) -> None:
    levels = torch.tensor([0.1, 0.3, 0.4, 0.5, 0.6, 0.9])
    found = fit_psychometric(levels, torch.tensor(correct), torch.full((6,), 40))
    assert not found.converged
    assert any(part in found.note for part in note.split("|"))
    assert found.low <= found.score <= found.high


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"levels": torch.tensor([0.5, 0.5])}, "`levels` must be finite, and at least 2 different ones"),
        ({"levels": torch.tensor([0.5, math.nan])}, "`levels` must be finite"),
        ({"levels": torch.tensor([0.5])}, r"`levels` \[levels\], .* got \[1\], \[2\], \[2\]"),
        ({"correct": torch.tensor([5, 11])}, "expected `correct` from 0 to `trials`"),
        ({"correct": torch.tensor([-1, 5])}, "expected `correct` from 0 to `trials`"),
        ({"trials": torch.tensor([0, 10]), "correct": torch.tensor([0, 5])}, "`trials` of at least 1"),
        ({"guess": 1.0}, "`guess` and `lapse` must be at least 0"),
        ({"lapse": 0.5}, "`guess` and `lapse` must be at least 0"),
    ],
)
def test_refused_answers(changed: dict[str, object], message: str) -> None:
    given = {
        **{"levels": torch.tensor([0.2, 0.8]), "correct": torch.tensor([5, 9])},
        **{"trials": torch.tensor([10, 10]), **changed},
    }
    with refused(message):
        fit_psychometric(**given)


def test_no_levels() -> None:
    empty = torch.zeros(0, dtype=torch.int64)
    with refused("at least 2 different ones"):
        fit_psychometric(empty, empty, empty)
