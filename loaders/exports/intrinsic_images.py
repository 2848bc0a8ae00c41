"""Intrinsic images of one object, derived from its captures or taken from the passes, and their difference.

R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and baseline evaluations for
intrinsic image algorithms, ICCV 2009, section 3. A capture is what a camera would record; all arrays are
scene-linear Rec.709 and 0 outside the object.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

GrayImage = Float64[ndarray, "height width"]
ColourImage = Float64[ndarray, "height width 3"]
ObjectMask = Bool[ndarray, "height width"]

# Where both lights together leave less than this share of the brightest pixel there is nothing to divide by.
DARK_SHARE = 1e-3


@dataclass(frozen=True)
class Captures:
    """What is captured of one object under a light, and of its twin of uniform reflectance under the same.

    Attributes:
        original: with gloss, the polariser at its strongest.
        lambertian: without gloss.
        uniform: of the twin.
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
        first: under the light whose images these are.
        second: under the other fixed light, which reaches what is in shadow in the first.

    Returns:
        The intrinsic images; reflectance is 0 where the twin is dark (`DARK_SHARE`) in both lights.

    Example:
        >>> pixel = np.ones((1, 1, 3))
        >>> bright = Captures(original=0.9 * pixel, lambertian=0.3 * pixel, uniform=0.6 * pixel)
        >>> shadowed = Captures(original=0 * pixel, lambertian=0 * pixel, uniform=0 * pixel)
        >>> made = from_captures(bright, shadowed)
        >>> float(made.shading[0, 0]), made.reflectance[0, 0, 0].round(6), made.specular[0, 0, 0].round(6)
        (0.6, 0.5, 0.3)
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
    """Take the intrinsic images from the layers of one frame: no twin, no second light.

    ``original = albedo x shading + residual``, the picture itself, as the published files have it
    (original = diffuse + specular), where eq. 4 speaks of twice the gloss.

    Args:
        albedo: 0..1.
        shading: radiance of a white Lambertian surface.
        residual: gloss.

    Returns:
        The intrinsic images; shading is the mean of its channels, which bounced light may have coloured.
    """
    diffuse = albedo * shading
    return Intrinsic(
        original=diffuse + residual,
        diffuse=diffuse,
        shading=shading.mean(axis=-1),
        reflectance=albedo,
        specular=residual,
    )


def difference(image: Float64[ndarray, "..."], truth: Float64[ndarray, "..."], mask: ObjectMask) -> float:
    """Relative difference of two images that are each defined up to a scale.

    ``min_a ||t - a x|| / ||t||`` over the pixels of the mask: the root of eq. 7, relative.

    Args:
        image: what is compared.
        truth: what it is compared with, of the same shape.
        mask: pixels that count.

    Returns:
        0 for equal up to a scale, also for a truth that is 0 everywhere; 1 for unrelated.

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
