"""Retinex, Weiss and both trained methods: a contract of all, and the properties of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from candlelight.evaluation.intrinsic import lmse, lmse_score, si_mse
from candlelight.evaluation.models import (
    ColourRetinex,
    GrayRetinex,
    IntrinsicModel,
    Weiss,
    train_tap05,
    train_tap06,
)
from candlelight.evaluation.models.gradients import FLOOR
from candlelight.evaluation.models.retinex import BASELINES, constant_reflectance, constant_shading
from candlelight.evaluation.run.model_outputs import run_intrinsic
from candlelight.evaluation.views import DecomposedImage
from candlelight.evaluation.views.named_streams import named_stream
from tests.refusals import refused

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


def weiss(image: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Decompose with the image itself as all lights."""
    return Weiss()(image, torch.stack([image] * 3, 1), mask)


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    scenes = [drawn(seed) for seed in range(3)]
    return {name: train(scenes) for name, train in TRAIN.items()}


@pytest.fixture(params=["retinex", "gray retinex", "weiss", *TRAIN])
def method(request, trained) -> Callable[..., tuple[Tensor, Tensor]]:
    ours = {"retinex": ColourRetinex(), "gray retinex": GrayRetinex(), "weiss": weiss}
    return {**ours, **trained}[request.param]


@pytest.fixture(params=TRAIN)
def model(request, trained) -> Any:
    return trained[request.param]


# -------------------------------------------------------------------------------------- all methods


def test_the_product_is_the_image_and_the_colour_that_of_the_reflectance(method) -> None:
    images = torch.stack([drawn(1).image, drawn(2).image]).clamp(min=0.05)
    kept = images.clone()
    reflectance, shading = method(images)
    assert torch.equal(images, kept)
    assert reflectance.dtype == shading.dtype == torch.float32
    torch.testing.assert_close(reflectance * shading, images)
    torch.testing.assert_close(shading, shading[:, :1].expand_as(shading))
    assert reflectance.amax((1, 2, 3)).tolist() == [1, 1]


def test_each_image_is_decomposed_alone_inside_its_mask(method) -> None:
    images = torch.stack([drawn(seed, 12, 15).image for seed in range(3)])
    masks = torch.rand(3, 12, 15, generator=torch.Generator().manual_seed(0)) < 0.7
    together = method(images, masks)
    for background in (torch.nan, 1.0):
        changed = torch.where(masks.unsqueeze(1), images, background)
        for row in range(3):
            alone = method(changed[row : row + 1], masks[row : row + 1])
            assert all(torch.equal(one[row], other[0]) for one, other in zip(together, alone, strict=True))
    assert all((part[~masks.unsqueeze(1).expand_as(part)] == 0).all() for part in together)


def test_degenerate_images(method) -> None:
    image = torch.full((4, 3, 5, 5), 0.4)
    image[3, 0, 2, 2] = torch.nan
    mask = torch.ones(4, 5, 5, dtype=torch.bool)
    mask[1:3] = mask[3, 0] = False
    mask[2, 1, 3] = True
    reflectance, shading = method(image, mask)
    torch.testing.assert_close(reflectance[0], torch.ones(3, 5, 5))
    torch.testing.assert_close(shading[0], image[0])
    assert not reflectance[1].any()
    assert not shading[1].any()
    assert reflectance[2].sum().item() == 3
    assert shading[2, :, 1, 3].tolist() == pytest.approx([0.4] * 3)
    for part in (reflectance[3], shading[3]):
        assert part[:, 1:].isnan().all()
        assert (part[:, 0] == 0).all()
    assert method(torch.full((1, 3, 1, 1), 0.4))[0].flatten().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("make", "arguments"),
    [(ColourRetinex, (-1.0, 0.1)), (ColourRetinex, (1.0, -0.1)), (GrayRetinex, (-1.0,)), (Weiss, (np.nan,))],
)
def test_thresholds_below_zero(make: Callable[..., Any], arguments: tuple[float, ...]) -> None:
    with refused("must be a threshold of at least 0, got"):
        make(*arguments)


# ------------------------------------------------------------------------------- baselines and Retinex


def test_each_baseline_is_right_if_its_assumption_holds() -> None:
    pattern = torch.rand(1, 3, 20, 20, generator=torch.Generator().manual_seed(1))
    for number, model in ((1, constant_reflectance), (0, constant_shading)):
        parts = model(0.5 * pattern)
        assert torch.equal(parts[0] * parts[1], 0.5 * pattern)
        assert lmse(parts[number].mean(1), pattern.mean(1), torch.ones(1, 20, 20)).item() < 1e-9


@pytest.mark.parametrize("seed", range(2))
def test_mondrian_in_smooth_light_is_recovered(mondrian, seed: int) -> None:
    albedo, shading = mondrian(seed)
    mask = torch.ones(1, 60, 80)
    truth = (albedo, shading, mask)
    found = ColourRetinex()(albedo * shading)
    trivial = min(lmse_score(*model(albedo * shading), *truth).item() for model in BASELINES.values())
    # Only the smooth shading across the few edges is lost: errors of 2e-5 to 5e-5; baselines 8e-3 to 2e-2.
    assert lmse_score(*found, *truth).item() < 1e-4 < 0.02 * trivial
    assert si_mse(found[0], albedo, mask).item() < 2e-4


