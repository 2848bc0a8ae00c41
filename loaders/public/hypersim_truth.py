"""Rebuild the ground truth of a frame of Hypersim by which Marigold-IID-Lighting is scored."""

import numpy as np
from jaxtyping import Float64, Shaped
from numpy import ndarray

_Layer = Float64[ndarray, "height width 3"]
_HIGH = 0.98


def hypersim_truth(
    albedo: _Layer, shading: _Layer, residual: _Layer
) -> dict[str, Shaped[ndarray, "height width *channels"]]:
    """Scale shading and residual together, and find the pixels where each layer is known.

    Shading and residual are clipped to [0, c] and divided by c, the larger of their 98th percentiles
    (`cut_off`). So both have one unit, which differs from frame to frame, and values above c, infinities
    among them, become 1.

    A pixel of the shading or the residual is known where no channel is NaN, and nowhere if c is 0 or not
    finite. A pixel of the albedo is known where all channels are finite and not all are 0. Differences to the
    published code: there, NaN anywhere in shading or residual makes c, and so both layers, NaN; an infinite c
    makes finite values 0; and the masks have three channels.

    Args:
        albedo: linear.
        shading: linear, any value.
        residual: linear, any value.

    Returns:
        ``reflectance``, ``shading``, ``residual``: float32 (H W 3), linear, in [0, 1], 0 where not known; and
        the masks ``reflectance_mask``, ``shading_mask``, ``residual_mask``: bool (H W).

    Example:
        >>> gray = np.repeat(np.array([0.0, 2.0, 4.0, np.nan])[None, :, None], 3, axis=2)
        >>> truth = hypersim_truth(gray / 4, gray, 0 * gray)
        >>> truth["shading"][0, :, 0].round(3), truth["shading_mask"][0], truth["reflectance_mask"][0]
        (array([0. , 0.5, 1. , 0. ], dtype=float32), array([ True,  True,  True, False]), \
array([False,  True,  True, False]))
    """
    cut = cut_off(shading, residual)
    layers = {
        "reflectance": albedo,
        "shading": _scaled(shading, cut),
        "residual": _scaled(residual, cut),
    }
    masks = {f"{name}_mask": np.isfinite(layer).all(axis=-1) for name, layer in layers.items()}
    masks["reflectance_mask"] &= (albedo != 0).any(axis=-1)
    known = {
        name: np.where(masks[f"{name}_mask"][..., None], layer, 0).astype(np.float32)
        for name, layer in layers.items()
    }
    return {**known, **masks}


def cut_off(*layers: Float64[ndarray, "..."]) -> float:
    """Return the largest of the 98th percentiles of layers; 0 without values.

    A percentile is over all values of a layer, of all channels, except NaN. With n values in ascending order,
    it is at place 0.98 (n - 1) from 0, interpolated linearly. It may be infinite or NaN where values are
    infinite.

    Example:
        >>> cut_off(np.arange(101.0), np.array([0.0, 1.0, np.nan]))
        98.0
    """
    known = (layer[~np.isnan(layer)] for layer in layers)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        highs = [np.quantile(values, _HIGH) for values in known if values.size]
    return float(np.max(highs, initial=0))


def _scaled(layer: _Layer, cut: float) -> _Layer:
    return layer.clip(0, cut) / cut if 0 < cut < np.inf else np.full_like(layer, np.nan)
