"""The modelled scene `indoor`."""

import math
from typing import Any

import numpy as np

from build_finishes import finish
from build_scenes import Scenery

WARM = (1.0, 0.74, 0.46)
DAY = (0.75, 0.87, 1.0)


def indoor(scenery: Scenery) -> None:
    """Build a living room that is larger than life: window, sofa, shelf, pictures, wooden floor."""
    white = finish("white", (0.75, 0.74, 0.7), stain=0.05, roughness=0.4)
    _room(scenery, white)
    _window(scenery, white)
    _sofa(scenery)
    _shelf(scenery)
    _pictures(scenery)
    _floor_lamp(scenery, (8.2, -11.6, 0))
    _potted_plant(scenery, (-3.9, -12.0, 0))
    scenery.light((-5.5, -9, 9), 750, (5, 5), DAY)
    scenery.light((5, -9, 9), 550, (5, 5), WARM)
    scenery.sky((1.0, 0.93, 0.82), 0.16)


def _room(scenery: Scenery, white: Any) -> None:
    """Add floor, walls and skirting."""
    floor = finish(
        "floor",
        (0.36, 0.19, 0.085),
        other=(0.24, 0.115, 0.045),
        grain=0.25,
        stretch=(7, 0.4, 1),
        tile=(6.0, 0.45),
        gap=0.02,
        gap_color=(0.06, 0.03, 0.015),
        bond=0.37,
        variation=0.4,
        roughness=0.4,
    )
    wall = finish("wall", (0.62, 0.52, 0.36), stain=0.08)
    side = finish("side wall", (0.6, 0.55, 0.46), stain=0.08)
    scenery.quad(floor, (-9.5, 12, 0), (9.5, 12, 0), (9.5, -13, 0), (-9.5, -13, 0))
    scenery.box(wall, (-9.5, -13.3, 0), (9.5, -13, 9))
    for x in (-9.8, 9.5):
        scenery.box(side, (x, -13, 0), (x + 0.3, -7.5, 9))
    scenery.box(white, (-9.5, -13.02, 0), (9.5, -12.88, 0.5))
    for x in (-9.5, 9.38):
        scenery.box(white, (x, -13, 0), (x + 0.12, -7.5, 0.5))


def _window(scenery: Scenery, white: Any) -> None:
    sky = finish("sky", (0.55, 0.75, 1.0), emission=1.6)
    haze = finish("haze", (0.85, 0.93, 1.0), emission=1.7)
    hedge = finish("hedge", (0.12, 0.25, 0.06), emission=0.9)
    curtain = finish("curtain", (0.55, 0.2, 0.1), other=(0.4, 0.13, 0.06), grain=0.12, stretch=(1, 1, 60))
    left, right, low, high = -8.6, -4.9, 2.0, 6.3
    scenery.quad(sky, *((x, -12.97, z) for x, z in ((left, 4.4), (right, 4.4), (right, high), (left, high))))
    scenery.quad(haze, *((x, -12.97, z) for x, z in ((left, 3.3), (right, 3.3), (right, 4.4), (left, 4.4))))
    scenery.quad(hedge, *((x, -12.97, z) for x, z in ((left, low), (right, low), (right, 3.3), (left, 3.3))))
    for x in (left, (left + right) / 2, right):
        scenery.box(white, (x - 0.12, -13, low), (x + 0.12, -12.8, high))
    for z in (low, 4.4, high):
        scenery.box(white, (left, -13, z - 0.1), (right, -12.8, z + 0.1))
    scenery.box(white, (left - 0.3, -13, low - 0.25), (right + 0.3, -12.5, low - 0.1))
    for middle in (left - 0.1, right + 0.35):
        xs = np.linspace(middle - 0.65, middle + 0.65, 40)
        ys = -12.55 + 0.1 * np.sin(xs * 17)
        points = [(x, y, z) for z in (0.4, 6.8) for x, y in zip(xs, ys, strict=True)]
        scenery.mesh(curtain, points, [(i, i + 1, i + 41, i + 40) for i in range(39)], smooth=True)
    rod = finish("rod", (0.1, 0.08, 0.07), roughness=0.4)
    scenery.tube(rod, [(left - 0.9, -12.55, 6.85), (right + 1.1, -12.55, 6.85)], 0.07)


def _sofa(scenery: Scenery) -> None:
    cloth = finish(
        "cloth", (0.1, 0.2, 0.24), other=(0.075, 0.16, 0.2), grain=0.08, stain=0.15, roughness=0.95
    )
    pillow = finish("pillow", (0.7, 0.45, 0.12), stain=0.1, roughness=0.95)
    wood = finish("legs", (0.15, 0.07, 0.03))
    x, y = 1.7, -11.9
    _cushion(scenery, cloth, (x - 2.9, y - 0.9, 0.35), (x + 2.9, y + 0.9, 0.95))
    _cushion(scenery, cloth, (x - 2.9, y - 0.95, 0.5), (x + 2.9, y - 0.35, 2.1))
    for left in (x - 3.3, x + 2.6):
        _cushion(scenery, cloth, (left, y - 0.95, 0.3), (left + 0.7, y + 0.95, 1.5))
    for left in (x - 2.6, x):
        _cushion(scenery, cloth, (left, y - 0.4, 0.95), (left + 2.6, y + 0.95, 1.3))
    scenery.blob(pillow, (x + 2.0, y - 0.15, 1.75), (0.6, 0.28, 0.55), bumps=0.1, seed=4)
    scenery.blob(pillow, (x - 2.0, y - 0.15, 1.75), (0.6, 0.28, 0.55), bumps=0.1, seed=5)
    for dx in (-2.9, 2.9):
        scenery.box(wood, (x + dx - 0.1, y + 0.6, 0), (x + dx + 0.1, y + 0.8, 0.35))


