"""Colours of light about equal energy by the CIE 1931 observer, in linear Rec.709."""

from functools import cache

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import Vector

# nm; between them the fit of the observer gives the direction from white within 1.3 degrees of the tables.
SHORTEST, LONGEST = 440.0, 650.0
XY_PER_STEP = 0.005  # radius in CIE xy of one step of saturation
MOST_STEPS = 8.0
EQUAL_ENERGY = (1 / 3, 1 / 3)  # CIE xy
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of linear Rec.709
# XYZ (D65 white) to linear Rec.709, ITU-R BT.709-6.
_XYZ_TO_REC709 = np.array(
    [
        [3.2404542, -1.5371385, -0.4985314],
        [-0.9692660, 1.8760108, 0.0415560],
        [0.0556434, -0.2040259, 1.0572252],
    ]
)


def observer(wavelength: Float64[ndarray, " n"]) -> Float64[ndarray, "3 n"]:
    """Colour matching functions of the CIE 1931 observer.

    Sums of Gaussians with one width on either side of the peak: the multi-lobe fit of Wyman, Sloan and
    Shirley (2013, JCGT 2(2)).

    Args:
        wavelength: nm.

    Returns:
        x, y and z at each wavelength.

    Example:
        >>> observer(np.array([555.0])).round(2).T
        array([[0.52, 1.  , 0.01]])
    """

    def lobe(height: float, peak: float, below: float, above: float) -> ndarray:
        width = np.where(wavelength < peak, below, above)
        return height * np.exp(-0.5 * ((wavelength - peak) * width) ** 2)

    x = (
        lobe(0.362, 442.0, 0.0624, 0.0374)
        + lobe(1.056, 599.8, 0.0264, 0.0323)
        + lobe(-0.065, 501.1, 0.0490, 0.0382)
    )
    y = lobe(0.821, 568.8, 0.0213, 0.0247) + lobe(0.286, 530.9, 0.0613, 0.0322)
    z = lobe(1.217, 437.0, 0.0845, 0.0278) + lobe(0.681, 459.0, 0.0385, 0.0725)
    return np.stack([x, y, z])


def xyz_to_rec709(xyz: Float64[ndarray, "3"]) -> Vector:
    """Turn a colour into linear Rec.709 of luminance 1; negative channels are clipped at 0.

    No adaptation: Rec.709's white is D65, and a colour keeps its chromaticity.

    Args:
        xyz: CIE 1931 tristimulus values, at any scale.

    Returns:
        R, G, B with 0.2126 R + 0.7152 G + 0.0722 B = 1.

    Example:
        >>> [round(channel, 3) for channel in xyz_to_rec709(np.array([0.95047, 1.0, 1.08883]))]
        [1.0, 1.0, 1.0]
    """
    rgb = np.clip(_XYZ_TO_REC709 @ (xyz / xyz[1]), 0.0, None)
    # Rounded, so that plans do not depend on the last bit of a version of numpy.
    red, green, blue = (rgb / (rgb @ LUMINANCE)).round(12).tolist()
    return red, green, blue


@cache
def hue_direction(hue: float) -> tuple[float, float]:
    """Unit vector from equal energy towards the spectral locus at a dominant wavelength, in CIE 1931 xy.

    Args:
        hue: dominant wavelength, 440 to 650 nm; negative for its complement, away from that wavelength.

    Raises:
        InputError: another wavelength.

    Example:
        >>> [round(part, 2) for part in hue_direction(574)]
        [0.6, 0.8]
    """
    if not SHORTEST <= abs(hue) <= LONGEST:
        raise InputError(
            f"expected a dominant wavelength of {SHORTEST:.0f} to {LONGEST:.0f} nm, negative for its "
            f"complement, got {hue:g}"
        )
    spectral = observer(np.array([abs(hue)], float))[:, 0]
    away = spectral[:2] / spectral.sum() - np.array(EQUAL_ENERGY)
    x, y = (np.sign(hue) * away / np.linalg.norm(away)).tolist()
    return x, y


@cache
def illuminant(hue: float, saturation: float, white: tuple[float, float] = EQUAL_ENERGY) -> Vector:
    """Light of a dominant wavelength, ``saturation`` steps of 0.005 in CIE 1931 xy from equal energy.

    ``(x, y) = E + 0.005 s u`` with E = (1/3, 1/3) and u the unit vector from E towards the spectral locus at
    the dominant wavelength (Alabau-Bosque et al. 2024, arXiv 2407.17927; MacAdam's ellipses recentred at E).
    The light is not adapted to Rec.709's white, D65: saturation 0 is E itself, slightly pink on a display.
    From another white, the directions u are still those from E.

    Args:
        hue: dominant wavelength, 440 to 650 nm; negative for its complement, away from that wavelength.
        saturation: steps, 0 to 8, fractions too.
        white: chromaticity at saturation 0.

    Returns:
        Linear Rec.709 colour of luminance 1.

    Raises:
        InputError: hue or saturation out of range.

    Example:
        >>> [round(channel, 3) for channel in illuminant(611, 8)]
        [1.657, 0.826, 0.791]
    """
    away = np.array(hue_direction(hue))
    if not 0 <= saturation <= MOST_STEPS:
        raise InputError(f"expected a saturation of 0 to {MOST_STEPS:.0f} steps, got {saturation:g}")
    x, y = np.array(white) + XY_PER_STEP * saturation * away
    return xyz_to_rec709(np.array([x, y, 1 - x - y]))
