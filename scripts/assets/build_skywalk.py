"""The modelled scene `skywalk`."""

import itertools
import math
from typing import Any

import numpy as np

from build_finishes import Color, finish
from build_landscape import hazy, level, shader_of, sky, sun
from build_scenes import Scenery

AIR = (0.75, 0.95, 1.2)
EDGE = 5.6  # half the floor's width
SPAN, CROWN = 6.4, 8.6  # half the width and the height of the glass hull
END = -62.0


def skywalk(scenery: Scenery) -> None:
    """Build a glazed bridge high between towers: a polished floor, white ribs, the city outside."""
    sky(scenery, (0.12, 0.32, 0.85), (0.62, 0.78, 0.98), (1.15, 1.1, 1.05), 0.5, 1.55)
    sun(scenery, (0.4, 0.7, 0.6), (1.0, 0.88, 0.7), 2.1)
    _floor(scenery)
    _hull(scenery)
    _rails(scenery)
    _arrival(scenery)
    _city(scenery)


def _floor(scenery: Scenery) -> None:
    stone = finish(
        "floor",
        (0.40, 0.40, 0.40),
        other=(0.34, 0.345, 0.35),
        grain=0.25,
        tile=(1.2, 1.2),
        gap=0.014,
        gap_color=(0.16, 0.16, 0.16),
        variation=0.12,
        stain=0.12,
        stain_size=3.0,
        roughness=0.3,
    )
    shader_of(stone).inputs[
        "Specular IOR Level"
    ].default_value = 0.3  # keeps reflections of the lights below overexposure
    grey, joint = (0.07, 0.075, 0.08), (0.16, 0.16, 0.16)
    dark = finish("dark strip", grey, tile=(0.6, 1.2), gap=0.012, gap_color=joint, stain=0.1, roughness=0.25)
    glow = finish("light strip", (0.75, 0.92, 1.0), emission=2.2)
    steel = finish("floor edge", (0.3, 0.32, 0.34), stain=0.1, metallic=0.8, roughness=0.35)
    level(scenery, stone, (-4.2, END), (4.2, 12))
    for side in (-1, 1):
        for paint, a, b in ((dark, 4.2, 4.8), (glow, 4.8, 4.88), (stone, 4.88, EDGE)):
            low, high = sorted((side * a, side * b))
            level(scenery, paint, (low, END), (high, 12))
        low, high = sorted((side * EDGE, side * (SPAN + 0.1)))
        scenery.box(steel, (low, END, -0.5), (high, 12, 0.12))


def _hull(scenery: Scenery) -> None:
    white = finish("ribs", (0.74, 0.75, 0.76), stain=0.06, roughness=0.4)
    thin = finish("mullions", (0.42, 0.45, 0.48), stain=0.0, roughness=0.35)
    outline = [_arch(angle) for angle in np.linspace(0, math.pi, 33)]
    inner = [(0.945 * x, 0.96 * z) for x, z in outline]
    for y in np.arange(6.0, END, -4.0):
        for (a, b), (c, d) in zip(itertools.pairwise(outline), itertools.pairwise(inner), strict=True):
            scenery.extrude(white, [a, b, d, c], y - 0.13, y + 0.13)
        scenery.tube(thin, [(x, y - 2.0, z) for x, z in outline], 0.035, 4)
    for angle in (0.12, 0.32, 0.62, 0.95, 1.25):
        for side in (angle, math.pi - angle):
            x, z = _arch(side)
            scenery.tube(thin, [(x, 10, z), (x, END, z)], 0.045, 5)
    scenery.tube(thin, [(0, 10, CROWN), (0, END, CROWN)], 0.045, 5)


