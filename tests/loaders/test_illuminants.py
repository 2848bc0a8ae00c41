import math

import numpy as np
import pytest

from candlelight.loaders.illuminants import illuminant, observer, xyz_to_rec709
from tests.refusals import refused

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
REC709_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
# Spectral locus of the CIE 1931 observer, as tabulated.
LOCUS = {
    440: (0.1644, 0.0109),
    467: (0.1300, 0.0491),
    480: (0.0913, 0.1327),
    500: (0.0082, 0.5384),
    510: (0.0139, 0.7502),
    530: (0.1547, 0.8059),
    550: (0.3016, 0.6923),
    570: (0.4441, 0.5547),
    590: (0.5752, 0.4242),
    610: (0.6658, 0.3340),
    650: (0.7260, 0.2740),
}
GREENS = (565, 554, 533, 510, 501, 495)
PAPER = (611, 591, 582, 574, *GREENS, 491, 486, 481, 467, *(-hue for hue in GREENS))


def chromaticity(rgb):
    x, y, z = REC709_TO_XYZ @ rgb
    return np.array([x, y]) / (x + y + z)


def direction(x, y):
    return math.degrees(math.atan2(y - 1 / 3, x - 1 / 3))


@pytest.mark.parametrize("wavelength", LOCUS)
def test_hue_points_to_the_tabulated_locus(wavelength):
    for sign in (1, -1):
        x, y = chromaticity(illuminant(sign * wavelength, 8))
        apart = direction(x, y) - direction(*LOCUS[wavelength]) - (180 if sign < 0 else 0)
        # The fit of the observer is good to 1.3 degrees, as seen from E.
        assert abs((apart + 180) % 360 - 180) < 1.5


@pytest.mark.parametrize("saturation", [0, 0.6, 1, 1.955, 8])
def test_saturation_is_a_distance_from_equal_energy_at_equal_luminance(saturation):
    for hue in PAPER:
        rgb = np.array(illuminant(hue, saturation))
        assert np.hypot(*(chromaticity(rgb) - 1 / 3)) == pytest.approx(0.005 * saturation, abs=2e-5)
        assert rgb @ LUMINANCE == pytest.approx(1, abs=1e-12)
        assert (rgb > 0).all()


def test_no_saturation_is_equal_energy_and_not_the_white_of_a_display():
    assert len({illuminant(hue, 0) for hue in PAPER}) == 1
    red, green, blue = illuminant(611, 0)
    assert red > 1 > green > blue
    assert xyz_to_rec709(np.array([0.95047, 1.0, 1.08883])) == pytest.approx((1, 1, 1), abs=1e-4)


@pytest.mark.parametrize(
    ("hue", "saturation", "message"),
    [
        *(
            (hue, 1, "expected a dominant wavelength of 440 to 650 nm, negative for its")
            for hue in (0, 439, 651, -651, float("nan"))
        ),
        *((611, steps, "expected a saturation of 0 to 8 steps, got") for steps in (-0.1, 8.1, float("nan"))),
    ],
)
def test_hues_and_saturations_out_of_range_are_refused(hue, saturation, message):
    with refused(message):
        illuminant(hue, saturation)


def test_the_observer_agrees_with_its_tables():
    wavelength = np.array([450.0, 500.0, 555.0, 600.0])
    tabulated = [
        [0.3362, 0.0049, 0.5121, 1.0622],
        [0.038, 0.323, 1.0, 0.631],
        [1.7721, 0.272, 0.0057, 0.0008],
    ]
    np.testing.assert_allclose(observer(wavelength), tabulated, atol=0.03)
