import numpy as np
import pytest
from numpy import ndarray

from candlelight.evaluation.models.gradients import (
    FLOOR,
    Gradients,
    backward_differences,
    gray_of_raised,
    keep_strong,
    keep_strong_or_coloured,
    median_over_lights,
    plain_gray,
    raised_gray,
    split_colour,
)

RNG = np.random.default_rng(0)
IMAGE = RNG.uniform(0.0, 1.0, (3, 5, 6))


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


@pytest.mark.parametrize(
    ("brightness", "chroma"), [(0.3, 0.9), (9.0, 0.5), (0.2, 9.0), (9.0, 9.0), (0.0, 0.0)]
)
def test_colour_retinex_equals_a_loop(brightness: float, chroma: float) -> None:
    found = keep_strong_or_coloured(split_colour(IMAGE), brightness, chroma)
    for part, wanted in zip(found, slow_colour_retinex(IMAGE, brightness, chroma), strict=True):
        np.testing.assert_allclose(part, wanted, atol=1e-12)


def test_first_row_and_column_are_zero() -> None:
    down, right = backward_differences(IMAGE[0] + 5)
    assert (down[0] == 0).all()
    assert (right[:, 0] == 0).all()


def test_thresholds_are_strict() -> None:
    gradients = Gradients(np.array([[0.5, -0.5, 0.6]]), np.array([[0.5, -0.7, 0.0]]))
    kept = keep_strong(gradients, 0.5)
    assert kept.down.tolist() == [[0.0, 0.0, 0.6]]
    assert kept.right.tolist() == [[0.0, -0.7, 0.0]]


def test_gray_images_have_no_chroma() -> None:
    gray = np.repeat(IMAGE[:1], 3, 0)
    split = split_colour(gray)
    assert max(part.max() for part in split.chroma) < 1e-12
    for part, wanted in zip(split.gray, split.brightness, strict=True):
        np.testing.assert_allclose(part, wanted, atol=1e-12)


def test_dark_pixels_are_raised_before_or_after_the_mean_or_not_at_all() -> None:
    pixels = np.array([[[0.3]], [[0.003]], [[-0.003]]])
    assert raised_gray(pixels).item() == pytest.approx(0.1)
    assert gray_of_raised(pixels).item() == pytest.approx((0.3 + 2 * FLOOR) / 3)
    assert raised_gray(pixels / 100).item() == gray_of_raised(pixels / 100).item() == pytest.approx(FLOOR)
    assert plain_gray(pixels / 100).item() == pytest.approx(0.001)
    assert plain_gray(-pixels).item() == 0
    assert np.isfinite(np.concatenate([*split_colour(np.zeros((3, 2, 2))).gray])).all()


def test_a_shadow_under_few_lights_is_left_out() -> None:
    albedo = np.where(np.arange(6) < 3, 0.2, 0.8) * np.ones((3, 5, 1))
    lights = np.stack([albedo] * 5)
    lights[0, :, 2:] *= 0.3  # a shadow in one of five
    lights[1, :, :, :2] *= 0.5
    expected = backward_differences(np.log(albedo.mean(0)))
    for part, wanted in zip(median_over_lights(lights), expected, strict=True):
        np.testing.assert_allclose(part, wanted, atol=1e-12)


def test_the_median_of_two_lights_is_their_mean() -> None:
    lights = RNG.uniform(0.1, 1.0, (2, 3, 4, 4))
    one, other = (backward_differences(np.log(light.mean(0))) for light in lights)
    np.testing.assert_allclose(median_over_lights(lights).down, (one.down + other.down) / 2, atol=1e-12)
