"""Errors of images agree with scikit-image and torchmetrics."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic import mse, psnr
from candlelight.evaluation.intrinsic.image_errors import ciede2000, linear_to_lab
from candlelight.evaluation.intrinsic.ssim import ssim, ssim_padded
from candlelight.loaders.colour import linear_to_srgb

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def color():
    return pytest.importorskip("skimage.color", reason="the extra `oracles` is not installed")


@pytest.fixture(scope="module")
def metrics():
    return pytest.importorskip("skimage.metrics", reason="the extra `oracles` is not installed")


def images(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a target and a prediction that resembles it, in [0, 1]."""
    target, noise = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return 0.6 * target + 0.4 * noise, target


def by_channel(batch: torch.Tensor) -> list[np.ndarray]:
    return [image.permute(1, 2, 0).numpy() for image in batch]


def test_mse_and_psnr_of_scikit_image(metrics):
    prediction, target = images(2, 3, 9, 12)
    everywhere = torch.ones(2, 9, 12)
    pairs = list(zip(by_channel(target), by_channel(prediction), strict=True))
    for ours, theirs in (
        (mse, metrics.mean_squared_error),
        (psnr, lambda *pair: metrics.peak_signal_noise_ratio(*pair, data_range=1)),
    ):
        expected = [theirs(*pair) for pair in pairs]
        np.testing.assert_allclose(ours(prediction, target, everywhere), expected, rtol=1e-9)


def test_ssim_of_scikit_image(metrics):
    prediction, target = images(2, 3, 24, 31)
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "channel_axis": -1}
    expected = [
        metrics.structural_similarity(*pair, data_range=1, **settings)
        for pair in zip(by_channel(prediction), by_channel(target), strict=True)
    ]
    np.testing.assert_allclose(ssim(prediction, target, torch.ones(2, 24, 31)), expected, rtol=1e-9)


def test_ssim_of_torchmetrics_is_the_padded_one():
    functional = pytest.importorskip("torchmetrics.functional.image")
    prediction, target = images(2, 3, 24, 31)
    expected = functional.structural_similarity_index_measure(
        prediction, target, data_range=1.0, reduction="none"
    )
    torch.testing.assert_close(ssim_padded(prediction, target, torch.ones(2, 24, 31)), expected)


def test_lab_and_ciede2000_of_scikit_image(color):
    one, other = images(400, 3)
    labs = [color.rgb2lab(linear_to_srgb(colours.numpy())) for colours in (one, other)]
    for colours, lab in zip((one, other), labs, strict=True):
        # The white of scikit-image is rounded to four digits.
        np.testing.assert_allclose(linear_to_lab(colours), lab, atol=0.02)
    found = ciede2000(*map(torch.from_numpy, labs))
    np.testing.assert_allclose(found, color.deltaE_ciede2000(*labs), rtol=1e-9)
