"""Numbers of a colour: the exact, piecewise sRGB curve (IEC 61966-2-1), and rounding to what frames hold.

Frames hold scene-linear Rec.709 at half precision. Values are sRGB-encoded only in 8-bit pixels.
"""

import numpy as np
from jaxtyping import Float, Float16, UInt8
from numpy import ndarray

_LARGEST_HALF = float(np.finfo(np.float16).max)


def linear_to_srgb(linear: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape"]:
    """Encode scene-linear values with the sRGB curve.

    ``12.92 x`` below 0.0031308 and ``1.055 x^(1/2.4) - 0.055`` above; the input is clipped to [0, 1].

    Args:
        linear: scene-linear Rec.709 values, any shape; values outside [0, 1] are clipped.

    Returns:
        Encoded values in [0, 1], same shape and dtype.

    Example:
        >>> linear_to_srgb(np.array([0.0, 0.002, 0.5, 1.0])).round(4)
        array([0.    , 0.0258, 0.7354, 1.    ])
    """
    clipped = np.clip(linear, 0, 1)
    curved = 1.055 * np.power(clipped, 1 / 2.4) - 0.055
    return np.where(clipped <= 0.0031308, 12.92 * clipped, curved).astype(linear.dtype)


def srgb_to_linear(encoded: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape"]:
    """Decode sRGB-encoded values to scene-linear ones: the inverse of `linear_to_srgb`.

    Args:
        encoded: sRGB values in [0, 1], any shape.

    Returns:
        Scene-linear Rec.709 values in [0, 1], same shape and dtype.

    Example:
        >>> srgb_to_linear(np.array([0.0, 0.0258, 0.7354])).round(3)
        array([0.   , 0.002, 0.5  ])
    """
    curved = np.power((encoded + 0.055) / 1.055, 2.4)
    return np.where(encoded <= 0.04045, encoded / 12.92, curved).astype(encoded.dtype)


def to_display(linear: Float[ndarray, "*shape"]) -> UInt8[ndarray, "*shape"]:
    """Quantise scene-linear values to the 8-bit sRGB pixels that an `image` layer holds.

    Args:
        linear: scene-linear Rec.709 values already multiplied by the exposure, any shape.

    Returns:
        uint8 pixels, rounded to nearest.

    Example:
        >>> to_display(np.array([0.0, 0.5, 2.0]))
        array([  0, 188, 255], dtype=uint8)
    """
    return np.rint(linear_to_srgb(linear) * 255).astype(np.uint8)


def to_half(array: ndarray) -> Float16[ndarray, "..."]:
    """Round to half precision; numbers beyond its range become its largest number.

    Example:
        >>> to_half(np.array([0.1, 1e9])).tolist()
        [0.0999755859375, 65504.0]
    """
    return np.clip(array, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)
