"""Colour of a black body, by Planck's law and the CIE 1931 observer, in linear Rec.709."""

from functools import cache

import numpy as np

from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import observer, xyz_to_rec709
from candlelight.loaders.schema import Vector

LOWEST, HIGHEST = 1000.0, 40000.0


@cache
def blackbody(temperature: float) -> Vector:
    """Colour of a black body at ``temperature``, at luminance 1.

    Spectral radiance by Planck's law ``B(l, T) ~ l^-5 / (exp(c2 / (l T)) - 1)``, ``c2`` = 1.4387769e-2 m K,
    integrated from 360 to 830 nm against the CIE 1931 observer, then XYZ to Rec.709. Negative channels (blue
    under about 1900 K) are clipped at 0, and the colour is scaled so that
    0.2126 R + 0.7152 G + 0.0722 B = 1: another temperature changes the colour of a light and not its
    luminous power.

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
    return xyz_to_rec709(observer(wavelength) @ radiance)
