"""Primaries of RGB colour spaces, and the matrices from scene-linear RGB to CIE XYZ that follow from them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

_Chromaticity = tuple[float, float]  # CIE 1931 x and y
D65: _Chromaticity = (0.3127, 0.3290)


class Primaries(NamedTuple):
    """CIE 1931 chromaticities of the primaries and of the white of an RGB colour space."""

    red: _Chromaticity
    green: _Chromaticity
    blue: _Chromaticity
    white: _Chromaticity = D65


REC709 = Primaries((0.64, 0.33), (0.30, 0.60), (0.15, 0.06))  # ITU-R BT.709, also of sRGB
ADOBE_RGB = Primaries((0.64, 0.33), (0.21, 0.71), (0.15, 0.06))  # Adobe RGB (1998)


def xyz_matrix(primaries: Primaries) -> Float64[ndarray, "3 3"]:
    """Compute the matrix from scene-linear RGB to CIE XYZ; white (1, 1, 1) has Y = 1.

    Args:
        primaries: the colour space.

    Returns:
        Matrix M with ``xyz = M @ rgb``.

    Example:
        >>> xyz_matrix(REC709).round(4)[1]
        array([0.2126, 0.7152, 0.0722])
    """
    columns = np.array([(x / y, 1.0, (1 - x - y) / y) for x, y in primaries]).T
    # Each primary is scaled so that their sum is white.
    return columns[:, :3] * np.linalg.solve(columns[:, :3], columns[:, 3])
