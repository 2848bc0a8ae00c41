import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.perception.detection import (
    PUBLISHED_TRANSDUCTIONS,
    STILL,
    Transduction,
    curve_thresholds,
    detection_threshold,
    published_transduction,
)
from candlelight.evaluation.perception.psychometric import DETECTION_LEVELS
from candlelight.evaluation.perception.transforms import paper_families
from tests.refusals import refused

RMSE = published_transduction("RMSE")
LOW, D_T, HIGH = DETECTION_LEVELS
FAMILIES = paper_families()[1:5]  # with one of the illuminants


def test_linear_metric_in_closed_form() -> None:
    # D = 2 d and d = s theta: every curve is a line, so interpolation is exact.
    magnitudes = torch.linspace(0, 10, 4, dtype=torch.float64)
    slopes = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).double()
    found = detection_threshold(slopes[:, None] * magnitudes, magnitudes, Transduction(2.0, 1.0))
    assert found.score == pytest.approx(D_T / 2 / 0.35)
    assert (found.low, found.high) == pytest.approx((LOW / 2 / 0.35, HIGH / 2 / 0.35))
    assert found.uncertainty == pytest.approx((HIGH - LOW) / 4 / 0.35)
    torch.testing.assert_close(found.scenes, D_T / 2 / slopes)
    assert found.state == "reached"
    # The mean of the scenes' thresholds is not the threshold of their mean.
    assert float(found.scenes.mean()) > 1.15 * found.score


@pytest.mark.parametrize("name", PUBLISHED_TRANSDUCTIONS)
@pytest.mark.parametrize("share", [0.01, 0.5, 2.3])  # of the first step
def test_a_metric_that_is_linear_in_the_magnitude_has_exact_thresholds(name: str, share: float) -> None:
    transduction = published_transduction(name)
    low, level, high = (transduction.invert(one) for one in DETECTION_LEVELS)
    for family in FAMILIES:
        magnitudes = torch.tensor(family.magnitudes, dtype=torch.float64)
        moved = magnitudes - magnitudes[0]
        wanted = share * float(moved[1])
        found = detection_threshold((level * moved / wanted)[None], magnitudes, transduction)
        assert found.score - float(magnitudes[0]) == pytest.approx(wanted, rel=1e-9)
        assert found.uncertainty == pytest.approx((high - low) / 2 / level * wanted, rel=1e-9)


@pytest.mark.parametrize("name", PUBLISHED_TRANSDUCTIONS)
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_known_thresholds_of_a_curved_metric_come_back(name: str, power: float) -> None:
    transduction = published_transduction(name)
    magnitudes = torch.linspace(0, 1, 2001, dtype=torch.float64)
    at_end = transduction.invert(0.55)
    found = detection_threshold((at_end * magnitudes**power)[None], magnitudes, transduction)
    wanted = [(transduction.invert(level) / at_end) ** (1 / power) for level in DETECTION_LEVELS]
    assert [found.low, found.score, found.high] == pytest.approx(wanted, rel=1e-2)


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


def test_not_reached() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    found = detection_threshold(0.4 * magnitudes.expand(8, 11), magnitudes, Transduction(1.0, 1.0))
    assert math.isnan(found.score)
    assert math.isnan(found.uncertainty)
    assert found.state == "not reached"
    assert found.scenes.isnan().all()
    assert found.low == pytest.approx(LOW / 0.4)


def test_upper_level_not_reached_leaves_no_uncertainty() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    found = detection_threshold(0.46 * magnitudes[None], magnitudes, Transduction(1.0, 1.0))
    assert found.state == "reached"
    assert math.isnan(found.high)
    assert math.isnan(found.uncertainty)


def test_a_metric_that_never_moves_is_infinite() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    for noise in (0.0, 1e-7):  # rounding of float32
        distances = noise * torch.rand(8, 11, generator=torch.Generator().manual_seed(0))
        found = detection_threshold(distances, magnitudes, RMSE)
        assert found.score == math.inf
        assert found.state == "infinite"
        assert found.scenes.isinf().all()


def test_still_curves_are_told_by_the_distance_at_the_level() -> None:
    curves = torch.tensor([[0.0, 0.9 * STILL], [0.0, 1.1 * STILL]]).double()
    found = curve_thresholds(curves, torch.tensor([0.0, 1.0]), Transduction(1.0, 1.0), 1.0)
    assert found.tolist() == pytest.approx([math.inf, math.nan], nan_ok=True)


def test_some_scenes_move_and_others_do_not() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    distances = torch.stack([magnitudes, 0.1 * magnitudes, 0 * magnitudes])
    found = detection_threshold(distances.repeat(4, 1), magnitudes, Transduction(3.0, 1.0))
    assert found.state == "reached"
    assert found.scenes[:3].tolist() == pytest.approx([D_T / 3, math.nan, math.inf], nan_ok=True)


def test_a_curve_that_starts_above_the_level() -> None:
    magnitudes = torch.tensor([0.0, 1.0, 2.0])
    found = detection_threshold(torch.tensor([[0.5, 0.6, 0.7]]), magnitudes, Transduction(1.0, 1.0))
    assert (found.score, found.uncertainty, found.state) == (0.0, 0.0, "at the start")


def test_a_curve_that_falls_is_read_at_its_first_rise() -> None:
    magnitudes = torch.arange(5.0)
    distances = torch.tensor([[0.0, 0.89, 0.2, 0.1, 0.9]])
    found = detection_threshold(distances, magnitudes, Transduction(1.0, 1.0))
    assert found.score == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"levels": (0.5, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"levels": (0.0, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"levels": (math.nan, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"magnitudes": torch.tensor([1.0, 0.0])}, "`magnitudes` must increase"),
        ({"magnitudes": torch.tensor([0.0])}, r"`magnitudes` \[magnitudes\], got \[1, 2\], \[1\]"),
        ({"distances": torch.tensor([[0.0, -1.0]])}, "`distances` must be at least 0"),
        ({"distances": torch.zeros(0, 2)}, "`distances` needs at least one value"),
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
