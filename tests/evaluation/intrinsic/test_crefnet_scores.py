import numpy as np
import pytest
import torch
from numpy import ndarray

from candlelight.evaluation.intrinsic.protocol_records import dssim_crefnet, lmse_crefnet
from candlelight.evaluation.intrinsic.ssim import dssim
from candlelight.loaders.errors import InputError


def literal_lmse(prediction: ndarray, target: ndarray, mask: ndarray) -> float:
    """Compute the si-LMSE of one image [channels, height, width] window by window."""
    height, width = mask.shape
    k = int(max(height, width) * 0.1 + 0.5)
    s = int(k / 2 + 0.5)
    errors = []
    for i in range(0, height - s + 1, s):
        for j in range(0, width - s + 1, s):
            here = np.s_[:, i : min(height, i + k), j : min(width, j + k)]
            a, b = prediction[here], target[here]
            m = np.broadcast_to(mask[here[1:]], a.shape)
            energy = np.sum(m * a * a)
            alpha = np.sum(m * a * b) / energy if energy > 1e-5 else 0.0
            errors.append(np.sum(m * (alpha * a - b) ** 2) / max(m.sum(), 1e-6))
    return float(np.mean(errors))


def literal_ssim(x: ndarray, y: ndarray) -> float:
    """Average the SSIM over all windows of 11x11 of images [channels, height, width]."""
    gauss = np.exp(-((np.arange(11) - 5.0) ** 2) / (2 * 1.5**2))
    weights = np.outer(gauss, gauss) / gauss.sum() ** 2
    found = []
    for one, other in zip(x, y, strict=True):
        for i in range(one.shape[0] - 10):
            for j in range(one.shape[1] - 10):
                a, b = one[i : i + 11, j : j + 11], other[i : i + 11, j : j + 11]
                mu, nu = np.sum(weights * a), np.sum(weights * b)
                va, vb = np.sum(weights * (a - mu) ** 2), np.sum(weights * (b - nu) ** 2)
                cov = np.sum(weights * (a - mu) * (b - nu))
                top = (2 * mu * nu + 1e-4) * (2 * cov + 9e-4)
                found.append(top / ((mu * mu + nu * nu + 1e-4) * (va + vb + 9e-4)))
    return float(np.mean(found))


def literal_dssim(prediction: ndarray, target: ndarray, mask: ndarray) -> float:
    """Search the scale of the best SSIM of one image, as the program does."""
    prediction, target = prediction * mask, target * mask
    energy = np.sum(mask * prediction**2)
    alpha = np.sum(mask * prediction * target) / energy if energy > 1e-5 else 0.0
    best = (1 - literal_ssim(alpha * prediction, target)) / 2
    for i in range(2, 11):
        for sign in (-1, 1):
            step = sign * 2.0**-i
            while 0 < alpha + step < 5:
                new = (1 - literal_ssim((alpha + step) * prediction, target)) / 2
                if not new < best:
                    break
                alpha, best = alpha + step, new
    return float(best)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, shape))


@pytest.mark.parametrize("shape", [(40, 100), (60, 80), (45, 33), (5, 5), (2, 20), (1, 12)])
@pytest.mark.parametrize("masked", [False, True])
def test_lmse_equals_the_loop_over_windows(shape: tuple[int, int], masked: bool) -> None:
    prediction, target = 2 * drawn(0, 2, 3, *shape), drawn(1, 2, 3, *shape)
    prediction[1, :, : shape[0] // 2] = 0
    mask = drawn(2, 2, *shape) > (0.5 if masked else -1)
    mask[:, shape[0] // 2 :, : shape[1] // 2] &= not masked
    found = lmse_crefnet(prediction, target, mask)
    for row in range(2):
        if mask[row].any():
            arrays = (values[row].numpy().astype(float) for values in (prediction, target, mask))
            assert found[row].item() == pytest.approx(literal_lmse(*arrays), rel=1e-12)


def test_dssim_equals_the_search() -> None:
    target = drawn(3, 2, 2, 13, 14)
    prediction = 0.4 * target + 0.3 * drawn(4, 2, 2, 13, 14)
    mask = drawn(5, 2, 13, 14) > 0.2
    found = dssim_crefnet(prediction, target, mask)
    for row in range(2):
        arrays = [values[row].numpy().astype(float) for values in (prediction, target, mask)]
        assert found[row].item() == pytest.approx(literal_dssim(*arrays), rel=1e-9)


def test_search_is_never_worse_than_the_scale_of_least_squares() -> None:
    target, mask = drawn(6, 3, 3, 20, 20), torch.ones(3, 20, 20)
    prediction = target.sqrt()
    searched, plain = dssim_crefnet(prediction, target, mask), dssim(prediction, target, mask)
    assert (searched <= plain + 1e-12).all()
    assert (searched < plain - 1e-6).any()


def test_zeros_keep_their_scale() -> None:
    target, mask = drawn(7, 1, 3, 16, 16), torch.ones(1, 16, 16)
    black = dssim_crefnet(0 * target, target, mask).item()
    assert black == pytest.approx((1 - literal_ssim(0 * target[0].numpy(), target[0].numpy())) / 2)


def test_small_images() -> None:
    image = torch.ones(1, 3, 4, 4)
    with pytest.raises(InputError, match="LMSE of MPI-Sintel has no window in smaller ones"):
        lmse_crefnet(image, image, image[:, 0])
    with pytest.raises(InputError, match="SSIM needs images of at least 11x11 pixels, got 4x4"):
        dssim_crefnet(image, image, image[:, 0])
