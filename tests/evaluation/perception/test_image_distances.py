import math

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from candlelight.evaluation.perception.distances import (
    DISTANCES,
    dssim_distance,
    lmse_distance,
    ms_ssim_distance,
    rmse_distance,
    ssim_distance,
)
from tests.refusals import refused

SIDE = {"ms-ssim": 161}
NAN = float("nan")


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape)).float()


def pair(name: str) -> tuple[Tensor, Tensor]:
    """Draw images, and the same with some noise."""
    side = SIDE.get(name, 24)
    reference = drawn(0, 2, 3, side, side)
    return 0.8 * reference + 0.2 * drawn(1, 2, 3, side, side), reference


@pytest.mark.parametrize("name", DISTANCES)
def test_equal_images_have_distance_0_and_others_more(name):
    distance, _ = DISTANCES[name]
    transformed, reference = pair(name)
    assert distance(reference, reference).tolist() == pytest.approx([0, 0], abs=1e-7)
    found = distance(transformed, reference)
    assert found.shape == (2,)
    assert bool((found > 0.001).all())


@pytest.mark.parametrize("name", ["rmse", "ssim", "ms-ssim"])
def test_symmetric(name):
    distance, _ = DISTANCES[name]
    transformed, reference = pair(name)
    torch.testing.assert_close(distance(transformed, reference), distance(reference, transformed))


def test_rmse_of_one_changed_value():
    reference = torch.full((1, 3, 2, 2), 0.5)
    changed = reference.clone()
    changed[0, 1, 0, 1] = 0.9
    assert rmse_distance(changed, reference).item() == pytest.approx(0.4 / math.sqrt(12))


def test_ssim_equals_windows_of_the_paper_s_constants():
    transformed, reference = (images.double().numpy() for images in pair("ssim"))
    across = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    weights = np.outer(across, across) / across.sum() ** 2
    wanted = []
    for one, other in zip(transformed.reshape(-1, 24, 24), reference.reshape(-1, 24, 24), strict=True):
        a, b = (sliding_window_view(values, (11, 11)) for values in (one, other))
        mean_a, mean_b = (weights * a).sum((2, 3)), (weights * b).sum((2, 3))
        variance = (weights * (a**2 + b**2)).sum((2, 3)) - mean_a**2 - mean_b**2
        product = (weights * a * b).sum((2, 3)) - mean_a * mean_b
        map_ = (2 * mean_a * mean_b + 0.01**2) * (2 * product + 0.03**2)
        map_ /= (mean_a**2 + mean_b**2 + 0.01**2) * (variance + 0.03**2)
        wanted.append(1 - map_.mean())
    found = ssim_distance(torch.from_numpy(transformed), torch.from_numpy(reference))
    np.testing.assert_allclose(found, np.reshape(wanted, (2, 3)).mean(1), atol=1e-10)


def test_closed_forms_of_constant_images():
    """Only the luminance of Wang et al. differs: (2 a b + C1) / (a^2 + b^2 + C1)."""
    a, b = 0.25, 0.75
    luminance = (2 * a * b + 1e-4) / (a**2 + b**2 + 1e-4)
    one, other = torch.full((1, 3, 176, 176), a).double(), torch.full((1, 3, 176, 176), b).double()
    small = one[..., :12, :12], other[..., :12, :12]
    assert ssim_distance(*small).item() == pytest.approx(1 - luminance)
    assert ms_ssim_distance(one, other).item() == pytest.approx(1 - luminance**0.1333)
    assert dssim_distance(*small).item() == pytest.approx(0)
    assert rmse_distance(one, other).item() == pytest.approx(0.5)


def test_lmse_ignores_a_scale_of_each_window_and_colour():
    reference = drawn(2, 1, 3, 20, 20)
    gray = reference.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    assert lmse_distance(0.3 * gray, reference).item() == pytest.approx(0, abs=1e-7)
    assert lmse_distance(torch.zeros_like(gray), reference).item() == 1
    assert math.isnan(lmse_distance(gray, torch.zeros_like(gray)).item())


@pytest.mark.parametrize("name", DISTANCES)
def test_values_that_are_not_finite_give_nan_in_their_row_alone(name):
    distance, _ = DISTANCES[name]
    transformed, reference = pair(name)
    for place, images in enumerate((transformed, reference)):
        broken = images.clone()
        broken[1, 0, 3, 3] = NAN
        given = (broken, reference) if place == 0 else (transformed, broken)
        assert distance(*given).isnan().tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "side", "message"),
    [
        ("ssim", 10, "SSIM needs images of at least 11x11 pixels, got 10x10"),
        ("dssim", 10, "SSIM needs images of at least 11x11 pixels, got 10x10"),
        ("ms-ssim", 160, "MS-SSIM needs images of at least 161x161 pixels, got 160x160"),
        ("lmse", 19, "got 19x19"),
    ],
)
def test_small_images(name, side, message):
    images = torch.zeros(1, 3, side, side)
    with refused(message):
        DISTANCES[name][0](images, images)
