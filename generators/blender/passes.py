"""Render passes: turn them on, trace them into a file, and read the file into arrays."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import OpenEXR
from jaxtyping import Float32
from numpy import ndarray

from candlelight.generators.blender import bpy
from candlelight.generators.blender.materials import AOVS
from candlelight.generators.layers.decompose_trace import Passes

_VIEW_LAYER = "ViewLayer"


def request(bpy_scene: Any, lights: Sequence[str]) -> None:
    """Turn on the passes that the layers of a frame are made from.

    Args:
        bpy_scene: the Blender scene.
        lights: names of the light groups that get a pass of their own, "environment" for the environment;
            empty for no light layers.
    """
    view = _set_up_view_layer(bpy_scene)
    for kind in ("diffuse", "glossy", "transmission"):
        for part in ("direct", "indirect", "color"):
            setattr(view, f"use_pass_{kind}_{part}", True)
    view.use_pass_emit = view.use_pass_environment = True
    view.use_pass_z = view.use_pass_object_index = view.use_pass_material_index = True
    view.use_pass_position = True
    view.cycles.use_pass_volume_direct = view.cycles.use_pass_volume_indirect = True
    view.cycles.denoising_store_passes = True
    for name in lights:
        view.lightgroups.add(name=name)


def request_geometry(bpy_scene: Any) -> None:
    """Turn on the AOVs only; the pass Combined cannot be turned off."""
    view = _set_up_view_layer(bpy_scene)
    view.use_pass_z = False


def _set_up_view_layer(bpy_scene: Any) -> Any:
    """Set the file format of the passes and add the AOVs; return the view layer."""
    render = bpy_scene.render
    render.use_file_extension = False
    render.image_settings.media_type = "MULTI_LAYER_IMAGE"
    render.image_settings.file_format = "OPEN_EXR_MULTILAYER"
    render.image_settings.color_depth = "32"
    render.image_settings.exr_codec = "NONE"
    view = bpy_scene.view_layers[0]
    view.name = _VIEW_LAYER
    for name, kind in AOVS.items():
        aov = view.aovs.add()
        aov.name, aov.type = name, kind
    return view


def trace(bpy_scene: Any, path: Path) -> None:
    """Render the scene into a file for `read`; Blender hands out passes only through files.

    Args:
        bpy_scene: the Blender scene.
        path: an existing file, from `scratch_file`.
    """
    os.truncate(path, 0)  # so that a failed write cannot leave the previous trace to be read
    bpy_scene.render.filepath = str(path)
    bpy.ops.render.render(write_still=True, scene=bpy_scene.name)


def scratch_file() -> Path:
    """Make a file for `trace`; on Linux it is in memory and has no name, so that no run leaves it behind."""
    if sys.platform == "linux":
        return Path(f"/proc/self/fd/{os.memfd_create('candlelight trace')}")
    handle, name = tempfile.mkstemp(prefix="candlelight-", suffix=".exr")
    os.close(handle)
    return Path(name)


def read(path: Path) -> Passes:
    """Read a multilayer EXR file: one array per pass, H W for one channel, H W 3 otherwise, without alpha."""
    planes: dict[str, dict[str, ndarray]] = {}
    with OpenEXR.File(str(path), separate_channels=True) as file:
        for part in file.parts:
            for name, channel in part.channels.items():
                pass_name, _, component = name.removeprefix(f"{_VIEW_LAYER}.").rpartition(".")
                planes.setdefault(pass_name, {})[component] = np.asarray(channel.pixels, np.float32)
    return {name: _stack(components) for name, components in planes.items()}


def _stack(components: dict[str, ndarray]) -> Float32[ndarray, "height width *channels"]:
    order = [key for key in ("R", "G", "B", "X", "Y", "Z", "V") if key in components]
    arrays = [components[key] for key in order]
    return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=-1)
