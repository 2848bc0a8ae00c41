"""The scanning child: what a plan must know of assets that only Blender can read.

``python -m generators.blender.scan_file`` is asked by `generators.engine.helper_process.ask` with [kind,
label, path] of files, and replies for each its ``facts``, its ``notes`` and Blender's version, or its
``error``.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from generators.blender import bpy, start_empty
from generators.blender.append_files import append, append_or_none
from generators.blender.materials import base_color
from generators.engine.helper_process import answer

_CAMERA = "Camera"
_GRAY = (0.5, 0.5, 0.5)  # linear Rec.709; of a part without one colour
_TOLERANCE = 1e-3  # what is less than this beside where it should be stands where it should


class _FileScan:
    """What one file says: facts for the manifest, and notes on what is odd or left out."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.notes: list[str] = []


def scan_object(path: Path, label: str, scan: _FileScan) -> None:
    """Measure a mesh as it stands in its file."""
    thing = append(path, "objects", label, scan.notes)
    if thing.type != "MESH" or not thing.data.polygons:
        found = "one without faces" if thing.type == "MESH" else thing.type.lower()
        raise ValueError(f"{path.name}: expected a mesh object with faces, got {found}")
    points = np.array([vertex.co for vertex in thing.data.vertices], float)
    pose = np.array(thing.matrix_basis)
    points = points @ pose[:3, :3].T + pose[:3, 3]
    low, high = points.min(axis=0), points.max(axis=0)
    if not np.isfinite(points).all() or (high - low).max() < _TOLERANCE:
        raise ValueError(f"{path.name}: expected a mesh of finite extent, got one from {low} to {high}")
    if abs(low[2]) > _TOLERANCE * (high[2] - low[2]):
        scan.notes.append(f"its base is at height {low[2]:.3g} m, not 0: it will float or sink by that")
    if thing.modifiers:
        scan.notes.append(f"its {len(thing.modifiers)} modifiers are left out; apply them")
    scan.facts["dimensions"] = (high - low).round(6).tolist()
    scan.facts["footprint"] = round(float(np.hypot(points[:, 0], points[:, 1]).max()), 6)
    if len(thing.data.materials) > 1:
        scan.facts["parts"] = [_scan_part(path, slot, scan) for slot in thing.data.materials]


def _scan_part(path: Path, slot: Any, scan: _FileScan) -> dict[str, Any]:
    """Name a material slot, which is a part, with its colour."""
    if slot is None:
        raise ValueError(f"{path.name}: expected a material in each of several slots, named as the part is")
    color = base_color(slot)
    if color is None:
        scan.notes.append(f"its part `{slot.name}` has a texture for a colour; `own` shows it gray")
    return {"name": slot.name, "color": list(color or _GRAY)}


def scan_material(path: Path, label: str, scan: _FileScan) -> None:
    """Read the base colour of a Principled material, where it is one colour."""
    color = base_color(append(path, "materials", label, scan.notes))
    if color is not None:
        scan.facts["base_color"] = list(color)


def scan_light(path: Path, label: str, scan: _FileScan) -> None:
    """Read the numbers of a point light from its object."""
    hung = append(path, "objects", label, scan.notes)
    if hung.type != "LIGHT" or hung.data.type != "POINT":
        kind = hung.data.type if hung.type == "LIGHT" else hung.type
        raise ValueError(f"{path.name}: expected an object that is a point light, got {kind.lower()}")
    lamp = hung.data
    if lamp.use_temperature or lamp.exposure:
        raise ValueError(
            f"{path.name}: expected a light of energy and colour alone, got temperature or exposure besides"
        )
    if lamp.use_nodes:
        scan.notes.append("its nodes are left out; energy, radius, colour and place are taken")
    numbers = {"power": lamp.energy, "radius": lamp.shadow_soft_size}
    scan.facts |= {name: round(value, 6) for name, value in numbers.items()}
    scan.facts["color"] = _rounded(lamp.color)
    scan.facts["location"] = _rounded(hung.matrix_basis.translation)


def scan_scene(path: Path, label: str, scan: _FileScan) -> None:
    """Say whether a scene file holds a modelled set or a world alone, and where its camera stands."""
    with bpy.data.libraries.load(str(path), link=False) as (source, _):
        modelled = any(name.lower() == label.lower() for name in source.collections)
        stands = _CAMERA in source.objects
    world = append_or_none(path, "worlds", label, scan.notes)
    if not modelled and world is None:
        raise ValueError(
            f"{path.name}: expected a world, or a collection named `{label}` with a modelled set, found none"
        )
    if modelled:
        append(path, "collections", label, scan.notes)
    scan.facts["modelled"] = modelled
    if stands:
        scan.facts["camera"] = read_camera(path, append(path, "objects", _CAMERA, scan.notes))
    else:
        scan.notes.append(f"it has no camera called `{_CAMERA}`, so recipes use their own")


def read_camera(path: Path, stand: Any) -> dict[str, Any]:
    """Read place, direction and horizontal field of view of a camera.

    Raises:
        ValueError: it is none that a plan can state: not a perspective one, shifted, rolled, or upright.
    """
    optics = stand.data
    if stand.type != "CAMERA" or optics.type != "PERSP":
        raise ValueError(f"{path.name}: expected `{_CAMERA}` to be a perspective camera")
    if optics.sensor_fit == "VERTICAL" or optics.shift_x or optics.shift_y:
        raise ValueError(
            f"{path.name}: expected a camera without shift whose sensor fits the width of the picture"
        )
    pose = np.array(stand.matrix_basis)
    right, forward, location = pose[:3, 0], -pose[:3, 2], pose[:3, 3]
    right, forward = right / np.linalg.norm(right), forward / np.linalg.norm(forward)
    if abs(right[2]) > _TOLERANCE or np.hypot(*forward[:2]) < _TOLERANCE or pose[2, 1] <= 0:
        raise ValueError(
            f"{path.name}: expected a camera that is level from side to side, not upside down and not upright"
        )
    return {
        "location": _rounded(location),
        # A metre ahead: for the direction, any distance would do.
        "look_at": _rounded(location + forward),
        "field_of_view": round(math.degrees(2 * math.atan(optics.sensor_width / 2 / optics.lens)), 6),
    }


def _rounded(vector: Any) -> list[float]:
    return [round(float(value), 6) + 0.0 for value in vector]


_SCANS: dict[str, Callable[[Path, str, _FileScan], None]] = {
    "objects": scan_object,
    "materials": scan_material,
    "lights": scan_light,
    "scenes": scan_scene,
}


def scan_file(kind: str, label: str, path: Path) -> dict[str, Any]:
    """Scan one file in an empty Blender that runs no scripts."""
    start_empty()
    bpy.context.preferences.filepaths.use_scripts_auto_execute = False
    scan = _FileScan()
    try:
        _SCANS[kind](path, label, scan)
    except ValueError as error:
        return {"error": str(error)}
    except (OSError, RuntimeError):
        return {"error": f"{path.name}: cannot be read as a .blend file; replace it"}
    return {"facts": scan.facts, "notes": scan.notes, "blender": bpy.app.version_string}


if __name__ == "__main__":
    answer(lambda files: (scan_file(kind, label, Path(name)) for kind, label, name in files))
