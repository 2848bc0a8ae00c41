from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.material_albedo import MAW_SIZE, resize_for_maw
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from candlelight.loaders.errors import InputError


def blocks(rng, height: int, width: int) -> torch.Tensor:
    """Draw an image of 2 x 2 pixels enlarged to blocks."""
    small = torch.from_numpy(rng.random((1, 3, 2, 2)).astype(np.float32))
    return small.repeat_interleave(height // 2, 2).repeat_interleave(width // 2, 3)


def test_a_prediction_of_the_size_is_only_rounded_to_8_bits():
    image = torch.from_numpy(np.random.default_rng(0).random((1, 3, *MAW_SIZE)).astype(np.float32))
    found, _ = resize_for_maw(image, torch.zeros(1, *MAW_SIZE).long())
    encoded = np.rint(linear_to_srgb(image.double().numpy()) * 255)
    np.testing.assert_allclose(found, srgb_to_linear(encoded / 255), rtol=1e-6)
    assert found.dtype == torch.float32


def test_pixels_are_averaged_encoded_not_linear():
    image = torch.zeros(1, 3, 480, 640)
    image[..., ::2] = 1  # columns of black and white, two under each pixel of the result
    found, _ = resize_for_maw(image, torch.zeros(1, 480, 640).long())
    middle = found[0, :, 100, 100:200]
    np.testing.assert_allclose(middle, srgb_to_linear(np.array(127.5 / 255)), atol=0.01)
    assert float(middle.max()) < 0.25  # the mean of linear values is 0.5


def test_values_are_clipped_before_they_are_resized():
    image = torch.full((1, 3, 2, 2), 40.0)
    image[:, :, :, 0] = -3
    found, _ = resize_for_maw(image, torch.zeros(1, 2, 2).long())
    assert (float(found.min()), float(found.max())) == (0, 1)


@pytest.mark.parametrize("size", [(60, 80), (301, 97), (1, 1)])
def test_aspect_is_not_kept_and_regions_take_the_nearest_pixel(size):
    regions = torch.from_numpy(np.random.default_rng(1).integers(0, 5, (2, *size)))
    found, scaled = resize_for_maw(torch.rand(2, 3, *size), regions)
    assert found.shape == (2, 3, 240, 320)
    for row, column in ((0, 0), (239, 319), (100, 200)):
        under = regions[:, int((row + 0.5) * size[0] / 240), int((column + 0.5) * size[1] / 320)]
        assert scaled[:, row, column].tolist() == under.tolist()


def test_rows_are_prepared_alone():
    rng = np.random.default_rng(2)
    image = torch.cat([blocks(rng, 10, 12), blocks(rng, 10, 12)])
    regions = torch.from_numpy(rng.integers(0, 3, (2, 10, 12)))
    together = resize_for_maw(image, regions)
    for row in range(2):
        alone = resize_for_maw(image[row : row + 1], regions[row : row + 1])
        assert all(torch.equal(one[row], other[0]) for one, other in zip(together, alone, strict=True))


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="`prediction` must be finite, got nan or inf; count it as failed"):
        resize_for_maw(torch.full((1, 3, 2, 2), torch.nan), torch.zeros(1, 2, 2).long())
    with pytest.raises(InputError, match=r"expected `prediction` \[batch, 3, height, width\], `regions`"):
        unwrap(resize_for_maw)(torch.zeros(1, 3, 2, 2), torch.zeros(1, 2, 3).long())
