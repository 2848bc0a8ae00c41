import numpy as np
import pytest
from scipy import ndimage

from candlelight.loaders.image_gradients import gradient_magnitude, window_maximum


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 3), (13, 9), (40, 31)])
def test_gradients_equal_those_of_scipy(shape):
    image = np.random.default_rng(0).normal(size=shape)
    wanted = np.hypot(ndimage.sobel(image, axis=1), ndimage.sobel(image, axis=0))
    np.testing.assert_array_equal(gradient_magnitude(image), wanted)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 11, 16])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 4), (13, 9), (40, 31)])
def test_maxima_equal_those_of_scipy(shape, size):
    image = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_array_equal(window_maximum(image, size), ndimage.maximum_filter(image, size=size))


def test_window_of_even_size_reaches_further_up_and_left():
    image = np.zeros((30, 30))
    image[15, 15] = 1
    rows, columns = window_maximum(image, 10).nonzero()
    # Windows are [-5, +4] around a pixel, so the value shows from 4 before it to 5 after it.
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (11, 20, 11, 20)


def test_gradient_of_a_slope_is_eight_times_its_change():
    image = np.arange(6.0) * np.ones((5, 1))
    assert (gradient_magnitude(image)[:, 1:-1] == 8).all()
    assert (gradient_magnitude(3 * image.T)[1:-1] == 24).all()
