"""The stage: one Blender scene, built once and then changed from trace to trace."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float32
from mathutils import Vector as Vec
from numpy import ndarray

from blender_assets import AssetLibrary
from generators.blender import bpy, start_empty
from generators.blender.append_files import append
from generators.blender.environment import Surroundings
from generators.blender.materials import Materials, base_color
from generators.scenes.camera import world_to_camera
from generators.scenes.scene import Camera, Floor, SceneObject, Trace
from loaders.schema import LightRecord, Vector

SENSOR_WIDTH = 36.0  # mm; only the ratio to the focal length matters


class Stage:
    """A Blender scene that is set up for one image size and layer list, and shows one trace at a time.

    Meshes, materials and surroundings are read from their files once and kept.

    Args:
        width: pixels.
        height: pixels.
        samples: paths per pixel.
        bounces: largest number of bounces of a path.
        threads: render threads; the pixels do not depend on it.
        library: where assets are found.
    """

    def __init__(
        self, *, width: int, height: int, samples: int, bounces: int, threads: int, library: AssetLibrary
    ) -> None:
        start_empty()
        bpy.context.preferences.filepaths.use_scripts_auto_execute = False
        self._library = library
        self._meshes: dict[str, Any] = {}
        self._materials = Materials(library)
        self.scene = bpy.context.scene
        self._surroundings = Surroundings(self.scene, library)
        self._collection = self.scene.collection
        self._camera = self._new_object("camera", bpy.data.cameras.new("camera"))
        self._camera.data.sensor_width = SENSOR_WIDTH
        self._camera.data.sensor_fit = "HORIZONTAL"
        self._camera.data.clip_end = 1000.0
        self.scene.camera = self._camera
        self._floor = self._new_object("floor", _plane_mesh())
        self._things: list[Any] = []
        self._lamps: list[Any] = []
        configure(self.scene, width, height, samples, bounces, threads)

    def show(self, trace: Trace) -> list[tuple[Vector | None, ...]]:
        """Change the scene into that of ``trace``; nothing of the trace before stays.

        Returns:
            The base colour of each object slot by slot, None where a texture decides it.
        """
        self.scene.cycles.seed = trace.cycles_seed
        for thing in self._things:
            bpy.data.objects.remove(thing)
        self._materials.start()
        self._things = [self._place(thing, i + 1) for i, thing in enumerate(trace.objects)]
        for lamp in self._lamps:
            bpy.data.lights.remove(lamp.data)
        self._lamps = [self._hang(light) for light in trace.lights]
        self._surroundings.show(trace.environment)
        self._lay(trace.floor)
        assert trace.camera is not None  # what has none is painted
        aim(self._camera, trace.camera)
        return [tuple(base_color(slot.material) for slot in thing.material_slots) for thing in self._things]

    def corners(self, i: int) -> tuple[float, ...]:
        """Return x, y, z of the corners of the ``i``-th object's own bounding box in the world, in turn."""
        thing = self._things[i]
        pose = np.array(thing.matrix_basis)
        box = np.array(thing.bound_box, float) @ pose[:3, :3].T + pose[:3, 3]
        return tuple(box.round(6).ravel().tolist())

    def map_picture(self, trace: Trace) -> Float32[ndarray, "rows columns 3"] | None:
        """Return the map behind the trace that is shown, for `generators.layers.environment_view`."""
        return self._surroundings.picture(trace.environment)

    def solids(self) -> list[Any]:
        """List the Blender objects that light falls on: those of the trace, floor and camera."""
        return [self._camera, self._floor, *self._things]

    def _new_object(self, name: str, data: Any) -> Any:
        thing = bpy.data.objects.new(name, data)
        self._collection.objects.link(thing)
        return thing

    def _place(self, thing: SceneObject, index: int) -> Any:
        mesh = self._mesh(thing.type)
        placed = self._new_object(f"object {index}", mesh)
        placed.location = thing.location
        placed.rotation_euler = tuple(math.radians(angle) for angle in (*thing.tilt, thing.rotation))
        placed.scale = (thing.size,) * 3
        placed.pass_index = index
        self._materials.apply(placed, thing.material, thing.parts)
        return placed

    def _mesh(self, label: str) -> Any:
        if label not in self._meshes:
            source = append(self._library.find("objects", label), "objects", label)
            mesh = source.data
            # As it stands in its file: an object may be scaled or turned there without its mesh being so.
            mesh.transform(source.matrix_basis)
            if source.matrix_basis.determinant() < 0:
                mesh.flip_normals()
            bpy.data.objects.remove(source)
            mesh.use_fake_user = True
            if not mesh.materials:
                mesh.materials.append(None)
            self._meshes[label] = mesh
        return self._meshes[label]

    def _hang(self, light: LightRecord) -> Any:
        lamp = bpy.data.lights.new(light.name, light.kind.upper())
        lamp.energy, lamp.shadow_soft_size, lamp.color = light.power, light.radius, light.color
        hung = self._new_object(light.name, lamp)
        hung.location = light.location
        if light.kind == "spot":
            # Blender's lamps shine along -Z.
            hung.rotation_euler = Vec(light.direction).to_track_quat("-Z", "Y").to_euler()
            lamp.spot_size, lamp.spot_blend = math.radians(light.cone or 0.0), light.blend
        hung.lightgroup = light.name
        return hung

    def _lay(self, floor: Floor | None) -> None:
        self._floor.hide_render = floor is None
        if floor is None:
            return
        self._floor.scale = (floor.half_width, floor.half_width, 1.0)
        self._floor.is_shadow_catcher = floor.catcher
        self._materials.apply_floor(self._floor, floor)


def configure(scene: Any, width: int, height: int, samples: int, bounces: int, threads: int) -> None:
    """Set what no trace changes: engine, size, samples, colour management."""
    render, cycles = scene.render, scene.cycles
    render.engine = "CYCLES"
    render.resolution_x, render.resolution_y, render.resolution_percentage = width, height, 100
    render.threads_mode, render.threads = "FIXED", threads
    render.use_persistent_data = True
    render.film_transparent = False
    scene.view_settings.view_transform = "Standard"
    scene.view_settings.look = "None"
    cycles.device = "CPU"
    cycles.samples = samples
    cycles.use_adaptive_sampling = False
    cycles.use_denoising = False
    cycles.max_bounces = bounces
    # Paths are never clamped: the sum of the passes must stay the radiance that was traced.
    cycles.sample_clamp_direct = cycles.sample_clamp_indirect = 0.0


def aim(camera: Any, plan: Camera) -> None:
    """Put the camera where the plan has it; Blender's cameras look along -Z with Y up."""
    matrix = np.linalg.inv(world_to_camera(plan))
    matrix[:3, 1:3] *= -1
    camera.matrix_world = [list(row) for row in matrix.T.tolist()]
    # The window's shift is in its own widths, to the right and up, and the picture's the other way.
    half = math.tan(math.radians(plan.field_of_view) / 2)
    x, y = (math.tan(math.radians(shift)) / half / 2 for shift in plan.shift)
    camera.data.lens = SENSOR_WIDTH / 2 / half * plan.zoom
    camera.data.shift_x, camera.data.shift_y = -x, y


def _plane_mesh() -> Any:
    mesh = bpy.data.meshes.new("floor")
    mesh.from_pydata([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [], [(0, 1, 2, 3)])
    mesh.materials.append(None)
    return mesh
