"""The modelled scene `hall`."""

import math
from typing import Any

import numpy as np

from build_finishes import finish
from build_scenes import Scenery

DAY = (0.75, 0.87, 1.0)


def hall(scenery: Scenery) -> None:
    """Build a columned hall: polished chequered floor, two rows of columns, tall windows."""
    stone = finish("stone", (0.56, 0.49, 0.38), other=(0.5, 0.42, 0.32), grain=0.8, stain=0.2)
    blocks = finish(
        "blocks",
        (0.5, 0.42, 0.31),
        tile=(2.4, 1.0),
        gap=0.04,
        gap_color=(0.3, 0.25, 0.18),
        bond=0.5,
        variation=0.12,
        wall=True,
        stain=0.25,
    )
    _floor(scenery)
    for y in range(-33, -2, 6):
        for x in (-7.0, 7.0):
            _column(scenery, stone, x, float(y))
    for x in (-7.0, 7.0):
        scenery.box(stone, (x - 0.9, -36, 9.6), (x + 0.9, -3, 11.2))
    scenery.box(blocks, (-13.5, -36.5, 0), (13.5, -36, 16))
    for x in (-14.0, 13.5):
        scenery.box(blocks, (x, -36, 0), (x + 0.5, -5, 16))
    _hall_windows(scenery, stone)
    _chandelier(scenery, (0.0, -14.0, 5.9))
    _chandelier(scenery, (0.0, -24.0, 7.4))
    scenery.light((0, -20, 15), 4200, (12, 24), (1.0, 0.8, 0.55))
    for x in (-10.2, 10.2):
        scenery.light((x, -20, 12), 750, (2, 28), DAY)
    scenery.sky((1.0, 0.9, 0.75), 0.16)


def _floor(scenery: Scenery) -> None:
    pale = finish(
        "pale stone", (0.5, 0.44, 0.34), other=(0.42, 0.36, 0.27), grain=0.5, stain=0.2, roughness=0.25
    )
    dark = finish(
        "dark stone", (0.12, 0.09, 0.07), other=(0.17, 0.13, 0.1), grain=0.5, stain=0.2, roughness=0.25
    )
    size = 1.5
    for i in range(-9, 9):
        for j in range(-24, 7):
            x, y = i * size, j * size
            corners = ((x, y, 0), (x + size, y, 0), (x + size, y + size, 0), (x, y + size, 0))
            scenery.quad((pale, dark)[(i + j) % 2], *corners)


def _column(scenery: Scenery, stone: Any, x: float, y: float) -> None:
    scenery.box(stone, (x - 0.95, y - 0.95, 0), (x + 0.95, y + 0.95, 0.5))
    profile = [
        (0.9, 0.5),
        (0.9, 0.7),
        (0.7, 0.85),
        (0.68, 1.0),
        (0.66, 4.0),
        (0.56, 8.7),
        (0.6, 8.8),
        (0.85, 9.2),
    ]
    scenery.lathe(stone, (x, y, 0), profile)
    scenery.box(stone, (x - 0.95, y - 0.95, 9.2), (x + 0.95, y + 0.95, 9.6))


def _hall_windows(scenery: Scenery, stone: Any) -> None:
    light = finish("window", (0.72, 0.86, 1.0), emission=2.0)
    lead = finish("lead", (0.06, 0.055, 0.05))
    for y in range(-30, -5, 6):
        for wall, way in ((-13.45, 1), (13.45, -1)):
            arch = [(y + 1.3 * math.cos(a), 7.2 + 1.3 * math.sin(a)) for a in np.linspace(0, math.pi, 13)]
            outline = [(y + 1.3, 2.2), *arch, (y - 1.3, 2.2)]
            scenery.quad(light, *((wall, u, z) for u, z in outline))
            scenery.box(stone, (wall, y - 1.6, 1.9), (wall + way * 0.3, y + 1.6, 2.2))
            for u in (-1.3, -0.43, 0.43, 1.3):
                scenery.box(lead, (wall, y + u - 0.06, 2.2), (wall + way * 0.1, y + u + 0.06, 7.3))
            for z in (3.5, 4.8, 6.1, 7.2):
                scenery.box(lead, (wall, y - 1.3, z - 0.05), (wall + way * 0.1, y + 1.3, z + 0.05))
    # The great window and the dais at the far end.
    arch = [(3.2 * math.cos(a), 6.2 + 3.2 * math.sin(a)) for a in np.linspace(0, math.pi, 25)]
    scenery.quad(light, *((x, -35.95, z) for x, z in [(3.2, 2.6), *arch, (-3.2, 2.6)]))
    for x in np.linspace(-3.2, 3.2, 7):
        scenery.box(lead, (x - 0.07, -35.95, 2.6), (x + 0.07, -35.8, 6.2 + math.sqrt(max(3.2**2 - x * x, 0))))
    for z in (2.6, 4.4, 6.2):
        scenery.box(lead, (-3.2, -35.95, z - 0.07), (3.2, -35.8, z + 0.07))
    for i in range(3):
        scenery.box(stone, (-6 + i * 0.7, -36, 0.35 * i), (6 - i * 0.7, -31 - i, 0.35 * (i + 1)))


def _chandelier(scenery: Scenery, at: tuple[float, float, float]) -> None:
    iron = finish("iron", (0.05, 0.04, 0.03), roughness=0.5)
    flame = finish("flame", (1.0, 0.75, 0.4), emission=6.0)
    x, y, z = at
    ring = [(x + 1.3 * math.cos(a), y + 1.3 * math.sin(a), z) for a in np.linspace(0, 2 * math.pi, 25)]
    scenery.tube(iron, ring, 0.07, 8)
    for i in range(8):
        px, py, _ = ring[3 * i]
        scenery.tube(iron, [(px, py, z), (x, y, z + 2.2)], 0.025, 5)
        scenery.blob(flame, (px, py, z + 0.28), (0.11, 0.11, 0.22), bumps=0.0)
    scenery.tube(iron, [(x, y, z + 2.2), (x, y, 16)], 0.04, 6)
