import numpy as np
import pytest
import torch
from numpy import ndarray

from candlelight.evaluation.intrinsic.ssim import ssim, ssim_padded
from candlelight.loaders.errors import InputError


def mirrored(place: int, length: int) -> int:
    """Mirror a place at the first and the last pixel, which are not repeated."""
    place = -place if place < 0 else place
    return 2 * (length - 1) - place if place >= length else place


def literal(x: ndarray, y: ndarray) -> float:
    """Average the SSIM of the window around every pixel of two gray images, with data range 1."""
    height, width = x.shape
    gauss = np.exp(-((np.arange(11) - 5.0) ** 2) / (2 * 1.5**2))
    gauss /= gauss.sum()
    found = []
    for i in range(height):
        for j in range(width):
            sums = np.zeros(5)
            for a in range(11):
                for b in range(11):
                    p, q = (mirrored(i + a - 5, height), mirrored(j + b - 5, width))
                    u, v = x[p, q], y[p, q]
                    sums += gauss[a] * gauss[b] * np.array([u, v, u * u, v * v, u * v])
            mu, nu, uu, vv, uv = sums
            one = (2 * mu * nu + 0.01**2) * (2 * (uv - mu * nu) + 0.03**2)
            other = (mu * mu + nu * nu + 0.01**2) * (uu - mu * mu + vv - nu * nu + 0.03**2)
            found.append(one / other)
    return float(np.mean(found))


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, shape))


@pytest.mark.parametrize("shape", [(6, 6), (6, 13), (12, 9)])
def test_equals_the_loop_over_pixels(shape: tuple[int, int]) -> None:
    target = drawn(0, 2, 2, *shape)
    prediction = 0.7 * target + 0.3 * drawn(1, 2, 2, *shape)
    mask = drawn(2, 2, *shape) > 0.3
    found = ssim_padded(prediction, target, mask)
    for row in range(2):
        pairs = zip(prediction[row], target[row], strict=True)
        wanted = np.mean([literal(*((one * mask[row]).numpy() for one in pair)) for pair in pairs])
        assert found[row].item() == pytest.approx(wanted, abs=1e-12)


def test_differs_from_ssim_of_whole_windows() -> None:
    target, prediction, mask = drawn(3, 1, 3, 30, 30), drawn(4, 1, 3, 30, 30), torch.ones(1, 30, 30)
    assert abs(ssim_padded(prediction, target, mask) - ssim(prediction, target, mask)) > 1e-4


def test_pixels_outside_the_mask_count_as_equal() -> None:
    target, prediction = drawn(5, 1, 3, 40, 40), drawn(6, 1, 3, 40, 40)
    mask = torch.zeros(1, 40, 40)
    mask[:, 15:20, 15:20] = 1
    assert ssim_padded(prediction, target, mask) > 0.8
    assert ssim(prediction, target, mask) < ssim_padded(prediction, target, mask)


@pytest.mark.parametrize("shape", [(5, 20), (20, 5), (1, 1)])
def test_small_images(shape: tuple[int, int]) -> None:
    image = torch.ones(1, 3, *shape)
    message = rf"^padded SSIM needs images of at least 6x6 pixels, got {shape[0]}x{shape[1]}"
    with pytest.raises(InputError, match=message):
        ssim_padded(image, image, image[:, 0])
