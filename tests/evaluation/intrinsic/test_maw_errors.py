from inspect import unwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from candlelight.evaluation.intrinsic.image_errors import ciede2000, linear_to_lab
from candlelight.evaluation.intrinsic.material_albedo import (
    DENOMINATOR_FLOOR,
    maw_chromaticity,
    maw_intensity,
)
from candlelight.loaders.errors import InputError

METRICS = [maw_intensity, maw_chromaticity]


def drawn(seed: int, batch: int = 3, regions: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    shape = batch, regions
    given, true = (torch.from_numpy(rng.uniform(0.05, 0.9, (*shape, 3))) for _ in range(2))
    return given, true, torch.from_numpy(rng.integers(1, 900, shape).astype(float))


def slow_intensity(prediction, target, weights):
    above = below = 0.0
    for p, t, w in zip(prediction, target, weights, strict=True):
        above += w * np.mean(p) * np.mean(t)
        below += w * np.mean(p) ** 2
    scale = above / max(below, 1e-6)
    errors = [
        w * (scale * np.mean(p) - np.mean(t)) ** 2
        for p, t, w in zip(prediction, target, weights, strict=True)
    ]
    return sum(errors) / sum(weights)


def slow_chromaticity(prediction, target, weights):
    total = 0.0
    for p, t, w in zip(prediction, target, weights, strict=True):
        scale = np.mean(p) * np.mean(t) / max(np.mean(p) ** 2, 1e-6)
        labs = [linear_to_lab(torch.from_numpy(np.clip(one, 0, 1))) for one in (scale * p, t)]
        total += w * ciede2000(*labs).item()
    return total / sum(weights)


@pytest.mark.parametrize(
    ("metric", "slow"), [(maw_intensity, slow_intensity), (maw_chromaticity, slow_chromaticity)]
)
def test_equals_a_loop_over_regions(metric, slow):
    given = drawn(0)
    given[2][1, 2:] = 0
    expected = [slow(*(one[row].numpy() for one in given)) for row in range(3)]
    np.testing.assert_allclose(metric(*given), expected, rtol=1e-12)


def test_two_regions_by_hand():
    prediction = torch.tensor([[[1.0] * 3, [1.0] * 3]])
    target = torch.tensor([[[0.2] * 3, [0.6] * 3]])
    # One scale for equal predictions: the weighted mean 0.5, off by 0.3 and 0.1.
    found = maw_intensity(prediction, target, torch.tensor([[1.0, 3.0]]))
    assert found.item() == pytest.approx((0.3**2 + 3 * 0.1**2) / 4)
    # A scale for each region makes both right.
    assert maw_chromaticity(prediction, target, torch.tensor([[1.0, 3.0]])).item() == pytest.approx(
        0, abs=1e-4
    )


@pytest.mark.parametrize("metric", METRICS)
@given(seed=st.integers(0, 99), scale=st.floats(0.05, 20))
@settings(max_examples=20, deadline=None)
def test_truth_in_any_scale_is_perfect_and_scale_does_not_count(metric, seed, scale):
    prediction, target, weights = drawn(seed)
    assert metric(scale * target, target, weights).max() < 1e-6
    torch.testing.assert_close(
        metric(scale * prediction, target, weights), metric(prediction, target, weights)
    )
    torch.testing.assert_close(metric(prediction, target, 7 * weights), metric(prediction, target, weights))


def test_zero_prediction_has_the_largest_error_of_intensity():
    prediction, target, weights = drawn(1)
    zero = maw_intensity(0 * prediction, target, weights)
    expected = (weights * target.mean(2) ** 2).sum(1) / weights.sum(1)
    torch.testing.assert_close(zero, expected)
    assert (maw_intensity(prediction, target, weights) < zero).all()


def test_denominators_are_clipped():
    level = DENOMINATOR_FLOOR**0.5
    target = torch.full((1, 1, 3), 0.5)
    below, above = (
        maw_intensity(torch.full((1, 1, 3), factor * level), target, torch.ones(1, 1)).item()
        for factor in (0.5, 2)
    )
    assert below == pytest.approx((0.5 * 0.25 - 0.5) ** 2)
    assert above == pytest.approx(0, abs=1e-9)


def test_colours_outside_the_unit_cube_are_clipped():
    red = torch.tensor([[[2.0, 0.0, 0.0]]])  # scaled by 0.45 to (0.9, 0, 0) for the mean of the truth
    target = torch.tensor([[[0.3, 0.3, 0.3]]])
    found = maw_chromaticity(red, 2 * target, torch.ones(1, 1))  # scaled to (1.8, 0, 0)
    expected = ciede2000(
        linear_to_lab(torch.tensor([1.0, 0, 0])), linear_to_lab(torch.tensor([0.6, 0.6, 0.6]))
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_values_of_regions_without_weight_are_never_read(metric, place, bad):
    given = list(drawn(2))
    given[2][0, 1] = 0
    plain = metric(*given)
    given[place] = given[place].clone()
    given[place][0, 1] = bad
    torch.testing.assert_close(metric(*given), plain)
    given[place][1, 1, 2] = bad
    assert metric(*given).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("metric", METRICS)
def test_images_without_regions_are_undefined(metric):
    given = drawn(3)
    given[2][1] = 0
    assert metric(*given).isnan().tolist() == [False, True, False]
    assert metric(*(one[:, :0] for one in given)).isnan().all()
    assert metric(*(one[:0] for one in given)).shape == (0,)


@pytest.mark.parametrize("metric", METRICS)
def test_dtypes_and_messages(metric):
    prediction, target, weights = drawn(4)
    assert metric(prediction.half(), target, weights).dtype == torch.float32
    assert metric(prediction, target, weights).dtype == torch.float64
    with pytest.raises(InputError, match=r"`weights` must be numbers of pixels, >= 0 and finite, got -1 to"):
        metric(prediction, target, weights.clone().index_fill_(1, torch.tensor([0]), -1))
    with pytest.raises(InputError, match=r"expected `prediction` \[batch, regions, 3\], `target`"):
        unwrap(metric)(prediction[:, :2], target, weights)
