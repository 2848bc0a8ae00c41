"""Alignment, resizing, normals and depth against numpy's least squares, medians and plain loops."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d

from candlelight.evaluation.intrinsic.alignment import align, in_space, resize, resize_masked, weighted_median
from candlelight.evaluation.intrinsic.image_errors import mae
from candlelight.evaluation.intrinsic.layer_scores import NEAREST, depth_errors, normal_errors
from candlelight.loaders.colour import linear_to_srgb
from tests.evaluation.intrinsic.references import drawn
from tests.refusals import refused

GIVEN, TRUE = drawn(0, 2, 3, 9, 11), 0.1 + drawn(1, 2, 3, 9, 11)
MASKS = {"hard": drawn(2, 2, 9, 11) > 0.3, "soft": drawn(3, 2, 9, 11) * (drawn(4, 2, 9, 11) > 0.3)}


def by_lstsq(given: np.ndarray, true: np.ndarray, weights: np.ndarray, shift: bool = False) -> np.ndarray:
    """Fit all values of an array [channels, height, width] at once."""
    columns = [given.ravel(), *([np.ones(given.size)] if shift else [])]
    roots = np.sqrt(np.broadcast_to(weights, given.shape).ravel())
    found = np.linalg.lstsq(np.stack(columns, 1) * roots[:, None], true.ravel() * roots, rcond=None)[0]
    return found[0] * given + (found[1] if shift else 0)


def by_median(given: np.ndarray, true: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Repeat each value as often as its weight of tenths says, and take numpy's median."""
    counts = np.broadcast_to(np.rint(10 * weights).astype(int), given.shape).ravel()
    medians = [np.median(np.repeat(values.ravel(), counts)) for values in (true, given)]
    return medians[0] / medians[1] * given


def by_channel(given: np.ndarray, true: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [by_lstsq(*pair, weights) for pair in zip(given[:, None], true[:, None], strict=True)]
    )


