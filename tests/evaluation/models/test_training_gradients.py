import numpy as np
import pytest
import torch

from candlelight.evaluation.models.gradients import (
    differences,
    draw_places,
    extend,
    inside_pairs,
    true_gradients,
)
from candlelight.evaluation.views import DecomposedImage
from candlelight.loaders.errors import InputError


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
