"""Verdicts about thresholds, sensitivities and their order, beside those of people."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch

from candlelight.evaluation.perception.curve_scores import sensitivity_order, transform_sensitivity
from candlelight.evaluation.perception.people import (
    HUMAN_ORDER,
    HUMAN_THRESHOLDS,
    NOTEBOOK_SLIP,
    human_verdict,
    screen_pixels_per_degree,
)
from candlelight.evaluation.perception.transforms import PAPER_PIXELS_PER_DEGREE
from tests.refusals import refused

MAGNITUDES = torch.tensor([0.0, 1.0, 3.0])
ENERGIES = torch.tensor([[0.0, 0.1, 0.5], [0.0, 0.3, 0.7]])


def test_shifts_of_the_paper_with_and_without_its_slip() -> None:
    slipped = [NOTEBOOK_SLIP * shift / PAPER_PIXELS_PER_DEGREE for shift in range(11)]
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
    ("arguments", "verdict"),
    [
        ((3.0, 0.7), "human-like"),
        ((4.0, 0.5), "human-like"),
        ((3.0, 0.5), "more sensitive"),
        ((4.0, 0.25), "less sensitive"),
        ((3.6, 0.0), "less sensitive"),  # the paper's interval is open
        ((math.inf, math.nan), "less sensitive"),
        ((math.nan, math.nan), "not reached"),
        ((3.6, math.nan), "not reached"),
        ((math.nan, math.nan, 5.0), "less sensitive"),  # the range ends at 5, or the lower quartile is there
        ((math.nan, math.nan, 3.6), "less sensitive"),
        ((math.nan, math.nan, 3.5), "not reached"),
        ((4.0, math.nan, 3.7), "less sensitive"),  # the upper quartile is not reached
        ((4.0, math.nan, 3.5), "not reached"),
        ((3.5, 0.3, 3.7), "human-like"),
    ],
)
def test_verdicts_beside_a_threshold_of_3_6(arguments: tuple[float, ...], verdict: str) -> None:
    threshold, uncertainty, *below = arguments
    assert human_verdict(threshold, uncertainty, 3.6, *below) == verdict


def test_human_threshold_without_a_number() -> None:
    with refused("`human` must be finite, got nan; HUMAN_THRESHOLDS"):
        human_verdict(1.0, 0.1, math.nan)


@pytest.mark.parametrize(
    ("threshold", "energy"),
    [(1.0, 0.2), (0.5, 0.05), (2.0, (0.2**0.5 + 0.6**0.5) ** 2 / 4), (3.0, 0.6), (0.0, 0.0)],
)
def test_inverse_of_the_mean_energy_with_an_rmse_that_is_linear(threshold: float, energy: float) -> None:
    wanted = 1 / energy if energy else math.inf
    assert transform_sensitivity(ENERGIES, MAGNITUDES, threshold) == pytest.approx(wanted)


@pytest.mark.parametrize("threshold", [-0.1, 3.1])
def test_threshold_outside_the_magnitudes(threshold: float) -> None:
    message = f"`threshold` must lie within the magnitudes, 0 to 3, got {threshold:g}; measure larger"
    with refused(message):
        transform_sensitivity(ENERGIES, MAGNITUDES, threshold)


def test_negative_energies() -> None:
    with refused("must be at least 0, got -1"):
        transform_sensitivity(-torch.ones(1, 3), MAGNITUDES, 1.0)


def test_score_counts_pairs_and_the_order_of_people_has_all_transforms() -> None:
    for values in permutations((1.0, 2.0, 3.0, 4.0, 5.0)):
        given = dict(zip(HUMAN_ORDER, values, strict=True))
        agreeing = sum(values[i] > values[j] for i in range(5) for j in range(i + 1, 5))
        found = sensitivity_order(dict(reversed(given.items())))
        assert found.score == pytest.approx(agreeing / 10)
        assert [given[name] for name in found.order] == [5.0, 4.0, 3.0, 2.0, 1.0]
        assert found.is_human == (values == (5, 4, 3, 2, 1))
    four = sensitivity_order(dict(zip(HUMAN_ORDER[:4], (4.0, 3.0, 2.0, 1.0), strict=True)))
    assert (four.score, four.is_human) == (1, False)


def test_the_metric_of_figure_7() -> None:
    order = ("scale", "rotation", "translation", "YB", "RG")
    found = sensitivity_order({name: 5.0 - place for place, name in enumerate(order)})
    assert (found.order, found.score) == (order, 0.8)  # 2 of 10 pairs are exchanged


def test_unknown_and_equal_sensitivities() -> None:
    found = sensitivity_order({"scale": math.nan, "rotation": 0.0, "translation": 0.0, "RG": 1.0})
    assert found.unknown == ("scale",)
    assert found.order == ("RG", "translation", "rotation")
    assert found.score == pytest.approx(0.5 / 3)


@pytest.mark.parametrize("given", [{}, {"scale": 1.0, "RG": math.nan}])
def test_fewer_than_two(given: dict[str, float]) -> None:
    found = sensitivity_order(given)
    assert math.isnan(found.score)
    assert not found.is_human


def test_refused_sensitivities() -> None:
    with refused(r"`sensitivities` must be one of: scale, .*; got zoom"):
        sensitivity_order({"zoom": 1.0})
    with refused("sensitivities must be at least 0, got -1 for RG"):
        sensitivity_order({"RG": -1.0})
