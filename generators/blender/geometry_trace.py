"""The geometry trace: trace the objects over a shadow catcher a second time, without light, in many samples.

Albedo and normals are averages over a pixel, and no denoiser may touch them, so their edges need more samples
than denoised light does. A sample without light costs a tenth. A shadow catcher has no albedo of its own, so
only the part of the image that objects cover is traced.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy import ndarray

from candlelight.generators.blender import bpy, passes
from candlelight.generators.blender.blender_scene import BlenderScene, PlacedObject
from candlelight.generators.blender.render_settings import configure
from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.scenes.camera import project, world_to_camera
from candlelight.generators.scenes.plan_records import Trace

_MARGIN = 3  # pixels: the filter reaches 1.5 pixels beyond an object, and Blender rounds borders
_NEAREST = 1e-3  # metres before the camera, below which a corner has no place in the image

_Border = tuple[int, int, int, int]


@dataclass(frozen=True)
class GeometryResult:
    """Result of a geometry trace, and the environment map that the objects stand before.

    ``file`` holds the passes, for `passes.read`; None if no object is in the image. ``map_pixels`` is None if
    the environment is not one opaque map (`BlenderEnvironment.map_pixels`).
    """

    file: Path | None
    map_pixels: ndarray | None


class GeometryTrace:
    """A second Blender scene without light, which shares objects, floor and camera with the first.

    Args:
        scene: the first scene.
        width: pixels.
        height: pixels.
        samples: samples per pixel.
        threads: render threads.
    """

    def __init__(self, scene: BlenderScene, width: int, height: int, samples: int, threads: int) -> None:
        self._scene, self._size = scene, (width, height)
        self.bpy_scene = bpy.data.scenes.new("geometry")
        configure(self.bpy_scene, width, height, samples, 0, threads)
        passes.request_geometry(self.bpy_scene)
        self.bpy_scene.world = bpy.data.worlds.new("no light")
        self.bpy_scene.world.node_tree.nodes.clear()
        self.bpy_scene.camera = scene.bpy_scene.camera
        self.bpy_scene.render.use_border = True

    def trace(self, trace: Trace, objects: Sequence[PlacedObject], path: Path) -> GeometryResult:
        """Trace the objects of the trace that the first scene shows.

        Args:
            trace: the trace.
            objects: its objects, as `BlenderScene.show` returned them.
            path: the file to write; pixels that are not traced are 0.
        """
        assert trace.camera is not None
        map_pixels = self._scene.environment.map_pixels(trace.environment)
        corners = np.array([placed.corners for placed in objects], float).reshape(-1, 3)
        border = _border_around(corners, trace.camera, *self._size)
        if border is None:
            return GeometryResult(None, map_pixels)
        linked = self.bpy_scene.collection.objects
        for blender_object in self._scene.solid_objects():
            if blender_object.name not in linked:
                linked.link(blender_object)
        self.bpy_scene.cycles.seed = trace.cycles_seed
        (left, top, right, bottom), (width, height), render = border, self._size, self.bpy_scene.render
        render.border_min_x, render.border_max_x = left / width, right / width
        render.border_min_y, render.border_max_y = 1 - bottom / height, 1 - top / height
        passes.trace(self.bpy_scene, path)
        return GeometryResult(path, map_pixels)


def _border_around(corners: ndarray, camera: PlacedCamera, width: int, height: int) -> _Border | None:
    """Return left, top, right and bottom of the part of the image that bodies with these corners may cover.

    Pixels, y down, ends exclusive; None if no body is in the image.
    """
    if not len(corners):
        return None
    matrix = world_to_camera(camera)
    if (corners @ matrix[2, :3] + matrix[2, 3] < _NEAREST).any():
        return (0, 0, width, height)
    pixels = project(corners, camera, width, height)
    low = np.floor(pixels.min(axis=0)).astype(int) - _MARGIN
    high = np.ceil(pixels.max(axis=0)).astype(int) + _MARGIN
    left, top = np.maximum(low, 0).tolist()
    right, bottom = np.minimum(high, (width, height)).tolist()
    return (left, top, right, bottom) if left < right and top < bottom else None
