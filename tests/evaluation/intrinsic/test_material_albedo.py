"""Albedo of materials: mean colours of regions, their errors, and the size of the protocol of MAW."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.image_errors import ciede2000, linear_to_lab
from candlelight.evaluation.intrinsic.material_albedo import (
    DENOMINATOR_FLOOR,
    MAW_SIZE,
    maw_chromaticity,
    maw_intensity,
    region_means,
    resize_for_maw,
)
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from tests.evaluation.intrinsic.references import drawn, slow_chromaticity, slow_intensity, slow_means
from tests.refusals import refused


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_means_equal_a_loop_over_regions(dtype) -> None:
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


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        (torch.tensor([[[0, 3]]]), "`regions` must be numbers from 0 to 2, got 0 to 3"),
        (torch.tensor([[[-1, 2]]]), "`regions` must be numbers from 0 to 2, got -1 to 2"),
    ],
)
def test_regions_that_are_no_numbers_of_regions_are_refused(regions, message) -> None:
    with refused(message):
        region_means(torch.ones(1, 3, 1, 2), regions, 2)


def drawn_regions(seed: int, batch: int = 3, regions: int = 5) -> list[torch.Tensor]:
    """Draw predicted and true colours, and numbers of pixels."""
    one, other, areas = (drawn(seed + place, batch, regions, 3) for place in range(3))
    return [0.05 + 0.85 * one, 0.05 + 0.85 * other, (1 + 900 * areas[..., 0]).floor()]


@pytest.mark.parametrize(
    ("metric", "slow"), [(maw_intensity, slow_intensity), (maw_chromaticity, slow_chromaticity)]
)
def test_errors_equal_a_loop_over_regions(metric, slow) -> None:
    given = drawn_regions(0)
    given[2][1, 2:] = 0
    expected = [slow(*(one[row].numpy() for one in given)) for row in range(3)]
    np.testing.assert_allclose(metric(*given), expected, rtol=1e-12)
    given[2][1] = 0
    assert metric(*given).isnan().tolist() == [False, True, False]
    assert metric(given[0].half(), *given[1:]).dtype == torch.float32


def test_two_regions_by_hand() -> None:
    prediction, target = torch.ones(1, 2, 3), torch.tensor([[[0.2] * 3, [0.6] * 3]])
    # One scale for equal predictions: the weighted mean 0.5, off by 0.3 and 0.1.
    found = maw_intensity(prediction, target, torch.tensor([[1.0, 3.0]]))
    assert found.item() == pytest.approx((0.3**2 + 3 * 0.1**2) / 4)
    # A scale for each region makes both right.
    found = maw_chromaticity(prediction, target, torch.tensor([[1.0, 3.0]]))
    assert found.item() == pytest.approx(0, abs=1e-4)


def test_denominators_are_clipped() -> None:
    level = DENOMINATOR_FLOOR**0.5
    target = torch.full((1, 1, 3), 0.5)
    below, above = (
        maw_intensity(torch.full((1, 1, 3), factor * level), target, torch.ones(1, 1)).item()
        for factor in (0.5, 2)
    )
    assert below == pytest.approx((0.5 * 0.25 - 0.5) ** 2)
    assert above == pytest.approx(0, abs=1e-9)


def test_colours_outside_the_unit_cube_are_clipped() -> None:
    red = torch.tensor([[[2.0, 0.0, 0.0]]])  # scaled by 0.45 to (0.9, 0, 0) for the mean of the truth
    target = torch.tensor([[[0.3, 0.3, 0.3]]])
    found = maw_chromaticity(red, 2 * target, torch.ones(1, 1))  # scaled to (1.8, 0, 0)
    expected = ciede2000(
        linear_to_lab(torch.tensor([1.0, 0, 0])), linear_to_lab(torch.tensor([0.6, 0.6, 0.6]))
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_prediction_of_the_size_is_only_rounded_to_8_bits() -> None:
    image = torch.from_numpy(np.random.default_rng(0).random((1, 3, *MAW_SIZE)).astype(np.float32))
    found, _ = resize_for_maw(image, torch.zeros(1, *MAW_SIZE).long())
    encoded = np.rint(linear_to_srgb(image.double().numpy()) * 255)
    np.testing.assert_allclose(found, srgb_to_linear(encoded / 255), rtol=1e-6)
    assert found.dtype == torch.float32


def test_pixels_are_averaged_encoded_not_linear() -> None:
    image = torch.zeros(1, 3, 480, 640)
    image[..., ::2] = 1  # columns of black and white, two under each pixel of the result
    found, _ = resize_for_maw(image, torch.zeros(1, 480, 640).long())
    middle = found[0, :, 100, 100:200]
    np.testing.assert_allclose(middle, srgb_to_linear(np.array(127.5 / 255)), atol=0.01)
    assert float(middle.max()) < 0.25  # the mean of linear values is 0.5


def test_values_are_clipped_before_they_are_resized() -> None:
    image = torch.full((1, 3, 2, 2), 40.0)
    image[:, :, :, 0] = -3
    found, _ = resize_for_maw(image, torch.zeros(1, 2, 2).long())
    assert (float(found.min()), float(found.max())) == (0, 1)


@pytest.mark.parametrize("size", [(301, 97), (1, 1)])
def test_aspect_is_not_kept_and_regions_take_the_nearest_pixel(size) -> None:
    regions = torch.from_numpy(np.random.default_rng(1).integers(0, 5, (2, *size)))
    found, scaled = resize_for_maw(torch.rand(2, 3, *size), regions)
    assert found.shape == (2, 3, 240, 320)
    for row, column in ((0, 0), (239, 319), (100, 200)):
        under = regions[:, int((row + 0.5) * size[0] / 240), int((column + 0.5) * size[1] / 320)]
        assert scaled[:, row, column].tolist() == under.tolist()


def test_images_are_resized_alone() -> None:
    image, regions = drawn(2, 2, 3, 10, 12).float(), (3 * drawn(3, 2, 10, 12)).long()
    together = resize_for_maw(image, regions)
    for row in range(2):
        alone = resize_for_maw(image[row : row + 1], regions[row : row + 1])
        assert all(torch.equal(one[row], other[0]) for one, other in zip(together, alone, strict=True))
    with refused(r"expected `prediction` \[batch, 3, height, width\], `regions`"):
        resize_for_maw(image, regions[:, 1:])
