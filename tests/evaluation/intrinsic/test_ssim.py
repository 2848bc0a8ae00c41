"""Structural similarity: of whole windows, over scales, with mirrored borders, and with a searched scale."""

import numpy as np
import pytest
import pytorch_msssim
import torch

from candlelight.evaluation.intrinsic import SSIM_DEFINITION
from candlelight.evaluation.intrinsic.protocol_records import dssim_crefnet
from candlelight.evaluation.intrinsic.ssim import dssim, ms_ssim, ssim, ssim_padded
from tests.evaluation.intrinsic.references import (
    ACROSS,
    drawn,
    similarity,
    slow_dssim_crefnet,
    slow_ssim_padded,
    touching,
)
from tests.refusals import refused

TOLERANCE = 1e-10


@pytest.mark.parametrize(
    ("shape", "data_range"), [((11, 11), 1.0), ((11, 30), 1.0), ((25, 19), 1.0), ((25, 19), 4.0)]
)
def test_equals_the_loop_over_windows(shape: tuple[int, int], data_range: float) -> None:
    assert "11x11 Gaussian windows, sigma 1.5" in SSIM_DEFINITION
    target = drawn(0, 2, 3, *shape)
    prediction = 0.7 * target + 0.3 * drawn(1, 2, 3, *shape) ** 2
    found = ssim(prediction, target, torch.ones(2, *shape), data_range)
    for row in range(2):
        pairs = zip(prediction[row].numpy(), target[row].numpy(), strict=True)
        wanted = np.mean([similarity(x, y, data_range)[0].mean() for x, y in pairs])
        assert found[row].item() == pytest.approx(wanted, abs=TOLERANCE)


@pytest.mark.parametrize("kind", ["ellipse", "pixel", "corner", "speckles", "weights"])
def test_mean_is_over_the_windows_that_touch_the_mask(kind: str) -> None:
    prediction, target = drawn(2, 1, 2, 40, 36), drawn(3, 1, 2, 40, 36)
    mask = torch.zeros(1, 40, 36)
    y, x = torch.meshgrid(torch.arange(40), torch.arange(36), indexing="ij")
    mask[0] = {
        "ellipse": ((y - 15) / 9) ** 2 + ((x - 20) / 6) ** 2 < 1,
        "pixel": (y == 20) & (x == 20),
        "corner": (y == 39) & (x == 35),
        "speckles": drawn(4, 40, 36) < 0.01,
        "weights": (y < 12) * 0.25,
    }[kind]
    inside = mask[0].numpy() > 0
    wanted = np.mean(
        [
            similarity(p * inside, t * inside, 1.0)[0][touching(inside)].mean()
            for p, t in zip(prediction[0].numpy(), target[0].numpy(), strict=True)
        ]
    )
    assert ssim(prediction, target, mask).item() == pytest.approx(wanted, abs=TOLERANCE)


@pytest.mark.parametrize("size", [(161, 161), (178, 163)])
def test_multi_scale_of_the_whole_image_is_that_of_the_package(size: tuple[int, int]) -> None:
    target = drawn(7, 2, 3, *size)
    prediction = 0.6 * target + 0.4 * drawn(8, 2, 3, *size)
    window = (ACROSS / ACROSS.sum()).expand(3, 1, 1, 11)  # the package's own is rounded to float32
    wanted = pytorch_msssim.ms_ssim(prediction, target, data_range=1.0, size_average=False, win=window)
    torch.testing.assert_close(ms_ssim(prediction, target, torch.ones(2, *size)), wanted, rtol=1e-9, atol=0)


def test_windows_have_the_gradients_of_the_package() -> None:
    target, prediction = drawn(21, 1, 3, 20, 24), drawn(22, 1, 3, 20, 24).requires_grad_()
    window = (ACROSS / ACROSS.sum()).expand(3, 1, 1, 11)
    wanted = pytorch_msssim.ssim(prediction, target, data_range=1.0, win=window)
    (slopes,) = torch.autograd.grad(wanted, prediction)
    (found,) = torch.autograd.grad(ssim(prediction, target, torch.ones(1, 20, 24)).sum(), prediction)
    torch.testing.assert_close(found, slopes, rtol=1e-9, atol=1e-15)


