import numpy as np
import pytest

from candlelight.generators.scenes.lights import HIGHEST, LOWEST, blackbody
from candlelight.loaders.errors import InputError

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
REC709_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def chromaticity(temperature):
    x, y, z = REC709_TO_XYZ @ blackbody(temperature)
    return x / (x + y + z), y / (x + y + z)


# CIE 1931, 2 degrees: illuminant A is the black body of 2856 K; the others lie on the Planckian locus.
PLANCKIAN = {
    2000: (0.5267, 0.4133),
    2856: (0.4476, 0.4074),
    4000: (0.3805, 0.3768),
    5000: (0.3451, 0.3516),
    6504: (0.3135, 0.3237),
    10000: (0.2807, 0.2884),
}


@pytest.mark.parametrize("temperature", PLANCKIAN)
def test_chromaticity_lies_on_the_planckian_locus(temperature):
    # The fit of the observer is good to about 0.003 in x and y.
    np.testing.assert_allclose(chromaticity(temperature), PLANCKIAN[temperature], atol=0.004)


def test_daylight_is_nearly_white():
    # D65 lies a little above the locus, toward green: the black body of that temperature is a trace pink.
    red, green, blue = blackbody(6504)
    assert green < min(red, blue)
    np.testing.assert_allclose([red, green, blue], 1, atol=0.05)


def test_luminance_is_one_and_nothing_negative():
    for temperature in np.linspace(LOWEST, HIGHEST, 100).tolist():
        color = np.array(blackbody(temperature))
        assert color @ LUMINANCE == pytest.approx(1, abs=1e-12)
        assert (color >= 0).all()


def test_warmer_light_is_redder():
    colors = np.array([blackbody(t) for t in np.geomspace(2000, HIGHEST, 200).tolist()])
    assert (np.diff(colors[:, 0]) < 0).all()
    assert (np.diff(colors[:, 2]) > 0).all()


def test_gamut_clips_blue_of_candlelight_only():
    assert blackbody(LOWEST)[2] == 0
    assert blackbody(2000)[2] > 0


@pytest.mark.parametrize("temperature", [999.9, 40001.0, -3000.0, float("nan"), float("inf")])
def test_range(temperature):
    with pytest.raises(InputError, match=f"temperature: expected 1000 to 40000 K, got {temperature}"):
        blackbody(temperature)
