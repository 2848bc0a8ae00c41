"""The geometry trace: the objects of a stage once more, in the dark and with many samples.

Albedo and normals are averages over a pixel, which no denoiser may touch, so their edges want more samples
than light does once it is denoised. Without light a sample costs a tenth. Over a shadow catcher there is
albedo on the objects alone, and only the part of the picture that they take is traced.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from generators.blender import bpy, passes
from generators.blender.blender_scene import BlenderScene, configure
from generators.scenes.camera import project, world_to_camera
from generators.scenes.scene import Camera

_MARGIN = 3  # pixels: the filter reaches 1.5 beyond an object, and borders are rounded
_NEAREST = 1e-3  # m before the camera, below which a corner has no place in the picture

_Border = tuple[int, int, int, int]


class GeometryTrace:
    """A Blender scene beside that of a stage, which shares its objects, floor and camera, and has no light.

    Args:
        stage: the stage; it is shown a trace first.
        width: pixels.
        height: pixels.
        samples: samples of a pixel.
        threads: render threads.
    """

    def __init__(self, stage: BlenderScene, width: int, height: int, samples: int, threads: int) -> None:
        self._stage, self._size = stage, (width, height)
        self.scene = bpy.data.scenes.new("geometry")
        configure(self.scene, width, height, samples, 0, threads)
        passes.request_geometry(self.scene)
        self.scene.world = bpy.data.worlds.new("no light")
        self.scene.world.node_tree.nodes.clear()
        self.scene.camera = stage.scene.camera
        self.scene.render.use_border = True

    def trace(self, camera: Camera, corners: Sequence[Sequence[float]], path: Path) -> bool:
        """Trace what the stage shows, and tell whether there was anything to trace.

        Args:
            camera: that of the trace.
            corners: of each object, as `BlenderScene.corners` has them.
            path: the file to write, for `passes.read`; where nothing is traced the passes are 0.
        """
        border = border_of(np.array(corners, float).reshape(-1, 3), camera, *self._size)
        if border is None:
            return False
        shown = self.scene.collection.objects
        for thing in self._stage.solids():
            if thing.name not in shown:
                shown.link(thing)
        self.scene.cycles.seed = self._stage.scene.cycles.seed
        (left, top, right, bottom), (width, height), render = border, self._size, self.scene.render
        render.border_min_x, render.border_max_x = left / width, right / width
        render.border_min_y, render.border_max_y = 1 - bottom / height, 1 - top / height
        passes.trace(self.scene, path)
        return True


def border_of(corners: Any, camera: Camera, width: int, height: int) -> _Border | None:
    """Return left, top, right, bottom of the part of a picture that may show what has these corners.

    Pixels, y down, ends exclusive; None where nothing of it is in the picture.
    """
    whole = (0, 0, width, height)
    if not len(corners):
        return None
    matrix = world_to_camera(camera)
    if (corners @ matrix[2, :3] + matrix[2, 3] < _NEAREST).any():
        return whole
    places = project(corners, camera, width, height)
    low = np.floor(places.min(axis=0)).astype(int) - _MARGIN
    high = np.ceil(places.max(axis=0)).astype(int) + _MARGIN
    left, top = np.maximum(low, 0).tolist()
    right, bottom = np.minimum(high, (width, height)).tolist()
    return (left, top, right, bottom) if left < right and top < bottom else None
