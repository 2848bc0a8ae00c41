"""Derive the intrinsic images of one object from captures or from passes, and measure their difference.

R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and baseline evaluations for
intrinsic image algorithms, ICCV 2009, section 3. A capture is the image that a camera would record; all
arrays are scene-linear Rec.709 and 0 outside the object.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

GrayImage = Float64[ndarray, "height width"]
ColourImage = Float64[ndarray, "height width 3"]
ObjectMask = Bool[ndarray, "height width"]

# Reflectance is not computed where both lights together leave less than this share of the brightest pixel.
DARK_SHARE = 1e-3


@dataclass(frozen=True)
class Captures:
    """Captures of one object under one light, and of the same object with uniform reflectance.

    Attributes:
        original: the object with gloss, the polariser at its strongest.
        lambertian: the object without gloss.
        uniform: the object with uniform reflectance, without gloss.
    """

    original: ColourImage
    lambertian: ColourImage
    uniform: ColourImage


@dataclass(frozen=True)
class Intrinsic:
    """Intrinsic images of one object under one light; shading and reflectance each up to a scale."""

    original: ColourImage
    diffuse: ColourImage
    shading: GrayImage
    reflectance: ColourImage
    specular: ColourImage


def from_captures(first: Captures, second: Captures) -> Intrinsic:
    """Derive the intrinsic images as the MIT dataset's authors do.

    ``S = I_uni``, ``R = (I_lamb + I'_lamb) / (I_uni + I'_uni)``, ``C = (I_orig - I_lamb) / 2``: Grosse et al.
    2009, eq. 2, 5 and 4. Light is white, so shading is one number per pixel: the mean of the channels.

    Args:
        first: captures under the light of the result.
        second: captures under the other fixed light, which reaches the shadows of the first light.

    Returns:
        The intrinsic images; reflectance is 0 where ``uniform`` is dark (`DARK_SHARE`) in both lights.

    Example:
        >>> pixel = np.ones((1, 1, 3))
        >>> bright = Captures(original=0.9 * pixel, lambertian=0.3 * pixel, uniform=0.6 * pixel)
        >>> shadowed = Captures(original=0 * pixel, lambertian=0 * pixel, uniform=0 * pixel)
        >>> made = from_captures(bright, shadowed)
        >>> [float(part.flat[0].round(6)) for part in (made.shading, made.reflectance, made.specular)]
        [0.6, 0.5, 0.3]
    """
    uniform = (first.uniform + second.uniform).mean(axis=-1, keepdims=True)
    lit = uniform > DARK_SHARE * uniform.max(initial=0.0)
    reflectance = (first.lambertian + second.lambertian) / np.where(lit, uniform, 1.0)
    return Intrinsic(
        original=first.original,
        diffuse=first.lambertian,
        shading=first.uniform.mean(axis=-1),
        reflectance=np.where(lit, reflectance, 0.0),
        specular=(first.original - first.lambertian) / 2,
    )


def from_passes(albedo: ColourImage, shading: ColourImage, residual: ColourImage) -> Intrinsic:
    """Take the intrinsic images from the layers of one frame, without a second capture or light.

    ``original = albedo x shading + residual`` is the image itself, as in the published files
    (original = diffuse + specular); eq. 4 assumes twice the gloss.

    Args:
        albedo: 0..1.
        shading: radiance of a white Lambertian surface.
        residual: gloss.

    Returns:
        The intrinsic images; shading is the mean of its known channels, those of an albedo above 0, which
        bounced light may have coloured.
    """
    diffuse = albedo * shading
    known = albedo > 0
    return Intrinsic(
        original=diffuse + residual,
        diffuse=diffuse,
        shading=np.where(known, shading, 0.0).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1),
        reflectance=albedo,
        specular=residual,
    )


def difference(image: Float64[ndarray, "..."], truth: Float64[ndarray, "..."], mask: ObjectMask) -> float:
    """Compute the relative difference of two images, each defined up to a scale.

    ``min_a ||t - a x|| / ||t||`` over the pixels of the mask: the square root of eq. 7, relative to ``t``.

    Args:
        image: image to compare.
        truth: reference image of the same shape.
        mask: pixels that count.

    Returns:
        0 for images equal up to a scale, and for a truth of 0 everywhere; 1 for unrelated images.

    Example:
        >>> truth = np.array([[1.0, 2.0]])
        >>> difference(5 * truth, truth, truth > 0), round(difference(truth[:, ::-1], truth, truth > 0), 2)
        (0.0, 0.6)
    """
    x, t = image[mask].ravel(), truth[mask].ravel()
    energy = float(x @ x)
    scale = float(x @ t) / energy if energy > 0 else 0.0
    size = float(np.linalg.norm(t))
    return float(np.linalg.norm(t - scale * x)) / size if size > 0 else 0.0