@pytest.mark.parametrize(
    ("right", "is_reflectance"),
    [
        pytest.param([0.74, 0.74, 0.74], True, id="gray step above the threshold"),
        pytest.param([0.73, 0.73, 0.73], False, id="gray step below"),
        pytest.param([0.222, 0.2, 0.2], True, id="colour step above"),
        pytest.param([0.216, 0.2, 0.2], False, id="colour step below"),
    ],
)
def test_thresholds_by_hand(right: list[float], is_reflectance: bool) -> None:
    # Gray: log(0.2 e^1.3) = log 0.734. Colour: a step d of one channel has chroma sqrt(2/3) d, so 0.08 needs
    # d = 0.098, that is 0.2206.
    image = torch.full((1, 3, 4, 6), 0.2, dtype=torch.float64)
    image[..., 3:] = torch.tensor(right, dtype=torch.float64).reshape(3, 1, 1)
    _, shading = ColourRetinex(brightness=1.3, chroma=0.08)(image)
    assert ((shading.max() - shading.min()).item() < 1e-9) == is_reflectance


def test_black_is_raised_to_the_floor() -> None:
    reflectance, shading = ColourRetinex()(torch.zeros(1, 3, 4, 4))
    assert (reflectance == 1).all()
    torch.testing.assert_close(shading, torch.full((1, 3, 4, 4), FLOOR))


# -------------------------------------------------------------------------------------------- Weiss

ALBEDO = torch.full((1, 3, 8, 9), 0.2)
ALBEDO[..., 4:] = 0.8
SHADOWS = torch.ones(5, 1, 8, 9)
for _light in range(5):
    SHADOWS[_light, :, _light : _light + 2] = 0.4
LIGHTS = (ALBEDO[0] * SHADOWS)[None]


def test_weiss_leaves_moving_shadows_out_of_the_reflectance() -> None:
    reflectance, shading = Weiss()(LIGHTS[:, 1], LIGHTS)
    torch.testing.assert_close(reflectance, ALBEDO / 0.8)
    torch.testing.assert_close(shading[0, :1], SHADOWS[1] * 0.8)
    # Gray Retinex cannot tell a shadow from paint.
    assert (GrayRetinex()(LIGHTS[:, 1])[0] - ALBEDO / 0.8).abs().max() > 0.1
    beyond, mask = LIGHTS.clone(), torch.ones(1, 8, 9).bool()
    beyond[..., 7:], mask[:, :, 7:] = torch.inf, False
    torch.testing.assert_close(Weiss()(LIGHTS[:, 1], beyond, mask)[0][..., :7], ALBEDO[..., :7] / 0.8)


def test_a_threshold_removes_smooth_shading() -> None:
    lights = LIGHTS * torch.linspace(0.5, 1.0, 9).expand(1, 1, 1, 8, 9)
    alone, followed = (Weiss(threshold)(lights[:, 1], lights)[0] for threshold in (None, 0.3))
    # The one gradient that is kept includes the step of the ramp, 0.1.
    assert (followed - ALBEDO / 0.8).abs().max() < 0.03
    assert (alone - ALBEDO / 0.8).abs().max() > 0.1


def test_lights_are_passed_on_and_have_to_be_there() -> None:
    reflectance, _, failed = run_intrinsic(Weiss(), LIGHTS[:, 1], None, LIGHTS)
    assert not failed.any()
    torch.testing.assert_close(reflectance, ALBEDO / 0.8)
    with refused("model `Weiss` takes images under several lights"):
        run_intrinsic(Weiss(), LIGHTS[:, 1])
    with refused(r"expected `image` .*, `lights` .*got"):
        Weiss()(LIGHTS[:, 1], LIGHTS[:, 1])


# ----------------------------------------------------------------------------------- trained methods


def test_training_generalises_to_other_scenes(model) -> None:
    errors = []
    for scene in map(drawn, range(10, 16)):
        truth = (scene.reflectance[None], scene.shading.expand(1, 3, -1, -1), scene.mask[None])
        # The square root as both parts hedges: it is better than both constants on real objects.
        root = scene.image[None].sqrt()
        controls = [(root, root), *(baseline(scene.image[None]) for baseline in BASELINES.values())]
        found = model(scene.image[None], scene.mask[None])
        errors.append([lmse_score(*parts, *truth).item() for parts in (found, *controls)])
    assert isinstance(model, IntrinsicModel)
    found, *controls = np.mean(errors, axis=0)
    assert found < 0.4 * min(controls)


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


@pytest.mark.parametrize("train", TRAIN.values(), ids=TRAIN.keys())
def test_equal_seeds_give_equal_models(train) -> None:
    # Of a row of pixels: without rows above there are no gradients down, and no pairs on two of three axes.
    scene = drawn(0)
    row = DecomposedImage(scene.image[:, :1], scene.reflectance[:, :1], scene.shading[:, :1], scene.mask[:1])
    first, second = (train([row], seed=4)(scene.image[None])[0] for _ in range(2))
    assert torch.equal(first, second)
    assert first.isfinite().all()


def test_streams_depend_on_seed_and_name() -> None:
    draws = [named_stream(seed, name).random() for seed in (0, 1) for name in ("pairs", "patches")]
    assert len(set(draws)) == 4
    assert named_stream(1, "pairs").random() == draws[2]
