"""The modelled scene `beach`."""

import math
from typing import Any

import numpy as np

from build_finishes import Color, Point, add_node, finish, mix, patches
from build_landscape import (
    calculate,
    hazy,
    leaves,
    level,
    plant,
    ridge,
    shader_of,
    sky,
    spread,
    sun,
    two_finishes,
)
from build_scenes import Scenery

AIR = (1.0, 1.3, 1.6)
SHORE = (0.0, -9.0)  # a point of the waterline, which runs across the view, farther away to the right
TURN = 24.0  # degrees
# Rows of foam: metres from the waterline to begin, densest point and end of each row, and its strength.
BREAKERS = ((-0.1, 0.1, 0.9, 1.0), (2.2, 3.4, 3.7, 1.3), (6.5, 8.4, 8.8, 1.2), (13.0, 15.5, 16.0, 1.0))
PALMS = ((-11.6, -14.5, 1.0), (-13.8, -19.0, 1.15), (-18.5, -24, 1.0), (-14.5, -27.0, 1.2), (-20.5, -32, 1.0))


def beach(scenery: Scenery) -> None:
    """Build sand, a waterline with foam, the sea, a headland, parasols and palms."""
    sky(scenery, (0.10, 0.34, 0.9), (0.66, 0.85, 1.0), (1.1, 1.1, 1.1), 0.3, 1.5)
    sun(scenery, (0.3, 0.5, 0.85), (1.0, 0.94, 0.84), 2.6)
    level(scenery, _shore(), (-1600, -1600), (1600, 60))
    _headland(scenery)
    _parasols(scenery)
    _palms(scenery)
    _boats(scenery)


def _shore() -> Any:
    """Make the finish of the shore: dry and wet sand, foam, shallow and deep water, by distance."""
    pale, brown = (0.68, 0.53, 0.35), (0.60, 0.455, 0.29)
    material = finish("shore", pale, other=brown, grain=0.05, stain=0.2, stain_size=1.5)
    tree = material.node_tree
    shader = shader_of(material)
    sand = shader.inputs["Base Color"].links[0].from_socket
    where = add_node(tree, "ShaderNodeTexCoord").outputs["Object"]
    mapping = add_node(tree, "ShaderNodeMapping", Vector=where)
    mapping.vector_type = "TEXTURE"
    mapping.inputs["Location"].default_value = (*SHORE, 0.0)
    mapping.inputs["Rotation"].default_value = (0.0, 0.0, math.radians(TURN + 180.0))
    place = mapping.outputs[0]
    seawards = add_node(tree, "ShaderNodeSeparateXYZ", Vector=place).outputs["Y"]
    lapping = patches(tree, place, 3.5, (1, 1, 1), -0.9, 0.9)
    ragged = patches(tree, place, 0.5, (1, 1, 1), -0.18, 0.18)
    out = calculate(tree, "ADD", calculate(tree, "ADD", seawards, lapping), ragged)
    color = mix(tree, spread(tree, out, -2.6, -1.6), sand, (0.24, 0.18, 0.115))
    color = mix(tree, spread(tree, out, -0.1, 0.1), color, (0.20, 0.33, 0.31))
    color = mix(tree, spread(tree, out, 0.5, 7.0), color, (0.035, 0.20, 0.24))
    color = mix(tree, spread(tree, out, 6.0, 60.0), color, (0.012, 0.07, 0.14))
    foam = _foam(tree, out, place)
    color = mix(tree, foam, color, (0.85, 0.87, 0.88))
    tree.links.new(color, shader.inputs["Base Color"])
    rough = mix(tree, spread(tree, out, -2.6, -1.6), (0.9,) * 3, (0.25,) * 3)
    rough = mix(tree, spread(tree, out, 0.0, 0.3), rough, (0.12,) * 3)
    tree.links.new(mix(tree, foam, rough, (0.7,) * 3), shader.inputs["Roughness"])
    _relief(tree, shader, place, out)
    return hazy(material, AIR, 2500.0)


