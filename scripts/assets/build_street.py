"""The modelled scene `street`."""

from typing import Any

import numpy as np

from build_finishes import Color, finish
from build_landscape import (
    broadleaf,
    bumpy,
    disc,
    hazy,
    leaves,
    level,
    plant,
    shader_of,
    sky,
    sun,
)
from build_scenes import Scenery
from build_town import car, roof, windows

ROAD = 5.2  # half the width
FRONT = 9.0  # where the houses stand
BRICKS: list[tuple[Color, Color]] = [
    ((0.36, 0.13, 0.08), (0.28, 0.09, 0.06)),
    ((0.46, 0.36, 0.25), (0.4, 0.3, 0.2)),
]
PLASTERS: list[Color] = [
    *((0.66, 0.60, 0.47), (0.55, 0.57, 0.58), (0.62, 0.47, 0.37)),
    *((0.70, 0.68, 0.63), (0.42, 0.47, 0.42)),
]
SHOPS: list[Color] = [
    *((0.05, 0.10, 0.09), (0.16, 0.05, 0.04), (0.35, 0.32, 0.27)),
    *((0.06, 0.08, 0.15), (0.2, 0.13, 0.07)),
]
AWNINGS: list[Color] = [(0.4, 0.06, 0.05), (0.08, 0.25, 0.18), (0.6, 0.55, 0.45), (0.1, 0.16, 0.3)]
CARS: list[Color] = [
    *((0.45, 0.46, 0.48), (0.05, 0.09, 0.2), (0.32, 0.03, 0.03)),
    *((0.6, 0.6, 0.58), (0.03, 0.03, 0.035), (0.1, 0.2, 0.16)),
]


def street(scenery: Scenery) -> None:
    """Build an asphalt road between pavements, parked cars and rows of houses."""
    sky(scenery, (0.42, 0.58, 0.9), (0.95, 0.97, 1.0), (1.15, 1.13, 1.1), 0.65, 1.5)
    sun(scenery, (-0.3, 0.7, 0.62), (1.0, 0.9, 0.76), 2.0, 3.0)
    dark, curtain = (0.05, 0.07, 0.09), (0.26, 0.25, 0.22)
    glass = finish("glass", dark, other=curtain, grain=1.4, stain=0.0, roughness=0.06)
    frame = finish("frames", (0.72, 0.70, 0.66), stain=0.1)
    _road(scenery)
    _markings(scenery)
    _pavements(scenery)
    _rows(scenery, glass, frame)
    _vista(scenery, glass, frame)
    _cars(scenery, glass)
    _lamp_posts(scenery)
    _trees(scenery)
    _posts(scenery)


def _road(scenery: Scenery) -> None:
    black, gravel = (0.105, 0.105, 0.11), (0.16, 0.16, 0.16)
    asphalt = finish("asphalt", black, other=gravel, grain=0.035, stain=0.4, stain_size=2.2, roughness=0.75)
    level(scenery, bumpy(asphalt, 0.02, 0.008), (-ROAD, -150), (ROAD, 20))
    fresh = finish(
        "patch", (0.06, 0.06, 0.065), other=(0.09, 0.09, 0.09), grain=0.03, stain=0.2, stain_size=0.6
    )
    level(scenery, fresh, (-4.9, -12), (-3.3, 2.2), 0.004)
    drain = finish("gutter", (0.22, 0.215, 0.21), stain=0.4, stain_size=0.8)
    level(scenery, drain, (-ROAD, -150), (0.35 - ROAD, 20), 0.003)
    level(scenery, drain, (ROAD - 0.35, -150), (ROAD, 20), 0.003)
    iron = finish(
        "manhole", (0.07, 0.065, 0.06), other=(0.14, 0.13, 0.12), grain=0.04, stain=0.2, roughness=0.5
    )
    disc(scenery, iron, (2.5, 1.3), 0.34, 0.005)


def _markings(scenery: Scenery) -> None:
    white, worn = (0.62, 0.61, 0.57), (0.42, 0.41, 0.39)
    paint = finish("road paint", white, other=worn, grain=0.08, stain=0.4, stain_size=0.5)
    for x in np.arange(-4.4, 4.5, 1.1):  # the crossing
        level(scenery, paint, (x - 0.27, -12.2), (x + 0.27, -8.8), 0.006)
    level(scenery, paint, (0.3 - ROAD, -13.6), (-0.1, -13.2), 0.006)
    # The dash in front ends before the area of the objects, which is bare ground.
    for y in (0.9, *np.arange(-19.0, -140, -6.0)):
        level(scenery, paint, (-0.07, y), (0.07, y + 3), 0.006)


