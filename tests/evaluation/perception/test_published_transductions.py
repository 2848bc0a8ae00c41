import pytest

from candlelight.evaluation.perception.detection import PUBLISHED_TRANSDUCTIONS, published_transduction
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


@pytest.mark.parametrize("metric", DISTANCES)
def test_documented_distances_within_3_percent(metric: str) -> None:
    found = [published_transduction(metric).invert(level) for level in DETECTION_LEVELS]
    assert found == pytest.approx(DISTANCES[metric], rel=0.03)


def test_each_preset_says_what_it_holds_for() -> None:
    assert list(PUBLISHED_TRANSDUCTIONS) == list(DISTANCES)
    for transduction in PUBLISHED_TRANSDUCTIONS.values():
        assert "[0, 1]" in transduction.note
        assert "TID2013" in transduction.note


def test_other_metrics_have_no_constants() -> None:
    with refused(r"`metric` must be one of: RMSE, SSIM, .*; got MS-SSIM"):
        published_transduction("MS-SSIM")
