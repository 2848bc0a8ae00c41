import math
from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.image_errors import ciede2000, linear_to_lab
from candlelight.loaders.errors import InputError

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


def slow_ciede2000(one, other) -> float:
    """Compute one difference step by step, in degrees and with the branches of the paper."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_c = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean_c**7 / (mean_c**7 + 25**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1 = math.degrees(math.atan2(b1, a1)) % 360 if c1 else 0.0
    h2 = math.degrees(math.atan2(b2, a2)) % 360 if c2 else 0.0
    if c1 * c2 == 0:
        dh, mh = 0.0, h1 + h2
    else:
        dh = h2 - h1
        if dh > 180:
            dh -= 360
        elif dh < -180:
            dh += 360
        if abs(h1 - h2) <= 180:
            mh = (h1 + h2) / 2
        elif h1 + h2 < 360:
            mh = (h1 + h2 + 360) / 2
        else:
            mh = (h1 + h2 - 360) / 2
    big_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(dh / 2))
    ml, mc = (l1 + l2) / 2, (c1 + c2) / 2

    def cos(degrees):
        return math.cos(math.radians(degrees))

    t = 1 - 0.17 * cos(mh - 30) + 0.24 * cos(2 * mh) + 0.32 * cos(3 * mh + 6) - 0.2 * cos(4 * mh - 63)
    theta = 30 * math.exp(-(((mh - 275) / 25) ** 2))
    rc = 2 * math.sqrt(mc**7 / (mc**7 + 25**7))
    sl = 1 + 0.015 * (ml - 50) ** 2 / math.sqrt(20 + (ml - 50) ** 2)
    sc, sh = 1 + 0.045 * mc, 1 + 0.015 * mc * t
    rt = -math.sin(math.radians(2 * theta)) * rc
    parts = (l2 - l1) / sl, (c2 - c1) / sc, big_h / sh
    return math.sqrt(sum(part**2 for part in parts) + rt * parts[1] * parts[2])


def drawn(seed: int, count: int = 400) -> torch.Tensor:
    draws = torch.Generator().manual_seed(seed)
    low, high = torch.tensor([0.0, -90.0, -90.0]), torch.tensor([100.0, 90.0, 90.0])
    return (low + (high - low) * torch.rand(count, 3, generator=draws)).double()


def test_published_pairs():
    table = torch.from_numpy(TABLE)
    assert len(table) == 34
    found = ciede2000(table[:, :3], table[:, 3:6])
    np.testing.assert_allclose(found, TABLE[:, 6], atol=5e-5)
    swapped = ciede2000(table[:, 3:6], table[:, :3])
    np.testing.assert_allclose(swapped, TABLE[:, 6], atol=5e-5)


def test_published_pairs_are_those_of_the_slow_formula():
    for row in TABLE:
        assert slow_ciede2000(row[:3], row[3:6]) == pytest.approx(row[6], abs=5e-5)


def test_equals_the_slow_formula_on_random_colours():
    one, other = drawn(0), drawn(1)
    one[:3, 1:], other[2:5, 1:] = 0, 0  # gray has no hue
    expected = [slow_ciede2000(a, b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    np.testing.assert_allclose(ciede2000(one, other), expected, rtol=1e-9)


def test_a_colour_does_not_differ_from_itself_and_order_does_not_count():
    one, other = drawn(2), drawn(3)
    assert ciede2000(one, one).max() == 0
    torch.testing.assert_close(ciede2000(one, other), ciede2000(other, one))
    assert (ciede2000(one, other) > 0).all()


def test_shapes_and_dtypes():
    one = drawn(4, 24).reshape(2, 3, 4, 3)
    assert ciede2000(one, one).shape == (2, 3, 4)
    assert ciede2000(one.float(), one).dtype == torch.float32
    assert ciede2000(one.half(), one).dtype == torch.float32
    assert ciede2000(one[0, 0, 0], one[0, 0, 1]).shape == ()
    with pytest.raises(InputError, match=r"expected `prediction` \[\*rows, 3\], `target` \[\*rows, 3\]"):
        unwrap(ciede2000)(one, one[:1])
    with pytest.raises(InputError, match="expected `image`"):
        unwrap(linear_to_lab)(one[..., :2])


def test_nan_stays_nan():
    one = drawn(5, 2)
    one[0, 1] = torch.nan
    assert ciede2000(one, drawn(6, 2)).isnan().tolist() == [True, False]


def slow_lab(rgb) -> list[float]:
    """Convert one colour by the printed matrix of IEC 61966-2-1."""
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    shares = [sum(m * v for m, v in zip(row, rgb, strict=True)) / sum(row) for row in matrix]
    f = [s ** (1 / 3) if s > 216 / 24389 else (24389 / 27 * s + 16) / 116 for s in shares]
    return [116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]


def test_lab_of_random_and_dark_colours():
    draws = torch.Generator().manual_seed(7)
    colours = torch.rand(100, 3, generator=draws, dtype=torch.float64)
    colours[:20] *= 0.01
    expected = [slow_lab(colour) for colour in colours.tolist()]
    np.testing.assert_allclose(linear_to_lab(colours), expected, atol=0.03)


def test_lab_of_gray():
    found = linear_to_lab(torch.tensor([0.0, 0.18418651851244416, 1.0])[:, None].expand(3, 3).double())
    np.testing.assert_allclose(found, [[0, 0, 0], [50, 0, 0], [100, 0, 0]], atol=1e-9)
