import math

import numpy as np
import pytest
import torch
from scipy.optimize import curve_fit

from candlelight.evaluation.perception import detection as module
from candlelight.evaluation.perception.detection import (
    PUBLISHED_TRANSDUCTIONS,
    Transduction,
    fit_transduction,
    normalised_dmos,
    published_transduction,
)
from candlelight.evaluation.perception.psychometric import DETECTION_LEVELS
from tests.refusals import refused

# Distance of each metric at the levels 0.390, 0.445 and 0.499, read from the paper's figure.
DISTANCES = {
    "RMSE": (0.0126, 0.0208, 0.0321),
    "SSIM": (0.0070, 0.0176, 0.0390),
    "LPIPS": (0.0062, 0.0185, 0.0478),
    "DISTS": (0.0081, 0.0176, 0.0342),
    "PerceptNet": (0.0053, 0.0078, 0.0109),
    "PIM": (0.91, 3.20, 9.48),
}


def _rated(scale: float, exponent: float, largest: float, noise: float):
    """Draw distances and noisy ratings in [0, 1]."""
    rng = np.random.default_rng(0)
    distances = largest * rng.uniform(0, 1, 300) ** 2
    ratings = (scale * distances**exponent + noise * rng.normal(size=300)).clip(0, 1)
    return torch.from_numpy(distances), torch.from_numpy(ratings)


@pytest.mark.parametrize("metric", DISTANCES)
def test_published_constants_give_the_papers_distances_within_3_percent(metric: str) -> None:
    assert list(PUBLISHED_TRANSDUCTIONS) == list(DISTANCES)
    transduction = published_transduction(metric)
    assert [transduction.invert(level) for level in DETECTION_LEVELS] == pytest.approx(
        DISTANCES[metric], rel=0.03
    )
    assert "TID2013" in transduction.note
    assert "[0, 1]" in transduction.note


def test_other_metrics_have_no_constants() -> None:
    with refused(r"`metric` must be one of: RMSE, SSIM, .*; got MS-SSIM"):
        published_transduction("MS-SSIM")


@pytest.mark.parametrize(
    ("scale", "exponent", "largest"), [(1.24, 0.265, 0.4), (0.394, 0.105, 80.0), (1e-5, 2.0, 255.0)]
)
def test_known_constants_come_back(scale: float, exponent: float, largest: float) -> None:
    found = fit_transduction(*_rated(scale, exponent, largest, noise=0.0))
    assert (found.scale, found.exponent) == pytest.approx((scale, exponent), rel=1e-5)
    assert (found.converged, found.pairs) == (True, 300)
    assert found.error < 1e-6


def test_equals_the_papers_call_on_noisy_ratings() -> None:
    distances, ratings = _rated(1.24, 0.265, 0.3, noise=0.08)
    wanted, _ = curve_fit(
        lambda x, a, b: a * x**b, distances.numpy(), ratings.numpy(), p0=[1, 1 / 2], method="dogbox"
    )
    found = fit_transduction(distances, ratings)
    assert (found.scale, found.exponent) == pytest.approx(tuple(wanted), rel=1e-3)
    left = ratings - wanted[0] * distances ** wanted[1]
    assert found.error == pytest.approx(float(left.square().mean().sqrt()), rel=1e-5)
    torch.testing.assert_close(found(distances), found.scale * distances**found.exponent)


def test_similarities_do_not_converge_and_say_so() -> None:
    distances, ratings = _rated(0.9, 0.5, 1.0, noise=0.02)
    found = fit_transduction(1 - distances.clamp(max=1), ratings)
    assert not found.converged
    assert found.note == "scale or exponent at its bound, 0: the distances do not rise with the ratings"
    with refused("expected a transduction that converged and rises, got D = "):
        found.invert(0.445)
    assert not fit_transduction(distances, 0 * distances).converged


def test_an_interrupted_fit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVALUATIONS", 1)
    found = fit_transduction(*_rated(0.394, 0.105, 80.0, noise=0.0))
    assert not found.converged
    assert "maximum number of function evaluations" in found.note


def test_constants_that_do_not_rise_have_no_inverse() -> None:
    with refused(r"got D = 0\.5 d\^0 \(no note\)"):
        Transduction(0.5, 0.0).invert(0.445)


def test_scores_of_tid2013() -> None:
    scores = torch.tensor([[0.0, 4.5], [9.0, 10.0]])
    torch.testing.assert_close(normalised_dmos(scores), torch.tensor([[1.0, 0.55], [0.1, 0.0]]).double())
    for wrong in (-1.0, 11.0, math.nan):
        with refused("`scores` must lie from 0 to 10, got"):
            normalised_dmos(torch.tensor([5.0, wrong]))


@pytest.mark.parametrize(
    ("distances", "ratings", "message"),
    [
        ([0.1, 0.2], [0.5, 1.2], "`ratings` must lie from 0 to 1, got 0.5 to 1.2; normalised_dmos"),
        ([0.1, 0.1], [0.5, 0.6], "must differ to fit two constants, got 0.1 for all pairs"),
        ([0.1], [0.5], "must differ to fit two constants"),
        ([0.1, -0.2], [0.5, 0.6], "`distances` must be at least 0, got -0.2"),
    ],
)
def test_refused_pairs(distances: list[float], ratings: list[float], message: str) -> None:
    with refused(message):
        fit_transduction(torch.tensor(distances), torch.tensor(ratings))
