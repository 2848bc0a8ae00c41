import numpy as np
import pytest
import torch

from evaluation.models.ground_truth import check_rows, decode_image, ground_truth
from evaluation.models.protocols import IntrinsicFrames
from loaders.colour import srgb_to_linear, to_display
from loaders.errors import InputError


def test_decoding_is_that_of_the_colour_module() -> None:
    pixels = np.arange(256 * 3, dtype=np.uint32).reshape(3, 16, 16) % 256
    found = decode_image(torch.from_numpy(pixels.astype(np.uint8)))
    np.testing.assert_array_equal(found.numpy(), srgb_to_linear(pixels.astype(np.float32) / 255))
    assert np.array_equal(to_display(found.numpy()), pixels)


def test_product_of_the_layers_is_the_image(scenes) -> None:
    frames = scenes(3, seed=0)
    truth = ground_truth([frames[row] for row in range(3)], frames.set_info.exposure)
    # Half a step of the 8-bit curve is at most 0.0045 in linear light.
    torch.testing.assert_close(truth.albedo * truth.shading, truth.image, atol=0.0046, rtol=0)
    assert truth.mask.all()


def test_pixel_counts_where_any_channel_has_albedo() -> None:
    albedo = torch.zeros(3, 1, 3).half()
    albedo[2, 0, 1], albedo[:, 0, 2] = 0.25, 0.5
    sample = {"id": "a", "image": torch.zeros(3, 1, 3).byte(), "albedo": albedo, "shading": albedo}
    assert ground_truth([sample], 1.0).mask.tolist() == [[[False, True, True]]]


@pytest.mark.parametrize("name", ["image", "albedo", "shading"])
def test_missing_layer(scenes, name: str) -> None:
    frames = scenes(2, seed=0)
    del frames[1][name]
    with pytest.raises(
        InputError, match=f"sample `memory/000001` has no `{name}` layer; expected image, albedo"
    ):
        ground_truth([frames[0], frames[1]], 1.0)


def test_frames_of_the_readers_are_enough(scenes) -> None:
    assert isinstance(scenes(1, seed=0), IntrinsicFrames)


def test_rows() -> None:
    assert check_rows(2, None) == [0, 1]
    assert check_rows(9, np.array([8, 0])) == [8, 0]


@pytest.mark.parametrize(
    ("count", "rows", "message"),
    [
        (3, [3], r"`held` must lie in 0\.\.2, got 3"),
        (3, [0, -1], r"`held` must lie in 0\.\.2, got -1"),
        (3, [], "`held` must name at least one row, got none of 3"),
        (0, None, "`held` must name at least one row, got none of 0"),
    ],
)
def test_bad_rows(count: int, rows: list[int] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_rows(count, rows, "held")
