"""The modelled scene `bridge`."""

import itertools
import math
from typing import Any

import numpy as np

from build_finishes import Point, finish
from build_landscape import broadleaf, bumpy, hazy, leaves, level, plant, ridge, sky, sun
from build_scenes import Scenery
from build_town import roof, windows

AIR = (0.85, 0.98, 1.15)
LENGTH = 92.0
HALF = 5.3  # half the deck's width
TOP = 6.0  # of the trusses
BAY = 5.4


def bridge(scenery: Scenery) -> None:
    """Build a plank deck between two steel trusses over a river, in late light."""
    sky(scenery, (0.15, 0.33, 0.8), (0.72, 0.80, 0.90), (1.15, 1.02, 0.9), 0.55, 1.65)
    sun(scenery, (0.05, 0.8, 0.4), (1.0, 0.78, 0.54), 2.8)
    _deck(scenery)
    _trusses(scenery)
    _railings(scenery)
    _river(scenery)
    _bank(scenery)
    _village(scenery)


def _deck(scenery: Scenery) -> None:
    planks = finish(
        "planks",
        (0.46, 0.34, 0.235),
        other=(0.35, 0.25, 0.17),
        grain=0.05,
        stretch=(14, 1, 1),
        tile=(3.6, 0.22),
        gap=0.022,
        gap_color=(0.03, 0.025, 0.02),
        bond=0.37,
        variation=0.45,
        stain=0.3,
        stain_size=2.5,
        roughness=0.65,
    )
    bumpy(planks, 0.05, 0.012, (8, 1, 1))
    scenery.box(planks, (-HALF, -LENGTH, -0.25), (HALF, 12, 0.0))


def _trusses(scenery: Scenery) -> None:
    green, pale = (0.10, 0.20, 0.19), (0.14, 0.25, 0.23)
    steel = finish("steel", green, other=pale, grain=0.8, stain=0.35, stain_size=0.7, roughness=0.5)
    rust = finish("plates", (0.16, 0.13, 0.11), other=(0.10, 0.17, 0.16), grain=0.1, stain=0.3, roughness=0.6)
    joints = [7.6 - BAY * i for i in range(int((LENGTH + 6) / BAY) + 1)]
    for x in (-HALF - 0.35, HALF + 0.35):
        scenery.box(steel, (x - 0.16, joints[-1], -0.5), (x + 0.16, joints[0], 0.05))
        scenery.box(steel, (x - 0.2, joints[-1], TOP - 0.36), (x + 0.2, joints[0], TOP))
        for y in joints:
            scenery.box(steel, (x - 0.13, y - 0.16, 0), (x + 0.13, y + 0.16, TOP))
            scenery.box(rust, (x - 0.22, y - 0.5, TOP - 0.6), (x + 0.22, y + 0.5, TOP - 0.05))
            scenery.box(rust, (x - 0.2, y - 0.5, -0.1), (x + 0.2, y + 0.5, 0.5))
        for i, (y, beyond) in enumerate(itertools.pairwise(joints)):
            low, high = ((0.1, TOP - 0.2), (TOP - 0.2, 0.1))[i % 2]
            _bar(scenery, steel, (x, y, low), (x, beyond, high), 0.13)
    # Overhead bars begin behind the objects, because they must not shade CANDLE's lights.
    for y, beyond in itertools.pairwise(joints[4:]):
        scenery.box(steel, (-HALF, y - 0.15, TOP - 0.4), (HALF, y + 0.15, TOP))
        for side in (-HALF, HALF):
            _bar(scenery, steel, (side, y, TOP - 0.15), (-side, beyond, TOP - 0.15), 0.07)
    for side in (-1, 1):
        knee = (side * (HALF - 1.8), joints[4], TOP - 0.3)
        _bar(scenery, steel, (side * HALF, joints[4], TOP - 2.0), knee, 0.1)


def _bar(scenery: Scenery, paint: Any, start: Point, end: Point, half: float) -> None:
    """Add a square bar between two points."""
    scenery.tube(paint, [start, end], half * math.sqrt(2), sides=4)


def _railings(scenery: Scenery) -> None:
    rail = finish("railing", (0.08, 0.16, 0.155), stain=0.2, roughness=0.45)
    brown, dark = (0.26, 0.18, 0.12), (0.18, 0.12, 0.08)
    beam = finish("kerb beam", brown, other=dark, grain=0.05, stretch=(1, 20, 1), stain=0.3)
    for x in (0.15 - HALF, HALF - 0.15):
        scenery.box(beam, (x - 0.14, -LENGTH, 0), (x + 0.14, 12, 0.2))
        for y in np.arange(8.0, -LENGTH, -1.8):
            scenery.box(rail, (x - 0.035, y - 0.035, 0), (x + 0.035, y + 0.035, 1.15))
        for z, radius in ((1.15, 0.05), (0.9, 0.02), (0.68, 0.02), (0.46, 0.02)):
            scenery.tube(rail, [(x, 9, z), (x, -LENGTH, z)], radius, 6)


