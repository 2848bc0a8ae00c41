"""The local errors: windows of Grosse, Barron, MPI-Sintel, CRefNet and chrislib, against loops."""

from functools import partial

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.lmse import (
    ENERGY_FLOOR,
    geometric_mean,
    gray,
    lmse,
    lmse_barron,
    lmse_barron_score,
    lmse_chrislib_rgb,
    lmse_score,
    lmse_sintel,
)
from candlelight.evaluation.intrinsic.protocol_records import lmse_crefnet
from tests.evaluation.intrinsic.references import (
    drawn,
    slow_barron,
    slow_lmse,
    slow_lmse_crefnet,
    slow_sintel,
)
from tests.refusals import refused


def check_loop(metric, slow, prediction, target, mask) -> None:
    """Compare a metric with a loop over the windows of each image."""
    images = [values.numpy().astype(float) for values in (prediction, target, mask)]
    with np.errstate(invalid="ignore"):  # a pixel outside the mask
        wanted = [slow(*(values[row] for values in images)) for row in range(len(prediction))]
    np.testing.assert_allclose(metric(prediction, target, mask), wanted, rtol=1e-12, atol=1e-15)


def drawn_images(height: int, width: int):
    """Draw pairs of images, one partly black, and weights with a corner of zeros."""
    prediction, target = drawn(0, 2, 3, height, width), drawn(1, 2, 3, height, width)
    prediction[0, :, :9, :9] = 1e-4  # below the floor
    prediction[1, :, : height // 2, : width // 2] = 0
    weights = drawn(2, 2, height, width)
    weights[:, -height // 3 :, : width // 3] = 0
    return prediction, target, weights


@pytest.mark.parametrize(
    ("height", "width", "window", "step"),
    [
        pytest.param(20, 20, 20, 10, id="one window"),
        pytest.param(47, 64, 20, 10, id="rows and columns left over"),
        pytest.param(31, 25, 7, 3, id="odd window"),
        pytest.param(12, 9, 4, 6, id="gaps between windows"),
        pytest.param(100, 705, 20, 10, id="several strips"),
        pytest.param(50, 1500, 12, 9, id="blocks smaller than a step"),
    ],
)
def test_windows_of_grosse_and_chrislib_equal_a_loop(height: int, width: int, window: int, step: int) -> None:
    def in_range_of_the_benchmark(prediction, target, mask):
        return slow_lmse(257 * prediction[None], 257 * target[None], mask, window, step)

    prediction, target, weights = drawn_images(height, width)
    for mask in (weights > 0.4, weights):
        one = prediction[:, 0], target[:, 0], mask
        check_loop(partial(lmse, window=window, step=step), in_range_of_the_benchmark, *one)
        colour = partial(lmse_chrislib_rgb, window=window, step=step)
        check_loop(colour, partial(slow_lmse, window=window, step=step), prediction, target, mask)


BARRON = [(20, 20), (47, 64), (29, 30), (1, 1), (9, 50), (120, 700)]
SINTEL = {
    "even windows": (40, 100),
    "even windows, partial": (97, 94),
    "odd windows": (61, 70),
    "even window, short rows": (62, 47),
    "a half is rounded up": (45, 33),
    "smallest": (5, 5),
    "flattest": (2, 20),
}
CREFNET = [(40, 100), (60, 80), (45, 33), (5, 5), (2, 20), (1, 12)]


def slow_barron_of_channels(prediction, target, mask):
    return np.mean([slow_barron(p, t, mask) for p, t in zip(prediction, target, strict=True)])


@pytest.mark.parametrize(
    ("metric", "slow", "size"),
    [
        *((lmse_barron, slow_barron_of_channels, size) for size in BARRON),
        *((lmse_sintel, slow_sintel, size) for size in SINTEL.values()),
        *((lmse_crefnet, slow_lmse_crefnet, size) for size in CREFNET),
    ],
)
def test_other_windows_equal_a_loop(metric, slow, size: tuple[int, int]) -> None:
    prediction, target, weights = drawn_images(*size)
    for mask in (weights > 0.3, weights):
        check_loop(metric, slow, prediction, target, mask)


def test_one_window_of_grosse_by_hand() -> None:
    target = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    # The best multiple of a constant is the mean 2.5; 2.25 + 0.25 + 0.25 + 2.25 is left of 30.
    assert lmse(torch.ones(1, 2, 2), target, torch.ones(1, 2, 2), window=2).item() == pytest.approx(5 / 30)


def test_blocks_of_barron_by_hand() -> None:
    target, prediction = torch.zeros(1, 20, 20), torch.zeros(1, 20, 20)
    target[0, 0, 8], target[0, 0, 9], prediction[0, 0, 8], prediction[0, 0, 9] = 1, 1, 1, 3
    # Both pixels lie in one block of the first offset: scale 0.4, errors 0.36 and 0.04 of 2. At column 9
    # begins a block with the second pixel alone: no error of 1. Row 0 lies in no block that begins at row 9.
    found = lmse_barron(prediction, target, torch.ones(1, 20, 20)).item()
    assert found == pytest.approx((0.36 + 0.04) / (2 + 1))


def test_one_pixel_of_chrislib_by_hand() -> None:
    target = torch.tensor([3.0, 0.0, 1.0]).reshape(1, 3, 1, 1)
    # White is scaled by 4/3: errors of 5/3, 4/3 and 1/3, so 42/9 of 10 is left. Per channel, 0 would be left.
    found = lmse_chrislib_rgb(torch.ones(1, 3, 1, 1), target, torch.ones(1, 1, 1), window=1)
    assert found.item() == pytest.approx(42 / 90)


def test_one_window_and_the_cap_of_sintel_by_hand() -> None:
    # Windows of 1 pixel, 1 apart, none of which begins in the last row or column.
    target = torch.full((1, 3, 2, 5), 0.5)
    target[0, :, 0, 0] = torch.tensor([1.0, 1.0, 0.25])
    prediction = torch.ones(1, 3, 2, 5)
    prediction[0, :, 0, 0] = torch.tensor([2.0, 0.5, 0.5])
    # Scale (2 + 0.5 + 0.125) / 4.5 = 7/12; scaled values 7/6, cut to 1, and twice 7/24.
    wanted = ((17 / 24) ** 2 + (1 / 24) ** 2) / 3 / 4
    assert lmse_sintel(prediction, target, torch.ones(1, 2, 5)).item() == pytest.approx(wanted)


def test_windows_are_those_of_the_papers_unless_given() -> None:
    images = drawn(3, 1, 40, 40), drawn(4, 1, 40, 40), torch.ones(1, 40, 40)
    for metric, window in ((lmse, 20), (lmse_chrislib_rgb, 16)):
        assert torch.equal(metric(*images), metric(*images, window=window, step=window // 2))
        assert torch.equal(metric(*images, window=1), metric(*images, window=1, step=1))


@pytest.mark.parametrize("metric", [lmse, lmse_chrislib_rgb, lmse_barron, lmse_crefnet])
def test_scale_and_sign_of_the_prediction_do_not_count(metric) -> None:
    prediction, target, mask = drawn(5, 2, 30, 30), drawn(6, 2, 30, 30), torch.ones(2, 30, 30)
    plain = metric(prediction, target, mask)
    torch.testing.assert_close(metric(-3 * prediction, target, mask), plain)
    assert ((plain > 0) & (plain < 1)).all()


def test_window_without_energy_is_not_scaled() -> None:
    target, mask = torch.ones(1, 20, 20), torch.ones(1, 20, 20)
    level = (ENERGY_FLOOR / 400) ** 0.5
    found = [lmse(torch.full((1, 20, 20), factor * level), target, mask).item() for factor in (0.99, 1.01)]
    assert found == pytest.approx([1, 0], abs=1e-6)


@pytest.mark.parametrize(
    "metric", [lmse, lmse_chrislib_rgb, lmse_barron, lmse_sintel, lmse_score, lmse_barron_score]
)
@pytest.mark.parametrize(("floor", "wanted"), [(2**-52, 0.0), (1e-5, 1.0)])
def test_floor_can_be_given(metric, floor: float, wanted: float) -> None:
    dark, target, mask = torch.full((1, 3, 20, 20), 1e-4), torch.ones(1, 3, 20, 20), torch.ones(1, 20, 20)
    images = (dark[:, 0], target[:, 0]) if metric is lmse else (dark, target)
    images = (dark, dark, target, target) if metric in (lmse_score, lmse_barron_score) else images
    assert metric(*images, mask, floor=floor).item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("metric", [lmse, lmse_chrislib_rgb, lmse_barron, lmse_sintel])
def test_gradient_is_finite_where_a_window_is_zero(metric) -> None:
    prediction, target, mask = drawn(9, 3, 2, 40, 40)
    prediction[0], mask[:, :20] = 0, 0
    metric(prediction.requires_grad_(), target, mask).sum().backward()
    assert prediction.grad.isfinite().all()


def test_scores_are_means_of_reflectance_and_shading() -> None:
    images, mask = [drawn(seed, 2, 3, 30, 41) for seed in range(4)], drawn(4, 2, 30, 41) < 0.8
    pairs = list(zip(images[:2], images[2:], strict=True))
    wanted = sum(lmse(p.mean(1), t.mean(1), mask) for p, t in pairs) / 2
    torch.testing.assert_close(lmse_score(*images, mask), wanted)
    torch.testing.assert_close(
        lmse_barron_score(*images, mask), sum(lmse_barron(p, t, mask) for p, t in pairs) / 2
    )


def test_gray_of_half_precision_is_not_rounded_to_it() -> None:
    image = torch.tensor([1.0, 1.0, 1.0009765625]).half().reshape(1, 3, 1, 1)
    assert gray(image).item() == pytest.approx(1 + 0.0009765625 / 3, abs=1e-7)


def test_gray_images_have_the_score_of_chrislib_but_for_window_and_floor() -> None:
    one, target, mask = drawn(2, 3, 2, 30, 30)
    wanted = lmse(one, target, mask, window=16, step=8, floor=1e-5)
    torch.testing.assert_close(lmse_chrislib_rgb(one, target, mask), wanted, rtol=1e-12, atol=0)


def test_channel_without_truth_is_undefined() -> None:
    target = torch.ones(2, 3, 20, 20)
    target[1, 2] = 0
    assert lmse_barron(target, target, torch.ones(2, 20, 20)).isnan().tolist() == [False, True]


def test_geometric_mean() -> None:
    assert geometric_mean(torch.tensor([0.1, 0.2, 0.4])).item() == pytest.approx(0.2)
    assert geometric_mean(torch.tensor([0.1, 0.0])).item() == 0
    assert geometric_mean(torch.tensor([0.1, torch.nan])).isnan()
    with refused("`errors` must be at least 0, got -1"):
        geometric_mean(torch.tensor([0.1, -1.0]))


@pytest.mark.parametrize(
    ("metric", "shape", "options", "message"),
    [
        (lmse, (19, 40), {}, "window of 20x20 pixels, got 19x40"),
        (lmse, (40, 19), {}, "window of 20x20 pixels, got 40x19"),
        (lmse, (20, 20), {"window": 0, "step": 1}, "at least 1 pixel, got 0 and 1"),
        (lmse, (20, 20), {"window": 4, "step": 0}, "at least 1 pixel, got 4 and 0"),
        (lmse, (20, 20), {"floor": -1e-9}, "`floor` must be at least 0, got -1e-09; 0 scales every"),
        (lmse, (20, 20), {"floor": torch.nan}, "`floor` must be at least 0, got nan"),
        (lmse_chrislib_rgb, (15, 40), {}, "window of 16x16 pixels, got 15x40"),
        (lmse_sintel, (4, 4), {}, "longer than 4 pixels.*got 4x4"),
        (lmse_sintel, (1, 20), {}, "longer than 4 pixels.*got 1x20"),
        (lmse_sintel, (40, 2), {}, "longer than 4 pixels.*got 40x2"),
        (lmse_crefnet, (4, 4), {}, "LMSE of MPI-Sintel has no window in smaller ones"),
    ],
)
def test_images_without_a_window_and_invalid_options_are_refused(metric, shape, options, message) -> None:
    image = torch.ones(1, *shape)
    with refused(message):
        metric(image, image, image, **options)
