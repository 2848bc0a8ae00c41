import numpy as np
import pytest
from scipy import ndimage

from candlelight.loaders.image_gradients import gradient_magnitude, window_maximum


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 3), (13, 9), (40, 31)])
def test_gradients_equal_those_of_scipy(shape):
    image = np.random.default_rng(0).normal(size=shape)
    wanted = np.hypot(ndimage.sobel(image, axis=1), ndimage.sobel(image, axis=0))
    np.testing.assert_array_equal(gradient_magnitude(image), wanted)


@pytest.mark.parametrize("size", [1, 2, 5, 10, 16])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (13, 9), (40, 31)])
def test_maxima_equal_those_of_scipy(shape, size):
    image = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_array_equal(window_maximum(image, size), ndimage.maximum_filter(image, size=size))
