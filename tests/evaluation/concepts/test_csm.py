import math

import pytest
import torch

from candlelight.evaluation.concepts.csm import csm
from tests.refusals import refused

# Gupta et al. 2022, Table 3: R_di, S_di, CSM_R on two natural concept sets.
PUBLISHED = {
    "MIW IIWW": (0.391, 0.296, 0.757),
    "MIW CGIID": (0.373, 0.462, 1.239),
    "PS IIWW": (0.409, 0.501, 1.225),
    "PS USI3D": (0.75, 0.612, 0.816),
    "PS CGIID": (0.061, 0.587, 9.623),
}


def _double(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("r", "s", "expected"), PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("reduce", ["mean_of_ratios", "ratio_of_means"])
def test_published_ratios(r, s, expected, reduce):
    result = csm(_double(r), _double(s), _double(r), _double(s), reduce)
    assert abs(float(result.csm_r) - expected) < 6e-4
    torch.testing.assert_close(result.csm_s, 1 / result.csm_r)


@pytest.mark.parametrize(("data", "mean"), [("IIWW", 0.991), ("CGIID", 5.431)])
def test_published_means_are_means_of_ratios(data, mean):
    r, s, _ = zip(PUBLISHED[f"MIW {data}"], PUBLISHED[f"PS {data}"], strict=True)
    result = csm(_double(0.5), _double(0.5), _double(*r), _double(*s))
    assert abs(float(result.csm_r) - mean) < 1e-3


# Tables 1 and 2: CSM_S and CSM_R of textured simple, textured complex, rgb simple, rgb complex, and the mean.
ROWS = {
    "IIWW": ((2.049, 1.286, 0.939, 1.732, 1.524), (0.857, 0.979, 0.936, 0.741, 0.878)),
    "USI3D": ((2, 1.943, 2.806, 1.669, 2.139), (0.648, 0.504, 0.38, 0.674, 0.552)),
    "CGIID": ((0.753, 1.328, 0.606, 0.93, 0.909), (1.35, 1.231, 1.806, 1.79, 1.544)),
    "2500 IIWW": ((1.735, 1.112, 0.894, 1.426, 1.292), (1.021, 1.098, 0.994, 0.757, 0.968)),
    "2500 USI3D": ((4.138, 2.802, 4.11, 2.643, 3.423), (0.449, 0.406, 0.275, 0.646, 0.444)),
    "2500 CGIID": ((0.901, 1.379, 0.554, 1.051, 0.971), (1.166, 1.412, 1.52, 1.66, 1.44)),
    "4500 IIWW": ((1.995, 1.544, 0.955, 1.877, 1.593), (0.805, 0.979, 0.886, 0.771, 0.86)),
    "4500 USI3D": ((2.352, 2.248, 2.697, 1.54, 2.209), (0.646, 0.497, 0.385, 0.645, 0.543)),
    "4500 CGIID": ((0.745, 1.334, 0.706, 0.9, 0.921), (1.347, 1.282, 1.858, 1.862, 1.587)),
    "6500 IIWW": ((2.5, 1.248, 0.965, 1.969, 1.671), (0.763, 0.879, 0.93, 0.693, 0.816)),
    "6500 USI3D": ((1.091, 1.285, 2.063, 1.253, 1.423), (0.942, 0.74, 0.512, 0.727, 0.73)),
    "6500 CGIID": ((0.611, 1.278, 0.558, 0.837, 0.821), (1.624, 1.295, 2.147, 1.865, 1.733)),
}


@pytest.mark.parametrize(("s_row", "r_row"), ROWS.values(), ids=ROWS)
def test_published_row_means(s_row, r_row, request):
    """A setting has the ratio that is printed; only the means of CSM_S in Table 1 do not come out."""
    tenth = torch.full((4,), 0.1, dtype=torch.float64)
    found = csm(_double(*s_row[:4]) / 10, tenth, tenth, _double(*r_row[:4]) / 10)
    assert abs(float(found.csm_r) - r_row[4]) < 6e-4
    table_1 = request.node.callspec.id in ("IIWW", "USI3D", "CGIID")
    assert (abs(float(found.csm_s) - s_row[4]) < 6e-4) != table_1
    assert abs(float(found.csm_s) - s_row[4]) < 0.035


def test_both_orders_by_hand():
    r, s = _double(0.8, 0.2), _double(0.4, 0.4)
    one, other = csm(r, s, r, s, "mean_of_ratios"), csm(r, s, r, s, "ratio_of_means")
    assert float(one.csm_s) == pytest.approx((2 + 0.5) / 2)
    assert float(other.csm_s) == pytest.approx(0.5 / 0.4)
    assert float(one.csm_r) == pytest.approx((0.5 + 2) / 2)
    assert float(other.csm_r) == pytest.approx(0.4 / 0.5)
    assert float(one.bounded_s) == pytest.approx((0.8 / 1.2 + 0.2 / 0.6) / 2)
    assert float(other.bounded_s) == pytest.approx(0.5 / 0.9)


def test_ideal_and_worst_sensitivities():
    one, zero = _double(1.0), _double(0.0)
    ideal, worst = csm(one, zero, zero, one), csm(zero, one, one, zero)
    assert [float(x) for x in (ideal.csm_s, ideal.csm_r)] == [math.inf, math.inf]
    assert [float(x) for x in (ideal.bounded_s, ideal.bounded_r)] == [1, 1]
    assert [float(x) for x in (worst.csm_s, worst.csm_r, worst.bounded_s, worst.bounded_r)] == [0, 0, 0, 0]
    assert csm(zero, zero, one, one).bounded_s.isnan()


def test_one_infinite_ratio_carries_through_the_mean_of_ratios_only():
    r, s = _double(0.5, 0.5), _double(0.0, 0.5)
    assert float(csm(r, s, r, s).csm_s) == math.inf
    assert float(csm(r, s, r, s, "ratio_of_means").csm_s) == 2
    none = csm(_double(), _double(), _double(0.5), _double(0.5), "ratio_of_means")
    assert none.csm_s.isnan()
    assert float(none.csm_r) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s_albedo": _double(1.1)}, "`s_albedo` must hold sensitivities from 0 to 1"),
        ({"r_illumination": _double(-0.1)}, "`r_illumination` must hold sensitivities from 0 to 1"),
        ({"r_illumination": _double(0.5, 0.4)}, r"got \[1\], \[1\], \[2\], \[1\]"),
        ({"reduce": "mean"}, "`reduce` must be one of: mean_of_ratios, ratio_of_means; got mean"),
    ],
)
def test_refusals(change, message):
    names = ("r_albedo", "s_albedo", "r_illumination", "s_illumination")
    with refused(message):
        csm(**{**dict.fromkeys(names, _double(0.5)), **change})
