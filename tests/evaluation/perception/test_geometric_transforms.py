"""Geometric transforms, and the resampling with mirrored borders below them."""

import math

import numpy as np
import pytest
import torch
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.perception import place_on_canvas, rotate_images, scale_images, translate_images
from candlelight.evaluation.perception.transforms import (
    check_srgb_batch,
    mirrored_index,
    resample_axis,
    resample_points,
)
from tests.refusals import refused

TRANSFORMS = {
    "right": lambda images, size, kernel="cubic": translate_images(images, right=size, kernel=kernel),
    "down": lambda images, size, kernel="cubic": translate_images(images, down=size, kernel=kernel),
    "rotation": rotate_images,
    "scale": lambda images, size, kernel="cubic": scale_images(images, 1 + size, kernel),
}
DRAWS = np.random.default_rng(0)
of_both_kernels = pytest.mark.parametrize("kernel", ["cubic", "linear"])


def drawn(*shape: int) -> Tensor:
    return torch.from_numpy(DRAWS.random(shape)).float()


# ------------------------------------------------------------------------------------------------ resampling


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


@of_both_kernels
@pytest.mark.parametrize("stretch", [1.0, 1.3, 4.0])
def test_resampling_equals_the_sum_over_neighbours(kernel, stretch):
    images = DRAWS.random((2, 3, 2, 5))
    positions = np.array([-7.3, -1.0, -0.5, 0.0, 1.25, 3.999, 4.0, 4.6, 11.1])
    found = resample_axis(torch.from_numpy(images), torch.from_numpy(positions), kernel, stretch)
    wanted = [
        [read(row, position, kernel, stretch) for position in positions] for row in images.reshape(-1, 5)
    ]
    np.testing.assert_allclose(found.reshape(-1, len(positions)), wanted, atol=1e-12)


@of_both_kernels
def test_points_equal_rows_then_columns(kernel):
    image = torch.from_numpy(DRAWS.random((2, 3, 4, 5)))
    rows, columns = torch.tensor([-1.2, 0.5, 3.0]).double(), torch.tensor([0.0, 2.75, 6.5, 4.0]).double()
    grid = torch.meshgrid(rows, columns, indexing="ij")
    across = resample_axis(image, columns, kernel).transpose(2, 3)
    wanted = resample_axis(across, rows, kernel).transpose(2, 3)
    torch.testing.assert_close(resample_points(image, *grid, kernel), wanted, atol=1e-12, rtol=0)


def test_whole_positions_are_exact_in_float32():
    image = drawn(1, 1, 1, 50)
    assert torch.equal(resample_axis(image, torch.arange(50).double() + 1e-12, "cubic"), image)


def test_one_pixel_fills_the_plane():
    assert mirrored_index(torch.arange(-4, 5), 1).tolist() == [0] * 9


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_values_outside_the_range_are_refused(value):
    image = torch.zeros(1, 3, 2, 2)
    image[0, 1, 0, 1] = value
    with refused(r"`images` must be sRGB-encoded in \[0, 1\], got values from"):
        check_srgb_batch(image)
    with refused(r"expected `images` \[batch, channels, height, width\], got \[3, 2, 2\]"):
        check_srgb_batch(image[0])


# ------------------------------------------------------------------------------------------------ transforms


@of_both_kernels
@pytest.mark.parametrize("name", TRANSFORMS)
def test_magnitude_0_is_the_identity(name, kernel):
    images = drawn(2, 3, 7, 10)
    assert torch.equal(TRANSFORMS[name](images, 0, kernel), images)


@of_both_kernels
def test_whole_pixels_move_exactly(kernel):
    images = drawn(2, 3, 6, 8)
    tiled = torch.cat([images.flip(3), images, images.flip(3)], 3)
    tiled = torch.cat([tiled.flip(2), tiled, tiled.flip(2)], 2)
    for right, down in ((3, 0), (0, -2), (-5, 6), (8, 6)):
        wanted = tiled[:, :, 6 - down : 12 - down, 8 - right : 16 - right]
        assert torch.equal(translate_images(images, right, down, kernel), wanted)


@of_both_kernels
@pytest.mark.parametrize("size", [6, 7])
def test_quarter_turns_are_exact_and_clockwise(size, kernel):
    images = drawn(1, 3, size, size)
    for turns in (1, 2, 3, 4, -1):
        assert torch.equal(rotate_images(images, 90 * turns, kernel), torch.rot90(images, -turns, (2, 3)))
    wide = drawn(1, 3, 4, size)
    assert torch.equal(rotate_images(wide, 180, kernel), wide.flip(2, 3))


