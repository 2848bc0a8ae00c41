"""Objects with parts: several classes of each kind, whose parts differ in shape and colour.

An object is one mesh with one material slot per part, named like the part. Its manifest entry names the kind
and, in the order of the slots, the parts with their colours. Fronts look along -y.
"""

import math
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from build_files import save, start
from candlelight.generators.blender.mesh_files import fit_to_unit
from part_animals import BIRDS, FISHES, bird, fish
from part_creature import CREATURES, creature
from part_robots_and_houses import HOUSES, ROBOTS, house, robot
from part_vehicles import CARS, PLANES, car, plane
from shapes import Shape

SHARP = 40.0  # degrees between faces above which an edge is sharp

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bird": (bird, BIRDS),
    "fish": (fish, FISHES),
    "car": (car, CARS),
    "plane": (plane, PLANES),
    "robot": (robot, ROBOTS),
    "house": (house, HOUSES),
    "creature": (creature, CREATURES),
}
CLASSES = {label: kind for kind, (_, classes) in KINDS.items() for label in classes}


def build_with_parts(out: Path, name: str) -> dict[str, Any]:
    """Model one object with parts, its origin in the middle of its base, its longest side one unit."""
    make, classes = KINDS[CLASSES[name]]
    given = classes[name]
    parts: dict[str, list[Shape]] = make(given)
    colors = {part: given.colors[part] for part in parts}
    start()
    made = _join(name, parts, colors)
    vertices = np.array([vertex.co for vertex in made.data.vertices])
    standing, facts = fit_to_unit(vertices)
    made.data.vertices.foreach_set("co", standing.astype(np.float32).ravel())
    made.data.update()
    facts |= {
        "kind": CLASSES[name],
        "parts": [{"name": part, "color": list(rgb)} for part, rgb in colors.items()],
    }
    return save(out, "objects", name, {made}, facts)


def _join(name: str, parts: dict[str, list[Shape]], colors: dict[str, tuple[float, float, float]]) -> Any:
    """Join all shapes to one object, whose faces have the material slot of their part."""
    points: list[Any] = []
    faces: list[tuple[int, ...]] = []
    slots: list[int] = []
    for slot, shapes in enumerate(parts.values()):
        for vertices, corners in shapes:
            faces += [tuple(len(points) + i for i in face) for face in corners]
            slots += [slot] * len(corners)
            points += vertices.tolist()
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(points, [], faces)
    mesh.polygons.foreach_set("material_index", slots)
    mesh.shade_smooth()
    mesh.set_sharp_from_angle(angle=math.radians(SHARP))
    for part in parts:
        material = bpy.data.materials.new(part)
        shader = next(node for node in material.node_tree.nodes if node.type == "BSDF_PRINCIPLED")
        shader.inputs["Base Color"].default_value = (*colors[part], 1.0)
        mesh.materials.append(material)
    return bpy.data.objects.new(name, mesh)
