import math

import numpy as np
import pytest

from candlelight.evaluation.perception.people import (
    HUMAN_THRESHOLDS,
    NOTEBOOK_SLIP,
    human_verdict,
    screen_pixels_per_degree,
)
from candlelight.evaluation.perception.transforms import PAPER_PIXELS_PER_DEGREE
from tests.refusals import refused


def test_shifts_of_the_paper_with_and_without_its_slip() -> None:
    shifts = range(11)
    plain = [shift / PAPER_PIXELS_PER_DEGREE for shift in shifts]
    slipped = [NOTEBOOK_SLIP * shift for shift in plain]
    assert slipped == pytest.approx(np.linspace(0, 11, 11) / 29.2)


def test_pixels_per_degree_of_a_screen() -> None:
    # A pixel that is as wide as the screen is far appears at 2 atan(1/2).
    assert 1 / screen_pixels_per_degree(1.0, 1.0) == pytest.approx(math.degrees(2 * math.atan(0.5)))


@pytest.mark.parametrize(
    ("transform", "threshold", "uncertainty"),
    [("translation", 0.0299, 0.0037), ("rotation", 0.142, 0.065), ("scale", 1.0094, 0.0034)],
)
def test_rmse_on_the_papers_picture_is_more_sensitive(
    transform: str, threshold: float, uncertainty: float
) -> None:
    assert human_verdict(threshold, uncertainty, HUMAN_THRESHOLDS[transform]) == "more sensitive"


@pytest.mark.parametrize(
    ("threshold", "uncertainty", "verdict"),
    [
        (3.0, 0.7, "human-like"),
        (4.0, 0.5, "human-like"),
        (3.5, 0.0, "more sensitive"),
        (3.0, 0.5, "more sensitive"),
        (4.0, 0.25, "less sensitive"),
        (3.6, 0.0, "less sensitive"),  # the paper's interval is open
        (math.inf, math.nan, "less sensitive"),
        (math.nan, math.nan, "not reached"),
        (3.6, math.nan, "not reached"),
    ],
)
def test_verdicts(threshold: float, uncertainty: float, verdict: str) -> None:
    assert human_verdict(threshold, uncertainty, 3.6) == verdict


@pytest.mark.parametrize(
    ("threshold", "uncertainty", "below", "verdict"),
    [
        (math.nan, math.nan, 5.0, "less sensitive"),  # the range ends at 5, or the lower quartile is there
        (math.nan, math.nan, 3.6, "less sensitive"),
        (math.nan, math.nan, 3.5, "not reached"),
        (4.0, math.nan, 3.7, "less sensitive"),  # the upper quartile is not reached
        (4.0, math.nan, 3.5, "not reached"),
        (3.5, 0.3, 3.7, "human-like"),
    ],
)
def test_verdicts_beyond_the_range(threshold: float, uncertainty: float, below: float, verdict: str) -> None:
    assert human_verdict(threshold, uncertainty, 3.6, below) == verdict


def test_human_threshold_without_a_number() -> None:
    with refused("`human` must be finite, got nan; HUMAN_THRESHOLDS"):
        human_verdict(1.0, 0.1, math.nan)
