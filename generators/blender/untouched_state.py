"""The state that a function of the user must leave as it is: other scenes, settings, random generators."""

import hashlib
import random
from typing import Any

import numpy as np

from candlelight.generators.blender import bpy
from candlelight.generators.blender.sanitize import block_ids
from candlelight.loaders.errors import InputError

# Properties that differ between equal structs, have no value (which Blender logs), or ask drivers of GPUs.
_UNLIKE = frozenset(
    (
        *("rna_type", "session_uid", "users", "preview", "asset_data", "is_evaluated"),
        *("linear_colorspace_settings", "ffmpeg", "denoiser", "preview_denoiser"),
    )
)


def untouched_state() -> dict[str, Any]:
    """Return what a function must leave as it is, by the fault if it does not."""
    scenes = sorted(bpy.data.scenes, key=lambda scene: scene.session_uid)
    _, keys, *rest = np.random.get_state()  # noqa: NPY002 - the generator that the user may have used
    return {
        "adds or removes scenes": [scene.session_uid for scene in scenes],
        "uses the generator of `random`": random.getstate(),
        "uses the global generator of numpy": (np.asarray(keys).tobytes(), *rest),
        "changes settings of rendering": [_settings(scene) for scene in scenes],
        "removes what it did not make": block_ids(),
        "changes objects that it did not make": {
            one.session_uid: _object_of(one) for one in bpy.data.objects
        },
        "changes meshes that it did not make": {one.session_uid: _mesh_of(one) for one in bpy.data.meshes},
        "changes materials, lights or worlds that it did not make": {
            one.session_uid: struct_values(one)
            for blocks in (bpy.data.materials, bpy.data.lights, bpy.data.worlds, bpy.data.node_groups)
            for one in blocks
        },
        "registers handlers": {name: len(known) for name, known in _handlers().items()},
    }


def check_untouched(label: str, known: dict[str, Any]) -> None:
    """Refuse a function that changed more than what it made.

    Args:
        label: label of the function, for messages.
        known: `untouched_state` before the function ran.

    Raises:
        InputError: the message names the function, its fault and the remedy.
    """
    for fault, now in untouched_state().items():
        before = known[fault]
        if isinstance(now, set):  # new datablocks are the function's
            now &= before
        elif isinstance(now, dict):
            now = {uid: now.get(uid) for uid in before}
        if now != before:
            for name, handlers in _handlers().items():
                del handlers[known["registers handlers"][name] :]
            remedy = (
                "take randomness from its numbers, as in random.Random(seed)"
                if "generator" in fault
                else "it may only make a new object or material and return that"
            )
            raise InputError(f"`{label}` {fault}; {remedy}")


def _settings(scene: Any) -> list[Any]:
    parts = (scene.render, scene.cycles, scene.view_settings, scene.display_settings)
    views = [(view.use, struct_values(view.cycles)) for view in scene.view_layers]
    return [[struct_values(part) for part in parts], views]


def _handlers() -> dict[str, list[Any]]:
    """Return the functions that Blender calls at events, by event."""
    handlers = {name: getattr(bpy.app.handlers, name) for name in dir(bpy.app.handlers)}
    return {name: known for name, known in handlers.items() if isinstance(known, list)}


_OBJECT_FLAGS = (
    *("hide_render", "hide_viewport", "pass_index", "lightgroup", "is_shadow_catcher", "is_holdout"),
    *("visible_camera", "visible_diffuse", "visible_glossy", "visible_transmission", "visible_shadow"),
)


def _object_of(one: Any) -> tuple[Any, ...]:
    data = None if one.data is None else one.data.session_uid
    scenes = sorted(scene.session_uid for scene in one.users_scene)
    slots = [slot.material and slot.material.session_uid for slot in one.material_slots]
    flags = [getattr(one, name) for name in _OBJECT_FLAGS]
    changes = len(one.modifiers), len(one.constraints)
    return [tuple(row) for row in one.matrix_basis], data, scenes, slots, flags, changes


def _mesh_of(mesh: Any) -> bytes:
    """Digest places, shapes, smoothness and material slots of the faces of a mesh."""
    digest = hashlib.blake2b()
    for items, name, size, kind in (
        (mesh.vertices, "co", 3, np.float32),
        (mesh.loops, "vertex_index", 1, np.int32),
        (mesh.polygons, "loop_start", 1, np.int32),
        (mesh.polygons, "material_index", 1, np.int32),
        (mesh.polygons, "use_smooth", 1, np.bool_),
    ):
        values = np.empty(len(items) * size, kind)
        items.foreach_get(name, values)
        digest.update(values.tobytes())
    return digest.digest()


def struct_values(struct: Any, seen: set[tuple[type, int]] | None = None) -> list[Any]:
    """Return all values of a Blender struct and of the structs inside it; datablocks by their names.

    Args:
        struct: the struct, such as the settings of a scene, or a tree of nodes.
        seen: structs that are listed already, by type and address.
    """
    seen = set() if seen is None else seen
    seen.add((type(struct), struct.as_pointer()))

    def value_of(value: Any) -> Any:
        if not isinstance(value, bpy.types.bpy_struct):
            several = sorted(value) if isinstance(value, set) else value
            listed = hasattr(several, "__len__") and not isinstance(several, str | bytes)
            return [value_of(item) for item in several] if listed else value
        is_block = isinstance(value, bpy.types.ID) and not isinstance(value, bpy.types.NodeTree)
        if is_block or (type(value), value.as_pointer()) in seen:
            return [getattr(value, name, "") for name in ("name", "identifier")]
        return struct_values(value, seen)

    found: list[Any] = []
    for one in struct.bl_rna.properties:
        if one.identifier not in _UNLIKE:
            value = getattr(struct, one.identifier)
            items = value if one.type == "COLLECTION" else [value]
            found.append((one.identifier, [value_of(item) for item in items]))
    return found
