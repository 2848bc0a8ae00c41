"""The modelled scene `station`."""

import math
from typing import Any

from build_finishes import finish
from build_scenes import Scenery

END = -60.0  # m; y of the platform's end


def station(scenery: Scenery) -> None:
    """Build an underground station: platform, yellow lines, tracks to both sides, a train, tiles, signs."""
    tiles = finish(
        "tiles",
        (0.68, 0.69, 0.64),
        tile=(0.6, 0.3),
        gap=0.02,
        gap_color=(0.3, 0.3, 0.28),
        bond=0.5,
        wall=True,
        variation=0.12,
        stain=0.15,
        roughness=0.2,
    )
    band = finish("tile band", (0.03, 0.16, 0.13), tile=(0.6, 0.3), gap=0.02, wall=True, roughness=0.2)
    ceiling = finish("ceiling", (0.42, 0.41, 0.38), stain=0.25, tile=(2.0, 2.0), gap=0.04)
    dark = finish("dark", (0.02, 0.02, 0.02), stain=0.0)
    _ground(scenery)
    for wall in (-9.5, 9.5):
        scenery.box(tiles, (wall - 0.1, END, -1.2), (wall + 0.1, 12, 6))
        scenery.box(band, (wall - 0.12, END, 3.1), (wall + 0.12, 12, 3.9))
        _track(scenery, math.copysign(1.0, wall))
    scenery.box(ceiling, (-9.5, END, 5.6), (9.5, -7.2, 5.9))
    scenery.box(dark, (-9.5, END - 1, -1.2), (9.5, END, 6))
    _platform(scenery, tiles, band)
    _train(scenery)
    _station_light(scenery)
    scenery.sky((0.9, 0.95, 1.0), 0.16)


def _ground(scenery: Scenery) -> None:
    """Add the floor of the platform: slabs, and along each edge a yellow strip and a pale one."""
    slabs = finish(
        "slabs",
        (0.36, 0.345, 0.32),
        other=(0.31, 0.3, 0.275),
        grain=0.05,
        tile=(0.9, 0.9),
        gap=0.02,
        gap_color=(0.15, 0.14, 0.13),
        variation=0.12,
        stain=0.25,
        roughness=0.35,
    )
    yellow = finish(
        "tactile paving",
        (0.72, 0.47, 0.03),
        tile=(0.4, 0.4),
        gap=0.05,
        gap_color=(0.45, 0.28, 0.02),
        stain=0.25,
    )
    edge = finish("edge", (0.62, 0.61, 0.57), stain=0.3)
    _flat(scenery, slabs, -4.3, 4.3, 0.0)
    for side in (-1.0, 1.0):
        _flat(scenery, yellow, side * 4.3, side * 4.7, 0.0)
        _flat(scenery, edge, side * 4.7, side * 5.2, 0.0)
        x = side * 5.2
        scenery.quad(edge, (x, 12, 0), (x, END, 0), (x, END, -0.25), (x, 12, -0.25))


def _track(scenery: Scenery, side: float) -> None:
    ballast = finish("ballast", (0.1, 0.09, 0.085), other=(0.2, 0.18, 0.165), grain=0.12, stain=0.3)
    steel = finish("rail", (0.45, 0.42, 0.4), metallic=0.9, roughness=0.35, stain=0.3)
    _flat(scenery, ballast, side * 5.0, side * 10.0, -1.2)
    for rail in (side * 6.0, side * 7.5):
        scenery.box(steel, (rail - 0.05, END, -1.2), (rail + 0.05, 12, -1.02))


def _flat(scenery: Scenery, paint: Any, a: float, b: float, z: float) -> None:
    scenery.quad(paint, (a, 12, z), (b, 12, z), (b, END, z), (a, END, z))


