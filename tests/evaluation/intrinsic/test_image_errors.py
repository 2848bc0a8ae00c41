"""Mean squared errors, PSNR, and the colour difference CIEDE2000."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.image_errors import ciede2000, linear_to_lab, mse, psnr, si_mse
from candlelight.evaluation.intrinsic.lmse import ENERGY_FLOOR
from tests.evaluation.intrinsic.references import drawn, slow_ciede2000, slow_lab
from tests.refusals import refused

# Table 1 of Sharma, Wu and Dalal 2005: two colours and their difference.
PAIRS = """
50.0000 2.6772 -79.7751 50.0000 0.0000 -82.7485 2.0425
50.0000 3.1571 -77.2803 50.0000 0.0000 -82.7485 2.8615
50.0000 2.8361 -74.0200 50.0000 0.0000 -82.7485 3.4412
50.0000 -1.3802 -84.2814 50.0000 0.0000 -82.7485 1.0000
50.0000 -1.1848 -84.8006 50.0000 0.0000 -82.7485 1.0000
50.0000 -0.9009 -85.5211 50.0000 0.0000 -82.7485 1.0000
50.0000 0.0000 0.0000 50.0000 -1.0000 2.0000 2.3669
50.0000 -1.0000 2.0000 50.0000 0.0000 0.0000 2.3669
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0009 7.1792
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0010 7.1792
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0011 7.2195
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0012 7.2195
50.0000 -0.0010 2.4900 50.0000 0.0009 -2.4900 4.8045
50.0000 -0.0010 2.4900 50.0000 0.0010 -2.4900 4.8045
50.0000 -0.0010 2.4900 50.0000 0.0011 -2.4900 4.7461
50.0000 2.5000 0.0000 50.0000 0.0000 -2.5000 4.3065
50.0000 2.5000 0.0000 73.0000 25.0000 -18.0000 27.1492
50.0000 2.5000 0.0000 61.0000 -5.0000 29.0000 22.8977
50.0000 2.5000 0.0000 56.0000 -27.0000 -3.0000 31.9030
50.0000 2.5000 0.0000 58.0000 24.0000 15.0000 19.4535
50.0000 2.5000 0.0000 50.0000 3.1736 0.5854 1.0000
50.0000 2.5000 0.0000 50.0000 3.2972 0.0000 1.0000
50.0000 2.5000 0.0000 50.0000 1.8634 0.5757 1.0000
50.0000 2.5000 0.0000 50.0000 3.2592 0.3350 1.0000
60.2574 -34.0099 36.2677 60.4626 -34.1751 39.4387 1.2644
63.0109 -31.0961 -5.8663 62.8187 -29.7946 -4.0864 1.2630
61.2901 3.7196 -5.3901 61.4292 2.2480 -4.9620 1.8731
35.0831 -44.1164 3.7933 35.0232 -40.0716 1.5901 1.8645
22.7233 20.0904 -46.6940 23.0331 14.9730 -42.5619 2.0373
36.4612 47.8580 18.3852 36.2715 50.5065 21.2231 1.4146
90.8027 -2.0831 1.4410 91.1528 -1.6435 0.0447 1.4441
90.9257 -0.5406 -0.9208 88.6381 -0.8985 -0.7239 1.5381
6.7747 -0.2908 -2.4247 5.8714 -0.0985 -2.2286 0.6377
2.0776 0.0795 -1.1350 0.9033 -0.0636 -0.5514 0.9082
"""
TABLE = np.array([float(word) for word in PAIRS.split()]).reshape(-1, 7)


@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 3, 5, 7)], ids=["gray", "colour"])
def test_errors_equal_a_loop_over_pixels(shape: tuple[int, ...]) -> None:
    prediction, target, weights = drawn(0, *shape), drawn(1, *shape), drawn(2, 2, 5, 7)
    for mask in (weights < 0.5, weights):
        for row in range(2):
            values = [
                (mask[row, y, x].item(), prediction[row, ..., y, x].ravel(), target[row, ..., y, x].ravel())
                for y, x in np.ndindex(5, 7)
            ]
            count = sum(m * len(p) for m, p, _ in values)
            scale = sum(m * (p @ t) for m, p, t in values) / sum(m * (p @ p) for m, p, _ in values)
            for metric, factor in ((mse, 1), (si_mse, scale)):
                wanted = sum(m * ((t - factor * p) ** 2).sum() for m, p, t in values) / count
                torch.testing.assert_close(metric(prediction, target, mask)[row], wanted)


def test_errors_by_hand() -> None:
    target, prediction, mask = torch.tensor([[[1.0, 3.0]]]), torch.ones(1, 1, 2), torch.ones(1, 1, 2)
    assert mse(prediction, target, mask).item() == 2
    assert si_mse(-prediction, target, mask).item() == 1  # scaled by -2: errors of 1 and 1


def test_prediction_without_energy_is_not_scaled() -> None:
    target, mask = torch.ones(1, 2, 2), torch.ones(1, 2, 2)
    level = (ENERGY_FLOOR / 4) ** 0.5
    found = [si_mse(torch.full((1, 2, 2), factor * level), target, mask).item() for factor in (0.99, 1.01)]
    assert found == pytest.approx([1, 0], abs=1e-6)
    dark = torch.full((1, 2, 2), 1e-4)
    assert si_mse(dark, target, mask, floor=0).item() == pytest.approx(0, abs=1e-6)
    assert si_mse(dark, target, mask, floor=1e-5).item() == 1


def test_cap_cuts_the_scaled_prediction() -> None:
    target, prediction = torch.tensor([[[1.0, 0.5, 0.5]]]), torch.tensor([[[4.0, 1.0, 1.0]]])
    mask = torch.ones(1, 1, 3)
    # Scale 5/18: 10/9, 5/18 and 5/18; errors 1/9 and twice 2/9. With the cap, the scale stays.
    assert si_mse(prediction, target, mask).item() == pytest.approx(1 / 9 * (1 / 9 + 4 / 9 + 4 / 9) / 3)
    assert si_mse(prediction, target, mask, cap=1).item() == pytest.approx(8 / 81 / 3)
    assert si_mse(prediction, target, mask, cap=2) == si_mse(prediction, target, mask)


def test_si_mse_of_sintel_equals_the_formula() -> None:
    prediction, target, mask = drawn(7, 1, 3, 9, 8), drawn(8, 1, 3, 9, 8), drawn(9, 1, 9, 8) < 0.8
    a, b = (values[0][:, mask[0]].numpy() for values in (prediction, target))
    wanted = np.mean((np.minimum((a * b).sum() / (a * a).sum() * a, 1) - b) ** 2)
    found = si_mse(prediction, target, mask, cap=1, floor=0)
    assert found.item() == pytest.approx(wanted)
    assert found < si_mse(prediction, target, mask) or (a.max() * (a * b).sum() / (a * a).sum() <= 1)


def test_psnr_equals_the_formula_in_any_range() -> None:
    prediction, target, mask = drawn(0, 2, 3, 7, 9), drawn(1, 2, 3, 7, 9), drawn(2, 2, 7, 9) < 0.5
    found = psnr(prediction, target, mask, data_range=2.0)
    for row in range(2):
        error = (prediction - target)[row][:, mask[row]].square().mean()
        assert found[row].item() == pytest.approx(20 * np.log10(2) - 10 * np.log10(error.item()))
    torch.testing.assert_close(
        psnr(255 * prediction, 255 * target, mask, 255), psnr(prediction, target, mask)
    )


@pytest.mark.parametrize(
    ("metric", "option", "value", "message"),
    [
        (si_mse, "cap", 0.0, "^`cap` must be above 0, got 0; None cuts nothing$"),
        (si_mse, "cap", torch.nan, "^`cap` must be above 0, got nan"),
        (psnr, "data_range", 0.0, "`data_range` must be a finite number above 0, got 0"),
        (psnr, "data_range", torch.inf, "`data_range` must be a finite number above 0, got inf"),
        (psnr, "data_range", torch.nan, "`data_range` must be a finite number above 0, got nan"),
    ],
)
def test_options_out_of_range_are_refused(metric, option: str, value: float, message: str) -> None:
    image = torch.ones(1, 2, 2)
    with refused(message):
        metric(image, image, image, **{option: value})


def colours(seed: int, count: int = 400) -> torch.Tensor:
    low, high = torch.tensor([0.0, -90.0, -90.0]), torch.tensor([100.0, 90.0, 90.0])
    return low + (high - low) * drawn(seed, count, 3)


def test_published_differences_of_colours() -> None:
    one, other, wanted = torch.from_numpy(TABLE).split([3, 3, 1], 1)
    assert len(TABLE) == 34
    slow = [slow_ciede2000(row[:3], row[3:6]) for row in TABLE]
    for found in (slow, ciede2000(one, other), ciede2000(other, one)):
        np.testing.assert_allclose(found, wanted[:, 0], atol=5e-5)


def test_differences_equal_the_slow_formula_on_random_colours() -> None:
    one, other = colours(0), colours(1)
    one[:3, 1:], other[2:5, 1:] = 0, 0  # gray has no hue
    expected = [slow_ciede2000(a, b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    np.testing.assert_allclose(ciede2000(one, other), expected, rtol=1e-9)
    torch.testing.assert_close(ciede2000(one, other), ciede2000(other, one))
    assert ciede2000(one, one).max() == 0


def test_colours_may_have_any_axes_before_the_last() -> None:
    one = colours(4, 24).reshape(2, 3, 4, 3)
    assert ciede2000(one.half(), one).dtype == torch.float32
    assert ciede2000(one, one).shape == (2, 3, 4)
    assert ciede2000(one[0, 0, 0], one[0, 0, 1]).shape == ()
    with refused("expected `image`"):
        linear_to_lab(one[..., :2])


def test_lab_of_random_dark_and_gray_colours() -> None:
    some = drawn(7, 100, 3)
    some[:20] *= 0.01
    np.testing.assert_allclose(linear_to_lab(some), [slow_lab(one) for one in some.tolist()], atol=0.03)
    found = linear_to_lab(torch.tensor([0.0, 0.18418651851244416, 1.0])[:, None].expand(3, 3).double())
    np.testing.assert_allclose(found, [[0, 0, 0], [50, 0, 0], [100, 0, 0]], atol=1e-9)
