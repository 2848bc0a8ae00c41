import math

import numpy as np
import pytest
import torch
from torch import Tensor

from candlelight.evaluation.perception import place_on_canvas, rotate_images, scale_images, translate_images
from tests.refusals import refused

TRANSFORMS = {
    "right": lambda images, size, kernel="cubic": translate_images(images, right=size, kernel=kernel),
    "down": lambda images, size, kernel="cubic": translate_images(images, down=size, kernel=kernel),
    "rotation": rotate_images,
    "scale": lambda images, size, kernel="cubic": scale_images(images, 1 + size, kernel),
}
NAN = float("nan")


def drawn(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).random(shape)).float()


def smooth(height: int, width: int) -> Tensor:
    """Draw slow waves, which any good kernel keeps."""
    y, x = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
    waves = [0.5 + 0.4 * torch.sin(0.2 * x + phase) * torch.cos(0.15 * y) for phase in (0, 1, 2)]
    return torch.stack(waves)[None]


@pytest.mark.parametrize("kernel", ["cubic", "linear"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_magnitude_0_is_the_identity(name, kernel):
    images = drawn(2, 3, 7, 10)
    assert torch.equal(TRANSFORMS[name](images, 0, kernel), images)


@pytest.mark.parametrize("kernel", ["cubic", "linear"])
def test_whole_pixels_move_exactly(kernel):
    images = drawn(2, 3, 6, 8)
    tiled = torch.cat([images.flip(3), images, images.flip(3)], 3)
    tiled = torch.cat([tiled.flip(2), tiled, tiled.flip(2)], 2)
    for right, down in ((3, 0), (0, -2), (-5, 6), (8, 6)):
        wanted = tiled[:, :, 6 - down : 12 - down, 8 - right : 16 - right]
        assert torch.equal(translate_images(images, right, down, kernel), wanted)


@pytest.mark.parametrize("kernel", ["cubic", "linear"])
@pytest.mark.parametrize("size", [6, 7])
def test_quarter_turns_are_exact_and_clockwise(size, kernel):
    images = drawn(1, 3, size, size)
    for turns in (1, 2, 3, 4, -1):
        assert torch.equal(rotate_images(images, 90 * turns, kernel), torch.rot90(images, -turns, (2, 3)))


def test_half_a_turn_of_a_wide_image_reverses_it():
    images = drawn(1, 3, 4, 9)
    assert torch.equal(rotate_images(images, 180), images.flip(2, 3))


def test_a_scale_of_3_shows_the_middle_pixels_three_times():
    images = drawn(1, 3, 9, 9)
    assert torch.equal(scale_images(images, 3)[:, :, 1::3, 1::3], images[:, :, 3:6, 3:6])


@pytest.mark.parametrize("kernel", ["cubic", "linear"])
def test_a_scale_of_one_third_averages_and_shows_mirror_images(kernel):
    """The triangle of width 6 about the middle of three pixels has the weights 1 2 3 2 1 over 9."""
    ramp = torch.linspace(0, 1, 9).double().expand(1, 3, 9, 9)
    found = scale_images(ramp, 1 / 3, kernel)
    torch.testing.assert_close(found[0, 0, 0, 4], torch.tensor(0.5).double())
    torch.testing.assert_close(found[..., :3], found[..., 3:6].flip(3))
    torch.testing.assert_close(found[..., 6:], found[..., 3:6].flip(3))
    if kernel == "linear":
        row = ramp[0, 0, 0]
        wanted = (1 * row[0] + 2 * row[0] + 3 * row[1] + 2 * row[2] + 1 * row[3]) / 9  # pixel -1 is pixel 0
        torch.testing.assert_close(found[0, 0, 0, 3], wanted)


def test_reduced_stripes_turn_gray_and_do_not_alias():
    stripes = (torch.arange(64) % 2).double().expand(1, 3, 64, 64)
    inner = scale_images(stripes, 0.4)[..., 22:42]  # at the mirror, stripes are twice as wide
    assert float((inner - 0.5).abs().max()) < 0.05
    single = scale_images(stripes, 1.0)[..., ::5].float()  # a reader of single pixels sees stripes again
    assert float((single - 0.5).abs().min()) == 0.5


@pytest.mark.parametrize(
    ("name", "size", "back"),
    [("right", 2.3, -2.3), ("down", -0.6, 0.6), ("rotation", 7, -7), ("scale", 0.25, -0.2)],
)
def test_inverse_transforms_nearly_cancel(name, size, back):
    images = smooth(40, 48)
    there = TRANSFORMS[name](images, size)
    again = TRANSFORMS[name](there, back)
    middle = (slice(None), slice(None), slice(12, 28), slice(12, 36))
    assert float((there - images)[middle].abs().max()) > 0.03
    assert float((again - images)[middle].abs().max()) < 0.003


def test_a_fine_rotation_follows_the_function():
    angle = 3.6
    found = rotate_images(smooth(41, 41), angle)
    y, x = torch.meshgrid(torch.arange(41).double() - 20, torch.arange(41).double() - 20, indexing="ij")
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    at_x, at_y = 20 + cosine * x + sine * y, 20 + cosine * y - sine * x
    wanted = 0.5 + 0.4 * torch.sin(0.2 * at_x) * torch.cos(0.15 * at_y)
    assert float((found[0, 0] - wanted)[4:-4, 4:-4].abs().max()) < 1e-3


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_image_of_a_batch_alone(name):
    images = drawn(3, 3, 9, 12)
    together = TRANSFORMS[name](images, 0.37)
    alone = torch.cat([TRANSFORMS[name](one[None], 0.37) for one in images])
    torch.testing.assert_close(together, alone)
    assert together.dtype == torch.float32
    assert together.is_contiguous()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_stay_in_the_range(name):
    checks = ((torch.arange(12)[:, None] + torch.arange(12)) // 3 % 2).float().expand(1, 3, 12, 12)
    moved = TRANSFORMS[name](checks, 0.37)
    assert 0 <= float(moved.min()) < float(moved.max()) <= 1


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
        (lambda images: translate_images(images, right=NAN), "`right` must be finite, got nan; 0 keeps"),
        (lambda images: translate_images(images, down=math.inf), "`down` must be finite, got inf"),
        (lambda images: rotate_images(images, NAN), "`degrees` must be finite, got nan"),
        (lambda images: scale_images(images, 0), "`factor` must be above 0, got 0; 1 keeps the size"),
        (lambda images: scale_images(images, -1), "`factor` must be above 0, got -1"),
        (
            lambda images: rotate_images(images, 1, "bicubic"),
            "`kernel` must be one of: cubic, linear; g",
        ),
        (lambda images: rotate_images(255 * images, 1), "got values from 255 to 255; divide 8-bit values by"),
    ],
)
def test_messages(call, message):
    with refused(message):
        call(torch.ones(1, 3, 4, 4))