def _pavements(scenery: Scenery) -> None:
    kerb = finish("kerb", (0.42, 0.41, 0.39), tile=(0.6, 1.0), stain=0.35, stain_size=0.7)
    grey = (0.34, 0.32, 0.30)
    slabs = finish(
        "slabs", grey, tile=(0.9, 0.6), bond=0.5, gap=0.02, variation=0.25, stain=0.35, stain_size=1.2
    )
    for side in (-1, 1):
        for paint, inner, outer, top in (
            (kerb, ROAD, ROAD + 0.18, 0.13),
            (slabs, ROAD + 0.18, FRONT + 1, 0.125),
        ):
            low, high = sorted((side * inner, side * outer))
            scenery.box(paint, (low, -150, -0.1), (high, 20, top))


def _rows(scenery: Scenery, glass: Any, frame: Any) -> None:
    """Add a row of houses on either side."""
    rng = np.random.default_rng(5)
    trim = finish("cornice", (0.58, 0.55, 0.5), stain=0.3)
    shops = [finish(f"shop {i}", color, stain=0.2, roughness=0.5) for i, color in enumerate(SHOPS)]
    awnings = [finish(f"awning {i}", color, stain=0.2) for i, color in enumerate(AWNINGS)]
    walls = [_brick(f"brick {i}", *colors) for i, colors in enumerate(BRICKS)]
    walls += [finish(f"plaster {i}", color, stain=0.25, stain_size=4.0) for i, color in enumerate(PLASTERS)]
    lit = _lit()
    for side in (-1, 1):
        y, i = 6.0, 2 + side
        while y > -110:
            length, floors = float(rng.uniform(8.5, 12.5)), int(rng.integers(3, 5))
            paints = {"wall": walls[i * 3 % 7], "trim": trim, "shop": shops[i * 2 % 5]}
            paints |= {"glass": glass, "frame": frame, "display": (glass, lit)[i % 2]}
            if rng.random() < 0.6:
                paints["awning"] = awnings[i % 4]
            _house(scenery, side, (y - length, y), floors, paints)
            y -= length
            i += 1


def _brick(name: str, color: Color, darker: Color) -> Any:
    return finish(
        name,
        color,
        other=darker,
        grain=0.4,
        tile=(0.24, 0.08),
        bond=0.5,
        gap=0.014,
        gap_color=(0.4, 0.38, 0.35),
        wall=True,
        variation=0.35,
        stain=0.25,
        stain_size=3.0,
    )


def _vista(scenery: Scenery, glass: Any, frame: Any) -> None:
    """Close the street with a house across its end."""
    wall = hazy(finish("far house", (0.6, 0.5, 0.4), stain=0.2), (1.1, 1.15, 1.25), 400.0)
    slate = finish("slate", (0.10, 0.09, 0.09), stain=0.3)
    scenery.box(wall, (-20, -135, 0), (20, -125, 13))
    roof(scenery, slate, ((20.5, -124.5, 13), (-20.5, -124.5, 13)), 5.5, 3.5)
    front, rows = ((16, -125, 0), (-16, -125, 0)), (1, 4.2, 7.4, 10.2)
    windows(scenery, front, rows, 9, (1.4, 1.9), glass, frame, plain=True)


def _lit() -> Any:
    """Make the finish of a shop window: goods in warm light that is too weak to light the street."""
    material = finish(
        "shop light", (0.9, 0.62, 0.35), other=(0.12, 0.07, 0.05), grain=0.45, stain=0.3, roughness=0.1
    )
    shader = shader_of(material)
    goods = shader.inputs["Base Color"].links[0].from_socket
    material.node_tree.links.new(goods, shader.inputs["Emission Color"])
    shader.inputs["Emission Strength"].default_value = 0.55
    material.cycles.emission_sampling = "NONE"
    return material


