"""Scan one asset file: read the facts that a plan needs and that only Blender can read.

``python -m candlelight.generators.blender.scan_file`` is asked by
`candlelight.generators.engine.helper_process.run_helper` with a list of [kind, label, path], and replies for
each file its ``facts``, ``notes`` and Blender's version, or an ``error``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from candlelight.generators.blender import VERSION, bpy, start_empty
from candlelight.generators.blender.append_files import append, append_mesh, append_or_none, load_map
from candlelight.generators.blender.environment import load_modelled_scene
from candlelight.generators.blender.materials import base_color, load_material, require_shader
from candlelight.generators.engine.helper_process import answer_request
from candlelight.generators.scenes.object_materials import check_texture_image
from candlelight.loaders.errors import InputError

_CAMERA = "Camera"
_GRAY = (0.5, 0.5, 0.5)  # linear Rec.709; colour of a part without a single colour
_TOLERANCE = 1e-3  # relative for heights, absolute for unit vectors


@dataclass
class _Scan:
    """Facts of one file for the manifest, and notes on unusual or ignored properties."""

    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _scan_object(path: Path, label: str, scan: _Scan) -> None:
    """Measure a mesh with the scale and rotation of its object."""
    found, points = append_mesh(path, label, scan.notes)
    low, high = points.min(axis=0), points.max(axis=0)
    if abs(low[2]) > _TOLERANCE * (high[2] - low[2]):
        scan.notes.append(f"its base is at height {low[2]:.3g} m, not 0: it will float or sink by that")
    if found.modifiers:
        scan.notes.append(f"its {len(found.modifiers)} modifiers are left out; apply them")
    scan.facts["dimensions"] = (high - low).round(6).tolist()
    scan.facts["footprint"] = round(float(np.hypot(points[:, 0], points[:, 1]).max()), 6)
    if len(found.data.materials) > 1:
        parts = [_scan_part(path, slot, scan) for slot in found.data.materials]
        names = {part["name"] for part in parts}
        for part in parts:
            if part.get("attached_to", part["name"]) not in names:
                raise ValueError(
                    f"{path.name}: part `{part['name']}` is attached to `{part['attached_to']}`; expected "
                    f"one of {', '.join(sorted(names))}"
                )
        scan.facts["parts"] = parts


def _scan_part(path: Path, slot: Any, scan: _Scan) -> dict[str, Any]:
    """Return name and colour of the part that a material slot stands for."""
    if slot is None:
        raise ValueError(f"{path.name}: expected a material in each slot, named like the part; got none")
    require_shader(path, slot)
    color = base_color(slot)
    if color is None:
        scan.notes.append(f"its part `{slot.name}` has a texture as colour; the material `own` makes it gray")
    attached_to = slot.get("attached_to")  # a custom property of the material
    return {"name": slot.name, "color": list(color or _GRAY)} | (
        {} if attached_to is None else {"attached_to": str(attached_to)}
    )


def _scan_material(path: Path, label: str, scan: _Scan) -> None:
    """Read the base colour of a Principled material, unless a texture decides it."""
    color = base_color(load_material(path, label, scan.notes))
    if color is not None:
        scan.facts["base_color"] = list(color)


def _scan_texture(path: Path, label: str, scan: _Scan) -> None:
    """Open a procedural texture or an image."""
    if path.suffix == ".blend":
        nodes = load_material(path, label, scan.notes).node_tree.nodes
        missing = [f"`{name}`" for name in ("color a", "color b", "mapping") if name not in nodes]
        if missing:
            scan.notes.append(
                f"it has no node named {', '.join(missing)}, so it keeps its own colours or place"
            )
    else:
        try:
            check_texture_image(path)
        except InputError as error:
            raise ValueError(str(error).replace(f"texture {path}", path.name)) from None


def _scan_light(path: Path, label: str, scan: _Scan) -> None:
    """Read power, radius, colour and location of a point light."""
    found = append(path, "objects", label, scan.notes)
    if found.type != "LIGHT" or found.data.type != "POINT":
        kind = found.data.type if found.type == "LIGHT" else found.type
        raise ValueError(f"{path.name}: expected an object that is a point light, got {kind.lower()}")
    light = found.data
    if light.use_temperature or light.exposure:
        raise ValueError(
            f"{path.name}: expected a light of energy and colour alone, got temperature or exposure, too"
        )
    if _has_own_nodes(light):
        scan.notes.append("its nodes are left out; energy, radius, colour and location are used")
    numbers = {"power": light.energy, "radius": light.shadow_soft_size}
    scan.facts |= {name: round(value, 6) for name, value in numbers.items()}
    scan.facts["color"] = _rounded(light.color)
    scan.facts["location"] = _rounded(found.matrix_basis.translation)


def _has_own_nodes(light: Any) -> bool:
    """Return whether nodes change a light; in Blender 5.2 every light has nodes, of a white emission."""
    if not light.use_nodes or light.node_tree is None:
        return False
    nodes = {node.bl_idname: node for node in light.node_tree.nodes}
    if nodes.keys() != {"ShaderNodeEmission", "ShaderNodeOutputLight"}:
        return True
    color, strength = (nodes["ShaderNodeEmission"].inputs[name] for name in ("Color", "Strength"))
    linked = color.is_linked or strength.is_linked
    return linked or (*color.default_value, strength.default_value) != (1.0, 1.0, 1.0, 1.0, 1.0)


def _scan_scene(path: Path, label: str, scan: _Scan) -> None:
    """Read whether a file holds a modelled scene, a world alone or an environment map, and its camera."""
    if path.suffix != ".blend":
        load_map(path)
        scan.facts["modelled"] = False
        return
    with bpy.data.libraries.load(str(path), link=False) as (source, _):
        modelled = any(name.lower() == label.lower() for name in source.collections)
        has_camera = _CAMERA in source.objects
    world = append_or_none(path, "worlds", label, scan.notes)
    if not modelled and world is None:
        raise ValueError(
            f"{path.name}: expected a world, or a collection named `{label}` with a modelled scene, found "
            "neither"
        )
    if modelled:
        load_modelled_scene(path, label, scan.notes)
    scan.facts["modelled"] = modelled
    if has_camera:
        scan.facts["camera"] = _read_camera(path, append(path, "objects", _CAMERA, scan.notes))
    else:
        scan.notes.append(f"it has no camera called `{_CAMERA}`, so recipes use their own")


def _read_camera(path: Path, found: Any) -> dict[str, Any]:
    """Read location, direction and horizontal field of view of a camera.

    Raises:
        ValueError: a plan cannot state the camera: not a perspective one, shifted, rolled, or vertical.
    """
    optics = found.data
    if found.type != "CAMERA" or optics.type != "PERSP":
        raise ValueError(f"{path.name}: expected `{_CAMERA}` to be a perspective camera")
    if optics.sensor_fit == "VERTICAL" or optics.shift_x or optics.shift_y:
        raise ValueError(
            f"{path.name}: expected a camera without shift whose sensor fits the width of the image"
        )
    pose = np.array(found.matrix_basis)
    right, forward, location = pose[:3, 0], -pose[:3, 2], pose[:3, 3]
    right, forward = right / np.linalg.norm(right), forward / np.linalg.norm(forward)
    if abs(right[2]) > _TOLERANCE or np.hypot(*forward[:2]) < _TOLERANCE or pose[2, 1] <= 0:
        raise ValueError(
            f"{path.name}: expected a camera without roll, upright, and not looking straight up or down"
        )
    return {
        "location": _rounded(location),
        "look_at": _rounded(location + forward),  # one metre ahead; the distance has no effect
        "field_of_view": round(math.degrees(2 * math.atan(optics.sensor_width / 2 / optics.lens)), 6),
    }


def _rounded(vector: Any) -> list[float]:
    return [round(float(value), 6) + 0.0 for value in vector]


_SCANS: dict[str, Callable[[Path, str, _Scan], None]] = {
    "objects": _scan_object,
    "materials": _scan_material,
    "textures": _scan_texture,
    "lights": _scan_light,
    "scenes": _scan_scene,
}


def scan_file(kind: str, label: str, path: Path) -> dict[str, Any]:
    """Scan one file in an empty Blender that runs no scripts."""
    start_empty()
    bpy.context.preferences.filepaths.use_scripts_auto_execute = False
    scan = _Scan()
    try:
        _SCANS[kind](path, label, scan)
    except ValueError as error:
        return {"error": str(error)}
    except (OSError, RuntimeError):
        return {"error": f"{path.name}: cannot be read; replace it"}
    return {"facts": scan.facts, "notes": scan.notes, "blender": VERSION}


if __name__ == "__main__":
    answer_request(lambda files: (scan_file(kind, label, Path(name)) for kind, label, name in files))