def test_a_scale_of_3_shows_the_middle_pixels_three_times():
    images = drawn(1, 3, 9, 9)
    assert torch.equal(scale_images(images, 3)[:, :, 1::3, 1::3], images[:, :, 3:6, 3:6])


def test_a_scale_of_one_third_averages_by_the_triangle():
    images, weights = drawn(1, 3, 9, 9).double(), torch.tensor([1, 2, 3, 2, 1]).double() / 9
    wanted = torch.einsum("bcij,i,j->bc", images[..., 2:7, 2:7], weights, weights)
    torch.testing.assert_close(scale_images(images, 1 / 3, "linear")[..., 4, 4], wanted)


def test_reduced_stripes_turn_gray_and_do_not_alias():
    stripes = (torch.arange(64) % 2).double().expand(1, 3, 64, 64)
    inner = scale_images(stripes, 0.4)[..., 22:42]  # at the mirror, stripes are twice as wide
    assert float((inner - 0.5).abs().max()) < 0.05


TURN = math.radians(3.6)


@pytest.mark.parametrize(
    ("name", "size", "source"),
    [
        ("right", 2.3, lambda y, x: (y, x - 2.3)),
        ("down", -0.6, lambda y, x: (y + 0.6, x)),
        (
            "rotation",
            3.6,
            lambda y, x: (
                math.cos(TURN) * y - math.sin(TURN) * x,
                math.cos(TURN) * x + math.sin(TURN) * y,
            ),
        ),
        ("scale", 0.25, lambda y, x: (y / 1.25, x / 1.25)),
    ],
)
def test_slow_waves_move_as_their_function(name, size, source):
    def waves(y, x):
        return 0.5 + 0.4 * torch.sin(0.2 * x + 1) * torch.cos(0.15 * y)

    grid = torch.meshgrid(torch.arange(41).double() - 20, torch.arange(37).double() - 18, indexing="ij")
    found = TRANSFORMS[name](waves(*grid).expand(1, 3, -1, -1), size)
    assert float((found[0, 0] - waves(*source(*grid)))[5:-5, 5:-5].abs().max()) < 1e-3


@pytest.mark.parametrize("name", TRANSFORMS)
def test_images_of_a_batch_are_alone_and_stay_in_the_range(name):
    images = drawn(3, 3, 9, 12).round()
    together = TRANSFORMS[name](images, 0.37)
    torch.testing.assert_close(together, torch.cat([TRANSFORMS[name](one[None], 0.37) for one in images]))
    assert together.dtype == torch.float32
    assert together.is_contiguous()
    assert 0 <= float(together.min()) < float(together.max()) <= 1


@pytest.mark.parametrize("name", TRANSFORMS)
def test_constant_images_and_one_pixel_do_not_change(name):
    for shape in ((1, 3, 6, 5), (1, 3, 1, 1), (0, 3, 4, 4)):
        images = torch.full(shape, 0.7)
        torch.testing.assert_close(TRANSFORMS[name](images, 0.37), images)


def test_canvas():
    digit = drawn(1, 3, 28, 27)
    placed = place_on_canvas(digit, 56)
    assert placed.shape == (1, 3, 56, 56)
    assert torch.equal(placed[:, :, 14:42, 14:41], digit)
    assert float(placed.sum()) == pytest.approx(float(digit.sum()))
    with refused("a canvas of 20x20 pixels needs images of at most that size, got 28x27"):
        place_on_canvas(digit, 20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda images: translate_images(images, right=math.nan), "`right` must be finite, got nan; 0 keeps"),
        (lambda images: translate_images(images, down=math.inf), "`down` must be finite, got inf"),
        (lambda images: rotate_images(images, math.nan), "`degrees` must be finite, got nan"),
        (lambda images: scale_images(images, 0), "`factor` must be above 0, got 0; 1 keeps the size"),
        (lambda images: rotate_images(images, 1, "bicubic"), "`kernel` must be one of: cubic, linear; g"),
        (lambda images: rotate_images(255 * images, 1), "got values from 255 to 255; divide 8-bit values by"),
    ],
)
def test_messages(call, message):
    with refused(message):
        call(torch.ones(1, 3, 4, 4))
