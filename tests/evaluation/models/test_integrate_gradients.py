import numpy as np
import pytest
import torch

from candlelight.evaluation.models.gradients import (
    FLOOR,
    Gradients,
    backward_differences,
    decompose_by_gradients,
    gray_of_raised,
)


def all_reflectance(row: int, pixels: np.ndarray, mask: np.ndarray) -> Gradients:
    return backward_differences(np.log(gray_of_raised(pixels)))


def halves(row: int, pixels: np.ndarray, mask: np.ndarray) -> Gradients:
    return Gradients(*(part / 2 for part in all_reflectance(row, pixels, mask)))


def random_mask(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < 0.6


def test_half_of_all_gradients_gives_the_square_root() -> None:
    image = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 1, (2, 1, 5, 6))).expand(2, 3, 5, 6)
    reflectance, shading = decompose_by_gradients(image, None, halves)
    root = image.sqrt() / image.amax((1, 2, 3), keepdim=True).sqrt()
    torch.testing.assert_close(reflectance, root)
    torch.testing.assert_close(reflectance * shading, image)


def test_colour_goes_to_the_reflectance() -> None:
    image = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 1, (1, 3, 5, 6)))
    reflectance, shading = decompose_by_gradients(image, None, halves)
    torch.testing.assert_close(reflectance * shading, image)
    torch.testing.assert_close(shading, shading[:, :1].expand(1, 3, 5, 6))
    assert reflectance.max() == 1


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan"), float("inf")])
def test_background_is_not_read(value: float) -> None:
    image = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 1, (1, 3, 8, 9))).float()
    mask = torch.from_numpy(random_mask(1, 1, 8, 9))
    changed = torch.where(mask.unsqueeze(1), image, value)
    for found, wanted in zip(
        decompose_by_gradients(changed, mask, halves),
        decompose_by_gradients(image, mask, halves),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert (found[~mask.unsqueeze(1).expand_as(found)] == 0).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_value_that_is_not_finite_fails_its_image_alone(value: float) -> None:
    image = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    image[0, 1, 2, 3] = value
    mask = torch.ones(2, 4, 5, dtype=torch.bool)
    mask[:, 0] = False
    for part in decompose_by_gradients(image, mask, halves):
        assert part[0, :, 1:].isnan().all()
        assert (part[:, :, 0] == 0).all()
        assert part[1].isfinite().all()


def test_empty_mask_one_pixel_and_black() -> None:
    image = torch.zeros(3, 3, 2, 2)
    image[1] = 0.4
    mask = torch.zeros(3, 2, 2, dtype=torch.bool)
    mask[1, 0, 1] = mask[2] = True
    reflectance, shading = decompose_by_gradients(image, mask, all_reflectance)
    assert (reflectance[0] == 0).all()
    assert (shading[0] == 0).all()
    assert reflectance[1].sum() == 3
    assert shading[1, 0, 0, 1] == pytest.approx(0.4)
    assert (reflectance[2] == 1).all()
    torch.testing.assert_close(shading[2], torch.full((3, 2, 2), FLOOR))
