"""The state that a function of the user must leave as it is: other scenes, settings, random generators."""

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
        "changes objects that it did not make": {one.session_uid: _place_of(one) for one in bpy.data.objects},
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
            remedy = (
                "take randomness from its numbers, as in random.Random(seed)"
                if "generator" in fault
                else "it may only make a new object or material and return that"
            )
            raise InputError(f"`{label}` {fault}; {remedy}")


def _settings(scene: Any) -> list[Any]:
    parts = (scene.render, scene.cycles, scene.view_settings, scene.display_settings)
    return [struct_values(part) for part in (*parts, *(view.cycles for view in scene.view_layers))]


def _place_of(one: Any) -> tuple[Any, ...]:
    data = None if one.data is None else one.data.session_uid
    scenes = sorted(scene.session_uid for scene in one.users_scene)
    return [tuple(row) for row in one.matrix_basis], data, scenes, one.hide_render, len(one.modifiers)


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