def _foam(tree: Any, out: Any, place: Any) -> Any:
    """Return the share of foam: on the waterline and on three rows of breakers, broken up by noise."""
    lace = patches(tree, place, 0.22, (2, 1, 1), 0.0, 1.0)
    long = patches(tree, place, 5.0, (1.6, 0.4, 1), -0.5, 1.0)
    total: Any = None
    for start, peak, end, strength in BREAKERS:
        band = calculate(tree, "MULTIPLY", spread(tree, out, start, peak), spread(tree, out, end, peak))
        torn = calculate(tree, "MULTIPLY", band, calculate(tree, "ADD", lace, 0.45))
        if start > 0:
            torn = calculate(tree, "MULTIPLY", torn, spread(tree, long, -0.2, 0.6))
        torn = calculate(tree, "MULTIPLY", torn, strength)
        total = torn if total is None else calculate(tree, "MAXIMUM", total, torn)
    return spread(tree, total, 0.25, 0.6)


def _relief(tree: Any, shader: Any, place: Any, out: Any) -> None:
    ripples = patches(tree, place, 0.22, (3.5, 1, 1), 0.0, 0.03)
    prints = patches(tree, place, 0.35, (1, 1, 1), 0.0, 0.05)
    sand = calculate(tree, "ADD", ripples, prints)
    waves = patches(tree, place, 1.1, (3.0, 1, 1), 0.0, 0.16)
    height = calculate(
        tree,
        "ADD",
        calculate(tree, "MULTIPLY", sand, spread(tree, out, -1.6, -2.6)),
        calculate(tree, "MULTIPLY", waves, spread(tree, out, 0.0, 2.0)),
    )
    bump = add_node(tree, "ShaderNodeBump", Height=height, Distance=1.0)
    tree.links.new(bump.outputs[0], shader.inputs["Normal"])


def _headland(scenery: Scenery) -> None:
    rock = hazy(
        finish("rock", (0.33, 0.27, 0.2), other=(0.09, 0.13, 0.04), grain=9, stain=0.4, stain_size=25),
        AIR,
        900.0,
    )
    ridge(scenery, rock, -330, 620, -1, (20, 34, 46, 40, 44, 36, 28, 22, 15, 9, 5, 1, -2, -3, -4))
    far = hazy(finish("far coast", (0.15, 0.17, 0.1), stain=0.3, stain_size=60), AIR, 900.0)
    ridge(scenery, far, -1400, 2600, -2, (10, 30, 60, 85, 70, 80, 55, 40, 22, 14, 5, -2, -3, -3))


def _parasols(scenery: Scenery) -> None:
    pole = finish("pole", (0.6, 0.55, 0.45), stain=0.0)
    white = finish("canvas", (0.75, 0.73, 0.68), stain=0.1)
    slats = finish("slats", (0.4, 0.26, 0.13), stain=0.2)
    colors: list[Color] = [(0.6, 0.06, 0.05), (0.05, 0.22, 0.5), (0.7, 0.45, 0.04), (0.06, 0.36, 0.3)]
    places = ((-5.6, -7.4), (-8.4, -9.6), (-10.6, -12.4), (-13.5, -14.2), (-15.2, -17.6))
    for i, (x, y) in enumerate(places):
        cloth = finish(f"cloth {i}", colors[i % 4], stain=0.1)
        _parasol(scenery, (x, y), pole, (cloth, white))
        for k in (-0.9, 0.9):
            _lounger(scenery, (x + k, y + 0.5), slats, white)


