"""Build modelled scenes from solids and lights, and write their files.

A scene is a function that adds to a `Scenery`, in metres, with the ground at height 0, for CANDLE's camera at
(0, 6.5, 2.6), which looks along -y. Objects stand at x -1.4 .. 1.4 and y -4.5 .. -1 and are up to 2.5 m wide,
so the ground there is free and level. CANDLE's lights are points at (5, -5, 7), (0, 0, 7) and (-5, 5, 7), and
nothing may stand between them and the objects.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from build_files import save, start
from build_finishes import Color, Point


class Scenery:
    """A scene under construction: solids, joined to one mesh per finish, lights, and a sky.

    Args:
        label: name of the scene, which its collection and world bear.
    """

    def __init__(self, label: str) -> None:
        start()
        self.label = label
        self.collection = bpy.data.collections.new(label)
        self._solids: dict[Any, tuple[list[Point], list[Sequence[int]], list[bool]]] = {}
        self._world: Any = None

    # ---------------------------------------------------------------------------------------------- solids

    def mesh(
        self, finish: Any, points: Iterable[Any], faces: Sequence[Sequence[int]], smooth: bool = False
    ) -> None:
        """Add any mesh."""
        vertices, polygons, smoothness = self._solids.setdefault(finish, ([], [], []))
        first = len(vertices)
        vertices += [tuple(float(x) for x in point) for point in points]
        polygons += [[first + int(i) for i in face] for face in faces]
        smoothness += [smooth] * len(faces)

    def quad(self, finish: Any, *corners: Point) -> None:
        """Add one flat face with the given corners, in order around it."""
        self.mesh(finish, corners, [range(len(corners))])

    def box(self, finish: Any, low: Point, high: Point, turn: float = 0.0) -> None:
        """Add a box between two corners, turned by ``turn`` degrees about the vertical through its middle."""
        middle = np.add(low, high) / 2
        corners = [
            ((low, high)[i & 1][0], (low, high)[i >> 1 & 1][1], (low, high)[i >> 2][2]) for i in range(8)
        ]
        around = [middle + _turned(np.subtract(corner, middle), turn) for corner in corners]
        sides = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
        self.mesh(finish, around, sides)

    def tube(self, finish: Any, path: Sequence[Point], radius: float, sides: int = 12) -> None:
        """Add a round bar along a path of points, closed at both ends: a pipe, a pole, a column."""
        points = np.array(path, float)
        ways = np.gradient(points, axis=0)
        rings = []
        for point, way in zip(points, ways / np.linalg.norm(ways, axis=1, keepdims=True), strict=True):
            across = np.cross(way, (0.0, 1.0, 0.0) if abs(way[1]) < 0.9 else (1.0, 0.0, 0.0))
            across /= np.linalg.norm(across)
            angles = np.linspace(0, 2 * math.pi, sides, endpoint=False)[:, None]
            rings.append(point + radius * (np.cos(angles) * across + np.sin(angles) * np.cross(way, across)))
        self.mesh(finish, np.concatenate(rings), _bands(len(points), sides), smooth=True)
        for ring in (rings[0], rings[-1]):
            self.mesh(finish, ring, [range(sides)])

    def lathe(self, finish: Any, at: Point, profile: Sequence[tuple[float, float]], sides: int = 24) -> None:
        """Add a solid of revolution about the vertical: ``profile`` lists (radius, height) upwards."""
        angles = np.linspace(0, 2 * math.pi, sides, endpoint=False)
        points = [
            (at[0] + radius * math.cos(angle), at[1] + radius * math.sin(angle), at[2] + height)
            for radius, height in profile
            for angle in angles
        ]
        self.mesh(finish, points, _bands(len(profile), sides), smooth=True)

    def extrude(self, finish: Any, outline: Sequence[tuple[float, float]], low: float, high: float) -> None:
        """Add a prism along y, from ``low`` to ``high``, whose outline is given as (x, z)."""
        sides = len(outline)
        points = [(x, y, z) for y in (low, high) for x, z in outline]
        caps = [range(sides), range(2 * sides - 1, sides - 1, -1)]
        self.mesh(finish, points, [*_bands(2, sides), *caps])

    def blob(self, finish: Any, at: Point, radii: Point, bumps: float = 0.25, seed: int = 0) -> None:
        """Add a lumpy ellipsoid: foliage, a bush, a stone; ``bumps`` is the size of its lumps."""
        rng = np.random.default_rng(seed)
        waves = rng.normal(0, 3.0, (6, 3))
        phases = rng.uniform(0, 2 * math.pi, 6)
        rings, sides = 9, 14
        tilt, around = np.meshgrid(
            np.linspace(0, math.pi, rings), np.linspace(0, 2 * math.pi, sides, endpoint=False), indexing="ij"
        )
        unit = np.stack([np.sin(tilt) * np.cos(around), np.sin(tilt) * np.sin(around), np.cos(tilt)], axis=-1)
        unit = unit.reshape(-1, 3)
        swell = 1 + bumps * np.sin(unit @ waves.T + phases).mean(axis=1) * 2
        points = np.array(at) + unit * swell[:, None] * np.array(radii)
        self.mesh(finish, points, _bands(rings, sides), smooth=True)

    # ---------------------------------------------------------------------------------------- light and sky

    def light(self, at: Point, power: float, size: Point, color: Color = (1, 1, 1), to: Point = ()) -> None:
        """Add a light of ``power`` W, shining down or ``to`` a point; the camera does not see it."""
        light = bpy.data.lights.new("lamp", "AREA")
        light.shape, light.energy, light.color = "RECTANGLE", power, color
        light.size, light.size_y = size
        made = bpy.data.objects.new("lamp", light)
        made.location = at
        made.visible_camera = made.visible_glossy = False
        if to:
            from mathutils import Vector

            made.rotation_euler = (Vector(to) - Vector(at)).to_track_quat("-Z", "Y").to_euler()
        self.collection.objects.link(made)

    def sky(self, color: Color, strength: float = 1.0) -> Any:
        """Add a sky of one colour; return its Background node, to link a texture to."""
        self._world = bpy.data.worlds.new(self.label)
        background = self._world.node_tree.nodes["Background"]
        background.inputs["Color"].default_value = (*color, 1.0)
        background.inputs["Strength"].default_value = strength
        return background

    def blocks(self) -> set[Any]:
        """Turn the solids into objects; return the collection and the world for the file of the scene."""
        for finish, (points, faces, smooth) in self._solids.items():
            mesh = bpy.data.meshes.new(finish.name)
            mesh.from_pydata(points, [], faces)
            mesh.polygons.foreach_set("use_smooth", smooth)
            mesh.materials.append(finish)
            self.collection.objects.link(bpy.data.objects.new(finish.name, mesh))
        self._solids.clear()
        return {self.collection} | ({self._world} if self._world else set())


def build_set(out: Path, label: str, make: Callable[[Scenery], None]) -> dict[str, Any]:
    """Model one scene below ``out``, and return its entry for the manifest."""
    scenery = Scenery(label)
    make(scenery)
    return save(out, "scenes", label, scenery.blocks(), {"modelled": True})


def _turned(offset: Any, degrees: float) -> Any:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y, z = offset
    return np.array([cosine * x - sine * y, sine * x + cosine * y, z])


def _bands(rings: int, sides: int) -> list[tuple[int, int, int, int]]:
    """List the faces between consecutive closed rings of points."""
    return [
        (r * sides + s, r * sides + (s + 1) % sides, (r + 1) * sides + (s + 1) % sides, (r + 1) * sides + s)
        for r in range(rings - 1)
        for s in range(sides)
    ]