ALIGNED = {
    "none": lambda given, true, weights: given,
    "scale": by_lstsq,
    "per-channel": by_channel,
    "scale-shift": partial(by_lstsq, shift=True),
    "median": by_median,
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("how", ALIGNED)
def test_alignment_is_that_of_least_squares_and_of_medians(how: str, kind: str) -> None:
    mask = (MASKS[kind] * 10).round() / 10 if how == "median" and kind == "soft" else MASKS[kind]
    given = GIVEN.masked_fill(mask[:, None] == 0, torch.nan)  # is never read
    found = align(given, TRUE, mask, how).numpy()
    for row in range(2):
        one, other, weights = (values[row].double().numpy() for values in (GIVEN, TRUE, mask))
        inside = np.broadcast_to(weights > 0, one.shape)
        expected = ALIGNED[how](one, other, weights)
        np.testing.assert_allclose(found[row][inside], expected[inside], rtol=1e-9)


@pytest.mark.parametrize("how", ["scale", "per-channel", "scale-shift", "median"])
def test_a_constant_prediction_and_an_empty_mask(how: str) -> None:
    zeros, everywhere = torch.zeros(1, 1, 1, 3), torch.ones(1, 1, 3)
    target = torch.tensor([1.0, 2.0, 6.0]).reshape(1, 1, 1, 3)
    expected = 3.0 if how == "scale-shift" else 0.0
    assert align(zeros, target, everywhere, how).flatten().tolist() == [expected] * 3
    assert align(target, target, everywhere, how).flatten().tolist() == [1, 2, 6]
    assert mae(align(target, target, 0 * everywhere, how), target.double(), 0 * everywhere).isnan().all()


def test_a_prediction_of_median_zero_keeps_its_scale() -> None:
    residual, everywhere = torch.tensor([0.0, 0.0, 6.0]).reshape(1, 1, 1, 3), torch.ones(1, 1, 3)
    for target in (residual, residual + 1):
        assert align(residual, target, everywhere, "median").flatten().tolist() == [0, 0, 6]


def test_medians_of_even_and_odd_numbers() -> None:
    for count in (1, 4, 5):
        values = drawn(count, 3, count)
        found = weighted_median(values, torch.ones(3, count))
        np.testing.assert_array_equal(found.numpy(), np.median(values.numpy(), 1))


def test_spaces() -> None:
    values = torch.tensor([-0.5, 0.001, 0.5, 2.0], dtype=torch.float64)
    assert torch.equal(in_space(values, "linear"), values)
    np.testing.assert_allclose(in_space(values, "srgb"), linear_to_srgb(values.numpy()))
    np.testing.assert_allclose(in_space(values, "gamma2.2"), [0, 0.001 ** (1 / 2.2), 0.5 ** (1 / 2.2), 1])


def test_area_is_the_mean_of_covered_pixels_and_keeps_the_mean() -> None:
    values = drawn(5, 2, 3, 8, 12)
    torch.testing.assert_close(resize(values, (4, 4), "area"), avg_pool2d(values, (2, 3)))
    for how in ("area", "bilinear"):
        assert resize(values, (8, 12), how) is values
        for size in ((5, 7), (11, 30)):
            assert resize(values, size, how).shape[2:] == size
            torch.testing.assert_close(
                resize(0 * values + 0.3, size, how), torch.full((2, 3, *size), 0.3).double()
            )
    repeated = values.repeat_interleave(5, 2).repeat_interleave(7, 3)  # 5 x 7 pixels of 8 x 12 each
    torch.testing.assert_close(resize(values, (5, 7), "area"), avg_pool2d(repeated, (8, 12)))


@pytest.mark.parametrize("how", ["area", "bilinear"])
def test_what_is_outside_the_mask_does_not_leak_in_when_resized(how: str) -> None:
    mask = MASKS["soft"]
    values = torch.full((2, 3, 9, 11), 0.7).double().masked_fill(mask[:, None] == 0, torch.nan)
    found, weights = resize_masked(values, mask, (4, 5), how)
    torch.testing.assert_close(
        found[weights[:, None].expand_as(found) > 0].unique().mean(), torch.tensor(0.7).double()
    )
    assert found.isfinite().all()
    torch.testing.assert_close(weights, resize(mask[:, None], (4, 5), how)[:, 0])


@pytest.mark.parametrize("kind", MASKS)
def test_normals_by_a_plain_loop(kind: str) -> None:
    given, true, mask = GIVEN - 0.5, TRUE - 0.5, MASKS[kind]
    given[0, :, 0, 0] = 0
    found = normal_errors(given, true, mask)
    for row in range(2):
        angles, weights = [], []
        for y, x in np.argwhere(mask[row].numpy() > 0):
            p, t = given[row, :, y, x].numpy(), true[row, :, y, x].numpy()
            length = np.linalg.norm(p) * np.linalg.norm(t)
            angles.append(math.degrees(math.acos(np.clip(p @ t / length, -1, 1))) if length else 90.0)
            weights.append(float(mask[row, y, x]))
        assert float(found.mean_angle[row]) == pytest.approx(np.average(angles, weights=weights), rel=1e-6)
        for name, limit in (("within_11_25", 11.25), ("within_22_5", 22.5), ("within_30", 30)):
            share = np.average(np.less(angles, limit), weights=weights)
            assert float(getattr(found, name)[row]) == pytest.approx(share, abs=1e-9)
        if kind == "hard":
            assert float(found.median_angle[row]) == pytest.approx(np.median(angles), rel=1e-6)
    assert torch.equal(found.score, found.mean_angle)


def test_normals_that_are_equal_or_opposite() -> None:
    mask = torch.ones(2, 9, 11)
    same, opposite = normal_errors(3 * TRUE, TRUE, mask), normal_errors(-TRUE, TRUE, mask)
    assert float(same.mean_angle.max()) < 1e-6
    assert same.within_11_25.tolist() == [1, 1]
    assert opposite.median_angle.tolist() == [180, 180]


@pytest.mark.parametrize("kind", MASKS)
def test_depth_by_a_plain_loop(kind: str) -> None:
    given, true, mask = GIVEN[:, :1] - 0.05, TRUE[:, :1], MASKS[kind]
    found = depth_errors(given, true, mask)
    for row in range(2):
        here = mask[row].numpy() > 0
        p, t, w = given[row, 0].numpy()[here], true[row, 0].numpy()[here], mask[row].double().numpy()[here]
        near = [one > 0 and max(one / other, other / one) < 1.25 for one, other in zip(p, t, strict=True)]
        d = np.log(np.maximum(p, NEAREST)) - np.log(t)
        spread = math.sqrt(np.average(d**2, weights=w) - np.average(d, weights=w) ** 2)
        assert float(found.abs_rel[row]) == pytest.approx(np.average(abs(p - t) / t, weights=w), rel=1e-6)
        assert float(found.delta_1_25[row]) == pytest.approx(np.average(near, weights=w), abs=1e-9)
        assert float(found.si_log[row]) == pytest.approx(spread, rel=1e-6)
    assert depth_errors(given, -true, mask).score.isnan().all()


def test_faults_are_named() -> None:
    everywhere = torch.ones(2, 9, 11)
    for message, call in {
        "`how` must be one of: none, scale, per-channel": lambda: align(GIVEN, TRUE, everywhere, "skale"),
        "`how` must be one of: bilinear, area": lambda: resize(GIVEN, (3, 3), "cubic"),
        "`space` must be one of: linear, srgb": lambda: in_space(GIVEN, "rgb"),
        r"`target` \[batch, 1, height, width\], .*, got": lambda: depth_errors(
            GIVEN[:, :1], TRUE, everywhere
        ),
        r"`mask` must lie from 0 to 1": lambda: normal_errors(GIVEN, TRUE, 255 * everywhere),
    }.items():
        with refused(message):
            call()
