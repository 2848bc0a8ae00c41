"""Denoise the layers of a trace separately."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from candlelight.generators.layers.decompose_trace import Passes, ThreeChannels, TracedLayers
from candlelight.generators.layers.shadow_catcher import backdrop_radiance

_HAS_TORCH = "torch" in sys.modules
if not _HAS_TORCH:  # pyoidn imports torch for tensors; without, a render process starts in half the CPU time
    sys.modules["torch"] = None  # type: ignore[assignment]
import pyoidn  # noqa: E402

if not _HAS_TORCH:
    del sys.modules["torch"]

# Pixels by which an image is mirrored on each side for the denoiser, which makes a constant image lighter or
# darker by up to 19 % along the border, and by up to 0.5 % at this distance from the border (measured).
_BORDER = 8


def limit_denoiser_threads(count: int) -> None:
    """Limit the denoiser to ``count`` threads; call this before the process denoises for the first time.

    Without a limit the denoiser uses every processor and pins its threads, in each render process of a
    machine.
    """
    os.environ["OIDN_NUM_THREADS"] = str(count)
    os.environ["OIDN_SET_AFFINITY"] = "0"


def denoise_layers(
    traced: TracedLayers, passes: Passes, backdrop: ThreeChannels | None = None
) -> TracedLayers:
    """Denoise shading, residual and lights separately, so that they still add up to the radiance.

    Albedo never guides the denoiser of the shading, because the denoiser would print albedo into the layer
    whose leakage is measured. Normals, which are denoised first, guide it.

    Args:
        traced: the layers.
        passes: the passes that the layers were made from, as guides.
        backdrop: over a shadow catcher, a less noisy backdrop for the residual
            (`candlelight.generators.layers.shadow_catcher.exact_backdrop`); by default the backdrop of
            ``passes``.

    Returns:
        The layers with shading, residual and lights denoised, and all others unchanged.
    """
    white, lit = np.ones_like(traced.albedo), traced.albedo > 0
    noisy = np.clip(passes["Denoising Normal"], -1.0, 1.0)
    normal = np.clip(_denoise(noisy / 2 + 0.5, quality="fast") * 2 - 1, -1.0, 1.0)
    albedo = np.clip(passes["Denoising Albedo"], 0.0, 1.0) if traced.lights else white

    def clean(array: ThreeChannels) -> ThreeChannels:
        # With clean guides, the quality "high" uses a larger network: twice the time for 0.1 dB.
        array = np.maximum(array, 0.0)
        return _denoise(array, white, normal, hdr=True, clean_aux=True, quality="balanced")

    def clean_shading(array: ThreeChannels) -> ThreeChannels:
        return np.where(lit, clean(array), 0.0)

    split = traced.shading is None
    return replace(
        traced,
        shading=None if traced.shading is None else clean_shading(traced.shading),
        shading_direct=clean_shading(traced.shading_direct) if split else traced.shading_direct,
        shading_indirect=clean_shading(traced.shading_indirect) if split else traced.shading_indirect,
        residual=_clean_residual(traced, passes, clean, backdrop),
        lights={
            name: _denoise(np.maximum(array, 0.0), albedo, noisy, hdr=True)
            for name, array in traced.lights.items()
        },
    )


def _denoise(*arrays: ThreeChannels, **options: Any) -> ThreeChannels:
    """Denoise the first array, guided by the others, on mirrored borders that are cut off again."""
    sides = ((_BORDER, _BORDER), (_BORDER, _BORDER), (0, 0))
    wide = pyoidn.denoise(*(np.pad(array, sides, "symmetric") for array in arrays), **options)
    return np.ascontiguousarray(wide[_BORDER:-_BORDER, _BORDER:-_BORDER])


def _clean_residual(
    traced: TracedLayers,
    passes: Passes,
    clean: Callable[[ThreeChannels], ThreeChannels],
    backdrop: ThreeChannels | None,
) -> ThreeChannels:
    """Denoise the residual without blurring emission and environment, which have detail but no noise."""
    if not traced.catcher:
        shining = passes["Emission"] + passes["Environment"]
        return clean(traced.residual - shining) + shining
    # The residual over a shadow catcher is the backdrop times its shadows; only the shadows are denoised.
    noisy = backdrop_radiance(passes["Environment"], passes["coverage"])
    return clean(traced.residual / noisy) * (noisy if backdrop is None else backdrop)
