import numpy as np
import pytest
import torch

from evaluation.models.log_gradients import FLOOR
from evaluation.models.training_gradients import (
    decompose,
    differences,
    draw_places,
    extend,
    inside_pairs,
    true_gradients,
)
from loaders.errors import InputError
from loaders.views import DecomposedImage


def all_reflectance(log_image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return differences(log_image)


def halves(log_image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return differences(log_image) / 2


def random_mask(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < 0.6


@pytest.mark.parametrize("seed", range(3))
def test_pairs_and_differences_equal_loops(seed: int) -> None:
    values, mask = np.random.default_rng(seed).normal(size=(4, 5)), random_mask(seed, 4, 5)
    found, pairs = differences(values), inside_pairs(mask)
    for axis, y, x in np.ndindex(2, 4, 5):
        before = (y - 1, x) if axis == 0 else (y, x - 1)
        exists = min(before) >= 0
        assert found[axis, y, x] == (values[y, x] - values[before] if exists else 0)
        assert pairs[axis, y, x] == (exists and mask[y, x] and mask[before])


def test_background_has_the_nearest_value() -> None:
    values, mask = np.random.default_rng(0).normal(size=(6, 7)), random_mask(0, 6, 7)
    found = extend(np.where(mask, values, np.nan), mask)
    places = np.argwhere(mask)
    for place in np.ndindex(6, 7):
        distances = ((places - place) ** 2).sum(1)
        nearest = places[distances == distances.min()]
        assert found[place] in [values[tuple(near)] for near in nearest]


def test_half_of_all_gradients_gives_the_square_root() -> None:
    image = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 1, (2, 1, 5, 6))).expand(2, 3, 5, 6)
    reflectance, shading = decompose(image, None, halves)
    root = image.sqrt() / image.amax((1, 2, 3), keepdim=True).sqrt()
    torch.testing.assert_close(reflectance, root)
    torch.testing.assert_close(reflectance * shading, image)


def test_colour_goes_to_the_reflectance() -> None:
    image = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 1, (1, 3, 5, 6)))
    reflectance, shading = decompose(image, None, halves)
    torch.testing.assert_close(reflectance * shading, image)
    torch.testing.assert_close(shading, shading[:, :1].expand(1, 3, 5, 6))
    assert reflectance.max() == 1


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan"), float("inf")])
def test_background_is_not_read(value: float) -> None:
    image = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 1, (1, 3, 8, 9))).float()
    mask = torch.from_numpy(random_mask(1, 1, 8, 9))
    changed = torch.where(mask.unsqueeze(1), image, value)
    for found, wanted in zip(decompose(changed, mask, halves), decompose(image, mask, halves), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert (found[~mask.unsqueeze(1).expand_as(found)] == 0).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_value_that_is_not_finite_fails_its_image_alone(value: float) -> None:
    image = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    image[0, 1, 2, 3] = value
    mask = torch.ones(2, 4, 5, dtype=torch.bool)
    mask[:, 0] = False
    for part in decompose(image, mask, halves):
        assert part[0, :, 1:].isnan().all()
        assert (part[:, :, 0] == 0).all()
        assert part[1].isfinite().all()


def test_empty_mask_one_pixel_and_black() -> None:
    image = torch.zeros(3, 3, 2, 2)
    image[1] = 0.4
    mask = torch.zeros(3, 2, 2, dtype=torch.bool)
    mask[1, 0, 1] = mask[2] = True
    reflectance, shading = decompose(image, mask, all_reflectance)
    assert (reflectance[0] == 0).all()
    assert (shading[0] == 0).all()
    assert reflectance[1].sum() == 3
    assert shading[1, 0, 0, 1] == pytest.approx(0.4)
    assert (reflectance[2] == 1).all()
    torch.testing.assert_close(shading[2], torch.full((3, 2, 2), FLOOR))


def example(mask: torch.Tensor, **layers: torch.Tensor) -> DecomposedImage:
    ramp = torch.linspace(0.1, 0.9, 12).reshape(1, 3, 4)
    given = {"image": ramp.expand(3, 3, 4), "reflectance": torch.ones(3, 3, 4), "shading": ramp, **layers}
    return DecomposedImage(mask=mask, **given)


def test_true_gradients_are_those_of_the_channel_means() -> None:
    reflectance = torch.rand(3, 3, 4, generator=torch.Generator().manual_seed(0)) + 0.1
    shading = torch.rand(3, 3, 4, generator=torch.Generator().manual_seed(1)) + 0.1
    mask = torch.ones(3, 4).bool()
    [found] = true_gradients([example(mask, reflectance=reflectance, shading=shading)])
    for part, layer in ((found.reflectance, reflectance), (found.shading, shading)):
        gray = layer.double().mean(0).log()
        np.testing.assert_allclose(part[0, 1:], gray.diff(dim=0), rtol=1e-12)
        np.testing.assert_allclose(part[1, :, 1:], gray.diff(dim=1), rtol=1e-12)


def test_true_gradients_leave_images_without_pairs_out_and_name_values() -> None:
    full, empty, one = torch.ones(3, 4).bool(), torch.zeros(3, 4).bool(), torch.zeros(3, 4).bool()
    one[1, 1] = True
    assert len(true_gradients([example(empty), example(full), example(one)])) == 1
    with pytest.raises(InputError, match=r"must have one with edges or shading .* got 0 without; pass more"):
        true_gradients([])
    flat = example(full, shading=torch.ones(1, 3, 4))
    with pytest.raises(InputError, match="got 3 without"):
        true_gradients([example(empty), example(one), flat])
    holes = torch.ones(3, 3, 4)
    holes[0, 0, 0] = torch.nan
    with pytest.raises(InputError, match="must be finite inside their masks, got other values in row 1"):
        true_gradients([example(full), example(full, reflectance=holes)])
    full[0, 0] = False
    assert np.isfinite(true_gradients([example(full, reflectance=holes)])[0].reflectance).all()


def test_drawn_places_are_distinct_and_true() -> None:
    choices = random_mask(0, 2, 8, 9)
    drawn = draw_places(choices, 20, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 20
    assert choices.ravel()[drawn].all()
    assert draw_places(np.zeros((2, 3), bool), 20, np.random.default_rng(0)).size == 0
