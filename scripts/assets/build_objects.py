"""The shipped objects: Blender's primitives, shapes of our own, and two meshes read from npm packages.

The bunny (npm `bunny` 1.0.1, after the Stanford scan) and the teapot (npm `teapot` 1.0.0, after Newell) are
in the public domain, as their packages state. To build them, install both into one folder:
``npm install --prefix DIR bunny@1.0.1 teapot@1.0.0``, then ``--meshes DIR/node_modules``.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from numpy import ndarray

from build_files import save, start
from candlelight.generators.blender.mesh_files import fit_to_unit
from shapes import Shape, lathe, prism, tube

FROM_NPM = {"bunny": ("bunny", "index.js", "1.0.1"), "teapot": ("teapot", "teapot.js", "1.0.0")}
ROUND, EDGED = 180.0, 30.0  # degrees between faces above which an edge is sharp


def build_object(out: Path, name: str, meshes: Path | None = None) -> dict[str, Any]:
    """Model one object without material, its origin in the middle of its base, its longest side one unit."""
    start()
    OBJECTS[name]() if name not in FROM_NPM else _from_npm(name, meshes)
    made = bpy.context.object
    made.name = made.data.name = name
    vertices = np.array([vertex.co for vertex in made.data.vertices])
    standing, facts = fit_to_unit(vertices)
    if name == "torus":
        # CANDLE's torus is larger than the unit box: 1.25 x 1.25 x 0.25 m.
        standing, facts = (
            standing * 1.25,
            {key: np.multiply(fact, 1.25).tolist() for key, fact in facts.items()},
        )
    made.data.vertices.foreach_set("co", standing.astype(np.float32).ravel())
    made.data.update()
    if name not in FROM_NPM:
        return save(out, "objects", name, {made}, facts)
    package, _, version = FROM_NPM[name]
    source = f"npm `{package}` {version}, smoothed by scripts/assets/build.py"
    return save(out, "objects", name, {made}, facts, source, "public domain")


# -------------------------------------------------------------------------------------- Blender's primitives


def _smooth(degrees: float) -> None:
    mesh = bpy.context.object.data
    mesh.shade_smooth()
    mesh.set_sharp_from_angle(angle=math.radians(degrees))


def _subdivide(levels: int) -> None:
    smoother = bpy.context.object.modifiers.new("smooth", "SUBSURF")
    smoother.levels = levels
    bpy.ops.object.modifier_apply(modifier=smoother.name)


def _cube() -> None:
    bpy.ops.mesh.primitive_cube_add(size=1)


def _sphere() -> None:
    bpy.ops.mesh.primitive_uv_sphere_add(segments=64, ring_count=32, radius=0.5)
    _smooth(ROUND)


def _cylinder() -> None:
    bpy.ops.mesh.primitive_cylinder_add(vertices=96, radius=0.5, depth=1)
    _smooth(EDGED)


def _cone() -> None:
    bpy.ops.mesh.primitive_cone_add(vertices=96, radius1=0.5, depth=1)
    _smooth(EDGED)


def _torus() -> None:
    bpy.ops.mesh.primitive_torus_add(
        major_segments=96, minor_segments=32, major_radius=0.5, minor_radius=0.125
    )
    _smooth(ROUND)


def _suzanne() -> None:
    bpy.ops.mesh.primitive_monkey_add(size=1)
    _subdivide(2)
    _smooth(ROUND)


# ------------------------------------------------------------------------------------------ shapes of our own


def _add(shape: Shape, sharp: float) -> None:
    """Make an object of a shape and activate it; edges above an angle in degrees are sharp."""
    vertices, faces = shape
    mesh = bpy.data.meshes.new("shape")
    mesh.from_pydata(vertices.tolist(), [], faces)
    mesh.validate()
    made = bpy.data.objects.new("shape", mesh)
    bpy.context.scene.collection.objects.link(made)
    bpy.context.view_layer.objects.active = made
    _smooth(sharp)


def _arc(
    x: float, z: float, radius: float, start: float, end: float, steps: int
) -> list[tuple[float, float]]:
    """Return points of an arc in the half plane of a lathe; angles in degrees from the outward direction."""
    angles = np.radians(np.linspace(start, end, steps))
    return [(max(x + radius * math.cos(a), 0.0), z + radius * math.sin(a)) for a in angles]


def _vase() -> None:
    heights = np.linspace(0.04, 1.0, 40)
    outside = [(0.2 + 0.13 * math.sin(2 * math.pi * (h - 0.12)) * (1 - 0.35 * h), h) for h in heights]
    inside = [(radius - 0.03, height) for radius, height in reversed(outside[2:])]
    _add(lathe([(0, 0), (outside[0][0], 0), *outside, *inside, (0, inside[-1][1])]), EDGED)


def _bowl() -> None:
    outside = _arc(0, 0.5, 0.5, -80, 0, 28)
    inside = _arc(0, 0.5, 0.45, 0, -89.99, 28)
    _add(lathe([(0, 0), (outside[0][0], 0), *outside, *inside, (0, 0.05)]), EDGED)


def _capsule() -> None:
    _add(lathe([(0, 0), *_arc(0, 0.25, 0.25, -88, 0, 20), *_arc(0, 0.75, 0.25, 0, 88, 20), (0, 1)]), ROUND)


def _pyramid() -> None:
    _add(lathe([(0, 0), (0.6, 0), (0, 0.8)], segments=4), EDGED)


def _knot() -> None:
    def trefoil(t: ndarray) -> ndarray:
        a = 2 * np.pi * t
        x, y = np.sin(a) + 2 * np.sin(2 * a), np.cos(a) - 2 * np.cos(2 * a)
        return np.stack([x, -np.sin(3 * a), y], axis=-1)

    _add(tube(trefoil, 0.55, 200, closed=True), ROUND)


def _spring() -> None:
    def helix(t: ndarray) -> ndarray:
        a = 2 * np.pi * 4.5 * t
        return np.stack([0.4 * np.cos(a), 0.4 * np.sin(a), 1.0 * t], axis=-1)

    _add(tube(helix, 0.07, 260, closed=False), EDGED)


def _gear() -> None:
    teeth, steps = 12, 8
    angles = 2 * np.pi * np.arange(teeth * steps) / (teeth * steps)
    radii = np.tile([0.38, 0.38, 0.38, 0.4, 0.5, 0.5, 0.5, 0.48], teeth)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    _add(prism(ring * radii[:, None], 0.3, hole=ring * 0.16), EDGED)


def _star() -> None:
    angles = np.pi / 2 + 2 * np.pi * np.arange(10) / 10
    radii = np.tile([0.5, 0.22], 5)
    _add(prism(radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1), 0.25), EDGED)


def _arch() -> None:
    turn = np.radians(np.linspace(0, 180, 49))
    bow = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    outer, inner = bow * 0.5 + (0, 0.3), bow * 0.27 + (0, 0.3)
    outline = np.concatenate([[(0.5, 0)], outer, [(-0.5, 0)]])
    opening = np.concatenate([[(0.27, 0)], inner, [(-0.27, 0)]])
    vertices, faces = prism(outline, 0.35, hole=opening, closed=False)
    _add((vertices[:, [0, 2, 1]] * (1, -1, 1), faces), EDGED)  # upright: its height becomes its depth


# ------------------------------------------------------------------------------------- meshes of npm packages


def _from_npm(name: str, meshes: Path | None) -> None:
    package, file, _ = FROM_NPM[name]
    if meshes is None:
        raise ValueError(f"{name}: expected the folder of npm packages, got none; see `--meshes`")
    text = (meshes / package / file).read_text(encoding="utf-8")
    vertices, faces = (
        json.loads(re.findall(rf"exports\.{part}\s*=\s*(\[\[.*?\]\])", text, re.DOTALL)[0])
        for part in ("positions", "cells")
    )
    upright = np.array(vertices)[:, [0, 2, 1]] * (1, -1, 1)  # the packages have y up
    _add((upright, [tuple(face) for face in faces]), ROUND)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.remove_doubles(threshold=1e-4)
    bpy.ops.mesh.normals_make_consistent(inside=False)
    bpy.ops.mesh.tris_convert_to_quads()
    bpy.ops.object.mode_set(mode="OBJECT")
    _subdivide(1)
    _smooth(60.0)


OBJECTS: dict[str, Callable[[], None]] = {
    "cube": _cube,
    "sphere": _sphere,
    "cylinder": _cylinder,
    "cone": _cone,
    "torus": _torus,
    "suzanne": _suzanne,
    "vase": _vase,
    "bowl": _bowl,
    "capsule": _capsule,
    "pyramid": _pyramid,
    "knot": _knot,
    "spring": _spring,
    "gear": _gear,
    "star": _star,
    "arch": _arch,
}
