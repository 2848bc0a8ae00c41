"""Gradients of the log image: thresholds, decompositions, and the gradients of training images."""

import numpy as np
import pytest
import torch
from numpy import ndarray

from candlelight.evaluation.models.gradients import (
    FLOOR,
    Gradients,
    backward_differences,
    decompose_by_gradients,
    differences,
    draw_places,
    extend,
    gray_of_raised,
    inside_pairs,
    keep_strong,
    keep_strong_or_coloured,
    plain_gray,
    raised_gray,
    split_colour,
    true_gradients,
)
from candlelight.evaluation.views import DecomposedImage
from tests.refusals import refused

IMAGE = np.random.default_rng(0).uniform(0.0, 1.0, (3, 5, 6))


def random_mask(seed: int, *shape: int) -> ndarray:
    return np.random.default_rng(seed).random(shape) < 0.6


def slow_colour_retinex(image: ndarray, brightness: float, chroma: float) -> tuple[ndarray, ndarray]:
    """Decide pixel by pixel, from the text of section 4.3.1."""
    raised = np.maximum(image, FLOOR)
    down, right = np.zeros(image.shape[1:]), np.zeros(image.shape[1:])
    for kept, (dy, dx) in ((down, (1, 0)), (right, (0, 1))):
        for y in range(dy, image.shape[1]):
            for x in range(dx, image.shape[2]):
                here, before = raised[:, y, x], raised[:, y - dy, x - dx]
                step = np.log(here) - np.log(before)
                is_strong = abs(step.mean()) > brightness
                is_coloured = np.linalg.norm(step - step.mean()) > chroma
                if is_strong or is_coloured:
                    kept[y, x] = np.log(here.mean()) - np.log(before.mean())
    return down, right


@pytest.mark.parametrize(("brightness", "chroma"), [(0.3, 0.9), (9.0, 0.5), (0.2, 9.0)])
def test_colour_retinex_equals_a_loop(brightness: float, chroma: float) -> None:
    found = keep_strong_or_coloured(split_colour(IMAGE), brightness, chroma)
    np.testing.assert_allclose(found, slow_colour_retinex(IMAGE, brightness, chroma), atol=1e-12)


def test_thresholds_are_strict() -> None:
    gradients = Gradients(np.array([[0.5, -0.5, 0.6]]), np.array([[0.5, -0.7, 0.0]]))
    kept = keep_strong(gradients, 0.5)
    assert (kept.down.tolist(), kept.right.tolist()) == ([[0.0, 0.0, 0.6]], [[0.0, -0.7, 0.0]])


def test_dark_pixels_are_raised_before_or_after_the_mean_or_not_at_all() -> None:
    pixels = np.array([[[0.3]], [[0.003]], [[-0.003]]])
    assert raised_gray(pixels).item() == pytest.approx(0.1)
    assert gray_of_raised(pixels).item() == pytest.approx((0.3 + 2 * FLOOR) / 3)
    assert raised_gray(pixels / 100).item() == gray_of_raised(pixels / 100).item() == pytest.approx(FLOOR)
    assert plain_gray(pixels / 100).item() == pytest.approx(0.001)
    assert plain_gray(-pixels).item() == 0
    assert np.isfinite(split_colour(np.zeros((3, 2, 2))).gray).all()


# -------------------------------------------------------------------------------------- decompositions


def halves(row: int, pixels: ndarray, mask: ndarray) -> Gradients:
    gradients = backward_differences(np.log(gray_of_raised(pixels)))
    return Gradients(gradients.down / 2, gradients.right / 2)


def test_half_of_all_gradients_gives_the_square_root() -> None:
    image = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 1, (2, 1, 5, 6))).expand(2, 3, 5, 6)
    reflectance, shading = decompose_by_gradients(image, None, halves)
    root = image.sqrt() / image.amax((1, 2, 3), keepdim=True).sqrt()
    torch.testing.assert_close(reflectance, root)
    torch.testing.assert_close(reflectance * shading, image)