def _parasol(scenery: Scenery, at: tuple[float, float], pole: Any, cloths: tuple[Any, Any]) -> None:
    x, y = at
    scenery.tube(pole, [(x, y, 0.0), (x + 0.1, y, 2.35)], 0.03, 6)
    n, top = 16, (x + 0.1, y, 2.4)
    for i in range(n):
        a, b = (2 * math.pi * k / n for k in (i, i + 1))
        ring = [(x + 0.1 + 1.35 * math.cos(t), y + 1.35 * math.sin(t), 1.88) for t in (a, b)]
        skirt = [(px, py, pz - 0.16) for px, py, pz in ring]
        scenery.mesh(cloths[i // 2 % 2], [top, *ring, *reversed(skirt)], [(0, 1, 2), (2, 1, 4, 3)])


def _lounger(scenery: Scenery, at: tuple[float, float], wood: Any, cloth: Any) -> None:
    x, y = at
    scenery.box(wood, (x - 0.3, y - 0.9, 0.22), (x + 0.3, y + 0.6, 0.27))
    for i in (-0.25, 0.25):
        for j in (-0.8, 0.5):
            scenery.box(wood, (x + i - 0.03, y + j - 0.03, 0), (x + i + 0.03, y + j + 0.03, 0.25))
    scenery.box(cloth, (x - 0.28, y - 0.88, 0.27), (x + 0.28, y + 0.55, 0.32))
    low, high = (
        [(x + i, y - 0.4, 0.3) for i in (-0.28, 0.28)],
        [(x + i, y - 1.05, 0.75) for i in (0.28, -0.28)],
    )
    scenery.quad(cloth, *low, *high)


def _palms(scenery: Scenery) -> None:
    brown, ring = (0.2, 0.15, 0.1), (0.1, 0.07, 0.05)
    bark = finish("palm trunk", brown, tile=(5.0, 0.16), wall=True, gap=0.03, gap_color=ring, stain=0.2)
    green = leaves("fronds", (0.03, 0.10, 0.015), (0.13, 0.22, 0.04))
    meshes = [_palm(green, bark, seed) for seed in (1, 2)]
    for i, (x, y, size) in enumerate(PALMS):
        plant(scenery, meshes[i % 2], (x, y, 0.0), size, 70 * i)


def _palm(green: Any, bark: Any, seed: int) -> Any:
    """Model a palm: a bent trunk of rings, and fronds of many leaflets."""
    rng = np.random.default_rng(seed)
    points: list[Point] = []
    for share in np.linspace(0, 1, 8):
        radius = 0.2 - 0.09 * share
        ring = [(radius * math.cos(a), radius * math.sin(a)) for a in np.arange(8) * math.pi / 4]
        points += [(0.9 * share**2 + x, y, 5.0 * share) for x, y in ring]
    trunk = [
        [k + i, k + (i + 1) % 8, k + 8 + (i + 1) % 8, k + 8 + i] for k in range(0, 56, 8) for i in range(8)
    ]
    for angle in np.arange(15) * 2.4:
        points += _frond(angle, rng.uniform(0.1, 1.1), rng.uniform(2.0, 2.5))
    leaflets = [[i, i + 1, i + 2] for i in range(64, len(points), 3)]
    return two_finishes("palm", points, (trunk, bark), (leaflets, green))


def _frond(angle: float, rise: float, reach: float) -> list[Point]:
    """Model a frond at the top of a palm's trunk: two rows of triangles along a bent spine."""
    way = np.array([math.cos(angle), math.sin(angle), 0.0])
    across = np.array([-way[1], way[0], 0.0])
    points: list[Point] = []
    for share in np.linspace(0.08, 1, 16):
        bend = rise * math.sin(2.2 * share) - 1.5 * share**2.2
        spine = (0.9, 0.0, 5.0 + bend) + way * reach * share
        width = 0.55 * math.sin(math.pi * min(1.0, 0.15 + 0.85 * share)) + 0.05
        for side in (-width, width):
            tip = spine + across * side + way * 0.3 - (0.0, 0.0, 0.28)
            points += [tuple(p.round(2)) for p in (spine - way * 0.07, spine + way * 0.09, tip)]
    return points


def _boats(scenery: Scenery) -> None:
    hull = hazy(finish("hull", (0.5, 0.5, 0.5), stain=0.0), AIR, 900.0)
    sail = hazy(finish("sail", (0.8, 0.79, 0.75), stain=0.0), AIR, 900.0)
    for x, y, s in ((38.0, -150.0, 1.0), (12.0, -260.0, 1.1), (-24.0, -210.0, 0.9)):
        for paint, outline in (
            (hull, ((-3.0, 0.9), (3.4, 1.0), (2.6, -0.2), (-2.6, -0.2))),
            (sail, ((0.2, 1.5), (0.2, 10.0), (-2.9, 1.6))),
            (sail, ((0.5, 1.4), (0.5, 9.0), (3.2, 1.3))),
        ):
            scenery.quad(paint, *((x + s * across, y, s * above) for across, above in outline))
