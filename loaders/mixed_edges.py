"""Pixels that show more than one surface."""

import numpy as np
from jaxtyping import Bool, UInt8
from numpy import ndarray

REACH = 2  # pixels


def mixed_edges(object_layer: UInt8[ndarray, "height width"]) -> Bool[ndarray, "height width"]:
    """Mark the pixels that may mix two surfaces: those within two pixels of another object.

    The pixel filter (Blackman-Harris, 1.5 pixels wide) reaches 0.75 pixels from a pixel's centre, and the one
    sample that the index is taken from lies as far from it, so that an edge may show in the index as late as
    two pixels on. At a marked pixel, `albedo`, `shading` and `normal` are averages over
    surfaces: ``albedo * shading + residual`` still gives `radiance`, but no surface need have that albedo,
    and the normal may point along none of them.

    Blind to what the index does not show: creases and texture edges within one object, one part of an object
    in front of another, and anything thinner than a pixel that no pixel's one sample of the index has hit.

    Args:
        object_layer: index of the object at each pixel, 0 for background; not anti-aliased.

    Returns:
        True where a pixel may be mixed.

    Example:
        >>> mixed_edges(np.array([[0, 0, 0, 0, 1, 1, 1]], np.uint8))
        array([[False, False,  True,  True,  True,  True, False]])
    """
    height, width = object_layer.shape
    padded = np.pad(object_layer, REACH, mode="edge")
    mixed = np.zeros((height, width), bool)
    for top in range(2 * REACH + 1):
        for left in range(2 * REACH + 1):
            mixed |= padded[top : top + height, left : left + width] != object_layer
    return mixed
