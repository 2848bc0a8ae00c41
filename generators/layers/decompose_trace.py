"""Split the passes of one trace into albedo, shading, residual and geometry.

All arrays are float32, height by width (by 3); colours are scene-linear Rec.709.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, UInt8
from numpy import ndarray

from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.scenes.camera import world_to_camera

Passes = dict[str, Float32[ndarray, "height width *channels"]]  # keys: Cycles' pass names, AOVs
OneChannel = Float32[ndarray, "height width"]
ThreeChannels = Float32[ndarray, "height width 3"]

LEAST_ALBEDO = 1e-4  # smaller albedo counts as 0, because no diffuse light can be divided by it
DARKEST_ALBEDO = 2e-4  # of materials: darker channels are raised to it, so that their shading is defined
_LIGHT = "Combined_"  # prefix of the passes of light groups
_NOTHING_HIT = 1e9  # Cycles writes a depth of 1e10 where a ray leaves the scene


@dataclass(frozen=True)
class TracedLayers:
    """Layers of one trace at full precision; their light is for a gain of 1.

    ``shading`` is None if its direct and indirect shares are kept apart; it is then their sum. ``catcher``
    says that the floor is a shadow catcher. ``identity_error`` is None then, because the passes of Cycles do
    not add up on a shadow catcher.
    """

    albedo: ThreeChannels
    shading_direct: ThreeChannels
    shading_indirect: ThreeChannels
    shading: ThreeChannels | None
    residual: ThreeChannels
    lights: dict[str, ThreeChannels]
    depth: OneChannel
    normal: ThreeChannels
    object: UInt8[ndarray, "height width"]
    part: UInt8[ndarray, "height width"]
    position: ThreeChannels
    roughness: OneChannel
    metallic: OneChannel
    catcher: bool
    identity_error: float | None


def decompose_trace(passes: Passes, *, camera: PlacedCamera, catcher: bool, split: bool) -> TracedLayers:
    """Split a trace into albedo, shading and residual.

    Diffuse radiance is DiffCol x (DiffDir + DiffInd). Shading is the diffuse radiance over the albedo of the
    AOV, so that albedo x shading is the diffuse radiance, although Cycles' own Diffuse Color is not the
    albedo. The residual is Combined minus the diffuse radiance.

    Args:
        passes: passes as `candlelight.generators.blender.passes.read` returns them.
        camera: the camera of the trace, to turn normals, which Cycles writes in world axes.
        catcher: whether the floor is a shadow catcher.
        split: whether to keep the direct and indirect shares of the shading apart.

    Returns:
        The layers, not denoised.
    """
    combined = passes["Combined"]
    albedo = np.clip(passes["albedo"], 0.0, 1.0)
    lit = albedo > LEAST_ALBEDO
    divisor = np.where(lit, albedo, 1.0)
    direct, indirect = (
        passes["Diffuse Color"] * passes[f"Diffuse {share}"] for share in ("Direct", "Indirect")
    )
    shading_direct, shading_indirect = (np.where(lit, share / divisor, 0.0) for share in (direct, indirect))
    diffuse = albedo * (shading_direct + shading_indirect)
    # Where the albedo is too small to divide by, diffuse light is part of the residual, which is no error.
    explained = np.where(lit | (albedo <= 0), diffuse, direct + indirect)
    depth = passes["Depth"]
    hit = depth < _NOTHING_HIT
    # At the far edge of a shadow catcher, Cycles may write a normal without a depth; depth decides.
    solid = (hit | (passes["coverage"] > 0))[..., None]
    return TracedLayers(
        albedo=np.where(lit, albedo, 0.0),
        shading_direct=shading_direct,
        shading_indirect=shading_indirect,
        shading=None if split else shading_direct + shading_indirect,
        residual=combined - diffuse,
        lights={name.removeprefix(_LIGHT): passes[name] for name in passes if name.startswith(_LIGHT)},
        depth=np.where(hit, depth, np.inf).astype(np.float32),
        normal=np.where(solid, camera_normals(passes["normal"], camera), 0.0).astype(np.float32),
        object=passes["Object Index"].astype(np.uint8),
        part=passes["Material Index"].astype(np.uint8),
        position=np.where(hit[..., None], passes["Position"], 0.0).astype(np.float32),
        roughness=np.clip(passes["roughness"], 0.0, 1.0),
        metallic=np.clip(passes["metallic"], 0.0, 1.0),
        catcher=catcher,
        identity_error=None if catcher else _identity_error(passes, explained),
    )


def _identity_error(passes: Passes, diffuse: ThreeChannels) -> float:
    """Return the largest difference of the sum of all light passes from Combined, over max(1, Combined)."""
    total = diffuse.astype(np.float64)
    for kind in ("Glossy", "Transmission"):
        total += passes[f"{kind} Color"].astype(np.float64) * (
            passes[f"{kind} Direct"] + passes[f"{kind} Indirect"]
        )
    for name in ("Volume Direct", "Volume Indirect", "Emission", "Environment"):
        total += passes[name]
    error = np.abs(total - passes["Combined"]) / np.maximum(1.0, passes["Combined"])
    return float(error.max())


def camera_normals(normals: ThreeChannels, camera: PlacedCamera) -> ThreeChannels:
    """Turn world normals into unit normals in OpenCV camera axes; 0 where nothing was hit.

    A pixel on an edge averages several normals, and the average is renormalised;
    `candlelight.loaders.mixed_edges` finds these pixels.
    """
    turned = normals @ world_to_camera(camera)[:3, :3].T.astype(np.float32)
    length = np.linalg.norm(turned, axis=-1, keepdims=True)
    return np.where(length > 0, turned / np.where(length > 0, length, 1.0), 0.0).astype(np.float32)