def _house(
    scenery: Scenery, side: int, span: tuple[float, float], floors: int, paints: dict[str, Any]
) -> None:
    """Add a house of some floors over a shop; ``side`` is 1 on the left of the view, -1 on the right."""
    height = 3.6 + 3.1 * (floors - 1)

    def block(paint: str, ahead: float, low: float, high: float, trim: float = 0.0) -> None:
        """Add a box from ``ahead`` of the front back to the house's depth."""
        near, far = sorted((side * (FRONT - ahead), side * (FRONT + 9)))
        scenery.box(paints[paint], (near, span[0] + trim, low), (far, span[1] - trim, high))

    block("wall", 0.0, 0.0, height + 0.5)
    block("trim", 0.3, height + 0.3, height + 0.6)
    block("trim", 0.1, 3.3, 3.55)
    block("shop", 0.06, 0.0, 3.2, 0.15)
    front, plain = side * (FRONT - 0.06), span[1] < -24
    ends = ((front, span[0], 0.0), (front, span[1], 0.0))
    left, right = ends if side < 0 else ends[::-1]
    if span[0] < -4:  # nearer houses are outside the view
        rows = [4.1 + 3.1 * k for k in range(floors - 1)]
        count = 4 if span[1] - span[0] > 10 else 3
        windows(scenery, (left, right), rows, count, (1.15, 1.75), paints["glass"], paints["frame"], plain)
        windows(scenery, (left, right), (0.6,), 3, (2.0, 2.1), paints["display"], paints["shop"], plain=True)
    if "awning" in paints:
        near, out, edges = side * (FRONT - 0.05), side * (FRONT - 1.3), (span[0] + 0.6, span[1] - 0.6)
        high, low = [(near, y, 3.15) for y in edges], [(out, y, 2.5) for y in edges[::-1]]
        scenery.quad(paints["awning"], *high, *low)


def _cars(scenery: Scenery, glass: Any) -> None:
    tyre = finish("tyres", (0.02, 0.02, 0.02), stain=0.0)
    bodies = [finish(f"car {i}", color, stain=0.0, roughness=0.2) for i, color in enumerate(CARS)]
    for i, y in enumerate((-16.6, -22.2, -28.2, -34.0, -46.0, -52.0, -63.0)):
        car(scenery, (ROAD - 1.15, y, 0.0), bodies[(i * 2 + 1) % 6], glass, tyre, -1)
    for i, y in enumerate((-10.4, -16.4, -27.0, -33.0, -39.2, -51.0, -57.0)):
        car(scenery, (1.15 - ROAD, y, 0.0), bodies[(i * 3 + i // 2) % 6], glass, tyre)


def _lamp_posts(scenery: Scenery) -> None:
    iron = finish("lamp post", (0.03, 0.04, 0.04), stain=0.0, roughness=0.5)
    globe = finish("globe", (0.75, 0.73, 0.68), stain=0.0)
    profile = [(0.14, 0), (0.14, 0.5), (0.06, 0.7), (0.05, 4.6), (0.0, 4.6)]
    for side, start in ((1, -14.0), (-1, -21.0)):
        for y in np.arange(start, -100, -18.0):
            x = side * (ROAD + 0.6)
            tip = x - side * 1.1
            scenery.lathe(iron, (x, y, 0.12), profile, 10)
            scenery.tube(iron, [(x, y, 4.7), (x - side * 0.5, y, 4.95), (tip, y, 4.95)], 0.04, 6)
            scenery.box(globe, (tip - 0.3, y - 0.12, 4.82), (tip + 0.3, y + 0.12, 4.92))


def _trees(scenery: Scenery) -> None:
    rng = np.random.default_rng(8)
    bark = finish("bark", (0.12, 0.09, 0.06), stain=0.2)
    green = leaves("leaves", (0.03, 0.085, 0.012), (0.14, 0.22, 0.04))
    tree = broadleaf(green, bark, seed=11, height=4.6, crown=(1.7, 1.7, 1.9), leaf=0.4, count=700)
    for side, start in ((1, -19.5), (-1, -15.0)):
        for y in np.arange(start, -110, -15.0):
            at = (side * (ROAD + 1.0), y, 0.1)
            plant(scenery, tree, at, 0.9 + 0.25 * rng.random(), 360 * rng.random())


def _posts(scenery: Scenery) -> None:
    """Add a post box, and bollards at the crossing."""
    red = finish("post box", (0.4, 0.03, 0.02), stain=0.1, roughness=0.4)
    box = [(0.24, 0), (0.22, 0.1), (0.22, 1.25), (0.27, 1.3), (0.2, 1.48), (0.0, 1.5)]
    scenery.lathe(red, (ROAD + 0.7, -8.6, 0.12), box, 16)
    grey = finish("bollard", (0.12, 0.12, 0.12), stain=0.1)
    bollard = [(0.07, 0), (0.07, 0.85), (0.09, 0.88), (0.0, 0.98)]
    for y in (-7.6, -9.2, -11.9, -13.4):
        for x in (-ROAD - 0.35, ROAD + 0.35):
            scenery.lathe(grey, (x, y, 0.12), bollard, 10)
