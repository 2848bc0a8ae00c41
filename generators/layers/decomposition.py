"""From traced passes to the layers of a frame: the decomposition, its denoising and its checks.

All arrays are float32, height by width (by 3), scene-linear Rec.709, until `develop` rounds them.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyoidn
from jaxtyping import Float32, UInt8
from numpy import ndarray

from generators.scenes.camera import world_to_camera
from generators.scenes.scene import Camera
from loaders.colour import to_display
from loaders.light_sum import light_sum_error
from loaders.schema import LIGHT_PREFIX, ChecksRecord, Vector

Passes = dict[str, ndarray]
OneChannel = Float32[ndarray, "height width"]
ThreeChannels = Float32[ndarray, "height width 3"]

_NOTHING_HIT = 1e9  # Cycles writes 1e10 where a ray leaves the scene
LEAST_ALBEDO = 1e-4  # below it there is no diffuse light to divide out
_LARGEST_HALF = float(np.finfo(np.float16).max)
# Pixels that a picture is mirrored by on each side for the denoiser, which makes a constant lighter or darker
# by up to 19 % along the border, and by up to 0.5 % at this distance from it (measured).
_BORDER = 8
LEAST_BACKDROP = 1e-3  # of the map's radiance; below it what a shadow takes away is not told from noise


@dataclass(frozen=True)
class TracedLayers:
    """One trace, taken apart; light in it is for a gain of 1.

    ``shading`` is None where its direct and indirect shares were asked for apart; it is then their sum.
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


def decompose_trace(passes: Passes, *, camera: Camera, catcher: bool, split: bool) -> TracedLayers:
    """Take a trace apart into albedo, shading and the rest.

    Diffuse radiance is DiffCol x (DiffDir + DiffInd); shading is that over the albedo of the AOV, so that
    albedo x shading is the diffuse radiance whatever Cycles' own Diffuse Color says; residual is what is left
    of Combined.

    Args:
        passes: what `generators.blender.passes.trace` returns.
        camera: for the normals, which Cycles writes in world axes.
        catcher: the floor is a shadow catcher; then the passes do not add up on it and are not checked.
        split: keep the direct and indirect share of the shading apart.

    Returns:
        The parts, not denoised, with the identity's error.
    """
    combined = passes["Combined"]
    albedo = np.clip(passes["albedo"], 0.0, 1.0)
    lit = albedo > LEAST_ALBEDO
    divisor = np.where(lit, albedo, 1.0)
    shading_direct, shading_indirect = (
        np.where(lit, passes["Diffuse Color"] * passes[f"Diffuse {share}"] / divisor, 0.0)
        for share in ("Direct", "Indirect")
    )
    diffuse = albedo * (shading_direct + shading_indirect)
    depth = passes["Depth"]
    hit = depth < _NOTHING_HIT
    return TracedLayers(
        albedo=np.where(lit, albedo, 0.0),
        shading_direct=shading_direct,
        shading_indirect=shading_indirect,
        shading=None if split else shading_direct + shading_indirect,
        residual=combined - diffuse,
        lights={
            name.removeprefix("Combined_"): array
            for name, array in passes.items()
            if name.startswith("Combined_")
        },
        depth=np.where(hit, depth, np.inf).astype(np.float32),
        # The far end of a shadow catcher is neither floor nor sky: it counts where the depth says so.
        normal=np.where(
            (hit | (passes["coverage"] > 0))[..., None], camera_normals(passes["normal"], camera), 0.0
        ).astype(np.float32),
        object=passes["Object Index"].astype(np.uint8),
        part=passes["Material Index"].astype(np.uint8),
        position=np.where(hit[..., None], passes["Position"], 0.0).astype(np.float32),
        roughness=np.clip(passes["roughness"], 0.0, 1.0),
        metallic=np.clip(passes["metallic"], 0.0, 1.0),
        catcher=catcher,
        identity_error=None if catcher else _identity_error(passes, diffuse),
    )


def _identity_error(passes: Passes, diffuse: ThreeChannels) -> float:
    """Largest difference of the sum of all light passes from Combined, relative to max(1, Combined)."""
    total = diffuse.astype(np.float64)
    for kind in ("Glossy", "Transmission"):
        total += passes[f"{kind} Color"].astype(np.float64) * (
            passes[f"{kind} Direct"] + passes[f"{kind} Indirect"]
        )
    for name in ("Volume Direct", "Volume Indirect", "Emission", "Environment"):
        total += passes[name]
    error = np.abs(total - passes["Combined"]) / np.maximum(1.0, passes["Combined"])
    return float(error.max())


def camera_normals(normals: ThreeChannels, camera: Camera) -> ThreeChannels:
    """Turn world normals into unit normals in OpenCV camera axes; 0 where nothing was hit.

    Over an edge the average of several normals is renormalised; `loaders.mixed_edges` says which pixels
    those are.
    """
    turned = normals @ world_to_camera(camera)[:3, :3].T.astype(np.float32)
    length = np.linalg.norm(turned, axis=-1, keepdims=True)
    return np.where(length > 0, turned / np.where(length > 0, length, 1.0), 0.0).astype(np.float32)


def limit_denoiser_threads(count: int) -> None:
    """Hold the denoiser to as many threads; it reads this once, before its first use in a process.

    Left alone it takes every processor and pins its threads, in each of the render children of a machine.

    Args:
        count: threads.
    """
    os.environ["OIDN_NUM_THREADS"] = str(count)
    os.environ["OIDN_SET_AFFINITY"] = "0"


