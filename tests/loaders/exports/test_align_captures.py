import numpy as np
import pytest

from candlelight.loaders.exports.align_captures import find_shift, shift_image
from candlelight.loaders.exports.intrinsic_images import Captures, from_captures
from tests.refusals import refused

ROWS, COLUMNS = np.mgrid[:48, :41]


def scene(down: float = 0.0, right: float = 0.0) -> np.ndarray:
    """Sum smooth blobs at exact places, so that a shifted scene is known without resampling."""
    places = np.random.default_rng(0).uniform(12, 29, (12, 2))
    blobs = [np.exp(-((ROWS - y - down) ** 2 + (COLUMNS - x - right) ** 2) / 8) for y, x in places]
    return np.sum([(1 + n % 3) * blob for n, blob in enumerate(blobs)], 0)


@pytest.mark.parametrize("shift", [(0.0, 0.0), (0.3, -0.7), (2.5, 1.25), (-3.0, 2.0)])
def test_shift_equals_the_scene_at_the_other_place(shift: tuple[float, float]) -> None:
    np.testing.assert_allclose(shift_image(scene(), shift), scene(*shift), atol=2e-3)


def test_whole_shifts_roll_the_image_and_channels_move_together() -> None:
    image = np.random.default_rng(1).uniform(size=(6, 7, 3))
    np.testing.assert_allclose(shift_image(image, (2.0, -1.0)), np.roll(image, (2, -1), (0, 1)), atol=1e-12)


@pytest.mark.parametrize("size", [(8, 8), (7, 8), (7, 9)])
def test_a_shift_back_restores_the_image_below_nyquist(size: tuple[int, int]) -> None:
    image = np.random.default_rng(2).uniform(size=size)
    spectrum = np.fft.fft2(image)
    spectrum[size[0] // 2 : size[0] // 2 + 1 - size[0] % 2] = 0
    spectrum[:, size[1] // 2 : size[1] // 2 + 1 - size[1] % 2] = 0
    smooth = np.fft.ifft2(spectrum).real
    np.testing.assert_allclose(shift_image(shift_image(smooth, (0.4, 0.6)), (-0.4, -0.6)), smooth, atol=1e-12)


@pytest.mark.parametrize("shift", [(0.0, 0.0), (0.35, -0.6), (4.0, -2.5)])
def test_shift_is_found_under_another_light(shift: tuple[float, float]) -> None:
    shaded = scene() * (0.6 + 0.4 * COLUMNS / 41)
    found, correlation = find_shift(shaded, 3.0 * scene(*shift) * (1.0 - 0.3 * ROWS / 48))
    np.testing.assert_allclose(found, shift, atol=0.1)
    assert 0.9 < correlation < 1
    np.testing.assert_allclose(find_shift(scene(), scene(*shift))[0], shift, atol=2e-3)


@pytest.mark.parametrize("size", [(48, 41), (47, 40)])
def test_correlation_tells_the_same_scene_from_unrelated_images(size: tuple[int, int]) -> None:
    image, other = np.random.default_rng(3).uniform(size=(2, *size))
    assert find_shift(image, 2.0 * np.roll(image, 5, 0) + 1)[1] == pytest.approx(1)
    shift, correlation = find_shift(image, other)
    moved = shift_image(image, shift)
    wanted = [
        np.corrcoef(*(np.ravel(values - np.roll(values, 1, axis)) for values in (moved, other)))[0, 1]
        for axis in (0, 1)
    ]
    assert correlation == pytest.approx(np.mean(wanted), abs=0.02)
    assert correlation < 0.2


def test_aligned_captures_give_the_reflectance_of_equation_5() -> None:
    albedo = np.repeat(0.2 + 0.1 * scene()[..., None], 3, 2)
    lights = [0.5 + COLUMNS[..., None] / 82, 1.0 - ROWS[..., None] / 96]
    pairs = [(albedo * light, np.ones_like(albedo) * 0.4 * light) for light in lights]
    moved = shift_image(pairs[1][0], (0.4, -0.3))
    errors = {}
    for name, second in (("moved", moved), ("aligned", shift_image(moved, (-0.4, 0.3)))):
        captures = [Captures(paint, paint, uniform) for paint, uniform in (pairs[0], (second, pairs[1][1]))]
        found = from_captures(*captures).reflectance[4:-4, 4:-4] * 0.4
        errors[name] = np.abs(found - albedo[4:-4, 4:-4]).max()
    assert errors["aligned"] < 1e-3 < 5e-3 < errors["moved"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_shift(np.ones((3, 4)), np.ones((4, 3))), "expected images of one shape, got"),
        (
            lambda: find_shift(np.ones((3, 4, 3)), np.ones((3, 4, 3))),
            r"expected images \[height, width\], got \[3, 4, 3\]; average",
        ),
        (lambda: find_shift(np.ones((3, 4)), np.ones((3, 4))), "got a constant image"),
        (lambda: find_shift(np.full((3, 4), np.nan), np.eye(4)[:3]), "got nan or infinity"),
        (
            lambda: shift_image(np.ones((3, 4)), (np.nan, 0.0)),
            "`shift` must be two finite numbers of pixels, got",
        ),
        (lambda: shift_image(np.ones((3, 4)), 1.0), "`shift` must be two finite numbers of pixels, got 1"),
    ],
)
def test_wrong_images_and_shifts_are_refused(call, message):
    with refused(message):
        call()
