"""Make judgements of the ground truth of a rendered frame, in the form of IIW and SAW."""

import hashlib

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64, UInt8
from numpy import ndarray

from candlelight.evaluation.catalogue.intrinsic_options import DARKER_BY
from candlelight.loaders.image_gradients import gradient_magnitude, window_maximum
from candlelight.loaders.mixed_edges import REACH, mixed_edges
from candlelight.loaders.public.iiw import PointComparisons

PAIRS = 200  # comparisons drawn for a frame; photographs of IIW have 167 on average
_EVEN = 1 + DARKER_BY / 2  # largest ratio of the albedo in the neighbourhood of a point
_FLOOR = 0.02  # of the median: darker shading is raised to it, because its logarithm is noise
_STEEP = np.log(1.1)  # change per pixel of an edge of light, which is sharp at any size of the image
_EDGE = 3  # an edge of light is so many times as steep as the calmest place nearby
_SMOOTH = 5.0  # change over the longer side of the image, if smooth shading went on like this
_NEARBY = 11  # pixels; a window of this side holds the 10x10 of the scores
_NORMAL_JUMP = 1.5  # Sobel gradient, mean of the three axes, as in the labels of SAW
_DEPTH_JUMP = 0.02  # second difference of 1 / depth, which is 0 on a plane, relative to 1 / depth
_SOBEL = 8  # Sobel gradient of a slope of 1 per pixel


def synthetic_comparisons(
    name: str, albedo: Float[ndarray, "3 height width"], objects: UInt8[ndarray, "height width"]
) -> PointComparisons:
    """Compare the true albedo at random pairs of pixels.

    The answer is that of WHDR for the true albedo: a point is darker if the channel means differ by more than
    `DARKER_BY`. All weights are 1. Points are as likely on each object, so that few pairs are both on the
    ground. Pixels near the edge of an object (`mixed_edges`), pixels without albedo, and pixels in whose 3x3
    neighbourhood the albedo varies by more than 5 % are left out, so that no point lies on a border.

    Args:
        name: id of the frame, the seed of the pairs.
        albedo: scene-linear.
        objects: index of the object at each pixel.

    Returns:
        Up to `PAIRS` comparisons; none if fewer than two pixels are left, as on rough textures.

    Example:
        >>> albedo = np.full((3, 1, 20), 0.2)
        >>> albedo[..., 10:] = 0.4
        >>> made = synthetic_comparisons("a", albedo, np.zeros((1, 20), np.uint8))
        >>> bool(((made.points[:, 0, 0] < made.points[:, 1, 0]) | (made.darker != 1)).all())
        True
    """
    gray = albedo.astype(np.float64).mean(0)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(gray, 1, mode="edge"), (3, 3))
    even = around.max((2, 3)) <= _EVEN * around.min((2, 3))
    places = np.argwhere((gray > 0) & even & ~mixed_edges(objects))
    if len(places) < 2:
        return PointComparisons(np.empty((0, 2, 2)), np.empty(0, np.int64), np.empty(0))
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    index = objects[places[:, 0], places[:, 1]]
    chance = 1 / np.bincount(index)[index]
    drawn = np.random.default_rng(seed).choice(len(places), (PAIRS, 2), p=chance / chance.sum())
    pixels = places[drawn[drawn[:, 0] != drawn[:, 1]]]
    one, two = gray[pixels[..., 0], pixels[..., 1]].T
    darker = np.where(two / one > 1 + DARKER_BY, 1, np.where(one / two > 1 + DARKER_BY, 2, 0))
    points = (pixels[..., ::-1] + 0.5) / gray.shape[::-1]
    return PointComparisons(points, darker.astype(np.int64), np.ones(len(pixels)))


