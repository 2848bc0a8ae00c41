"""Make the stored layers of a sample: apply its gain and exposure, and round to the types of the schema."""

from collections.abc import Collection

import numpy as np
from numpy import ndarray

from candlelight.generators.layers.decompose_trace import TracedLayers
from candlelight.loaders.colour import to_display, to_half
from candlelight.loaders.light_sum import light_sum_error
from candlelight.loaders.schema import LIGHT_PREFIX, ChecksRecord, Vector


def frame_layers(
    traced: TracedLayers, *, gain: Vector, exposure: float, layers: Collection[str]
) -> tuple[dict[str, ndarray], ChecksRecord]:
    """Make the layers of one sample from the trace that its group shares.

    Albedo, shading and residual are rounded to half precision first; ``radiance`` is then
    float16(albedo x shading + residual) of the rounded layers, so that the identity holds for every reader of
    the frame.

    Args:
        traced: the layers of the trace.
        gain: light of this sample over the traced light, per channel.
        exposure: factor of the radiance before the sRGB curve.
        layers: names of the layers to return.

    Returns:
        The layers by name, with the types of the schema, and the checks for the metadata.
    """
    factor = np.array(gain, np.float32)
    albedo, residual = to_half(traced.albedo), to_half(traced.residual * factor)
    shading, direct, indirect = _rounded_shading(traced, factor)
    total = albedo.astype(np.float32) * shading.astype(np.float32) + residual.astype(np.float32)
    radiance = to_half(total)
    lights = {LIGHT_PREFIX + name: to_half(array * factor) for name, array in traced.lights.items()}
    exposed = radiance.astype(np.float32) * np.float32(exposure)
    made = {
        "image": to_display(exposed),
        "radiance": radiance,
        "albedo": albedo,
        "shading": shading,
        "shading_direct": direct,
        "shading_indirect": indirect,
        "residual": residual,
        **lights,
        "depth": traced.depth,
        "normal": traced.normal.astype(np.float16),
        "object": traced.object,
        "part": traced.part,
        "position": traced.position,
        "roughness": traced.roughness.astype(np.float16),
        "metallic": traced.metallic.astype(np.float16),
    }
    checks = ChecksRecord(
        identity_error=traced.identity_error,
        stored_error=float((np.abs(total - radiance) / np.maximum(1.0, np.abs(total))).max()),
        clipped=float((exposed > 1.0).any(axis=-1).mean()),
        light_sum_error=light_sum_error(list(lights.values()), radiance) if lights else None,
    )
    return {name: made[name] for name in layers}, checks


def _rounded_shading(traced: TracedLayers, factor: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Return shading and its direct and indirect shares, which add up to it if they are kept apart."""
    direct, indirect = (to_half(share * factor) for share in (traced.shading_direct, traced.shading_indirect))
    if traced.shading is not None:
        return to_half(traced.shading * factor), direct, indirect
    return to_half(direct.astype(np.float32) + indirect.astype(np.float32)), direct, indirect