def _cushion(scenery: Scenery, cloth: Any, low: tuple, high: tuple) -> None:
    """Add a box with rounded edges."""
    middle, half = np.add(low, high) / 2, np.subtract(high, low) / 2
    steps = np.linspace(0, math.pi, 9)
    around = np.linspace(0, 2 * math.pi, 24, endpoint=False)
    tilt, turn = np.meshgrid(steps, around, indexing="ij")
    unit = np.stack([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt)], -1).reshape(
        -1, 3
    )
    radius = min(0.18, half.min())
    points = middle + np.sign(unit.round(6)) * (half - radius) + unit * radius
    faces = [
        (24 * r + s, 24 * r + (s + 1) % 24, 24 * r + 24 + (s + 1) % 24, 24 * r + 24 + s)
        for r in range(8)
        for s in range(24)
    ]
    scenery.mesh(cloth, points, faces, smooth=True)


def _shelf(scenery: Scenery) -> None:
    wood = finish("shelf", (0.2, 0.1, 0.045), other=(0.14, 0.065, 0.03), grain=0.1, stretch=(9, 1, 1))
    covers = [
        finish(f"book {i}", color, stain=0.1)
        for i, color in enumerate(
            [(0.4, 0.05, 0.04), (0.05, 0.12, 0.3), (0.55, 0.45, 0.25), (0.06, 0.2, 0.1)]
        )
    ]
    left, right, back, front = 5.4, 7.4, -13.0, -12.1
    rng = np.random.default_rng(1)
    for x in (left, right):
        scenery.box(wood, (x - 0.06, back, 0), (x + 0.06, front, 5.2))
    for z in (0.15, 1.35, 2.55, 3.75, 5.15):
        scenery.box(wood, (left, back, z - 0.06), (right, front, z + 0.06))
        x = left + 0.1
        while z < 5 and x < right - 0.35:
            width, height = rng.uniform(0.1, 0.22), rng.uniform(0.6, 0.98)
            if rng.random() < 0.85:
                cover = covers[int(rng.integers(4))]
                scenery.box(cover, (x, back + 0.2, z + 0.06), (x + width, front - 0.15, z + 0.06 + height))
            x += width + 0.012


def _pictures(scenery: Scenery) -> None:
    frame = finish("picture frame", (0.06, 0.045, 0.035), roughness=0.4)
    mat = finish("passe-partout", (0.75, 0.73, 0.68), stain=0.0)
    for x, z, width, height, colors in (
        (0.3, 4.2, 1.1, 0.75, ((0.1, 0.25, 0.45), (0.6, 0.35, 0.15))),
        (3.1, 4.35, 0.65, 0.9, ((0.5, 0.12, 0.07), (0.7, 0.6, 0.35))),
    ):
        scenery.box(frame, (x - width, -13, z - height), (x + width, -12.88, z + height))
        scenery.box(
            mat, (x - width + 0.1, -13, z - height + 0.1), (x + width - 0.1, -12.86, z + height - 0.1)
        )
        paint = finish("painting", colors[0], other=colors[1], grain=0.5, stretch=(2, 1, 0.7), stain=0.3)
        scenery.box(
            paint, (x - width + 0.3, -13, z - height + 0.3), (x + width - 0.3, -12.84, z + height - 0.3)
        )


def _floor_lamp(scenery: Scenery, at: tuple[float, float, float]) -> None:
    brass = finish("brass", (0.5, 0.33, 0.12), metallic=1.0, roughness=0.35, stain=0.0)
    shade = finish("lamp shade", (1.0, 0.72, 0.42), emission=1.5)
    scenery.lathe(brass, at, [(0.0, 0.08), (0.55, 0.08), (0.55, 0.0)])
    scenery.tube(brass, [at, (at[0], at[1], 3.4)], 0.06)
    scenery.lathe(shade, (at[0], at[1], 3.3), [(0.75, 0.0), (0.5, 1.0)])
    scenery.light((at[0] - 0.3, at[1] + 0.3, 3.0), 60, (0.8, 0.8), WARM)


def _potted_plant(scenery: Scenery, at: tuple[float, float, float]) -> None:
    pot = finish("pot", (0.5, 0.22, 0.12), stain=0.3, stain_size=0.5)
    leaf = finish("leaf", (0.05, 0.16, 0.035), other=(0.09, 0.24, 0.05), grain=0.3, roughness=0.45)
    scenery.lathe(pot, at, [(0.35, 0), (0.5, 0.9), (0.42, 0.9), (0.4, 0.8), (0.0, 0.8)])
    rng = np.random.default_rng(7)
    for i in range(34):
        turn, lift = i * 2.4, rng.uniform(0.7, 2.3)
        reach, rise = rng.uniform(0.5, 1.05), rng.uniform(0.3, 1.0)
        out = np.array([math.cos(turn), math.sin(turn), 0.0])
        across = np.array([-math.sin(turn), math.cos(turn), 0.0]) * rng.uniform(0.12, 0.2)
        foot = np.add(at, (0, 0, lift))
        spine = [foot, foot + out * reach * 0.5 + (0, 0, rise), foot + out * reach + (0, 0, rise * 0.75)]
        points = [spine[0], spine[1] + across, spine[2], spine[1] - across]
        scenery.mesh(leaf, points, [(0, 1, 3), (1, 2, 3)])
    scenery.tube(leaf, [(*at[:2], 0.8), (*at[:2], 2.6)], 0.05, 6)
