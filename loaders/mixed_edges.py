"""Mark pixels near edges of objects, whose values may mix several surfaces."""

import numpy as np
from jaxtyping import Bool, Shaped
from numpy import ndarray

from candlelight.loaders.image_gradients import window_maximum

REACH = 2  # pixels


def mixed_edges(
    layer: Shaped[ndarray, "height width *channels"], reach: int = REACH
) -> Bool[ndarray, "height width"]:
    """Mark the pixels that may mix two surfaces: all pixels within two pixels of another object.

    The pixel filter (Blackman-Harris, 1.5 pixels wide) reaches 0.75 pixels from a pixel's centre. The single
    sample of the object index may lie as far from the centre, so an edge may show in the index up to two
    pixels away. At a marked pixel, `albedo`, `shading` and `normal` are averages over surfaces:
    ``albedo * shading + residual`` still gives `radiance`, but possibly no surface has that albedo or normal.

    The function misses mixed pixels that the object index does not show: creases and texture edges within
    one object, one part of an object in front of another, and structures thinner than a pixel that the
    index samples did not hit.

    Args:
        layer: index of the object at each pixel, 0 for background, not anti-aliased. A layer of another
            value, such as the part or the albedo, marks the edges of that value.
        reach: largest distance in rows and in columns; 1 looks at the 3 x 3 pixels around each pixel.

    Returns:
        True where a pixel may be mixed.

    Example:
        >>> mixed_edges(np.array([[0, 0, 0, 0, 1, 1, 1]], np.uint8))
        array([[False, False,  True,  True,  True,  True, False]])
    """
    height, width = layer.shape[:2]
    size = 2 * min(reach, max(height, width)) + 1  # farther pixels are outside the image
    mixed = np.zeros((height, width), bool)
    for values in np.moveaxis(layer.reshape(height, width, -1).astype(np.float64), 2, 0):
        mixed |= window_maximum(values, size) != -window_maximum(-values, size)
    return mixed
