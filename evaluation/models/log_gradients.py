"""Gradients of log images, and the rules of Grosse et al. 2009 that assign them to the reflectance.

R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and baseline evaluations for
intrinsic image algorithms, ICCV 2009, section 4.3. Each rule keeps a gradient for the reflectance or sets it
to 0; all else is shading.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

# The benchmark raises images, whose white is 257, to at least 3 before the logarithm.
FLOOR = 3 / 257


class Gradients(NamedTuple):
    """Differences from the pixel above (``down``) and from the pixel on the left (``right``).

    Both have the shape of the image; the first row of ``down`` and the first column of ``right`` are 0.
    """

    down: Float[ndarray, "*batch height width"]
    right: Float[ndarray, "*batch height width"]


def plain_gray(pixels: Float[ndarray, "*batch 3 height width"]) -> Float[ndarray, "*batch height width"]:
    """Compute the channel mean, the image that W and W+RET decompose; below 0 it is 0.

    Args:
        pixels: scene-linear Rec.709, white is 1.

    Example:
        >>> plain_gray(np.zeros((3, 1, 1)))
        array([[0.]])
    """
    gray: Float[ndarray, "*batch height width"] = np.maximum(pixels.mean(-3), 0.0)
    return gray


def raised_gray(pixels: Float[ndarray, "*batch 3 height width"]) -> Float[ndarray, "*batch height width"]:
    """Compute the channel mean and raise it to `FLOOR`: the image that GR-RET decomposes.

    Args:
        pixels: scene-linear Rec.709, white is 1.

    Example:
        >>> raised_gray(np.array([[[0.3]], [[0.0]], [[0.0]]])).round(3)
        array([[0.1]])
    """
    gray: Float[ndarray, "*batch height width"] = np.maximum(pixels.mean(-3), FLOOR)
    return gray


def gray_of_raised(pixels: Float[ndarray, "*batch 3 height width"]) -> Float[ndarray, "*batch height width"]:
    """Raise every channel to `FLOOR` and compute their mean: the image that COL-RET decomposes.

    Args:
        pixels: scene-linear Rec.709, white is 1.

    Example:
        >>> gray_of_raised(np.array([[[0.3]], [[0.0]], [[0.0]]])).round(3)
        array([[0.108]])
    """
    gray: Float[ndarray, "*batch height width"] = np.maximum(pixels, FLOOR).mean(-3)
    return gray


def backward_differences(image: Float[ndarray, "*batch height width"]) -> Gradients:
    """Compute the backward differences of images.

    Example:
        >>> backward_differences(np.array([[1.0, 3.0]])).right
        array([[0., 2.]])
    """
    return Gradients(
        np.diff(image, axis=-2, prepend=image[..., :1, :]), np.diff(image, axis=-1, prepend=image[..., :1])
    )


def keep_strong(gradients: Gradients, threshold: float) -> Gradients:
    """Keep gradients above a threshold: gray Retinex, Grosse et al. 2009, eq. 11.

    Args:
        gradients: of a log gray image.
        threshold: in natural log units; 1.0 keeps steps by a factor above 2.7.

    Example:
        >>> keep_strong(Gradients(np.zeros((1, 2)), np.array([[0.1, -0.5]])), 0.2).right
        array([[ 0. , -0.5]])
    """
    return Gradients(*(np.where(np.abs(part) > threshold, part, 0.0) for part in gradients))


class ColourGradients(NamedTuple):
    """Gradients of a log colour image, split for colour Retinex.

    Attributes:
        gray: of the log of the channel mean; these are kept or not.
        brightness: mean over the channels of the gradients of the log channels.
        chroma: norm over the channels of those gradients minus their brightness, >= 0.
    """

    gray: Gradients
    brightness: Gradients
    chroma: Gradients


def split_colour(pixels: Float[ndarray, "3 height width"]) -> ColourGradients:
    """Split the log gradients of a colour image into brightness and chroma: Grosse et al. 2009, 4.3.1.

    Args:
        pixels: scene-linear Rec.709, white is 1; darker values are raised to `FLOOR`.

    Example:
        >>> float(split_colour(np.ones((3, 2, 2))).chroma.down.max())
        0.0
    """
    channels = backward_differences(np.log(np.maximum(pixels, FLOOR)))
    brightness = Gradients(*(part.mean(0) for part in channels))
    pairs = zip(channels, brightness, strict=True)
    chroma = Gradients(*(np.sqrt(((part - mean) ** 2).sum(0)) for part, mean in pairs))
    return ColourGradients(backward_differences(np.log(gray_of_raised(pixels))), brightness, chroma)


def keep_strong_or_coloured(split: ColourGradients, brightness: float, chroma: float) -> Gradients:
    """Keep gradients whose brightness or chroma exceeds its threshold: Grosse et al. 2009, eq. 12.

    Args:
        split: gradients of a colour image.
        brightness: threshold in natural log units.
        chroma: threshold in natural log units.
    """
    kept = (
        np.where((colour > chroma) | (np.abs(mean) > brightness), gray, 0.0)
        for gray, mean, colour in zip(*split, strict=True)
    )
    return Gradients(*kept)


def median_over_lights(lights: Float[ndarray, "lights 3 height width"]) -> Gradients:
    """Compute the median over lights of the gradients of the log gray images.

    Y. Weiss: Deriving intrinsic images from image sequences, ICCV 2001, as in Grosse et al. 2009, 4.3.3. The
    median of an even number of lights is the mean of the middle two.

    Args:
        lights: the same object under several lights, scene-linear Rec.709, white is 1; see `raised_gray`.

    Example:
        >>> median_over_lights(np.ones((10, 3, 2, 2))).down.shape
        (2, 2)
    """
    gradients = backward_differences(np.log(raised_gray(lights)))
    return Gradients(*(np.median(part, axis=0) for part in gradients))
