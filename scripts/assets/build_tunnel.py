"""The modelled scene `tunnel`."""

import math
from typing import Any

import numpy as np

from build_finishes import finish
from build_scenes import Scenery

RADIUS, SPRING = 8.2, 0.3  # m; radius of the vault, and height of its centre


def tunnel(scenery: Scenery) -> None:
    """Build a road tunnel that bends: vault of concrete rings, rows of lights, road, kerbs, cable trays."""
    way = _Bend()
    _road(scenery, way)
    _vault(scenery, way)
    _lights(scenery, way)
    _tunnel_signs(scenery, way)
    scenery.sky((1.0, 0.8, 0.6), 0.06)


def _road(scenery: Scenery, way: "_Bend") -> None:
    asphalt = finish(
        "asphalt", (0.1, 0.1, 0.1), other=(0.15, 0.148, 0.145), grain=0.12, stain=0.3, stain_size=2.5
    )
    paint = finish("road paint", (0.75, 0.74, 0.7), stain=0.35, stain_size=0.5)
    kerb = finish("kerb", (0.36, 0.35, 0.33), tile=(1.5, 5.0), gap=0.05, stain=0.35)
    stations = np.arange(12.0, -82.0, -2.0)
    way.strip(scenery, asphalt, stations, [(-6.2, 0.0), (6.2, 0.0)])
    for x in (-6.2, 6.2):
        way.strip(scenery, kerb, stations, [(x, 0.0), (x, 0.3), (x * 1.3, 0.3)])
    for edge in (-5.7, 5.7):
        way.strip(scenery, paint, stations, [(edge - 0.08, 0.004), (edge + 0.08, 0.004)])
    for start in range(-80, 12, 8):
        way.strip(scenery, paint, np.linspace(start + 4, start, 5), [(-0.09, 0.004), (0.09, 0.004)])


def _vault(scenery: Scenery, way: "_Bend") -> None:
    lining = finish(
        "lining", (0.4, 0.36, 0.29), other=(0.33, 0.29, 0.23), grain=1.2, stain=0.45, stain_size=2.5
    )
    panel = finish("panels", (0.66, 0.66, 0.62), stain=0.35, stain_size=1.2, roughness=0.35)
    rib = finish("ribs", (0.2, 0.18, 0.15), stain=0.3)
    tray = finish("cable tray", (0.12, 0.12, 0.12), metallic=0.5)
    stations = np.arange(-6.0, -82.0, -2.0)
    way.strip(scenery, lining, stations, _arc(RADIUS, 24, 156, 25))
    for side in (-1, 1):
        way.strip(scenery, panel, stations, [(side * x, z) for x, z in _arc(RADIUS, 0, 24, 5)])
        way.strip(scenery, tray, stations, [(side * 6.9, 4.7), (side * 6.5, 4.7), (side * 6.5, 4.85)])
    for s in np.arange(-7.5, -80, -6.0):
        scenery.tube(rib, [way.at(x, s, z) for x, z in _arc(RADIUS - 0.1, 0, 180, 33)], 0.14, 6)


def _arc(radius: float, start: float, end: float, count: int) -> list[tuple[float, float]]:
    """Return points (x, z) of the vault's outline, from one angle in degrees to another."""
    angles = np.radians(np.linspace(start, end, count))
    return [(radius * math.cos(angle), SPRING + radius * math.sin(angle)) for angle in angles]


def _lights(scenery: Scenery, way: "_Bend") -> None:
    sodium = finish("sodium lamp", (1.0, 0.62, 0.22), emission=9.0)
    for s in np.arange(-9.0, -80, -5.0):
        for x in (-3.6, 3.6):
            scenery.box(sodium, way.at(x - 0.22, s + 0.7, 6.6), way.at(x + 0.22, s - 0.7, 6.75))
        if s > -60:
            scenery.light(way.at(0, s, 6.4), 360, (7.5, 1.4), (1.0, 0.66, 0.3))


class _Bend:
    """A road that runs straight under the objects and bends to the left behind them."""

    def at(self, x: float, s: float, z: float) -> tuple[float, float, float]:
        """Return the point at ``x`` beside the middle of the road, ``s`` along it, at height ``z``."""
        turn = max(0.0, -6.0 - s) / 75.0
        if turn == 0.0:
            return x, s, z
        return 75.0 - (75.0 - x) * math.cos(turn), -6.0 - (75.0 - x) * math.sin(turn), z

    def strip(
        self, scenery: Scenery, finish_: Any, stations: Any, outline: list[tuple[float, float]]
    ) -> None:
        """Add the surface that an outline of (x, z) sweeps along the road."""
        points = [self.at(x, float(s), z) for s in stations for x, z in outline]
        count = len(outline)
        faces = [
            (r * count + i, r * count + i + 1, (r + 1) * count + i + 1, (r + 1) * count + i)
            for r in range(len(points) // count - 1)
            for i in range(count - 1)
        ]
        scenery.mesh(finish_, points, faces, smooth=count > 4)


def _tunnel_signs(scenery: Scenery, way: _Bend) -> None:
    green = finish("escape sign", (0.05, 0.75, 0.25), emission=1.4)
    white = finish("escape figure", (1, 1, 1), emission=1.8)
    niche = finish("niche", (0.5, 0.3, 0.04), stain=0.3)
    for s in (-14.0, -34.0):
        x, y, _ = way.at(-7.75, s, 0)
        scenery.box(niche, (x - 0.2, y - 0.7, 0.3), (x + 0.25, y + 0.7, 2.6))
        scenery.box(green, (x - 0.2, y - 0.6, 2.9), (x + 0.3, y + 0.6, 3.5))
        scenery.box(white, (x + 0.3, y - 0.15, 3.0), (x + 0.32, y + 0.15, 3.4))