def _far(name: str, *args: Any, **kwargs: Any) -> Any:
    """Make a finish of the far bank, with haze."""
    return hazy(finish(name, *args, **kwargs), AIR, 1300.0)


def _river(scenery: Scenery) -> None:
    deep, green = (0.02, 0.075, 0.085), (0.03, 0.1, 0.1)
    water = _far("water", deep, other=green, grain=6.0, stretch=(4, 1, 1), stain=0.0, roughness=0.1)
    level(scenery, bumpy(water, 1.6, 0.4, (2.5, 1, 1)), (-700, -160), (700, 40), -7.0)
    stone = finish("piers", (0.35, 0.32, 0.28), tile=(1.2, 0.6), bond=0.5, wall=True, stain=0.4)
    for y in (-40, -85):
        scenery.box(stone, (-6.4, y - 1.2, -9), (6.4, y + 1.2, -0.6))


def _bank(scenery: Scenery) -> None:
    """Add the far bank: a quay, a meadow with trees, hills behind."""
    quay = _far("quay", (0.33, 0.29, 0.24), tile=(2.5, 1.0), bond=0.5, wall=True, stain=0.4)
    scenery.box(quay, (-400, -110, -8), (400, -LENGTH - 2, -4.2))
    green, dry = (0.10, 0.15, 0.04), (0.17, 0.19, 0.06)
    meadow = _far("meadow", green, other=dry, grain=6, stain=0.3, stain_size=20)
    near, far = (-LENGTH - 2.5, -4.1), (-420, 8)
    scenery.quad(meadow, (-500, *far), (500, *far), (500, *near), (-500, *near))
    road = _far("road", (0.25, 0.23, 0.2), stain=0.3)
    scenery.quad(road, (-4, -260, 4), (4, -260, 4), (5.5, -LENGTH, 0.0), (-5.5, -LENGTH, 0.0))
    hills = _far("hills", (0.07, 0.11, 0.04), other=(0.12, 0.15, 0.05), grain=15, stain=0.3, stain_size=60)
    ridge(scenery, hills, -480, 1200, 0, (30, 52, 60, 42, 30, 22, 26, 40, 56, 50, 34))
    ridge(scenery, hills, -900, 2400, 0, (60, 80, 120, 100, 70, 60, 75, 62, 85, 110, 90, 70))
    rng = np.random.default_rng(3)
    foliage = hazy(leaves("leaves", (0.035, 0.075, 0.012), (0.16, 0.19, 0.035)), AIR, 1300.0)
    bark = _far("bark", (0.1, 0.07, 0.05), stain=0.0)
    trees = [
        broadleaf(foliage, bark, seed=seed, height=5.5, crown=(3.6, 3.6, 3.6), leaf=0.8, count=700)
        for seed in (5, 6)
    ]
    for i in range(46):
        x, back = rng.uniform(8, 110) * (-1) ** i, 8 + 50 * rng.random() ** 1.5
        at = (x, -LENGTH - back, 0.037 * back - 4.1)
        plant(scenery, trees[i % 2], at, 0.8 + 0.7 * rng.random(), 360 * rng.random())


def _village(scenery: Scenery) -> None:
    glass = _far("panes", (0.03, 0.035, 0.04), stain=0.0, roughness=0.1)
    frame = _far("frames", (0.6, 0.57, 0.52), stain=0.0)
    tiles = _far("tiles", (0.22, 0.08, 0.05), stain=0.3)
    colors = [(0.62, 0.55, 0.42), (0.66, 0.6, 0.55), (0.55, 0.42, 0.32), (0.6, 0.58, 0.5)]
    walls = [_far(f"wall {i}", color, stain=0.2) for i, color in enumerate(colors)]
    places = ((-62, 5), (-46, 7), (-31, 5.5), (-17, 6), (17, 5), (29, 7), (43, 5.5), (60, 6.5), (78, 5))
    for i, (x, top) in enumerate(places):
        half, front, base = 4.5 + i % 2, -LENGTH - 22 - 9 * (i % 3), -4.0
        scenery.box(walls[i % 4], (x - half, front - 6, base), (x + half, front, top - 2))
        eaves = [(x + side * (half + 0.4), front + 0.5, top - 2.2) for side in (1, -1)]
        roof(scenery, tiles, (eaves[0], eaves[1]), 3.5, 3.7)
        wall = ((x + half, front, base), (x - half, front, base))
        windows(scenery, wall, (1.2, 4.2), 4, (1.1, 1.5), glass, frame)
    scenery.box(_far("steeple", (0.5, 0.45, 0.38), stain=0.2), (34, -150, 0), (39, -145, 19))
    eaves = [(x, y, 19) for x, y in ((33.7, -150.3), (39.3, -150.3), (39.3, -144.7), (33.7, -144.7))]
    scenery.mesh(tiles, [*eaves, (36.5, -147.5, 31)], [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)])
