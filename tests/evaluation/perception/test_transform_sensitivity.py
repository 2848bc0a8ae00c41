import math
from itertools import permutations

import pytest
import torch

from candlelight.evaluation.perception.curve_scores import sensitivity_order, transform_sensitivity
from candlelight.evaluation.perception.people import HUMAN_ORDER
from tests.refusals import refused

MAGNITUDES = torch.tensor([0.0, 1.0, 3.0])
ENERGIES = torch.tensor([[0.0, 0.1, 0.5], [0.0, 0.3, 0.7]])


@pytest.mark.parametrize(
    ("threshold", "energy"), [(1.0, 0.2), (0.5, 0.05), (2.0, (0.2**0.5 + 0.6**0.5) ** 2 / 4), (3.0, 0.6)]
)
def test_inverse_of_the_mean_energy_with_an_rmse_that_is_linear(threshold: float, energy: float) -> None:
    assert transform_sensitivity(ENERGIES, MAGNITUDES, threshold) == pytest.approx(1 / energy)


def test_pictures_by_hand() -> None:
    reference = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    shifted = reference.roll(1, 1)  # all pixels differ by 1
    energies = torch.stack([torch.zeros(()), (reference - shifted).square().mean()])[None]
    assert transform_sensitivity(energies, torch.tensor([0.0, 1.0]), 1.0) == 1.0


def test_thresholds_without_a_number() -> None:
    assert transform_sensitivity(ENERGIES, MAGNITUDES, math.inf) == 0.0
    assert math.isnan(transform_sensitivity(ENERGIES, MAGNITUDES, math.nan))
    assert transform_sensitivity(ENERGIES, MAGNITUDES, 0.0) == math.inf


@pytest.mark.parametrize("threshold", [-0.1, 3.1])
def test_threshold_outside_the_magnitudes(threshold: float) -> None:
    message = f"`threshold` must lie within the magnitudes, 0 to 3, got {threshold:g}; measure larger"
    with refused(message):
        transform_sensitivity(ENERGIES, MAGNITUDES, threshold)


def test_negative_energies() -> None:
    with refused("must be at least 0, got -1"):
        transform_sensitivity(-torch.ones(1, 3), MAGNITUDES, 1.0)


def test_score_counts_pairs() -> None:
    for values in permutations((1.0, 2.0, 3.0, 4.0)):
        given = dict(zip(HUMAN_ORDER[:4], values, strict=True))
        agreeing = sum(values[i] > values[j] for i in range(4) for j in range(i + 1, 4))
        found = sensitivity_order(dict(reversed(given.items())))
        assert found.score == pytest.approx(agreeing / 6)
        assert not found.is_human  # without the fifth
        assert [given[name] for name in found.order] == [4.0, 3.0, 2.0, 1.0]


def test_the_order_of_people_has_all_transforms() -> None:
    for values in permutations(range(1, 6)):
        found = sensitivity_order(dict(zip(HUMAN_ORDER, map(float, values), strict=True)))
        assert found.is_human == (found.score == 1) == (values == (5, 4, 3, 2, 1))


def test_the_metric_of_figure_7() -> None:
    order = ("scale", "rotation", "translation", "YB", "RG")
    found = sensitivity_order({name: 5.0 - place for place, name in enumerate(order)})
    assert found.order == order
    assert found.score == 0.8  # 2 of 10 pairs are exchanged
    assert not found.is_human


def test_unknown_and_equal_sensitivities() -> None:
    found = sensitivity_order({"scale": math.nan, "rotation": 0.0, "translation": 0.0, "RG": 1.0})
    assert found.unknown == ("scale",)
    assert found.order == ("RG", "translation", "rotation")
    assert found.score == pytest.approx(0.5 / 3)
    assert not found.is_human


@pytest.mark.parametrize("given", [{}, {"scale": 1.0}, {"scale": 1.0, "RG": math.nan}])
def test_fewer_than_two(given: dict[str, float]) -> None:
    found = sensitivity_order(given)
    assert math.isnan(found.score)
    assert not found.is_human


def test_refused_sensitivities() -> None:
    with refused(r"`sensitivities` must be one of: scale, .*; got zoom"):
        sensitivity_order({"zoom": 1.0})
    with refused("sensitivities must be at least 0, got -1 for RG"):
        sensitivity_order({"RG": -1.0})
