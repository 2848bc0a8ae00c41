import math

import numpy as np
import pytest
import torch
from numpy import ndarray

from candlelight.evaluation.intrinsic.lmse import lmse_sintel
from candlelight.loaders.errors import InputError


def literal(prediction: ndarray, target: ndarray, mask: ndarray) -> float:
    """Compute the score of one image [channels, height, width] window by window, counting from 1."""

    def rounded(value: float) -> int:
        return math.floor(value + 0.5)

    height, width = mask.shape
    k = rounded(max(height, width) * 0.1)
    s = rounded(k / 2)
    errors = []
    for i in range(1, height - s + 1, s):
        for j in range(1, width - s + 1, s):
            here = np.s_[:, i - 1 : min(height, i + k - 1), j - 1 : min(width, j + k - 1)]
            a, b = prediction[here], target[here]
            m = np.broadcast_to(mask[here[1:]], a.shape)
            if not m.any():
                continue
            energy = np.sum(m * a * a)
            scaled = np.minimum(a * (np.sum(m * a * b) / energy), 1) if energy else 0 * a
            errors.append(np.sum(m * (scaled - b) ** 2) / np.sum(m))
    return float(np.mean(errors))


def drawn(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.from_numpy(rng.uniform(0, 1, shape))


@pytest.mark.parametrize(
    ("height", "width"),
    [
        pytest.param(40, 100, id="even windows"),
        pytest.param(97, 94, id="even windows, partial"),
        pytest.param(61, 70, id="odd windows"),
        pytest.param(62, 47, id="even window, short rows"),
        pytest.param(45, 33, id="a half is rounded up"),
        pytest.param(5, 5, id="smallest"),
        pytest.param(2, 20, id="flattest"),
        pytest.param(109, 256, id="Sintel by four"),
    ],
)
@pytest.mark.parametrize("kind", ["all", "boolean", "weights"])
def test_equals_the_loop_over_windows(height: int, width: int, kind: str) -> None:
    rng = np.random.default_rng(0)
    prediction, target = drawn(rng, 2, 3, height, width), drawn(rng, 2, 3, height, width)
    prediction[1, :, : height // 2, : width // 2] = 0
    weights = drawn(rng, 2, height, width)
    weights[:, -height // 3 :, : width // 3] = 0
    mask = {"all": weights >= 0, "boolean": weights > 0.5, "weights": weights}[kind]
    found = lmse_sintel(prediction, target, mask)
    images = [values.numpy().astype(float) for values in (prediction, target, mask)]
    wanted = [literal(*(values[row] for values in images)) for row in range(2)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_one_window_and_the_cap_by_hand() -> None:
    # Windows of 1 pixel, 1 apart, none of which begins in the last row or column.
    target = torch.full((1, 3, 2, 5), 0.5)
    target[0, :, 0, 0] = torch.tensor([1.0, 1.0, 0.25])
    prediction = torch.ones(1, 3, 2, 5)
    prediction[0, :, 0, 0] = torch.tensor([2.0, 0.5, 0.5])
    # Scale (2 + 0.5 + 0.125) / 4.5 = 7/12; scaled values 7/6, cut to 1, and twice 7/24.
    wanted = ((17 / 24) ** 2 + (1 / 24) ** 2) / 3 / 4
    assert lmse_sintel(prediction, target, torch.ones(1, 2, 5)).item() == pytest.approx(wanted)


def test_error_is_not_relative_to_the_target() -> None:
    rng = np.random.default_rng(1)
    prediction, target, mask = drawn(rng, 1, 3, 30, 30), drawn(rng, 1, 3, 30, 30), torch.ones(1, 30, 30)
    halved = lmse_sintel(prediction, 0.01 * target, mask)  # dark enough that nothing is cut
    torch.testing.assert_close(lmse_sintel(prediction, 0.005 * target, mask), halved / 4)
    torch.testing.assert_close(lmse_sintel(-7 * prediction, 0.01 * target, mask), halved)


def test_windows_outside_the_mask_do_not_count() -> None:
    rng = np.random.default_rng(2)
    prediction, target = drawn(rng, 1, 3, 30, 30), drawn(rng, 1, 3, 30, 30)
    mask = torch.zeros(1, 30, 30, dtype=torch.bool)
    mask[0, 4, 4] = True
    # With windows of 3, 2 apart, this pixel lies in the 4 windows that begin at 2 or 4; all have it alone.
    energy, cross = (prediction[0, :, 4, 4] @ other[0, :, 4, 4] for other in (prediction, target))
    scaled = (cross / energy * prediction[0, :, 4, 4]).clamp(max=1)
    wanted = (scaled - target[0, :, 4, 4]).square().mean()
    torch.testing.assert_close(lmse_sintel(prediction, target, mask)[0], wanted)


@pytest.mark.parametrize(("floor", "wanted"), [(0.0, 0.0), (1e-5, 0.25)])
def test_floor(floor: float, wanted: float) -> None:
    dark, target, mask = torch.full((1, 20, 20), 1e-4), torch.full((1, 20, 20), 0.5), torch.ones(1, 20, 20)
    assert lmse_sintel(dark, target, mask, floor).item() == pytest.approx(wanted, abs=1e-6)


def test_gradient_is_finite_where_a_window_is_zero() -> None:
    prediction, target, mask = drawn(np.random.default_rng(3), 3, 2, 20, 20)
    prediction[0] = 0
    lmse_sintel(prediction.requires_grad_(), target, mask).sum().backward()
    assert prediction.grad is not None
    assert prediction.grad.isfinite().all()


@pytest.mark.parametrize("shape", [(4, 4), (1, 1), (1, 20), (40, 2)])
def test_image_without_a_window(shape: tuple[int, int]) -> None:
    image = torch.ones(1, 3, *shape)
    with pytest.raises(InputError, match=rf"longer than 4 pixels.*got {shape[0]}x{shape[1]}"):
        lmse_sintel(image, image, image[:, 0])
