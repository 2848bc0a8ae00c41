"""Convert any layer to pixels for display."""

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from candlelight.loaders.colour import to_display
from candlelight.loaders.schema import LAYERS

Pixels = UInt8[ndarray, "height width 3"]

# Colours of object and part indices from 1 on, repeated after the last: the palette of Okabe and Ito, which
# colour-blind readers can distinguish. Index 0, the background, is black.
PALETTE = np.array(
    [
        *((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66)),
        *((0, 114, 178), (213, 94, 0), (204, 121, 167), (187, 187, 187)),
    ],
    np.uint8,
)
_FARTHEST = 64  # gray value of the farthest point; pixels without a point are black


def show_layer(name: str, array: ndarray, exposure: float) -> Pixels:
    """Turn a layer into pixels that can be looked at.

    Radiances (``radiance``, ``shading*``, ``residual``, ``light/*``) are multiplied by the exposure and then
    sRGB-encoded; ``albedo`` is sRGB-encoded. In ``depth``, the nearest point of the frame is white, the
    farthest dark gray, and equal ratios of depth are equal steps, so that one far point does not make all
    others white; pixels without a point are black. A normal n is (n + 1) / 2 as red, green, blue: x right,
    y down, z forward. ``position`` is x, y, z as red, green, blue, each scaled to the range of the frame.
    ``object`` and ``part`` have the colours of `PALETTE`; ``roughness`` and ``metallic`` are gray.

    Args:
        name: layer name.
        array: the layer in the form of the schema.
        exposure: the set's exposure.

    Returns:
        uint8 pixels of the same height and width.

    Example:
        >>> show_layer("depth", np.array([[1, 2, 4, np.inf]], np.float32), 1.0)[0, :, 0]
        array([255, 160,  64,   0], dtype=uint8)
    """
    if name == "image":
        return array
    if name == "depth":
        return _show_depth(array)
    array = np.nan_to_num(array)  # traced radiance may contain NaN
    if name == "normal":
        return np.rint((array.astype(np.float32) + 1) / 2 * 255).clip(0, 255).astype(np.uint8)
    if name == "position":
        return _show_position(array)
    if name in ("roughness", "metallic"):
        gray = np.rint(array.astype(np.float32) * 255).astype(np.uint8)
        return np.repeat(gray[..., None], 3, axis=2)
    if name in LAYERS and not LAYERS[name].channels:
        return _show_indices(array)
    return to_display(array.astype(np.float32) * np.float32(1 if name == "albedo" else exposure))


def _show_depth(depth: Float[ndarray, "height width"]) -> Pixels:
    hit = np.isfinite(depth) & (depth > 0)
    gray = np.zeros(depth.shape, np.uint8)
    if hit.any():
        away = np.log(depth[hit].astype(np.float64))
        away -= away.min()
        gray[hit] = np.rint(255 - (255 - _FARTHEST) * away / (away.max() or 1))
    return np.repeat(gray[..., None], 3, axis=2)


def _show_position(position: Float[ndarray, "height width 3"]) -> Pixels:
    shown = np.zeros(position.shape, np.uint8)
    if (hit := (position != 0).any(axis=-1)).any():
        away = position[hit] - position[hit].min(axis=0)
        span = away.max(axis=0)
        shown[hit] = np.rint(255 * away / np.where(span > 0, span, 1))
    return shown


def _show_indices(indices: UInt8[ndarray, "height width"]) -> Pixels:
    return np.where(
        indices[..., None] > 0, PALETTE[(indices.astype(np.int64) - 1) % len(PALETTE)], np.uint8(0)
    )
