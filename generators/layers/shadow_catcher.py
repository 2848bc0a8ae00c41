"""Layers over a shadow catcher: the backdrop without noise, and objects from the geometry trace.

A shadow catcher is a floor that shows the environment map behind it, darkened by shadows. Its pixels hold no
albedo and no shading: all their light is residual. So the residual is denoised relative to the backdrop, and
albedo and normals, which no denoiser may touch, come from the geometry trace, which has more samples.

All arrays are float32, height by width (by 3), scene-linear Rec.709.
"""

from dataclasses import replace

import numpy as np

from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.layers.decompose_trace import (
    LEAST_ALBEDO,
    OneChannel,
    Passes,
    ThreeChannels,
    TracedLayers,
    camera_normals,
)

LEAST_BACKDROP = 1e-3  # radiance; under a darker backdrop, shadows cannot be told from noise


def backdrop_radiance(environment: ThreeChannels, coverage: OneChannel) -> ThreeChannels:
    """Return the radiance that the residual over a shadow catcher is divided by to leave the shadows.

    Args:
        environment: radiance of the environment map times the share of the pixel that no object covers.
        coverage: share of the pixel that objects cover; objects count as radiance 1.
    """
    return np.maximum(environment + coverage[..., None], LEAST_BACKDROP)


def exact_backdrop(
    passes: Passes, geometry: Passes | None, view: ThreeChannels | None = None
) -> ThreeChannels:
    """Return `backdrop_radiance` without the noise of the trace.

    Args:
        passes: passes of the trace with light.
        geometry: passes of the geometry trace; None if no object is in the image.
        view: the environment map as `candlelight.generators.layers.environment_view.view_map` computes it; by
            default the map that ``passes`` show.

    Returns:
        The backdrop with the coverage of the geometry trace.

    Example:
        >>> half = np.full((1, 1), 0.5, np.float32)
        >>> light = np.full((1, 1, 3), 2.0, np.float32)  # a map of radiance 4, half of it covered
        >>> exact_backdrop({"coverage": half, "Environment": light}, {"coverage": half / 2})[0, 0].tolist()
        [3.25, 3.25, 3.25]
    """
    traced = np.clip(passes["coverage"], 0.0, 1.0)
    exact = traced if geometry is None else np.clip(geometry["coverage"], 0.0, 1.0)
    if view is not None:
        return backdrop_radiance(view * (1 - exact)[..., None], exact)
    free = 1.0 - traced
    share = np.where(free > 0, (1.0 - exact) / np.where(free > 0, free, 1.0), 1.0)
    seen = (traced > 0) | (exact > 0)
    light = np.where(seen[..., None], passes["Environment"] * share[..., None], passes["Environment"])
    return backdrop_radiance(light.astype(np.float32), np.where(seen, exact, traced).astype(np.float32))


def replace_geometry(
    traced: TracedLayers, passes: Passes, geometry: Passes, camera: PlacedCamera
) -> TracedLayers:
    """Replace albedo, normals, roughness and metallic of objects by those of the geometry trace.

    Pixels without an object do not change, so all pixels that two counterfactual frames share stay equal.

    Args:
        traced: denoised layers over a shadow catcher.
        passes: the passes that the layers were made from.
        geometry: passes of `candlelight.generators.blender.geometry_trace`.
        camera: the camera of both traces.

    Returns:
        The layers with the objects' geometry replaced; shading is 0 where the new albedo is 0.
    """
    seen = (passes["coverage"] > 0) | (geometry["coverage"] > 0)
    clipped = np.clip(geometry["albedo"], 0.0, 1.0)
    clipped = np.where(clipped > LEAST_ALBEDO, clipped, 0.0).astype(np.float32)
    albedo = np.where(seen[..., None], clipped, traced.albedo)

    def spread(shading: ThreeChannels) -> ThreeChannels:
        """Give pixels that the first trace found without albedo the shading of their neighbours."""
        filled = _fill_from_neighbours(shading, traced.albedo > 0)
        return np.where(albedo > 0, filled, 0.0).astype(np.float32)

    return replace(
        traced,
        albedo=albedo,
        normal=np.where(seen[..., None], camera_normals(geometry["normal"], camera), traced.normal),
        roughness=np.where(seen, np.clip(geometry["roughness"], 0.0, 1.0), traced.roughness),
        metallic=np.where(seen, np.clip(geometry["metallic"], 0.0, 1.0), traced.metallic),
        shading=None if traced.shading is None else spread(traced.shading),
        shading_direct=spread(traced.shading_direct),
        shading_indirect=spread(traced.shading_indirect),
    )


def _fill_from_neighbours(values: ThreeChannels, known: np.ndarray) -> ThreeChannels:
    """Fill unknown values with the mean of the known ones among the eight pixels around, or with 0."""
    total, count = np.zeros_like(values), np.zeros(values.shape, np.float32)
    height, width = values.shape[:2]
    padded = np.pad(np.where(known, values, 0.0), ((1, 1), (1, 1), (0, 0)))
    weights = np.pad(known.astype(np.float32), ((1, 1), (1, 1), (0, 0)))
    for y in range(3):
        for x in range(3):
            total += padded[y : y + height, x : x + width]
            count += weights[y : y + height, x : x + width]
    return np.where(known, values, total / np.maximum(count, 1.0)).astype(np.float32)
