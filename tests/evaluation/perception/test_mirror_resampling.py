import math

import numpy as np
import pytest
import torch
from numpy import ndarray

from candlelight.evaluation.perception.transforms import (
    check_srgb_batch,
    mirrored_index,
    resample_axis,
    resample_points,
)
from tests.refusals import refused

DRAWS = np.random.default_rng(0)


def kernel_value(x: float, kernel: str) -> float:
    """Compute Keys' cubic convolution with a = -1/2, or the triangle."""
    x = abs(x)
    if kernel == "linear":
        return max(0.0, 1 - x)
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def mirrored(row: ndarray, index: int) -> float:
    """Return a pixel of an endless row of mirrored tiles."""
    tile, place = divmod(index, len(row))
    return row[place] if tile % 2 == 0 else row[::-1][place]


def read(row: ndarray, position: float, kernel: str, stretch: float) -> float:
    neighbours = range(math.floor(position - 3 * stretch), math.ceil(position + 3 * stretch) + 1)
    weights = [kernel_value((position - index) / stretch, kernel) for index in neighbours]
    values = [mirrored(row, index) for index in neighbours]
    return float(np.dot(weights, values) / sum(weights))


@pytest.mark.parametrize("kernel", ["cubic", "linear"])
@pytest.mark.parametrize("stretch", [1.0, 1.3, 4.0])
def test_equals_the_sum_over_neighbours(kernel, stretch):
    images = DRAWS.random((2, 3, 2, 5))
    positions = np.array([-7.3, -1.0, -0.5, 0.0, 1.25, 3.999, 4.0, 4.6, 11.1])
    found = resample_axis(torch.from_numpy(images), torch.from_numpy(positions), kernel, stretch)
    wanted = [
        [read(row, position, kernel, stretch) for position in positions] for row in images.reshape(-1, 5)
    ]
    np.testing.assert_allclose(found.reshape(-1, len(positions)), wanted, atol=1e-12)


@pytest.mark.parametrize("kernel", ["cubic", "linear"])
def test_points_equal_rows_then_columns(kernel):
    image = torch.from_numpy(DRAWS.random((2, 3, 4, 5)))
    rows, columns = torch.tensor([-1.2, 0.5, 3.0]).double(), torch.tensor([0.0, 2.75, 6.5, 4.0]).double()
    grid = torch.meshgrid(rows, columns, indexing="ij")
    across = resample_axis(image, columns, kernel).transpose(2, 3)
    wanted = resample_axis(across, rows, kernel).transpose(2, 3)
    torch.testing.assert_close(resample_points(image, *grid, kernel), wanted, atol=1e-12, rtol=0)


def test_cubic_convolution_reproduces_parabolas():
    x = torch.arange(9).double()
    parabola = (0.1 * x**2 - x + 2).reshape(1, 1, 1, 9)
    at = torch.tensor([2.5, 3.1, 5.75]).double()
    found = resample_axis(parabola, at, "cubic").flatten()
    torch.testing.assert_close(found, 0.1 * at**2 - at + 2)


def test_whole_positions_are_exact_in_float32():
    image = torch.from_numpy(DRAWS.random((1, 1, 1, 50))).float()
    found = resample_axis(image, torch.arange(50).double() + 1e-12, "cubic")
    assert torch.equal(found, image)


def test_one_pixel_fills_the_plane():
    assert mirrored_index(torch.arange(-4, 5), 1).tolist() == [0] * 9
    pixel = torch.full((1, 1, 1, 1), 0.3).double()
    found = resample_axis(pixel, torch.tensor([-3.3, 0.2, 8.5]).double(), "cubic")
    torch.testing.assert_close(found.flatten(), torch.full((3,), 0.3).double())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1])
def test_values_outside_the_range_are_refused(value):
    image = torch.zeros(1, 3, 2, 2)
    image[0, 1, 0, 1] = value
    with refused(r"`images` must be sRGB-encoded in \[0, 1\], got values from"):
        check_srgb_batch(image)


def test_axes_are_checked():
    with refused(r"expected `images` \[batch, channels, height, width\], got \[2, 2\]"):
        check_srgb_batch(torch.zeros(2, 2))