def synthetic_labels(
    albedo: Float[ndarray, "3 height width"],
    shading: Float[ndarray, "3 height width"],
    depth: Float[ndarray, "height width"],
    normal: Float[ndarray, "3 height width"],
    objects: UInt8[ndarray, "height width"],
) -> Int64[ndarray, "height width"]:
    """Label the pixels of a frame by its true shading and geometry.

    With g, the change per pixel of the logarithm of the gray true shading, and nearby pixels, those in a
    window of 11x11:

    * 0: the object, the normal or the depth jumps, and g is above 10 % within a pixel;
    * 1: g is above 10 %, and three times as large as at some pixel nearby, and nothing of the geometry jumps
      nearby: the boundary of a shadow;
    * 2: everywhere nearby g is below 5 divided by the longer side of the image, and below 5 %: smooth;
    * 100: everything else, among it all pixels within two pixels of one without albedo, where the shading is
      unknown or mixed.

    Shading below 2 % of the frame's median counts as 2 % of it.

    Args:
        albedo: scene-linear.
        shading: scene-linear, in any scale.
        depth: metres, inf where nothing is hit.
        normal: unit vectors, 0 where nothing is hit.
        objects: index of the object at each pixel.

    Example:
        >>> shading = np.where(np.arange(40) < 20, 0.1, 1.0) * np.ones((3, 12, 1))
        >>> flat, up = np.ones((12, 40)), np.stack([np.zeros((12, 40))] * 2 + [np.ones((12, 40))])
        >>> synthetic_labels(up[2:] * np.ones((3, 1, 1)), shading, flat, up, flat.astype(np.uint8))[6, 12:28]
        array([  2,   2, 100, 100, 100, 100, 100,   1,   1, 100, 100, 100, 100,
               100,   2,   2])
    """
    known = ~_any_within(albedo.min(0) <= 0, 2 * REACH + 1)
    slope = np.where(known, _relative_slope(shading.astype(np.float64).mean(0), known), 0.0)
    calmest = -window_maximum(-slope, _NEARBY)
    steepest = window_maximum(np.where(known, slope, np.inf), _NEARBY)
    jumps = _geometry_jumps(depth, normal, objects)
    labels = np.full(known.shape, 100, np.int64)
    labels[jumps & (window_maximum(slope, 3) > _STEEP)] = 0
    edge = (slope > _STEEP) & (slope > _EDGE * calmest)
    labels[edge & ~_any_within(jumps, _NEARBY)] = 1
    labels[steepest < min(_SMOOTH / max(known.shape), _STEEP / 2)] = 2
    labels[~known] = 100
    return labels


def _relative_slope(
    shading: Float64[ndarray, "height width"], known: Bool[ndarray, "height width"]
) -> Float64[ndarray, "height width"]:
    """Compute the change per pixel of the logarithm of shading."""
    floor = _FLOOR * float(np.median(shading[known])) if known.any() else 0.0
    return gradient_magnitude(np.log(np.maximum(shading, max(floor, 1e-10)))) / _SOBEL


def _geometry_jumps(
    depth: Float[ndarray, "height width"],
    normal: Float[ndarray, "3 height width"],
    objects: UInt8[ndarray, "height width"],
) -> Bool[ndarray, "height width"]:
    """Mark the pixels where object, normal or depth jump."""
    turned = np.mean([gradient_magnitude(axis.astype(np.float64)) for axis in normal], axis=0)
    near = np.divide(1, depth, out=np.zeros(depth.shape), where=np.isfinite(depth), dtype=np.float64)
    padded = np.pad(near, 1, mode="reflect", reflect_type="odd")  # a plane continues over the border
    bends = [padded[2:, 1:-1] + padded[:-2, 1:-1] - 2 * near, padded[1:-1, 2:] + padded[1:-1, :-2] - 2 * near]
    folded = np.max(np.abs(bends), axis=0) > _DEPTH_JUMP * near
    return mixed_edges(objects, 1) | (turned > _NORMAL_JUMP) | folded


def _any_within(marked: Bool[ndarray, "height width"], size: int) -> Bool[ndarray, "height width"]:
    """Tell whether a window around each pixel holds a marked pixel."""
    return window_maximum(marked.astype(np.float64), size) > 0