def denoise_layers(
    parts: TracedLayers, passes: Passes, backdrop: ThreeChannels | None = None
) -> TracedLayers:
    """Denoise each part on its own, so that the parts still add up to the radiance.

    Albedo never guides the shading's denoiser: it would print albedo into the very layer whose leakage is
    measured. GeometryTrace guides it, through the normals, which are denoised first.

    Args:
        parts: a decomposition.
        passes: the passes that it came from, for the guides.
        backdrop: over a shadow catcher, what the map and the objects give back, if more exactly known than
            from the passes; see `generators.layers.shadow_catcher.exact_backdrop`.

    Returns:
        The same with shading, residual and lights denoised; geometry and albedo as they were.
    """
    white, lit = np.ones_like(parts.albedo), parts.albedo > 0
    noisy = np.clip(passes["Denoising Normal"], -1.0, 1.0)
    normal = np.clip(_denoise(noisy / 2 + 0.5, quality="fast") * 2 - 1, -1.0, 1.0)
    albedo = np.clip(passes["Denoising Albedo"], 0.0, 1.0) if parts.lights else white

    def clean(array: ThreeChannels) -> ThreeChannels:
        # With clean guides the better quality takes a larger network: twice the time for 0.1 dB.
        array = np.maximum(array, 0.0)
        return _denoise(array, white, normal, hdr=True, clean_aux=True, quality="balanced")

    def clean_shading(array: ThreeChannels) -> ThreeChannels:
        return np.where(lit, clean(array), 0.0)

    split = parts.shading is None
    return replace(
        parts,
        shading=None if parts.shading is None else clean_shading(parts.shading),
        shading_direct=clean_shading(parts.shading_direct) if split else parts.shading_direct,
        shading_indirect=clean_shading(parts.shading_indirect) if split else parts.shading_indirect,
        residual=_clean_residual(parts, passes, clean, backdrop),
        lights={
            name: _denoise(np.maximum(array, 0.0), albedo, noisy, hdr=True)
            for name, array in parts.lights.items()
        },
    )


def _denoise(*arrays: ThreeChannels, **options: Any) -> ThreeChannels:
    """Denoise the first array, guided by the others, without the denoiser's errors along the border."""
    sides = ((_BORDER, _BORDER), (_BORDER, _BORDER), (0, 0))
    wide = pyoidn.denoise(*(np.pad(array, sides, "symmetric") for array in arrays), **options)
    return np.ascontiguousarray(wide[_BORDER:-_BORDER, _BORDER:-_BORDER])


def backdrop_radiance(light: ThreeChannels, coverage: OneChannel) -> ThreeChannels:
    """What a residual over a shadow catcher is in proportion to: the map beside objects, and 1 on them."""
    return np.maximum(light + coverage[..., None], LEAST_BACKDROP)


def _clean_residual(
    parts: TracedLayers,
    passes: Passes,
    clean: Callable[[ThreeChannels], ThreeChannels],
    backdrop: ThreeChannels | None,
) -> ThreeChannels:
    """Denoise what light makes of the residual; what shines by itself has no noise but keeps its detail."""
    if not parts.catcher:
        shining = passes["Emission"] + passes["Environment"]
        return clean(parts.residual - shining) + shining
    # On a shadow catcher the passes do not add up: there the map is divided out, and its shadows denoised.
    own = backdrop_radiance(passes["Environment"], passes["coverage"])
    return clean(parts.residual / own) * (own if backdrop is None else backdrop)


def frame_layers(
    parts: TracedLayers, *, gain: Vector, exposure: float, layers: Collection[str]
) -> tuple[dict[str, ndarray], ChecksRecord]:
    """Make the layers of one sample from the trace that it shares.

    The parts are rounded to half precision first; ``radiance`` is then float16(albedo x shading + residual)
    of the rounded ones, so that the identity holds for whoever reads the frame.

    Args:
        parts: the trace, taken apart.
        gain: this sample's light over the traced one, per channel.
        exposure: what radiance is multiplied by before the sRGB curve.
        layers: names of the layers to return.

    Returns:
        The layers by name, as the schema has them, and the checks of the metadata.
    """
    factor = np.array(gain, np.float32)
    albedo = _half(parts.albedo)
    shares = {
        "shading_direct": _half(parts.shading_direct * factor),
        "shading_indirect": _half(parts.shading_indirect * factor),
    }
    if parts.shading is None:
        shading = _half(
            shares["shading_direct"].astype(np.float32) + shares["shading_indirect"].astype(np.float32)
        )
    else:
        shading = _half(parts.shading * factor)
    residual = _half(parts.residual * factor)
    total = albedo.astype(np.float32) * shading.astype(np.float32) + residual.astype(np.float32)
    radiance = _half(total)
    lights = {LIGHT_PREFIX + name: _half(array * factor) for name, array in parts.lights.items()}
    exposed = radiance.astype(np.float32) * np.float32(exposure)
    made = {
        "image": to_display(exposed),
        "radiance": radiance,
        "albedo": albedo,
        "shading": shading,
        **shares,
        "residual": residual,
        **lights,
        "depth": parts.depth,
        "normal": parts.normal.astype(np.float16),
        "object": parts.object,
        "part": parts.part,
        "position": parts.position,
        "roughness": parts.roughness.astype(np.float16),
        "metallic": parts.metallic.astype(np.float16),
    }
    checks = ChecksRecord(
        identity_error=parts.identity_error,
        stored_error=float((np.abs(total - radiance) / np.maximum(1.0, np.abs(total))).max()),
        clipped=float((exposed > 1.0).any(axis=-1).mean()),
        light_sum_error=light_sum_error(list(lights.values()), radiance) if lights else None,
    )
    return {name: made[name] for name in layers}, checks


def _half(array: ndarray) -> ndarray:
    """Round to half precision, the brightest highlights held at its largest number."""
    return np.clip(array, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)
