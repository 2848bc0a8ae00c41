import math
from inspect import unwrap

import numpy as np
import pytest
import torch

from evaluation.perception.detection_threshold import STILL, curve_thresholds, detection_threshold
from evaluation.perception.published_transductions import DETECTION_LEVELS, published_transduction
from evaluation.perception.transduction import Transduction
from loaders.errors import InputError

RMSE = published_transduction("RMSE")
LOW, D_T, HIGH = DETECTION_LEVELS


def test_linear_metric_in_closed_form() -> None:
    # D = 2 d and d = s theta: every curve of D is a line, so interpolation is exact.
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
    assert D_T / 2 / 0.6 < found.interval.low < found.score < found.interval.high < D_T / 2 / 0.1


@pytest.mark.parametrize("name", ["RMSE", "SSIM", "LPIPS", "DISTS", "PerceptNet", "PIM"])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_known_thresholds_come_back(name: str, power: float) -> None:
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
        return np.interp(level, [RMSE.scale * d**RMSE.exponent for d in curve], magnitudes)

    mean = sum(distances) / 7
    wanted = [threshold(mean, level) for level in DETECTION_LEVELS]
    assert [found.low, found.score, found.high] == pytest.approx(wanted)
    assert found.scenes.tolist() == pytest.approx([threshold(scene, D_T) for scene in distances])
    draws = np.random.default_rng(0).integers(7, size=(2000, 7))
    replicates = [threshold(distances[draw].mean(0), D_T) for draw in draws]
    # Expanded percentiles of 7 scenes are a little wider than those of 95 %.
    outer = np.quantile(replicates, [0.001, 0.025, 0.975, 0.999])
    assert outer[0] <= found.interval.low <= outer[1]
    assert outer[2] <= found.interval.high <= outer[3]


def test_the_interval_shows_the_spread_of_scenes() -> None:
    magnitudes = torch.linspace(0, 1, 101, dtype=torch.float64)
    alike = torch.ones(12, 1).double() * magnitudes
    apart = torch.linspace(0.2, 1.8, 12).double()[:, None] * magnitudes
    widths = []
    for distances in (alike, apart):
        found = detection_threshold(distances, magnitudes, Transduction(1.0, 1.0))
        assert found.score == pytest.approx(D_T)
        widths.append(found.interval.high - found.interval.low)
    assert widths[0] == pytest.approx(0, abs=1e-12)
    assert widths[1] > 0.1


def test_not_reached() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    found = detection_threshold(0.4 * magnitudes.expand(8, 11), magnitudes, Transduction(1.0, 1.0))
    assert math.isnan(found.score)
    assert math.isnan(found.uncertainty)
    assert math.isnan(found.interval.low)
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
        assert found.interval.low == found.interval.high == math.inf


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
    assert found.interval.low < found.score < found.interval.high


def test_resamples_beyond_the_range_make_the_upper_end_infinite() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    distances = torch.stack([magnitudes, 0.1 * magnitudes]).repeat(4, 1)
    found = detection_threshold(distances, magnitudes, Transduction(1.0, 1.0))
    assert found.interval.high == math.inf
    assert math.isfinite(found.interval.low)


def test_a_curve_that_starts_above_the_level() -> None:
    magnitudes = torch.tensor([0.0, 1.0, 2.0])
    found = detection_threshold(torch.tensor([[0.5, 0.6, 0.7]]), magnitudes, Transduction(1.0, 1.0))
    assert (found.score, found.uncertainty, found.state) == (0.0, 0.0, "at the start")


def test_a_curve_that_falls_is_read_at_its_first_rise() -> None:
    magnitudes = torch.arange(5.0)
    distances = torch.tensor([[0.0, 0.89, 0.2, 0.1, 0.9]])
    found = detection_threshold(distances, magnitudes, Transduction(1.0, 1.0))
    assert found.score == pytest.approx(0.5)


def test_few_scenes_have_no_interval() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    found = detection_threshold(magnitudes.expand(5, 11), magnitudes, Transduction(1.0, 1.0))
    assert math.isnan(found.interval.low)
    assert found.interval.value == found.score


def test_groups_are_resampled_together() -> None:
    magnitudes = torch.linspace(0, 1, 101, dtype=torch.float64)
    slopes = torch.linspace(0.6, 1.8, 8).double()
    plain, copied, grouped = (
        detection_threshold(rows[:, None] * magnitudes, magnitudes, Transduction(1.0, 1.0), groups=groups)
        for rows, groups in (
            (slopes, None),
            (slopes.repeat(3), None),
            (slopes.repeat(3), [*"abcdefgh"] * 3),
        )
    )
    assert grouped.score == pytest.approx(plain.score)
    assert (grouped.interval.low, grouped.interval.high) == pytest.approx(
        (plain.interval.low, plain.interval.high)
    )
    assert copied.interval.high - copied.interval.low < 0.7 * (plain.interval.high - plain.interval.low)


def test_groups_of_unequal_size_weigh_by_their_scenes() -> None:
    magnitudes = torch.linspace(0, 1, 11, dtype=torch.float64)
    slopes = torch.tensor([1.0, 2.0, 1.0, 1.1, 1.2, 1.3, 1.4]).double()
    groups = [*"aabcdef"]
    distances = slopes[:, None] * magnitudes
    found = detection_threshold(distances, magnitudes, Transduction(1.0, 1.0), groups=groups)
    draws = np.random.default_rng(0).integers(6, size=(2000, 6))
    members = [[0, 1], [2], [3], [4], [5], [6]]
    rows = [[row for group in draw for row in members[group]] for draw in draws]
    replicates = [D_T / float(slopes[drawn].mean()) for drawn in rows]
    assert min(replicates) <= found.interval.low <= np.quantile(replicates, 0.025)
    assert np.quantile(replicates, 0.975) <= found.interval.high <= max(replicates)


def test_equal_seeds_give_equal_intervals() -> None:
    magnitudes = torch.linspace(0, 1, 11)
    distances = torch.rand(8, 1, generator=torch.Generator().manual_seed(0)) * magnitudes + magnitudes
    found = [
        detection_threshold(distances, magnitudes, Transduction(1.0, 1.0), seed=seed).interval
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"levels": (0.5, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"levels": (0.0, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"levels": (math.nan, 0.4, 0.6)}, "`levels` must be positive and in order"),
        ({"groups": ["a", "b"]}, "expected one of `groups` for each of 1 scenes, got 2"),
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
    with pytest.raises(InputError, match=message):
        unwrap(detection_threshold)(**given)
