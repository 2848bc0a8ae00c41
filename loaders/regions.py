"""Region maps: the number of a region at each pixel, 0 outside all regions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, UInt8
from numpy import ndarray

from loaders.mixed_edges import mixed_edges

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
    from scipy import ndimage  # not at the top, because importing the readers must not import scipy

    values = albedo.astype(np.float64)
    usable = (object_layer > 0) & ~mixed_edges(object_layer) & (values > 0).any(axis=2)
    labels = _components(usable, object_layer, values)
    found, first, sizes = np.unique(labels[usable], return_index=True, return_counts=True)
    found = found[np.argsort(first)][sizes[np.argsort(first)] >= least]
    low, high, mean = (
        np.stack([measure(values[..., one], labels, found) for one in range(3)], axis=1).reshape(-1, 3)
        for measure in (ndimage.minimum, ndimage.maximum, ndimage.mean)
    )
    constant = (high - low <= _ROUNDING * high).all(axis=1)
    numbers = np.zeros(labels.max(initial=0) + 1, np.int64)
    numbers[found[constant]] = np.arange(1, constant.sum() + 1)
    return ConstantRegions(np.where(usable, numbers[labels], 0), mean[constant].astype(np.float32))


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