def test_multi_scale_counts_the_windows_that_touch_the_mask() -> None:
    target = drawn(9, 1, 1, 166, 161)
    prediction = 0.5 * target + 0.5 * drawn(10, 1, 1, 166, 161)
    mask = torch.zeros(1, 166, 161)
    mask[0, 20:60, 30:45] = 1
    inside = mask[0].numpy() > 0
    x, y = prediction[0, 0].numpy() * inside, target[0, 0].numpy() * inside
    wanted = 1.0
    for weight in (0.0448, 0.2856, 0.3001, 0.2363, 0.1333):
        full, structure = similarity(x, y, 1.0)
        wanted *= (full if weight == 0.1333 else structure)[touching(inside)].mean() ** weight
        odd = [(size % 2, size % 2) for size in x.shape]
        x, y, part = (np.pad(values, odd) for values in (x, y, inside.astype(float)))
        rows, columns = x.shape[0] // 2, x.shape[1] // 2
        x, y, part = (
            values[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2).mean((1, 3))
            for values in (x, y, part)
        )
        inside = part > 0
    assert ms_ssim(prediction, target, mask).item() == pytest.approx(wanted, abs=TOLERANCE)


def test_bright_flat_areas_are_not_rounded() -> None:
    flat = torch.full((1, 30, 30), 300.0)
    assert ssim(flat, flat + 1, torch.ones(1, 30, 30)).item() == pytest.approx(1, abs=1e-4)


def test_means_below_zero_count_as_zero() -> None:
    target = drawn(11, 1, 161, 161)
    assert ms_ssim(1 - target, target, torch.ones(1, 161, 161)).item() == 0
    assert ssim(1 - target, target, torch.ones(1, 161, 161)).item() < 0


def test_dissimilarity_is_that_of_the_scaled_prediction() -> None:
    prediction, target = drawn(12, 1, 3, 20, 20), drawn(13, 1, 3, 20, 20)
    mask = drawn(14, 1, 20, 20) < 0.7
    inside = mask.expand(1, 3, 20, 20)
    p, t = prediction[inside].numpy(), target[inside].numpy()
    wanted = (1 - ssim((p @ t) / (p @ p) * prediction, target, mask)) / 2
    torch.testing.assert_close(dssim(prediction, target, mask), wanted)
    torch.testing.assert_close(dssim(-9 * prediction, target, mask), wanted)
    # Nothing is cut: scaled values above 1 keep their contrast.
    bright = 5 * target
    assert dssim(0.1 * bright, bright, mask, data_range=5).item() < 1e-6


def test_dissimilarity_of_a_black_prediction() -> None:
    target, mask = drawn(15, 1, 20, 20), torch.ones(1, 20, 20)
    black = torch.zeros_like(target)
    torch.testing.assert_close(dssim(black, target, mask), (1 - ssim(black, target, mask)) / 2)
    dark = torch.full_like(target, 1e-4)
    assert dssim(dark, target, mask, floor=1e-5) == dssim(black, target, mask)
    assert dssim(dark, target, mask) < dssim(black, target, mask)


@pytest.mark.parametrize("shape", [(6, 6), (6, 13), (12, 9)])
def test_mirrored_borders_equal_the_loop_over_pixels(shape: tuple[int, int]) -> None:
    target = drawn(0, 2, 2, *shape)
    prediction = 0.7 * target + 0.3 * drawn(1, 2, 2, *shape)
    mask = drawn(2, 2, *shape) > 0.3
    found = ssim_padded(prediction, target, mask)
    for row in range(2):
        pairs = zip(prediction[row], target[row], strict=True)
        wanted = np.mean([slow_ssim_padded(*((one * mask[row]).numpy() for one in pair)) for pair in pairs])
        assert found[row].item() == pytest.approx(wanted, abs=1e-12)


def test_dissimilarity_of_the_best_scale_equals_the_search() -> None:
    target = drawn(3, 2, 2, 13, 14)
    prediction = 0.4 * target + 0.3 * drawn(4, 2, 2, 13, 14)
    mask = drawn(5, 2, 13, 14) > 0.2
    found = dssim_crefnet(prediction, target, mask)
    for row in range(2):
        arrays = [values[row].numpy().astype(float) for values in (prediction, target, mask)]
        assert found[row].item() == pytest.approx(slow_dssim_crefnet(*arrays), rel=1e-9)


@pytest.mark.parametrize(
    ("metric", "smallest"), [(ssim, 11), (dssim, 11), (dssim_crefnet, 11), (ms_ssim, 161), (ssim_padded, 6)]
)
def test_smallest_image(metric, smallest: int) -> None:
    image = drawn(18, 1, smallest, smallest)
    assert metric(image, image, torch.ones_like(image)).isfinite().all()
    for small in (image[:, 1:], image[..., 1:]):
        size = f"{small.shape[1]}x{small.shape[2]}"
        with refused(f"SSIM needs images of at least {smallest}x{smallest} pixels, got {size}"):
            metric(small, small, torch.ones_like(small))


def test_invalid_range() -> None:
    image = torch.ones(1, 11, 11)
    with refused("`data_range` must be a finite number above 0, got 0"):
        ssim(image, image, image, data_range=0)
