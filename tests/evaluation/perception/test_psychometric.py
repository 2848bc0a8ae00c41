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
MILLION = torch.full((20,), 1_000_000)


def test_equation_4_of_the_paper() -> None:
    levels = torch.linspace(0, 1, 21, dtype=torch.float64)
    wanted = [0.5 + 1 / (2 * (1 + math.exp(-20 * (level - 0.445)))) for level in levels.tolist()]
    assert psychometric(levels, 0.445, 20.0).tolist() == pytest.approx(wanted)


def test_ends_and_threshold() -> None:
    levels = torch.tensor([-100.0, 2.0, 100.0])
    assert psychometric(levels, 2.0, 5.0, guess=0.25, lapse=0.05).tolist() == pytest.approx([0.25, 0.6, 0.95])


@pytest.mark.parametrize(("guess", "lapse"), [(-0.1, 0.0), (0.5, -0.1), (0.9, 0.1), (math.nan, 0.0)])
def test_refused_rates(guess: float, lapse: float) -> None:
    with refused("`guess` and `lapse` must be at least 0, together below 1, got"):
        psychometric(torch.zeros(1), 0.0, 1.0, guess, lapse)


def _answers(rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(rng.binomial(75, psychometric(LEVELS, 0.445, 20.0, lapse=0.02).numpy()))


def _log_likelihood(correct, threshold: float, slope: float, lapse: float, guess: float = 0.5) -> float:
    total = 0.0
    for level, right in zip(LEVELS.tolist(), correct.tolist(), strict=True):
        p = guess + (1 - guess - lapse) / (1 + math.exp(-slope * (level - threshold)))
        total += right * math.log(p) + (75 - right) * math.log(1 - p)
    return total


@pytest.mark.parametrize("guess", [0.5, 0.25])
def test_exact_shares_give_the_exact_function(guess: float) -> None:
    # A million answers at each level in the shares of the function itself.
    correct = (psychometric(LEVELS, 0.445, 20.0, guess, lapse=0.04) * MILLION).round().long()
    found = fit_psychometric(LEVELS, correct, MILLION, guess)
    assert (found.score, found.slope, found.lapse) == pytest.approx((0.445, 20.0, 0.04), rel=2e-3)
    assert (found.guess, found.converged) == (guess, True)
    assert 0.44 < found.low < found.score < found.high < 0.45
    fixed, without = (fit_psychometric(LEVELS, correct, MILLION, guess, lapse) for lapse in (0.04, 0.0))
    assert (fixed.score, fixed.lapse) == (pytest.approx(0.445, rel=1e-3), 0.04)
    # Slips move a fit without lapses.
    assert abs(without.score - 0.445) > 0.005
    assert without.slope < 15
    assert found.deviance < 0.01 < 1000 < without.deviance


def test_likelihood_is_largest_and_the_interval_loses_what_it_should() -> None:
    correct = _answers(np.random.default_rng(0))
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
    right = _answers(np.random.default_rng(0)).double().numpy()
    shares = ((LEVELS - LEVELS[0]) / (LEVELS[-1] - LEVELS[0])).numpy()
    likelihood = AnswerLikelihood(shares, right, 75 - right, 0.5, (0.0, LARGEST_LAPSE))
    for point in ([0.4, 3.0, 0.02], [0.1, 1.0, 0.05], [0.9, 2.0, 0.001]):
        wanted = approx_fprime(np.array(point), lambda at: likelihood.loss(at)[0], 1e-7)
        np.testing.assert_allclose(likelihood.loss(np.array(point))[1], wanted, rtol=1e-4, atol=1e-2)


def test_intervals_hold_the_threshold() -> None:
    rng = np.random.default_rng(0)
    found = [fit_psychometric(LEVELS, _answers(rng), TRIALS) for _ in range(15)]
    assert sum(fit.low < 0.445 < fit.high for fit in found) >= 13
    assert all(fit.converged for fit in found)
    assert max(fit.high - fit.low for fit in found) < 0.1


def test_single_answers_in_any_unit_equal_their_counts() -> None:
    correct = _answers(np.random.default_rng(1))
    wanted = fit_psychometric(LEVELS, correct, TRIALS)
    levels = 5 + 100 * LEVELS.repeat_interleave(75)
    answers = torch.cat([(torch.arange(75) < right).long() for right in correct])
    order = torch.randperm(1500, generator=torch.Generator().manual_seed(0))
    found = fit_psychometric(levels[order], answers[order], torch.ones(1500, dtype=torch.int64))
    scaled = [5 + 100 * level for level in (wanted.score, wanted.low, wanted.high)]
    assert [found.score, found.low, found.high] == pytest.approx(scaled, rel=1e-4)
    assert found.slope == pytest.approx(wanted.slope / 100, rel=1e-2)


def test_quartiles_of_the_paper() -> None:
    found = PsychometricFit(0.445, 0.43, 0.46, 20.16, 0.5, 0.0, 10.0, True, "")
    assert found.quartiles == pytest.approx((0.390, 0.445, 0.499), abs=1e-3)
    shares = psychometric(torch.tensor(found.quartiles), 0.445, 20.16)
    assert shares.tolist() == pytest.approx((0.625, 0.75, 0.875), abs=1e-6)


@pytest.mark.parametrize(
    ("correct", "note"),
    [
        ([20, 20, 20, 40, 40, 40], "slope at its upper bound, a step between two levels"),
        ([40, 40, 40, 40, 40, 40], "at its bound|without a limit"),
        ([40, 38, 33, 26, 21, 20], "at its|without a limit"),
    ],
    ids=["step", "all correct", "falling"],
)
def test_fits_that_fail_say_so(correct: list[int], note: str) -> None:
    levels = torch.tensor([0.1, 0.3, 0.4, 0.5, 0.6, 0.9])
    found = fit_psychometric(levels, torch.tensor(correct), torch.full((6,), 40))
    assert not found.converged
    assert any(part in found.note for part in note.split("|"))
    assert found.low <= found.score <= found.high


NONE = torch.zeros(0, dtype=torch.int64)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"levels": NONE, "correct": NONE, "trials": NONE}, "at least 2 different ones"),
        ({"levels": torch.tensor([0.5])}, r"`levels` \[levels\], .* got \[1\], \[2\], \[2\]"),
        ({"correct": torch.tensor([-1, 5])}, "expected `correct` from 0 to `trials`"),
        ({"trials": torch.tensor([0, 10]), "correct": torch.tensor([0, 5])}, "`trials` of at least 1"),
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
