from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.material_albedo import region_means
from candlelight.loaders.errors import InputError


def slow_means(image, regions, count):
    colours, pixels = np.zeros((count, len(image))), np.zeros(count)
    for number in range(1, count + 1):
        inside = regions == number
        pixels[number - 1] = inside.sum()
        if inside.any():
            colours[number - 1] = image[:, inside].mean(1)
    return colours, pixels


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_equals_a_loop_over_regions(dtype):
    rng = np.random.default_rng(0)
    image = torch.from_numpy(rng.random((4, 3, 13, 17))).to(dtype)
    regions = torch.from_numpy(rng.integers(0, 6, (4, 13, 17)))
    regions[1] = 0
    found = region_means(image, regions, 8)
    for row in range(4):
        colours, pixels = slow_means(image[row].double().numpy(), regions[row].numpy(), 8)
        np.testing.assert_allclose(found.colours[row], colours, rtol=1e-12)
        np.testing.assert_array_equal(found.pixels[row], pixels)
    assert found.colours.dtype == torch.float64


def test_pixels_outside_all_regions_are_never_read():
    image = torch.tensor([[[[torch.nan, torch.inf, 2.0]]]])
    assert region_means(image, torch.tensor([[[0, 0, 1]]]), 1).colours.item() == 2
    spoilt = region_means(image, torch.tensor([[[1, 2, 3]]]), 3).colours.flatten()
    assert spoilt[0].isnan()
    assert (spoilt[1], spoilt[2]) == (torch.inf, 2)


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        (torch.ones(1, 1, 2), "`regions` must be int64, got torch.float32"),
        (torch.tensor([[[0, 3]]]), "`regions` must be numbers from 0 to 2, got 0 to 3"),
        (torch.tensor([[[-1, 2]]]), "`regions` must be numbers from 0 to 2, got -1 to 2"),
        (torch.ones(1, 2, 2).long(), r"expected `image` \[batch, channels, height, width\], `regions`"),
    ],
)
def test_wrong_regions_are_refused(regions, message):
    with pytest.raises(InputError, match=message):
        unwrap(region_means)(torch.ones(1, 3, 1, 2), regions, 2)
