"""Region maps: the number of a region at each pixel, 0 outside all regions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, UInt8
from numpy import ndarray

from candlelight.loaders.mixed_edges import mixed_edges

LEAST_PIXELS = 25  # of a region of constant albedo
# Rounding to half precision moves a value by this share of it at most, so that equal values may differ so.
_ROUNDING = 2.0**-10


class ConstantRegions(NamedTuple):
    """Regions of constant albedo, and the albedo of each: ``colours[n - 1]`` of region n."""

    regions: Int64[ndarray, "height width"]
    colours: Float32[ndarray, "n 3"]


def constant_regions(
    object_layer: UInt8[ndarray, "height width"],
    albedo: Float[ndarray, "height width 3"],
    least: int = LEAST_PIXELS,
) -> ConstantRegions:
    """Find the regions of a frame in which one object has one albedo.

    A region is connected over the four neighbours of a pixel. Pixels of `mixed_edges` of the object layer,
    the background (index 0) and pixels without albedo belong to no region. Texture edges within an object
    divide it, and a texture that changes from pixel to pixel has no region: neither steps between neighbours
    nor the range of a region may exceed the rounding to half precision.

    Args:
        object_layer: index of the object at each pixel, not anti-aliased.
        albedo: true albedo, scene-linear, in [0, 1].
        least: smallest number of pixels of a region.

    Returns:
        The regions, numbered from 1 in the order of their first pixels, row by row: frames with equal objects
        and albedo have equal numbers.

    Example:
        >>> objects = np.ones((9, 9), np.uint8)
        >>> albedo = np.full((9, 9, 3), 0.5, np.float16)
        >>> albedo[:, 5:] = 0.25
        >>> constant_regions(objects, albedo).colours[:, 0], constant_regions(objects, albedo).regions[0]
        (array([0.5 , 0.25], dtype=float32), array([1, 1, 1, 1, 1, 2, 2, 2, 2]))
    """
    values = albedo.astype(np.float64)
    usable = (object_layer > 0) & ~mixed_edges(object_layer) & (values > 0).any(axis=2)
    labels, pixels = _components(usable, object_layer, values)[usable], values[usable]
    _, first, inverse, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    regions = np.zeros(object_layer.shape, np.int64)
    if not len(sizes):
        return ConstantRegions(regions, np.zeros((0, 3), np.float32))
    ordered, starts = pixels[np.argsort(inverse, kind="stable")], np.cumsum(sizes) - sizes
    low, high = (bound.reduceat(ordered, starts, axis=0) for bound in (np.minimum, np.maximum))
    mean = np.add.reduceat(ordered, starts, axis=0) / sizes[:, None]
    kept = (sizes >= least) & (high - low <= _ROUNDING * high).all(axis=1)
    found = np.flatnonzero(kept)[np.argsort(first[kept])]
    numbers = np.zeros(len(sizes), np.int64)
    numbers[found] = np.arange(1, len(found) + 1)
    regions[usable] = numbers[inverse]
    return ConstantRegions(regions, mean[found].astype(np.float32))


def scale_regions(
    regions: Int64[ndarray, "height width"], size: tuple[int, ...]
) -> Int64[ndarray, "rows columns"]:
    """Scale a region map by the nearest pixel: each new pixel takes the pixel under its centre.

    Args:
        regions: number of the region at each pixel.
        size: new height and width in pixels.

    Returns:
        The scaled map; a region may have no pixel left.

    Example:
        >>> scale_regions(np.array([[1, 1, 2, 2], [3, 3, 0, 0]]), (2, 2))
        array([[1, 2],
               [3, 0]])
    """
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(np.int64)
        for new, old in zip(size, regions.shape, strict=True)
    )
    return regions[rows[:, None], columns]


def _components(
    usable: Bool[ndarray, "height width"],
    object_layer: UInt8[ndarray, "height width"],
    values: Float[ndarray, "height width 3"],
) -> Int64[ndarray, "height width"]:
    """Label the connected pixels of one object and, up to rounding, one albedo."""
    # Not at the top, because importing the readers must not import scipy.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    nodes = np.arange(usable.size).reshape(usable.shape)
    pairs = []
    for one, other in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        step, most = np.abs(values[one] - values[other]), np.maximum(values[one], values[other])
        joined = (step <= _ROUNDING * most).all(axis=2) & (object_layer[one] == object_layer[other])
        joined &= usable[one] & usable[other]
        pairs.append((nodes[one][joined], nodes[other][joined]))
    starts, ends = (np.concatenate(side) for side in zip(*pairs, strict=True))
    graph = coo_array((np.ones(len(starts), bool), (starts, ends)), shape=(usable.size, usable.size))
    labels = connected_components(graph, directed=False)[1]
    return labels.reshape(usable.shape).astype(np.int64)
