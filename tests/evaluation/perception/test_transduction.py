import math

import numpy as np
import pytest
import torch
from scipy.optimize import curve_fit

from candlelight.evaluation.perception import detection as module
from candlelight.evaluation.perception.detection import Transduction, fit_transduction, normalised_dmos
from tests.refusals import refused


def _rated(scale: float, exponent: float, largest: float, noise: float, seed: int = 0):
    """Draw distances and noisy ratings in [0, 1]."""
    rng = np.random.default_rng(seed)
    distances = largest * rng.uniform(0, 1, 300) ** 2
    ratings = (scale * distances**exponent + noise * rng.normal(size=300)).clip(0, 1)
    return torch.from_numpy(distances), torch.from_numpy(ratings)


@pytest.mark.parametrize(
    ("scale", "exponent", "largest"),
    [(1.24, 0.265, 0.4), (0.394, 0.105, 80.0), (2.35, 0.343, 0.08), (0.02, 1.0, 50.0), (1e-5, 2.0, 255.0)],
)
def test_known_constants_come_back(scale: float, exponent: float, largest: float) -> None:
    found = fit_transduction(*_rated(scale, exponent, largest, noise=0.0))
    assert found.scale == pytest.approx(scale, rel=1e-5)
    assert found.exponent == pytest.approx(exponent, rel=1e-5)
    assert found.converged
    assert found.error < 1e-6
    assert found.pairs == 300


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_papers_call_on_noisy_ratings(seed: int) -> None:
    distances, ratings = _rated(1.24, 0.265, 0.3, noise=0.08, seed=seed)
    wanted, _ = curve_fit(
        lambda x, a, b: a * x**b, distances.numpy(), ratings.numpy(), p0=[1, 1 / 2], method="dogbox"
    )
    found = fit_transduction(distances, ratings)
    assert (found.scale, found.exponent) == pytest.approx(tuple(wanted), rel=1e-3)
    left = ratings - wanted[0] * distances ** wanted[1]
    assert found.error == pytest.approx(float(left.square().mean().sqrt()), rel=1e-5)


def test_no_other_constants_are_better() -> None:
    distances, ratings = _rated(0.7, 0.2, 3.0, noise=0.1)
    found = fit_transduction(distances, ratings)
    for a in np.linspace(0.9, 1.1, 9):
        for b in np.linspace(0.9, 1.1, 9):
            other = a * found.scale * distances ** (b * found.exponent)
            assert float((other - ratings).square().mean().sqrt()) >= found.error - 1e-12


def test_the_unit_of_the_metric_does_not_matter() -> None:
    distances, ratings = _rated(1.24, 0.265, 0.3, noise=0.05)
    plain, scaled = fit_transduction(distances, ratings), fit_transduction(255 * distances, ratings)
    assert scaled.exponent == pytest.approx(plain.exponent, rel=1e-9)
    torch.testing.assert_close(scaled(255 * distances), plain(distances))


def test_inverse() -> None:
    curve = Transduction(1.24, 0.265)
    assert float(curve(torch.tensor(curve.invert(0.445)))) == pytest.approx(0.445, rel=1e-6)


def test_similarities_do_not_converge_and_say_so() -> None:
    distances, ratings = _rated(0.9, 0.5, 1.0, noise=0.02)
    found = fit_transduction(1 - distances.clamp(max=1), ratings)
    assert not found.converged
    assert found.note == "scale or exponent at its bound, 0: the distances do not rise with the ratings"
    with refused("expected a transduction that converged and rises, got D = "):
        found.invert(0.445)


def test_ratings_of_zero_do_not_converge() -> None:
    distances, _ = _rated(1.0, 0.5, 1.0, noise=0.0)
    assert not fit_transduction(distances, 0 * distances).converged


def test_an_interrupted_fit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVALUATIONS", 1)
    found = fit_transduction(*_rated(0.394, 0.105, 80.0, noise=0.0))
    assert not found.converged
    assert "maximum number of function evaluations" in found.note


def test_scores_of_tid2013() -> None:
    scores = torch.tensor([[0.0, 4.5], [9.0, 10.0]])
    torch.testing.assert_close(normalised_dmos(scores), torch.tensor([[1.0, 0.55], [0.1, 0.0]]).double())


@pytest.mark.parametrize("scores", [[-1.0, 3.0], [5.0, 11.0], [math.nan]])
def test_other_scales_of_scores(scores: list[float]) -> None:
    with refused("`scores` must lie from 0 to 10, got"):
        normalised_dmos(torch.tensor(scores))


@pytest.mark.parametrize(
    ("distances", "ratings", "message"),
    [
        ([0.1, 0.2], [0.5, 1.2], "`ratings` must lie from 0 to 1, got 0.5 to 1.2; normalised_dmos"),
        ([0.1, 0.2], [0.5, math.nan], "`ratings` must lie from 0 to 1"),
        ([0.1, 0.1], [0.5, 0.6], "must differ to fit two constants, got 0.1 for all pairs"),
        ([0.1], [0.5], "must differ to fit two constants"),
        ([], [], "`distances` needs at least one value"),
        ([0.1, math.inf], [0.5, 0.6], "`distances` must be finite"),
        ([0.1, -0.2], [0.5, 0.6], "`distances` must be at least 0, got -0.2"),
    ],
)
def test_refused_pairs(distances: list[float], ratings: list[float], message: str) -> None:
    with refused(message):
        fit_transduction(torch.tensor(distances), torch.tensor(ratings))


def test_constants_that_do_not_rise_have_no_inverse() -> None:
    with refused(r"got D = 0\.5 d\^0 \(no note\)"):
        Transduction(0.5, 0.0).invert(0.445)
