"""Putting the finely sampled geometry of objects into a trace whose light was denoised.

All arrays are float32, height by width (by 3), scene-linear Rec.709.
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from generators.layers.decomposition import (
    LEAST_ALBEDO,
    Passes,
    ThreeChannels,
    TracedLayers,
    backdrop_radiance,
    camera_normals,
)
from generators.scenes.scene import Camera


def replace_geometry(parts: TracedLayers, passes: Passes, fine: Passes, camera: Camera) -> TracedLayers:
    """Take albedo, normals, roughness and metallic of objects from a trace of more samples.

    Where no object is, and so in every pixel that two counterfactual frames share, nothing changes.

    Args:
        parts: a decomposition over a shadow catcher, denoised.
        passes: the passes that it came from.
        fine: passes of the geometry trace, which `generators.blender.geometry_trace` makes.
        camera: for the normals.

    Returns:
        The same with finer edges; shading is 0 where albedo is 0, as ever.
    """
    seen = (passes["coverage"] > 0) | (fine["coverage"] > 0)
    fine_albedo = np.clip(fine["albedo"], 0.0, 1.0)
    fine_albedo = np.where(fine_albedo > LEAST_ALBEDO, fine_albedo, 0.0).astype(np.float32)
    albedo = np.where(seen[..., None], fine_albedo, parts.albedo)

    def carry(shading: ThreeChannels) -> ThreeChannels:
        return np.where(albedo > 0, _spread(shading, parts.albedo > 0), 0.0).astype(np.float32)

    return replace(
        parts,
        albedo=albedo,
        normal=np.where(seen[..., None], camera_normals(fine["normal"], camera), parts.normal),
        roughness=np.where(seen, np.clip(fine["roughness"], 0.0, 1.0), parts.roughness),
        metallic=np.where(seen, np.clip(fine["metallic"], 0.0, 1.0), parts.metallic),
        shading=None if parts.shading is None else carry(parts.shading),
        shading_direct=carry(parts.shading_direct),
        shading_indirect=carry(parts.shading_indirect),
    )


def exact_backdrop(passes: Passes, fine: Passes | None, view: ThreeChannels | None = None) -> ThreeChannels:
    """Work out the backdrop of a residual without noise: a pixel shows the map where no object is.

    Args:
        passes: of a trace; "Environment" is the map times the free share of the pixel.
        fine: passes of the geometry trace; None where there is no object in the picture.
        view: the map alone, as `generators.layers.environment_view.view_map` works it out; by default that of
            ``passes``.

    Returns:
        `generators.layers.decomposition.backdrop_radiance` the map as it would be seen with the finer coverage.

    Example:
        >>> half = np.full((1, 1), 0.5, np.float32)
        >>> light = np.full((1, 1, 3), 2.0, np.float32)  # a map of radiance 4, half of it free
        >>> exact_backdrop({"coverage": half, "Environment": light}, {"coverage": half / 2})[0, 0, 0]
        3.25
    """
    coverage = np.clip(passes["coverage"], 0.0, 1.0)
    finer = coverage if fine is None else np.clip(fine["coverage"], 0.0, 1.0)
    if view is not None:
        return backdrop_radiance(view * (1 - finer)[..., None], finer)
    free = 1.0 - coverage
    share = np.where(free > 0, (1.0 - finer) / np.where(free > 0, free, 1.0), 1.0)
    seen = (coverage > 0) | (finer > 0)
    light = np.where(seen[..., None], passes["Environment"] * share[..., None], passes["Environment"])
    return backdrop_radiance(light.astype(np.float32), np.where(seen, finer, coverage).astype(np.float32))


def _spread(values: ThreeChannels, known: ndarray) -> ThreeChannels:
    """Fill what is not known with the mean of what is among the eight pixels around it."""
    total, count = np.zeros_like(values), np.zeros(values.shape, np.float32)
    height, width = values.shape[:2]
    padded = np.pad(np.where(known, values, 0.0), ((1, 1), (1, 1), (0, 0)))
    there = np.pad(known.astype(np.float32), ((1, 1), (1, 1), (0, 0)))
    for y in range(3):
        for x in range(3):
            total += padded[y : y + height, x : x + width]
            count += there[y : y + height, x : x + width]
    return np.where(known, values, total / np.maximum(count, 1.0)).astype(np.float32)
