"""The colour of a black body: Planck's law seen through the CIE 1931 observer, in linear Rec.709."""

import numpy as np

from loaders.errors import InputError
from loaders.schema import Vector

LOWEST, HIGHEST = 1000.0, 40000.0
# XYZ (D65 white) to linear Rec.709, ITU-R BT.709-6.
_XYZ_TO_REC709 = np.array(
    [
        [3.2404542, -1.5371385, -0.4985314],
        [-0.9692660, 1.8760108, 0.0415560],
        [0.0556434, -0.2040259, 1.0572252],
    ]
)


def blackbody(temperature: float) -> Vector:
    """Colour of a black body at ``temperature``, at luminance 1.

    Spectral radiance by Planck's law ``B(l, T) ~ l^-5 / (exp(c2 / (l T)) - 1)``, ``c2`` = 1.4387769e-2 m K,
    integrated from 360 to 830 nm against the CIE 1931 colour matching functions (the analytic fit of Wyman,
    Sloan and Shirley 2013, JCGT 2(2)), then XYZ to Rec.709. What falls outside the gamut (blue under about
    1900 K) is clipped at 0, and the colour is scaled so that 0.2126 R + 0.7152 G + 0.0722 B = 1: changing
    the temperature changes the colour of a lamp and not its luminous power.

    Args:
        temperature: kelvin, 1000 to 40000.

    Returns:
        Linear Rec.709 colour of luminance 1.

    Raises:
        InputError: temperature out of range.

    Example:
        >>> [round(channel, 2) for channel in blackbody(6500)]
        [1.04, 0.98, 1.03]
    """
    if not LOWEST <= temperature <= HIGHEST:
        raise InputError(f"temperature: expected {LOWEST:.0f} to {HIGHEST:.0f} K, got {temperature}")
    wavelength = np.arange(360.0, 831.0)
    radiance = wavelength**-5.0 / np.expm1(1.4387769e7 / (wavelength * temperature))
    xyz = np.array([np.sum(radiance * curve) for curve in _observer(wavelength)])
    rgb = np.clip(_XYZ_TO_REC709 @ (xyz / xyz[1]), 0.0, None)
    rgb /= rgb @ (0.2126, 0.7152, 0.0722)
    red, green, blue = (float(channel) for channel in rgb)
    return red, green, blue


def _observer(wavelength: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CIE 1931 x, y, z matching functions: sums of Gaussians with one width on either side of the peak."""

    def lobe(height: float, peak: float, below: float, above: float) -> np.ndarray:
        width = np.where(wavelength < peak, below, above)
        return height * np.exp(-0.5 * ((wavelength - peak) * width) ** 2)

    x = (
        lobe(0.362, 442.0, 0.0624, 0.0374)
        + lobe(1.056, 599.8, 0.0264, 0.0323)
        + lobe(-0.065, 501.1, 0.0490, 0.0382)
    )
    y = lobe(0.821, 568.8, 0.0213, 0.0247) + lobe(0.286, 530.9, 0.0613, 0.0322)
    z = lobe(1.217, 437.0, 0.0845, 0.0278) + lobe(0.681, 459.0, 0.0385, 0.0725)
    return x, y, z
