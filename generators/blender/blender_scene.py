"""Blender's scene: set up once for an image set, then changed from trace to trace."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mathutils import Vector as Vec

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import is_code_label
from candlelight.generators.blender import bpy, start_empty
from candlelight.generators.blender.append_files import append_mesh
from candlelight.generators.blender.environment import BlenderEnvironment
from candlelight.generators.blender.materials import Materials, base_color, is_cut
from candlelight.generators.blender.own_code import OwnCode
from candlelight.generators.blender.render_settings import configure
from candlelight.generators.blender.surface_albedo import surface_of
from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.scenes.camera import world_to_camera
from candlelight.generators.scenes.plan_records import PartMaterial, PlacedFloor, SceneObject, Trace
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import LightRecord, Vector

_SENSOR_WIDTH = 36.0  # mm; only its ratio to the focal length matters


@dataclass(frozen=True)
class PlacedObject:
    """An object as Blender placed it.

    ``colors`` holds the base colour of each part or material slot, None where a texture decides it.
    ``corners`` holds x, y, z in the world of the eight corners of the object's own bounding box, one corner
    after another. ``parts`` are all of its parts; the plan of an object of own code knows only some.
    """

    colors: tuple[Vector | None, ...]
    corners: tuple[float, ...]
    parts: tuple[PartMaterial, ...]


class BlenderScene:
    """A Blender scene of one image size, which shows one trace at a time.

    Meshes, materials and environments are read from their files once and kept.

    Args:
        width: pixels.
        height: pixels.
        samples: paths per pixel.
        bounces: largest number of bounces of a path.
        threads: render threads; pixels do not depend on them.
        library: the asset library.
    """

    def __init__(
        self, *, width: int, height: int, samples: int, bounces: int, threads: int, library: AssetLibrary
    ) -> None:
        start_empty()
        bpy.context.preferences.filepaths.use_scripts_auto_execute = False
        self._library = library
        self._meshes: dict[str, Any] = {}
        self._own_code = OwnCode(library)
        self._materials = Materials(library, self._own_code)
        self.bpy_scene = bpy.context.scene
        self.environment = BlenderEnvironment(self.bpy_scene, library)
        self._collection = self.bpy_scene.collection
        self._camera = self._new_object("camera", bpy.data.cameras.new("camera"))
        self._camera.data.sensor_width = _SENSOR_WIDTH
        self._camera.data.sensor_fit = "HORIZONTAL"
        self._camera.data.clip_end = 1000.0
        self.bpy_scene.camera = self._camera
        self._floor = self._new_object("floor", _plane_mesh())
        self._objects: list[Any] = []
        self._lights: list[Any] = []
        configure(self.bpy_scene, width, height, samples, bounces, threads)

    def show(self, trace: Trace) -> list[PlacedObject]:
        """Change the scene to ``trace``; nothing of the previous trace remains.

        Returns:
            The objects of the trace, in its order.
        """
        self.bpy_scene.cycles.seed = trace.cycles_seed
        for blender_object in self._objects:
            mesh = blender_object.data
            bpy.data.objects.remove(blender_object)
            if is_cut(mesh):
                bpy.data.meshes.remove(mesh)
        self._materials.start()
        placed = [self._place(planned, i) for i, planned in enumerate(trace.objects, start=1)]
        self._objects = [blender_object for blender_object, *_ in placed]
        for light in self._lights:
            bpy.data.lights.remove(light.data)
        self._lights = [self._add_light(light) for light in trace.lights]
        self.environment.show(trace.environment)
        self._set_floor(trace.floor)
        assert trace.camera is not None
        _place_camera(self._camera, trace.camera)
        return [_describe(*one) for one in placed]

    def solid_objects(self) -> list[Any]:
        """List the Blender objects that a geometry trace shares: camera, floor and objects."""
        return [self._camera, self._floor, *self._objects]

    def _new_object(self, name: str, data: Any) -> Any:
        blender_object = bpy.data.objects.new(name, data)
        self._collection.objects.link(blender_object)
        return blender_object

    def _place(self, planned: SceneObject, index: int) -> tuple[Any, tuple[PartMaterial, ...], Sequence[int]]:
        """Place an object; return it, all of its parts, and the number of the part of each slot, from 0."""
        own = self._own_code.mesh(planned.type, planned.numbers) if is_code_label(planned.type) else None
        parts = planned.parts if own is None else _own_parts(planned, own.parts)
        mesh = self._mesh(planned.type) if own is None else own.mesh
        placed = self._new_object(f"object {index}", mesh)
        placed.location = planned.location
        placed.rotation_euler = tuple(math.radians(angle) for angle in (*planned.tilt, planned.rotation))
        placed.scale = (planned.size,) * 3
        placed.pass_index = index
        self._materials.apply(placed, planned.material, parts, own)
        return placed, parts, range(len(mesh.materials)) if own is None else own.slots

    def _mesh(self, label: str) -> Any:
        if label not in self._meshes:
            source, _ = append_mesh(self._library.find("objects", label), label)
            mesh = source.data
            # An object may be scaled or turned in its file although its mesh is not.
            mesh.transform(source.matrix_basis)
            if source.matrix_basis.determinant() < 0:
                mesh.flip_normals()
            bpy.data.objects.remove(source)
            mesh.use_fake_user = True
            if not mesh.materials:
                mesh.materials.append(None)
            self._meshes[label] = mesh
        return self._meshes[label]

    def _add_light(self, light: LightRecord) -> Any:
        data = bpy.data.lights.new(light.name, light.kind.upper())
        data.energy, data.color = light.power, light.color
        placed = self._new_object(light.name, data)
        if light.location is not None:
            placed.location = light.location
        if light.radius is not None:
            data.shadow_soft_size = light.radius
        if light.direction is not None:
            # Blender's lights shine along -Z.
            placed.rotation_euler = Vec(light.direction).to_track_quat("-Z", "Y").to_euler()
        if light.kind == "spot":
            data.spot_size, data.spot_blend = math.radians(light.cone or 0.0), light.blend
        if light.size is not None:
            data.shape = "RECTANGLE"
            data.size, data.size_y = light.size
        if light.angle is not None:
            data.angle = math.radians(light.angle)
        placed.lightgroup = light.name
        return placed

    def _set_floor(self, floor: PlacedFloor | None) -> None:
        self._floor.hide_render = floor is None
        if floor is None:
            return
        self._floor.scale = (floor.half_width, floor.half_width, 1.0)
        # Cycles shows the environment behind a shadow catcher, darkened by the shadows that fall on it.
        self._floor.is_shadow_catcher = floor.catcher
        self._materials.apply_floor(self._floor, floor)


def _own_parts(planned: SceneObject, names: tuple[str, ...]) -> tuple[PartMaterial, ...]:
    """Return the parts of an object of own code, with the materials that the recipe names for some of them.

    Raises:
        InputError: the recipe names a part that the object does not have.
    """
    names = names if len(names) > 1 else ()
    stated = {part.name: part.material for part in planned.parts}
    if unknown := stated.keys() - set(names):
        raise InputError(
            f"`{min(unknown)}` is no part of `{planned.type}`; "
            f"expected some of: {', '.join(names) or 'none, it has no parts'}"
        )
    return tuple(PartMaterial(name=name, material=stated.get(name, planned.material)) for name in names)


def _describe(blender_object: Any, parts: tuple[PartMaterial, ...], of_slots: Sequence[int]) -> PlacedObject:
    colors: dict[int, set[Vector | None]] = {part: set() for part in sorted(set(of_slots))}
    for part, slot in zip(of_slots, blender_object.material_slots, strict=True):
        colors[part].add(_color(slot.material))
    pose = np.array(blender_object.matrix_basis)
    box = np.array(blender_object.bound_box, float) @ pose[:3, :3].T + pose[:3, 3]
    return PlacedObject(
        colors=tuple(next(iter(seen)) if len(seen) == 1 else None for seen in colors.values()),
        corners=tuple(box.round(6).ravel().tolist()),
        parts=parts,
    )


def _color(material: Any) -> Vector | None:
    """Return the base colour of a material; None of an absent one, or if a texture or shaders decide it."""
    surface = None if material is None else surface_of(material)
    alone = surface is not None and surface.type == "BSDF_PRINCIPLED"
    return base_color(material) if alone else None


def _place_camera(blender_camera: Any, camera: PlacedCamera) -> None:
    """Put Blender's camera, which looks along -Z with Y up, where the plan has its camera."""
    matrix = np.linalg.inv(world_to_camera(camera))
    matrix[:3, 1:3] *= -1
    blender_camera.matrix_world = [list(row) for row in matrix.T.tolist()]
    # Blender shifts the sensor, right and up, in sensor widths; the image moves the other way.
    half = math.tan(math.radians(camera.field_of_view) / 2)
    x, y = (math.tan(math.radians(shift)) / half / 2 for shift in camera.shift)
    blender_camera.data.lens = _SENSOR_WIDTH / 2 / half * camera.zoom
    blender_camera.data.shift_x, blender_camera.data.shift_y = -x, y


def _plane_mesh() -> Any:
    mesh = bpy.data.meshes.new("floor")
    mesh.from_pydata([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [], [(0, 1, 2, 3)])
    mesh.materials.append(None)
    return mesh
