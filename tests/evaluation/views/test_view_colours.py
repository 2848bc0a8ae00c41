import numpy as np
import pytest
import torch

from candlelight.evaluation.views.view_colours import to_linear, to_srgb
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from tests.refusals import refused


def test_8_bit_images_are_srgb():
    image = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16).expand(3, -1, -1)
    expected = srgb_to_linear(np.arange(256) / 255).astype(np.float32).reshape(16, 16)
    np.testing.assert_array_equal(to_linear(image)[1], expected)
    np.testing.assert_array_equal(to_srgb(image)[2], (np.arange(256, dtype=np.float32) / 255).reshape(16, 16))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_floats_are_linear(dtype):
    image = torch.tensor([0.0, 0.002, 0.5, 7.0], dtype=dtype).reshape(1, 2, 2)
    assert torch.equal(to_linear(image), image.float().expand(3, -1, -1))
    expected = linear_to_srgb(image.float().numpy())[0]
    np.testing.assert_array_equal(to_srgb(image)[0], expected)
    assert 0.999 < to_srgb(image).max() <= 1


def test_other_dtypes_and_channels_are_refused():
    for dtype in (torch.int16, torch.int64, torch.bool):
        with refused(r"expected an image of uint8 .* or floats .*, got torch\."):
            to_srgb(torch.zeros((3, 2, 2), dtype=dtype))
    with refused("expected an image of one or three channels, got 4"):
        to_linear(torch.zeros(4, 2, 2))