def test_infinite_pixels_matter_inside_the_mask_alone() -> None:
    image = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)) + 0.05
    mask = torch.ones(2, 4, 5, dtype=torch.bool)
    mask[:, 0] = False
    wanted = decompose_by_gradients(image, mask, halves)
    changed = image.clone()
    changed[1, :, 0] = changed[0, 1, 2, 3] = torch.inf
    for part, whole in zip(decompose_by_gradients(changed, mask, halves), wanted, strict=True):
        assert torch.equal(part[1], whole[1])
        assert part[0, :, 1:].isnan().all()
        assert (part[0, :, 0] == 0).all()


# ------------------------------------------------------------------------------------- training images


def test_pairs_and_differences_equal_loops() -> None:
    values, mask = np.random.default_rng(0).normal(size=(4, 5)), random_mask(0, 4, 5)
    found, pairs = differences(values), inside_pairs(mask)
    for axis, y, x in np.ndindex(2, 4, 5):
        before = (y - 1, x) if axis == 0 else (y, x - 1)
        exists = min(before) >= 0
        assert found[axis, y, x] == (values[y, x] - values[before] if exists else 0)
        assert pairs[axis, y, x] == (exists and mask[y, x] and mask[before])


def test_background_has_the_nearest_value() -> None:
    values, mask = np.random.default_rng(0).normal(size=(6, 7)), random_mask(0, 6, 7)
    found = extend(np.where(mask, values, np.nan), mask)
    places = np.argwhere(mask)
    for place in np.ndindex(6, 7):
        distances = ((places - place) ** 2).sum(1)
        assert found[place] in values[tuple(places[distances == distances.min()].T)]


def example(mask: torch.Tensor, **layers: torch.Tensor) -> DecomposedImage:
    ramp = torch.linspace(0.1, 0.9, 12).reshape(1, 3, 4)
    given = {"image": ramp.expand(3, 3, 4), "reflectance": torch.ones(3, 3, 4), "shading": ramp, **layers}
    return DecomposedImage(mask=mask, **given)


FULL, EMPTY, ONE = torch.ones(3, 4).bool(), torch.zeros(3, 4).bool(), torch.arange(12).reshape(3, 4) == 5


def test_true_gradients_are_those_of_the_channel_means_of_images_with_pairs() -> None:
    reflectance, shading = torch.rand(2, 3, 3, 4, generator=torch.Generator().manual_seed(0)) + 0.1
    images = [example(EMPTY), example(FULL, reflectance=reflectance, shading=shading), example(ONE)]
    [found] = true_gradients(images)
    for part, layer in ((found.reflectance, reflectance), (found.shading, shading)):
        gray = layer.double().mean(0).log()
        np.testing.assert_allclose(part[0, 1:], gray.diff(dim=0), rtol=1e-12)
        np.testing.assert_allclose(part[1, :, 1:], gray.diff(dim=1), rtol=1e-12)


HOLED = torch.where(torch.arange(12).reshape(3, 4) == 0, torch.nan, torch.ones(3, 3, 4))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], r"must have one with edges or shading .* got 0 without; pass more"),
        ([example(EMPTY), example(ONE), example(FULL, shading=torch.ones(1, 3, 4))], "got 3 without"),
        ([example(FULL), example(FULL, reflectance=HOLED)], "must be finite inside .* other values in row 1"),
    ],
)
def test_images_to_learn_nothing_from(images: list[DecomposedImage], message: str) -> None:
    with refused(message):
        true_gradients(images)


def test_values_outside_the_mask_need_not_be_finite() -> None:
    [found] = true_gradients([example(HOLED[0].isfinite(), reflectance=HOLED)])
    assert np.isfinite(found.reflectance).all()


def test_drawn_places_are_distinct_and_true() -> None:
    choices = random_mask(0, 2, 8, 9)
    drawn = draw_places(choices, 20, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 20
    assert choices.ravel()[drawn].all()
    assert draw_places(np.zeros((2, 3), bool), 20, np.random.default_rng(0)).size == 0
