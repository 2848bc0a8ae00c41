"""Transductions, response curves and their inverse, and the thresholds that are read from them."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import curve_fit

from candlelight.evaluation.perception import detection as module
from candlelight.evaluation.perception.detection import (
    PUBLISHED_TRANSDUCTIONS,
    STILL,
    Transduction,
    curve_thresholds,
    detection_threshold,
    fit_transduction,
    invert_curves,
    mean_response,
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


# ------------------------------------------------------------------------------------------------ thresholds

RMSE = published_transduction("RMSE")
LOW, D_T, HIGH = DETECTION_LEVELS
NAN, INF = math.nan, math.inf


def test_mean_over_scenes() -> None:
    # Rounding below 0 counts as 0, and integers are averaged in float64.
    assert mean_response(torch.tensor([[-2e-7, 0.5], [0.0, 1.5], [0.0, 4.0]])).tolist() == [0.0, 2.0]
    assert mean_response(torch.tensor([[1], [2]])).tolist() == [1.5]
    distances = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(mean_response(distances), sum(one.double() / 3 for one in distances))


def _slow_inverse(curve: list[float], magnitudes: list[float], level: float) -> float:
    """Walk along the curve and interpolate in the first step that ends at the level or above."""
    if curve[0] >= level:
        return magnitudes[0]
    for place in range(1, len(curve)):
        if curve[place] >= level:
            share = (level - curve[place - 1]) / (curve[place] - curve[place - 1])
            return magnitudes[place - 1] + share * (magnitudes[place] - magnitudes[place - 1])
    return math.nan


def test_inverse_equals_the_walk() -> None:
    rng = np.random.default_rng(0)
    curves = rng.uniform(0, 1, (5, 10, 7))  # neither rising nor falling
    magnitudes = np.sort(rng.uniform(-3, 3, 7))
    for level in (0.2, 0.6, 0.9, 0.99):
        expected = [
            [_slow_inverse(curve.tolist(), magnitudes.tolist(), level) for curve in some] for some in curves
        ]
        found = invert_curves(torch.from_numpy(curves), torch.from_numpy(magnitudes), level)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(expected).any()


@pytest.mark.parametrize(
    ("curve", "levels", "wanted"),
    [
        ([0.1, 0.5, 0.5, 0.7], (0.05, 0.1, 0.5, 0.7, 0.71), (0, 0, 1, 3, NAN)),
        ([0.0, 0.0, 1.0, 1.0], (1.0,), (2,)),
        ([1.0], (0.5, 2.0), (0, NAN)),
    ],
    ids=["at the magnitudes", "plateaus", "one magnitude"],
)
def test_levels_at_the_ends_and_on_plateaus(curve, levels, wanted) -> None:
    values, magnitudes = torch.tensor(curve, dtype=torch.float64), torch.arange(len(curve)).double()
    found = [float(invert_curves(values, magnitudes, level)) for level in levels]
    assert found == pytest.approx(wanted, nan_ok=True)


def test_inverse_at_the_end_is_not_beyond_it() -> None:
    magnitudes = torch.tensor([0.3, 0.82], dtype=torch.float64)  # 0.3 + (0.82 - 0.3) > 0.82
    assert float(invert_curves(magnitudes, magnitudes, 0.82)) <= 0.82


def test_uncertainties_of_the_papers_example() -> None:
    # Thresholds of RMSE on one picture at the three levels, and half the distance of the outer ones.
    for thresholds, uncertainty in (
        ((0.0262, 0.0299, 0.0336), 0.0037),
        ((0.0943, 0.1419, 0.2243), 0.065),
        ((1.00823, 1.00939, 1.01495), 0.0034),
    ):
        start = 1.0 if thresholds[0] > 1 else 0.0
        magnitudes = torch.tensor([start, *thresholds]).double()
        distances = torch.tensor([0.0, *(RMSE.invert(level) for level in DETECTION_LEVELS)]).double()
        found = detection_threshold(distances[None], magnitudes, RMSE)
        assert [found.low, found.score, found.high] == pytest.approx(thresholds, abs=1e-6)
        assert found.uncertainty == pytest.approx(uncertainty, abs=5e-5)


def test_equals_a_slow_restatement() -> None:
    rng = np.random.default_rng(0)
    distances, magnitudes = rng.uniform(0, 0.1, (7, 12)).cumsum(1), np.arange(12.0)
    distances -= distances[:, :1]
    found = detection_threshold(torch.from_numpy(distances), torch.from_numpy(magnitudes), RMSE)

    def threshold(curve: np.ndarray, level: float) -> float:
        return np.interp((level / RMSE.scale) ** (1 / RMSE.exponent), curve, magnitudes)

    mean = sum(distances) / 7
    wanted = [threshold(mean, level) for level in DETECTION_LEVELS]
    assert [found.low, found.score, found.high] == pytest.approx(wanted)
    assert found.scenes.tolist() == pytest.approx([threshold(scene, D_T) for scene in distances])


@pytest.mark.parametrize(
    ("distances", "state", "low", "score", "uncertainty"),
    [
        ([0.0, 0.4], "not reached", LOW / 0.4, NAN, NAN),
        ([0.0, 0.46], "reached", LOW / 0.46, D_T / 0.46, NAN),  # the upper level is not
        ([0.0, 1e-7], "infinite", INF, INF, NAN),  # rounding of float32
        ([0.5, 0.6], "at the start", 0.0, 0.0, 0.0),
        ([0.0, 0.89, 0.2, 0.1, 0.9], "reached", LOW / 3.56, D_T / 3.56, (HIGH - LOW) / 7.12),  # first rise
    ],
)
def test_states(distances, state, low, score, uncertainty) -> None:
    curves = torch.tensor([distances] * 2).double()
    magnitudes = torch.linspace(0, 1, len(distances), dtype=torch.float64)
    found = detection_threshold(curves, magnitudes, Transduction(1.0, 1.0))
    assert found.state == state
    assert [found.low, found.score, found.uncertainty] == pytest.approx(
        [low, score, uncertainty], nan_ok=True
    )
    assert found.scenes.tolist() == pytest.approx([score] * 2, nan_ok=True)


def test_still_curves_are_told_by_the_distance_at_the_level() -> None:
    curves = torch.tensor([[0.0, 0.9 * STILL], [0.0, 1.1 * STILL]]).double()
    found = curve_thresholds(curves, torch.tensor([0.0, 1.0]), Transduction(1.0, 1.0), 1.0)
    assert found.tolist() == pytest.approx([INF, NAN], nan_ok=True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"levels": (0.5, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"levels": (0.0, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"levels": (NAN, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"magnitudes": torch.tensor([1.0, 0.0])}, "`magnitudes` must increase strictly from the identity"),
        ({"magnitudes": torch.tensor([0.0, NAN])}, "`magnitudes` must increase strictly from the identity"),
        ({"magnitudes": torch.tensor([0.0])}, r"`magnitudes` \[magnitudes\], got \[1, 2\], \[1\]"),
        ({"distances": torch.tensor([[0.0, -0.1]])}, "`distances` must be at least 0, got -0.1; pass a dist"),
        ({"transduction": Transduction(1.0, 0.0)}, "expected a transduction that converged and rises"),
        ({"transduction": Transduction(1.0, 0.3, converged=False, note="stopped")}, r"\(stopped\)"),
    ],
)
def test_refused_arguments(changed: dict[str, object], message: str) -> None:
    given = {
        **{"distances": torch.tensor([[0.0, 1.0]]), "magnitudes": torch.tensor([0.0, 1.0])},
        **{"transduction": Transduction(1.0, 1.0), **changed},
    }
    with refused(message):
        detection_threshold(**given)
