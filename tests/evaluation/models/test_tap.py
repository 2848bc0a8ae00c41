"""Tests of both trained methods, TAP-05 and TAP-06, on drawn scenes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic import lmse_score
from candlelight.evaluation.models import TAP05, TAP06, IntrinsicModel, train_tap05, train_tap06
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.evaluation.views import DecomposedImage
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.errors import InputError

TRAIN = {"tap05": train_tap05, "tap06": train_tap06}


def drawn(seed: int, height: int = 40, width: int = 50) -> DecomposedImage:
    """Draw patches of random colours in one soft light."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    points = rng.uniform(0, 1, (5, 2)) * (height, width)
    nearest = ((rows - points[:, 0, None, None]) ** 2 + (columns - points[:, 1, None, None]) ** 2).argmin(0)
    reflectance = rng.uniform(0.1, 0.9, (5, 3))[nearest].transpose(2, 0, 1)
    centre = rng.uniform(0.2, 0.8, 2) * (height, width)
    light = 0.3 + 0.7 * np.exp(-((rows - centre[0]) ** 2 + (columns - centre[1]) ** 2) / (2 * 15.0**2))
    layers = (torch.from_numpy(layer).float() for layer in (reflectance * light, reflectance, light[None]))
    return DecomposedImage(*layers, torch.ones(height, width).bool())


@pytest.fixture(scope="module", params=TRAIN)
def train(request) -> Callable[..., Any]:
    return TRAIN[request.param]


@pytest.fixture(scope="module")
def model(train) -> Any:
    return train([drawn(seed) for seed in range(3)])


def test_training_generalises_to_other_scenes(model) -> None:
    errors = []
    for scene in map(drawn, range(10, 16)):
        truth = (scene.reflectance[None], scene.shading.expand(1, 3, -1, -1), scene.mask[None])
        # The square root as both parts hedges: it is better than both constants on real objects.
        root = scene.image[None].sqrt()
        controls = [(root, root), *(baseline(scene.image[None]) for baseline in BASELINES.values())]
        found = model(scene.image[None], scene.mask[None])
        errors.append([lmse_score(*parts, *truth).item() for parts in (found, *controls)])
    found, *controls = np.mean(errors, axis=0)
    assert found < 0.4 * min(controls)


def test_models_follow_the_protocol(model) -> None:
    assert isinstance(model, IntrinsicModel)
    assert isinstance(model, TAP05 | TAP06)


def test_equal_seeds_give_equal_models(train) -> None:
    scenes = [drawn(seed, 20, 24) for seed in range(2)]
    image = drawn(9, 20, 24).image[None]
    first, second = (train(scenes, seed=4)(image)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_streams_depend_on_seed_and_name() -> None:
    draws = [named_stream(seed, name).random() for seed in (0, 1) for name in ("pairs", "patches")]
    assert len(set(draws)) == 4
    assert named_stream(1, "pairs").random() == draws[2]


def test_turned_image_gives_the_turned_decomposition(model) -> None:
    image = drawn(10).image[None]
    upright, turned = model(image), model(image.transpose(2, 3))
    for part, other in zip(upright, turned, strict=True):
        torch.testing.assert_close(part.transpose(2, 3), other, rtol=1e-4, atol=1e-5)


def test_brightness_of_the_image_only_scales_the_shading(model) -> None:
    image = drawn(10).image[None].double()
    reflectance, shading = model(image)
    darker = model(image / 2)
    torch.testing.assert_close(darker[0], reflectance)
    torch.testing.assert_close(darker[1], shading / 2)


def test_only_the_mask_is_read(model) -> None:
    image, mask = drawn(10).image[None], torch.zeros(1, 40, 50, dtype=torch.bool)
    mask[:, 8:30, 9:41] = True
    noise = torch.where(mask.unsqueeze(1), image, torch.nan)
    for found, wanted in zip(model(noise, mask), model(image, mask), strict=True):
        assert torch.equal(found, wanted)
        assert (found * ~mask == 0).all()


def test_degenerate_images(model) -> None:
    image = torch.full((4, 3, 5, 5), 0.4)
    image[3, 0, 2, 2] = torch.nan
    mask = torch.ones(4, 5, 5, dtype=torch.bool)
    mask[1] = False
    mask[2] = False
    mask[2, 1, 3] = True
    reflectance, shading = model(image, mask)
    assert (reflectance[0] - 1).abs().max() < 1e-6
    assert (shading[0] - 0.4).abs().max() < 1e-6
    assert (reflectance[1] == 0).all()
    assert (shading[1] == 0).all()
    assert reflectance[2].sum().item() == 3
    assert shading[2, 0, 1, 3].item() == pytest.approx(0.4)
    assert reflectance[3].isnan().all()
    assert shading[3].isnan().all()
    one = model(torch.full((1, 3, 1, 1), 0.4))
    assert one[0].flatten().tolist() == [1, 1, 1]


def test_row_of_pixels_can_be_learnt(train) -> None:
    # Without rows above there are no gradients down, and no pairs on two of three axes.
    scene = drawn(0)
    row = DecomposedImage(scene.image[:, :1], scene.reflectance[:, :1], scene.shading[:, :1], scene.mask[:1])
    assert train([row])(row.image[None])[0].isfinite().all()


def test_training_needs_images(train) -> None:
    with pytest.raises(InputError, match=r"must have one with edges or shading .* got 0 without"):
        train([])
    half = torch.full((3, 4, 4), 0.5)
    constant = DecomposedImage(half, half, half[:1], torch.ones(4, 4).bool())
    with pytest.raises(InputError, match="got 2 without"):
        train([constant, constant])