def _arch(angle: float) -> tuple[float, float]:
    """Return a point of the hull's outline, a superellipse, as (x, z)."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return SPAN * math.copysign(abs(cosine) ** 0.55, cosine), CROWN * abs(sine) ** 0.55


def _rails(scenery: Scenery) -> None:
    steel = finish("handrail", (0.6, 0.6, 0.6), stain=0.0, metallic=1.0, roughness=0.25)
    pane = finish("pane", (0.16, 0.26, 0.26), stain=0.0, roughness=0.08)
    for side in (-1, 1):
        x = side * (EDGE - 0.15)
        scenery.tube(steel, [(x, 9, 1.08), (x, END, 1.08)], 0.035, 8)
        for y in np.arange(8.0, END, -2.0):
            scenery.box(steel, (x - 0.02, y - 0.03, 0), (x + 0.02, y + 0.03, 1.06))
            scenery.box(pane, (x - 0.008, y - 1.9, 0.1), (x + 0.008, y - 0.1, 0.22))


def _arrival(scenery: Scenery) -> None:
    """Build the far end: a lobby behind a glass wall, in warm light."""
    wall = finish("end wall", (0.5, 0.5, 0.5), stain=0.1)
    warm = finish("lobby", (1.0, 0.78, 0.5), emission=1.0)
    dark = finish("door frame", (0.05, 0.055, 0.06), stain=0.0, roughness=0.3)
    scenery.box(wall, (-12, END - 8, -45), (12, END - 1.5, 26))
    face = END - 1.45
    scenery.quad(warm, (-4.6, face, 0), (4.6, face, 0), (4.6, face, 3.4), (-4.6, face, 3.4))
    for x in np.arange(-4.6, 4.7, 1.15):
        scenery.box(dark, (x - 0.05, face, 0), (x + 0.05, END - 1.3, 3.4))
    for z in (2.3, 3.4):
        scenery.box(dark, (-4.7, face, z - 0.06), (4.7, END - 1.3, z + 0.06))
    level(scenery, wall, (-12, END - 1.5), (12, END), -0.01)


def _facade(name: str, glass: Color, frame: Color, bay: tuple[float, float], gap: float) -> Any:
    """Make the finish of a tower: panes of ``glass`` in bays, with ``gap`` of ``frame`` between them."""
    panes = finish(
        name,
        glass,
        tile=bay,
        gap=gap,
        gap_color=frame,
        variation=0.5,
        wall=True,
        stain=0.2,
        stain_size=30,
        roughness=0.2,
    )
    return hazy(panes, AIR, 650.0)


def _city(scenery: Scenery) -> None:
    paints = [
        _facade("blue glass", (0.07, 0.14, 0.22), (0.28, 0.33, 0.38), (1.6, 3.4), 0.35),
        _facade("concrete", (0.05, 0.06, 0.08), (0.46, 0.43, 0.38), (2.6, 3.2), 1.3),
        _facade("bronze", (0.13, 0.10, 0.07), (0.3, 0.24, 0.17), (1.8, 3.6), 0.4),
        _facade("white", (0.10, 0.14, 0.18), (0.62, 0.62, 0.6), (3.2, 3.4), 1.1),
        _facade("green glass", (0.06, 0.16, 0.15), (0.2, 0.27, 0.27), (1.3, 3.8), 0.25),
    ]
    cover = hazy(finish("flat roof", (0.25, 0.24, 0.23), stain=0.3, stain_size=5), AIR, 650.0)
    grey, green = (0.13, 0.13, 0.13), (0.08, 0.11, 0.06)
    ground = finish("ground", grey, other=green, grain=20, stain=0.3, stain_size=40)
    level(scenery, hazy(ground, AIR, 650.0), (-900, -1200), (900, 100), -45.0)
    rng = np.random.default_rng(4)
    for side in (-1, 1):
        for row in range(6):
            for y in np.arange(-6.0, -430.0, -30.0):
                sway, half, deep = rng.uniform(-4, 4, 2), rng.uniform(7, 10), rng.uniform(8, 12)
                top = rng.uniform(-26, -4) + (16 + 9 * row) * (rng.random() < 0.35) - 0.03 * y
                if row == 0 and y > -100:
                    top = min(top, -5.0)  # the nearest towers must not hide the sky
                at = (side * (26.0 + 24.0 * row + 0.3 * half + sway[0]), y + sway[1])
                _tower(scenery, at, (half, deep), top, paints[int(rng.integers(5))], cover)


def _tower(
    scenery: Scenery, at: tuple[float, float], half: tuple[float, float], top: float, paint: Any, cover: Any
) -> None:
    """Add a tower with a flat roof and a plant room."""
    (x, y), (wide, deep) = at, half
    scenery.box(paint, (x - wide, y - deep, -46), (x + wide, y + deep, top))
    scenery.box(cover, (x - wide - 0.2, y - deep - 0.2, top), (x + wide + 0.2, y + deep + 0.2, top + 0.8))
    scenery.box(cover, (x - 2.5, y - 2, top), (x + 2, y + 3, top + 3.5))
