import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.perception.detection import check_magnitudes, invert_curves, mean_response
from tests.refusals import refused


def _slow_inverse(curve: list[float], magnitudes: list[float], level: float) -> float:
    """Walk along the curve and interpolate in the first step that ends at the level or above."""
    if curve[0] >= level:
        return magnitudes[0]
    for place in range(1, len(curve)):
        if curve[place] >= level:
            share = (level - curve[place - 1]) / (curve[place] - curve[place - 1])
            return magnitudes[place - 1] + share * (magnitudes[place] - magnitudes[place - 1])
    return math.nan


def test_mean_by_hand() -> None:
    distances = torch.tensor([[0.0, 0.5], [0.0, 1.5], [0.0, 4.0]])
    assert mean_response(distances).tolist() == [0.0, 2.0]


def test_further_axes_are_kept() -> None:
    distances = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0))
    expected = np.zeros((4, 5))
    for scene in distances.double().numpy():
        expected += scene / 3
    np.testing.assert_allclose(mean_response(distances), expected, rtol=1e-12)


def test_rounding_below_zero_counts_as_zero() -> None:
    assert mean_response(torch.tensor([[-2e-7, 1.0]])).tolist() == [0.0, 1.0]


def test_integers_are_averaged_in_float64() -> None:
    assert mean_response(torch.tensor([[1], [2]])).tolist() == [1.5]


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (torch.zeros(0, 3), r"at least one value, got shape \[0, 3\]"),
        (torch.tensor([[0.0, torch.nan]]), "must be finite, got nan or inf; leave out scenes"),
        (torch.tensor([[0.0, torch.inf]]), "must be finite"),
        (torch.tensor([[-0.1, 0.0]]), r"at least 0, got -0.1; pass a distance"),
    ],
)
def test_refused_distances(distances: torch.Tensor, message: str) -> None:
    with refused(message):
        mean_response(distances)


def test_inverse_equals_the_walk() -> None:
    rng = np.random.default_rng(0)
    curves = rng.uniform(0, 1, (50, 7))  # neither rising nor falling
    magnitudes = np.sort(rng.uniform(-3, 3, 7))
    for level in (0.2, 0.6, 0.9, 0.99):
        expected = [_slow_inverse(curve.tolist(), magnitudes.tolist(), level) for curve in curves]
        found = invert_curves(torch.from_numpy(curves), torch.from_numpy(magnitudes), level)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert any(math.isnan(one) for one in expected)


def test_inverse_of_a_line_is_exact_and_batched() -> None:
    magnitudes = torch.tensor([1.0, 1.5, 4.0])
    found = invert_curves((2 * magnitudes).expand(2, 3, 3), magnitudes, 5.0)
    assert found.tolist() == [[2.5] * 3] * 2


def test_level_at_a_magnitude_start_and_end() -> None:
    magnitudes, curve = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.1, 0.5, 0.7], dtype=torch.float64)
    levels = (0.05, 0.1, 0.5, 0.7, 0.71)
    found = [float(invert_curves(curve, magnitudes, level)) for level in levels]
    assert found == pytest.approx([0.0, 0.0, 1.0, 2.0, math.nan], nan_ok=True)


def test_inverse_at_the_end_is_not_beyond_it() -> None:
    magnitudes = torch.tensor([0.3, 0.82], dtype=torch.float64)  # 0.3 + (0.82 - 0.3) > 0.82
    assert float(invert_curves(magnitudes, magnitudes, 0.82)) <= 0.82


def test_plateaus_and_one_magnitude() -> None:
    magnitudes = torch.tensor([0.0, 1.0, 2.0, 3.0])
    assert float(invert_curves(torch.tensor([0.0, 0.0, 1.0, 1.0]), magnitudes, 1.0)) == 2.0
    assert invert_curves(torch.tensor([[1.0], [0.0]]), torch.tensor([3.0]), 0.5).tolist() == pytest.approx(
        [3.0, math.nan], nan_ok=True
    )


@pytest.mark.parametrize("magnitudes", [[0.0, 0.0], [1.0, 0.0], [0.0, math.nan], []])
def test_refused_magnitudes(magnitudes: list[float]) -> None:
    with refused("`magnitudes` must increase strictly from the identity"):
        check_magnitudes(torch.tensor(magnitudes))


def test_unequal_lengths() -> None:
    with refused(r"`magnitudes` \[magnitudes\], got \[2, 3\], \[2\]"):
        invert_curves(torch.zeros(2, 3), torch.tensor([0.0, 1.0]), 0.5)
