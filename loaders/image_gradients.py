"""Gradients of gray images and maxima in windows, with the borders of `scipy.ndimage`."""

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

_STRIP = 32  # rows; the arrays of a strip fit in a processor's cache


def gradient_magnitude(image: Float64[ndarray, "height width"]) -> Float64[ndarray, "height width"]:
    """Compute the length of the gradient that the two Sobel filters give.

    A step of 1 between two columns has length 4 on both sides of it. The image continues with its outermost
    pixels, which is the mode "reflect" of `scipy.ndimage.sobel`.

    Args:
        image: gray values.

    Returns:
        Lengths, >= 0, not divided by the 8 of the filters; not finite near values that are not finite.

    Example:
        >>> gradient_magnitude(np.array([[0.0, 0.0, 1.0, 1.0]]))
        array([[0., 4., 4., 0.]])
    """
    padded = np.pad(image, 1, mode="edge")
    found = np.empty_like(image)
    for top in range(0, len(image), _STRIP):
        strip = padded[top : top + _STRIP + 2]
        down, right = strip[2:] - strip[:-2], strip[:, 2:] - strip[:, :-2]
        # In the order of scipy's sums, so that the bits are equal.
        vertical = 2 * down[:, 1:-1] + (down[:, :-2] + down[:, 2:])
        horizontal = 2 * right[1:-1] + (right[:-2] + right[2:])
        np.hypot(horizontal, vertical, out=found[top : top + _STRIP])
    return found


def window_maximum(image: Float64[ndarray, "height width"], size: int) -> Float64[ndarray, "height width"]:
    """Compute the largest value in a square window around each pixel.

    A window of even size reaches one pixel less to the right and down: 10 pixels are 5 before and 4 after,
    as in `scipy.ndimage.maximum_filter`. Windows end at the border of the image; a reflected border would
    only repeat values of the window.

    Args:
        image: gray values, not nan.
        size: side of the window in pixels.

    Example:
        >>> window_maximum(np.array([[0.0, 0.0, 1.0, 0.0, 0.0]]), 2)
        array([[0., 0., 1., 1., 0.]])
    """
    before = size // 2
    padded = np.pad(image, (before, size - 1 - before), constant_values=-np.inf)
    return _run_maximum(_run_maximum(padded, size).T, size).T


def _run_maximum(values: Float64[ndarray, "rows columns"], size: int) -> Float64[ndarray, "less columns"]:
    """Compute the maximum of each run of rows; the length of the runs doubles in each step."""
    length = 1
    while length < size:
        step = min(length, size - length)
        values = np.maximum(values[:-step], values[step:])
        length += step
    return values
