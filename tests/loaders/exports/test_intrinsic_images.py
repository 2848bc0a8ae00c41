"""Check equations 2, 4 and 5 of Grosse et al. 2009 on arrays made by hand."""

import numpy as np
import pytest

from candlelight.loaders.exports.intrinsic_images import (
    DARK_SHARE,
    Captures,
    difference,
    from_captures,
    from_passes,
)


def rgb(*pixels):
    """Make an image of one row."""
    return np.array([pixels], float)


def capture(lambertian, uniform, gloss=0.0):
    return Captures(original=lambertian + 2 * gloss, lambertian=lambertian, uniform=uniform)


ALBEDO = rgb((0.8, 0.2, 0.1), (0.1, 0.6, 0.3), (0.5, 0.5, 0.5))
FIRST = rgb((1, 1, 1), (0.5, 0.5, 0.5), (0, 0, 0))  # the third pixel is in shadow
SECOND = rgb((0.2, 0.2, 0.2), (0, 0, 0), (0.4, 0.4, 0.4))  # the second pixel is in shadow
GLOSS = rgb((0.3, 0.3, 0.3), (0, 0, 0), (0.05, 0.05, 0.05))


def test_a_lambertian_scene_returns_albedo_shading_and_gloss():
    first = capture(ALBEDO * FIRST, 0.5 * FIRST, GLOSS)
    made = from_captures(first, capture(ALBEDO * SECOND, 0.5 * SECOND))
    np.testing.assert_allclose(made.shading, 0.5 * FIRST[..., 0])  # equation 2
    np.testing.assert_allclose(
        made.reflectance, ALBEDO / 0.5
    )  # equation 5, also where one light is in shadow
    np.testing.assert_allclose(made.specular, GLOSS)  # equation 4
    np.testing.assert_allclose(made.diffuse, made.reflectance * made.shading[..., None])
    np.testing.assert_allclose(made.original, made.diffuse + 2 * made.specular)


def test_shading_uses_the_first_light_and_reflectance_both():
    twice = from_captures(
        capture(ALBEDO * FIRST, 0.5 * FIRST), capture(3 * ALBEDO, 0.5 * rgb(*[(1, 1, 1)] * 3))
    )
    # (I + I') / (U + U') of the first pixel: (1 + 3) a / (0.5 + 0.5).
    np.testing.assert_allclose(twice.reflectance[0, 0], 4 * ALBEDO[0, 0])
    np.testing.assert_allclose(twice.shading, 0.5 * FIRST[..., 0])


def test_reflectance_is_0_where_both_lights_are_dark():
    dark = np.array([[[1.0], [DARK_SHARE / 2], [2 * DARK_SHARE]]]) * np.ones(3)
    made = from_captures(capture(dark, dark), capture(dark, dark))
    np.testing.assert_allclose(made.reflectance[0, :, 0], [1, 0, 1])
    black = np.zeros((1, 3, 3))
    assert not from_captures(capture(black, black), capture(black, black)).reflectance.any()


def test_shading_is_the_mean_of_the_channels():
    first = capture(ALBEDO, rgb(*[(0.1, 0.2, 0.6)] * 3))
    made = from_captures(first, first)
    np.testing.assert_allclose(made.shading, 0.3)
    np.testing.assert_allclose(made.reflectance, ALBEDO / 0.3)


def test_passes_are_taken_unchanged():
    made = from_passes(ALBEDO, FIRST, GLOSS)
    np.testing.assert_array_equal(made.reflectance, ALBEDO)
    np.testing.assert_array_equal(made.shading, FIRST[..., 0])
    np.testing.assert_array_equal(made.specular, GLOSS)
    np.testing.assert_allclose(made.original, ALBEDO * FIRST + GLOSS)


def test_shading_of_a_pure_colour_is_the_mean_of_its_known_channels():
    light = rgb(*[(0.1, 0.2, 0.6)] * 3)
    red = rgb((0.8, 0.4, 0.4), (0.8, 0.4, 0), (0.8, 0, 0))
    made = from_passes(red, np.where(red > 0, light, 0), np.zeros_like(red))
    np.testing.assert_allclose(made.shading, [[0.3, 0.15, 0.1]])


@pytest.mark.parametrize(
    ("image", "truth", "expected"),
    [
        ([[1.0, 2.0]], [[10.0, 20.0]], 0.0),
        ([[1.0, 0.0]], [[0.0, 1.0]], 1.0),  # unrelated
        ([[0.0, 0.0]], [[1.0, 1.0]], 1.0),  # zeros explain nothing
        (
            [[1.0, 1.0]],
            [[1.0, 3.0]],
            np.sqrt(2 / 10),
        ),  # the best scale is 2, with an error of 1 at both pixels
        ([[1.0, 1.0]], [[0.0, 0.0]], 0.0),  # equal, with the scale 0
    ],
)
def test_difference_in_closed_form(image, truth, expected):
    image, truth = np.array(image), np.array(truth)
    np.testing.assert_allclose(difference(image, truth, np.ones((1, 2), bool)), expected, atol=1e-12)


def test_difference_reads_nothing_outside_the_mask():
    image, truth = np.array([[1.0, np.nan]]), np.array([[2.0, np.inf]])
    assert difference(image, truth, np.array([[True, False]])) == 0