def _platform(scenery: Scenery, tiles: Any, band: Any) -> None:
    """Add pillars and benches on the platform, and a board above it."""
    wood = finish("bench", (0.32, 0.16, 0.06), other=(0.22, 0.1, 0.04), grain=0.1, stretch=(1, 6, 1))
    iron = finish("iron", (0.05, 0.05, 0.055), roughness=0.4)
    board = finish("board", (0.02, 0.05, 0.22), emission=1.2)
    text = finish("text", (1.0, 0.75, 0.2), emission=2.5)
    for y in (-10.0, -17.0, -24.0, -31.0, -38.0, -45.0):
        for x in (-3.0, 3.0):
            scenery.box(tiles, (x - 0.42, y - 0.42, 0), (x + 0.42, y + 0.42, 5.6))
            scenery.box(band, (x - 0.44, y - 0.44, 1.3), (x + 0.44, y + 0.44, 1.6))
    for y in (-13.5, -20.5, -27.5):
        for x in (-2.9, 2.9):
            for k in range(3):
                scenery.box(wood, (x - 0.3 + 0.22 * k, y - 1.1, 0.5), (x - 0.12 + 0.22 * k, y + 1.1, 0.56))
            for k in range(2):
                back = x + math.copysign(0.34, x)
                scenery.box(
                    wood, (back - 0.03, y - 1.1, 0.72 + 0.25 * k), (back + 0.03, y + 1.1, 0.9 + 0.25 * k)
                )
            for end in (-0.8, 0.8):
                scenery.box(iron, (x - 0.28, y + end - 0.05, 0), (x + 0.28, y + end + 0.05, 0.5))
    for y in (-12.5, -28.0):
        scenery.box(board, (-1.9, y - 0.12, 3.7), (1.9, y, 4.6))
        for z, width in ((4.25, 1.4), (3.9, 1.0)):
            for i in range(int(width * 8)):
                scenery.box(
                    text,
                    (1.6 - 0.28 * i, y, z),
                    (1.6 - 0.28 * i + (0.2, 0.12)[i % 3 == 1], y + 0.02, z + 0.2),
                )
        for x in (-1.6, 1.6):
            scenery.tube(iron, [(x, y - 0.06, 4.6), (x, y - 0.06, 5.6)], 0.04, 6)


def _train(scenery: Scenery) -> None:
    """Add a train at the left track, its doors and lit windows towards the platform."""
    silver = finish("carriage", (0.5, 0.52, 0.54), metallic=0.3, roughness=0.35, stain=0.12)
    stripe = finish("carriage stripe", (0.5, 0.04, 0.03), roughness=0.35)
    dark = finish("gaps", (0.03, 0.03, 0.035), stain=0.0)
    pane = finish("lit pane", (1.0, 0.93, 0.78), emission=1.3)
    for start in (-10.5, -27.0, -43.5):
        outline = [(5.5, -0.4), (5.4, 0.2), (5.4, 2.7), (5.8, 3.3), (7.8, 3.3), (8.2, 2.7), (8.2, -0.4)]
        scenery.extrude(silver, outline, start - 16, start)
        scenery.box(stripe, (5.38, start - 16, 0.35), (5.41, start, 0.75))
        scenery.box(dark, (5.6, start - 16.5, -0.3), (8.0, start, 3.1))
        for i in range(4):
            door = start - 2.2 - 3.9 * i
            scenery.box(dark, (5.36, door - 0.78, 0.0), (5.42, door + 0.78, 2.35))
            for leaf in (-0.74, 0.03):
                scenery.box(stripe, (5.34, door + leaf, 0.05), (5.42, door + leaf + 0.71, 2.3))
                scenery.box(pane, (5.32, door + leaf + 0.15, 1.1), (5.42, door + leaf + 0.56, 2.1))
            if i < 3:
                scenery.box(pane, (5.36, door - 2.95, 1.15), (5.42, door - 1.0, 2.15))
    face = [(5.5, 1.3), (5.75, 2.7), (7.85, 2.7), (8.1, 1.3)]
    scenery.quad(
        finish("windscreen", (0.02, 0.025, 0.03), roughness=0.08), *((x, -10.48, z) for x, z in face)
    )
    for x in (5.9, 7.7):
        scenery.blob(
            finish("train lamp", (1.0, 0.95, 0.85), emission=7.0),
            (x, -10.45, 0.6),
            (0.18, 0.05, 0.18),
            bumps=0,
        )


def _station_light(scenery: Scenery) -> None:
    strip = finish("strip light", (0.93, 0.97, 1.0), emission=5.0)
    for x in (-3.9, 3.9):
        for y in range(-58, -7, 5):
            scenery.box(strip, (x - 0.14, y, 5.4), (x + 0.14, y + 4.2, 5.5))
    for y in range(-50, -7, 7):
        scenery.light((0, y, 5.5), 280, (14, 2.5), (0.93, 0.97, 1.0))
