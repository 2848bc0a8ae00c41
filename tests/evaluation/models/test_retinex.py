import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic import lmse_score, si_mse
from candlelight.evaluation.models.gradients import FLOOR
from candlelight.evaluation.models.poisson import solve_poisson
from candlelight.evaluation.models.retinex import BASELINES, ColourRetinex
from candlelight.loaders.errors import InputError


@pytest.mark.parametrize("seed", range(5))
def test_mondrian_in_smooth_light_is_recovered(mondrian, seed: int) -> None:
    albedo, shading = mondrian(seed)
    mask = torch.ones(1, 60, 80)
    truth = (albedo, shading, mask)
    found = ColourRetinex()(albedo * shading)
    trivial = min(lmse_score(*model(albedo * shading), *truth).item() for model in BASELINES.values())
    # Only the smooth shading across the few edges is lost: errors of 2e-5 to 5e-5; baselines 8e-3 to 2e-2.
    assert lmse_score(*found, *truth).item() < 1e-4 < 0.02 * trivial
    assert si_mse(found[0], albedo, mask).item() < 2e-4


@pytest.mark.parametrize("seed", range(3))
def test_differences_equal_a_loop_over_pixels(seed: int) -> None:
    image = np.random.default_rng(seed).uniform(0.05, 1, (3, 6, 7))
    model = ColourRetinex(brightness=0.6, chroma=0.5)
    kept = np.zeros((2, 6, 7))
    for axis, (down, right) in enumerate(((1, 0), (0, 1))):
        for y in range(down, 6):
            for x in range(right, 7):
                here, before = image[:, y, x], image[:, y - down, x - right]
                step = np.log(here) - np.log(before)
                brightness = step.sum() / 3
                chroma = np.linalg.norm(step - brightness)
                if chroma > 0.5 or abs(brightness) > 0.6:
                    kept[axis, y, x] = np.log(here.mean()) - np.log(before.mean())
    wanted = np.exp(solve_poisson(*kept)) * image / image.mean(0)
    reflectance, shading = (part.numpy()[0] for part in model(torch.from_numpy(image)[None]))
    np.testing.assert_allclose(reflectance, wanted / wanted.max(), rtol=1e-10)
    np.testing.assert_allclose(reflectance * shading, image, rtol=1e-12)
    np.testing.assert_allclose(shading, shading[:1].repeat(3, axis=0), rtol=1e-12)


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
    is_flat = (shading.max() - shading.min()).item() < 1e-9
    assert is_flat == is_reflectance


def test_mask_keeps_the_background_out(mondrian) -> None:
    albedo, shading = mondrian(0, 30, 40)
    mask = torch.zeros(1, 30, 40, dtype=torch.bool)
    mask[:, 4:26, 5:36] = True
    image = albedo * shading
    reflectance, shade = ColourRetinex()(image, mask)
    cut = ColourRetinex()(image[..., 4:26, 5:36])
    torch.testing.assert_close(reflectance[..., 4:26, 5:36], cut[0])
    torch.testing.assert_close(shade[..., 4:26, 5:36], cut[1])
    assert (reflectance * ~mask).abs().max() == 0
    assert (shade * ~mask).abs().max() == 0


def test_images_of_a_batch_are_independent_and_have_their_own_masks(mondrian) -> None:
    images = torch.cat([mondrian(seed, 12, 10)[0] for seed in range(3)])
    masks = torch.rand(3, 12, 10, generator=torch.Generator().manual_seed(0)) < 0.7
    together = ColourRetinex()(images, masks)
    for row in range(3):
        alone = ColourRetinex()(images[row : row + 1], masks[row : row + 1])
        assert all(torch.equal(a[row], b[0]) for a, b in zip(together, alone, strict=True))


def test_black_is_raised_to_the_floor() -> None:
    reflectance, shading = ColourRetinex()(torch.zeros(1, 3, 4, 4))
    assert (reflectance == 1).all()
    torch.testing.assert_close(shading, torch.full((1, 3, 4, 4), FLOOR))


def test_empty_mask_gives_zeros() -> None:
    found = ColourRetinex()(torch.ones(1, 3, 4, 4), torch.zeros(1, 4, 4, dtype=torch.bool))
    assert all((part == 0).all() for part in found)


def test_dtype_and_input_are_kept() -> None:
    image = torch.zeros(1, 3, 4, 4, requires_grad=True)
    reflectance, _ = ColourRetinex()(image)
    assert reflectance.dtype == torch.float32
    assert (image == 0).all()


@pytest.mark.parametrize("thresholds", [(-1.0, 0.1), (1.0, -0.1), (float("nan"), 0.1)])
def test_thresholds_below_zero(thresholds: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="must be a threshold of at least 0, got"):
        ColourRetinex(*thresholds)
