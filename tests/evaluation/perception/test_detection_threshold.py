"""Response curves, their inverse, and the detection thresholds that are read from them."""

import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.perception.detection import (
    STILL,
    Transduction,
    curve_thresholds,
    detection_threshold,
    invert_curves,
    mean_response,
    published_transduction,
)
from candlelight.evaluation.perception.psychometric import DETECTION_LEVELS
from tests.refusals import refused

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


def test_some_scenes_move_and_others_do_not() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    distances = torch.stack([magnitudes, 0.1 * magnitudes, 0 * magnitudes])
    found = detection_threshold(distances, magnitudes, Transduction(3.0, 1.0))
    assert found.state == "reached"
    assert found.scenes.tolist() == pytest.approx([D_T / 3, NAN, INF], nan_ok=True)


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
