"""Turn the object or collection that a function of the user made into one mesh with a slot for each part."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int32
from numpy import ndarray

from candlelight.generators.blender import bpy
from candlelight.generators.blender.append_files import LEAST_EXTENT
from candlelight.generators.blender.mesh_order import attribute_values, ordered_mesh
from candlelight.generators.blender.untouched_state import struct_values
from candlelight.generators.scenes.object_placement import MOST_OBJECTS
from candlelight.loaders.errors import InputError

_NO_MATERIAL = "bare"  # name of a part that has no material
# Kinds of objects that Cycles would show, although they have no faces.
_NO_FACES = ("CURVES", "POINTCLOUD", "VOLUME", "GREASEPENCIL", "LIGHT")


@dataclass(frozen=True)
class OwnMesh:
    """The mesh that a function made.

    ``label`` is the label of the function, ``parts`` are the names of the parts, and ``slots`` holds the
    number of the part of each material slot, from 0. ``shaded`` may keep, by slot, the function's own
    materials once they have AOVs; they are removed together with the mesh.
    """

    label: str
    mesh: Any
    parts: tuple[str, ...]
    slots: tuple[int, ...]
    shaded: dict[int, Any] = field(default_factory=dict)

    def digest(self) -> str:
        """Hash what it shows: its attributes, among them coordinates and faces, its slots and materials."""
        starts = np.empty(len(self.mesh.polygons), np.int32)
        self.mesh.polygons.foreach_get("loop_start", starts)
        total = hashlib.sha256(starts.tobytes())
        for one in sorted(self.mesh.attributes, key=lambda one: one.name):
            if len(one.data):
                total.update(f"{one.name} {one.domain} {one.data_type}".encode())
                total.update(attribute_values(one)[1].tobytes())
        materials = [
            one and (one.name, one.node_tree and struct_values(one.node_tree)) for one in self.mesh.materials
        ]
        total.update(repr((self.parts, self.slots, materials)).encode())
        return total.hexdigest()


def own_mesh(label: str, objects: Sequence[Any], by_object: bool, bpy_scene: Any) -> OwnMesh:
    """Make one mesh of all that a render of some objects would show, in world coordinates.

    Args:
        label: label of the function that made them.
        objects: Blender objects.
        by_object: whether each object is a part; otherwise each material is one.
        bpy_scene: the Blender scene to evaluate them in, which the window shows.

    Raises:
        InputError: they have no faces, no finite extent, or geometry that is no mesh.
    """
    slots: list[tuple[str, Any]] = []  # part and material
    pieces = []
    for owner, mesh, materials in _evaluated(label, objects, bpy_scene):
        indices = np.empty(len(mesh.polygons), np.int32)
        mesh.polygons.foreach_get("material_index", indices)
        indices = np.minimum(indices, len(materials) - 1)
        places = np.zeros(len(materials), np.int32)
        for i, material in enumerate(materials):
            if material is None and i not in indices:
                continue  # geometry nodes leave such slots
            part = owner.name if by_object else _NO_MATERIAL if material is None else material.name
            if (part, material) not in slots:
                slots.append((part, material))
            places[i] = slots.index((part, material))
        pieces.append((mesh, places[indices]))
    mesh = _joined(pieces, len(slots), bpy_scene)
    for i, (_, material) in enumerate(slots):
        mesh.materials[i] = material
    _check_extent(label, mesh)
    mesh = ordered_mesh(mesh)
    parts = tuple(dict.fromkeys(part for part, _ in slots))
    if len(parts) > MOST_OBJECTS:
        raise InputError(f"`{label}`: expected at most {MOST_OBJECTS} parts, got {len(parts)}")
    return OwnMesh(label, mesh, parts, tuple(parts.index(part) for part, _ in slots))


def _evaluated(label: str, objects: Sequence[Any], bpy_scene: Any) -> list[tuple[Any, Any, list[Any]]]:
    """Return a copy of every mesh that a render of some objects would show, with its owner and materials."""
    layers = [bpy_scene.view_layers[0].layer_collection]
    for layer in layers:
        layers += layer.children
        for one in layer.collection.objects:
            if layer.exclude and one in objects:
                raise InputError(
                    f"`{label}`: no render shows `{one.name}`, whose collection `{layer.name}` is excluded "
                    "from the view layer; include it, or leave it out"
                )
    for one in objects:
        if one.name not in bpy_scene.collection.objects:  # another collection may be hidden
            bpy_scene.collection.objects.link(one)
        _show_as_rendered(label, one)
    bpy_scene.view_layers[0].update()
    found = []
    for shown in bpy.context.evaluated_depsgraph_get().object_instances:
        owner = (shown.parent if shown.is_instance else shown.object).original
        if owner not in objects or not (shown.is_instance or shown.show_self):
            continue
        if shown.object.type in _NO_FACES:
            raise InputError(
                f"`{label}`: expected faces alone, got {shown.object.type.lower()} in `{owner.name}`; give "
                "them faces, as the node Curve to Mesh does, or leave them out"
            )
        if shown.object.type == "MESH" and len(shown.object.data.polygons):
            mesh = shown.object.data.copy()
            materials = _materials_of(shown.object)
            if not np.isfinite(shown.matrix_world).all():  # `transform` passes over it
                raise InputError(
                    f"`{label}`: expected finite numbers, `{owner.name}` is placed at NaN or infinity"
                )
            mesh.transform(shown.matrix_world)
            if shown.matrix_world.determinant() < 0:
                mesh.flip_normals()
            found.append((owner, mesh, materials))
    if not found:
        raise InputError(f"`{label}`: expected faces, got none; return a mesh, or a curve with a bevel")
    return sorted(found, key=lambda piece: objects.index(piece[0]))


def _show_as_rendered(label: str, one: Any) -> None:
    """Evaluate an object as a render does, and not as a viewport."""
    if one.type == "MESH" and one.data.validate():
        raise InputError(f"`{label}`: `{one.name}` has invalid faces or coordinates; correct them")
    one.hide_set(False)
    one.hide_viewport = one.hide_render
    for modifier in one.modifiers:
        modifier.show_viewport = modifier.show_render
        for viewport, rendered in (("levels", "render_levels"), ("steps", "render_steps")):
            if hasattr(modifier, rendered):
                setattr(modifier, viewport, getattr(modifier, rendered))
    for name in ("resolution_u", "resolution_v"):
        if rendered_resolution := getattr(one.data, f"render_{name}", 0):
            setattr(one.data, name, rendered_resolution)


def _materials_of(evaluated: Any) -> list[Any]:
    """Return the materials of the slots of an evaluated object; one None if there is no slot."""
    materials = list(evaluated.data.materials) or [None]
    for i, slot in enumerate(list(evaluated.material_slots)[: len(materials)]):
        if slot.link == "OBJECT":
            materials[i] = slot.material
    return [None if one is None else one.original for one in materials]


def _joined(pieces: Sequence[tuple[Any, Int32[ndarray, " faces"]]], slots: int, bpy_scene: Any) -> Any:
    """Join meshes; all get the same slots, each with a material of its own, so that no slots are merged."""
    marks = [bpy.data.materials.new("slot") for _ in range(slots)]
    objects = []
    for mesh, indices in pieces:
        mesh.materials.clear()
        for mark in marks:
            mesh.materials.append(mark)
        mesh.polygons.foreach_set("material_index", indices)
        objects.append(bpy.data.objects.new("piece", mesh))
        bpy_scene.collection.objects.link(objects[-1])
    if len(objects) > 1:
        first = objects[0]
        with bpy.context.temp_override(
            active_object=first, object=first, selected_objects=objects, selected_editable_objects=objects
        ):
            bpy.ops.object.join()
    return objects[0].data


def _check_extent(label: str, mesh: Any) -> None:
    points = np.empty(3 * len(mesh.vertices), np.float32)
    mesh.vertices.foreach_get("co", points)
    extent = np.ptp(points.reshape(-1, 3), axis=0)
    if not LEAST_EXTENT <= extent.max() < np.inf:  # NaN is in no interval
        raise InputError(f"`{label}`: expected a mesh of finite extent, got one of {extent} m")
