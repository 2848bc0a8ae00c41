"""The modelled scene `playground`."""

import math

import bpy
import numpy as np

from build_finishes import Color, finish
from build_landscape import broadleaf, bumpy, disc, leaves, level, plant, sky, sun
from build_scenes import Scenery
from build_town import roof, windows

RUBBER: tuple[Color, Color] = ((0.42, 0.24, 0.14), (0.33, 0.18, 0.11))
TEAL: tuple[Color, Color] = ((0.10, 0.26, 0.27), (0.07, 0.19, 0.21))
YELLOW: tuple[Color, Color] = ((0.62, 0.42, 0.06), (0.52, 0.33, 0.05))
# Location and radius of coloured spots on the ground, away from the objects.
SPOTS = (
    *((4.1, -0.6, 0.5), (4.6, -2.2, 0.75), (3.9, -4.0, 0.45), (4.9, -5.2, 0.6), (3.4, 1.9, 0.4)),
    *((-3.2, 2.2, 0.55), (-4.8, -7.6, 0.8), (2.6, -8.2, 0.7), (-1.2, -9.4, 0.6)),
)


def playground(scenery: Scenery) -> None:
    """Build swings, a slide tower and a climbing dome on rubber ground, in a park."""
    sky(scenery, (0.16, 0.36, 0.85), (0.62, 0.78, 0.98), (1.05, 1.05, 1.05), 0.5, 1.6)
    sun(scenery, (0.05, 0.65, 0.8), (1.0, 0.93, 0.82), 2.9)
    _ground(scenery)
    _hopscotch(scenery)
    _swings(scenery)
    _tower(scenery)
    _slide(scenery)
    _dome(scenery)
    _park(scenery)
    _houses(scenery)


def _ground(scenery: Scenery) -> None:
    green, dry = (0.07, 0.15, 0.025), (0.16, 0.24, 0.05)
    grass = bumpy(finish("grass", green, other=dry, grain=0.5, stain=0.35, stain_size=7.0), 0.06, 0.06)
    level(scenery, grass, (-90, -150), (90, 30), -0.03)
    rubber, teal, yellow = (
        finish(name, color, other=fleck, grain=0.03, stain=0.25, stain_size=3.0, roughness=0.9)
        for name, (color, fleck) in {"rubber": RUBBER, "teal rubber": TEAL, "yellow rubber": YELLOW}.items()
    )
    stone = finish("kerb", (0.45, 0.43, 0.4), other=(0.36, 0.35, 0.33), grain=0.05, stain=0.3, stain_size=0.5)
    middle, border, edge = (_rounded(half, deep) for half, deep in ((6.2, 8.3), (8.6, 11.0), (8.85, 11.25)))
    scenery.quad(rubber, *((x, y, 0.0) for x, y in middle))
    for paint, inner, outer, height in ((teal, middle, border, 0.0), (stone, border, edge, 0.06)):
        n = len(inner)
        points = [(x, y, height) for x, y in (*inner, *outer)]
        scenery.mesh(paint, points, [(i, (i + 1) % n, n + (i + 1) % n, n + i) for i in range(n)])
    for i, (x, y, radius) in enumerate(SPOTS):
        disc(scenery, (yellow, teal)[i % 2], (x, y), radius, 0.003)


def _rounded(half: float, deep: float) -> list[tuple[float, float]]:
    """Return the outline of a rounded rectangle (a superellipse) around the area of the objects."""
    angles = np.linspace(0, 2 * math.pi, 64, endpoint=False)
    return [
        (half * math.copysign(abs(c) ** 0.5, c), deep * math.copysign(abs(s) ** 0.5, s) - 5.0)
        for c, s in zip(np.cos(angles), np.sin(angles), strict=True)
    ]


def _hopscotch(scenery: Scenery) -> None:
    white = finish("white paint", (0.66, 0.65, 0.6), other=(0.5, 0.48, 0.42), grain=0.06, stain=0.3)
    half, line = 0.375, 0.05
    squares = [(-4.15, y) for y in (-0.2, -0.95, -2.45, -3.95)]
    squares += [(-4.15 + side * half, y) for y in (-1.7, -3.2, -4.7) for side in (-1, 1)]
    for x, y in squares:
        for end in (-half, half - line):
            level(scenery, white, (x - half, y + end), (x + half, y + end + line), 0.003)
            level(scenery, white, (x + end, y - half), (x + end + line, y + half), 0.003)


def _swings(scenery: Scenery) -> None:
    green = finish("green steel", (0.05, 0.22, 0.10), stain=0.15, roughness=0.4)
    chain = finish("chain", (0.45, 0.45, 0.45), stain=0.0, roughness=0.4)
    seat = finish("seat", (0.02, 0.02, 0.025), stain=0.0)
    y, top = -9.0, 2.75
    scenery.tube(green, [(8.0, y, top), (3.9, y, top)], 0.06)
    for x, lean in ((8.0, 0.25), (3.9, -0.25)):
        for foot in (-1.1, 1.1):
            scenery.tube(green, [(x + lean, y + foot, 0.0), (x, y, top)], 0.05)
        strut = [(x + 0.6 * lean, y + end, 0.4 * top) for end in (-0.66, 0.66)]
        scenery.tube(green, strut, 0.035)
    for x, swing in ((6.9, 0.0), (5.1, -0.5)):
        z = 0.5 + 0.1 * abs(swing)
        for side in (-0.24, 0.24):
            scenery.tube(chain, [(x + side, y, top), (x + side, y + swing, z)], 0.018, 5)
        scenery.box(seat, (x - 0.27, y + swing - 0.11, z - 0.02), (x + 0.27, y + swing + 0.11, z + 0.03))


def _tower(scenery: Scenery) -> None:
    brown, dark = (0.36, 0.2, 0.09), (0.25, 0.13, 0.06)
    wood = finish("posts", brown, other=dark, grain=0.05, stretch=(1, 1, 12), stain=0.3)
    red = finish("shingles", (0.5, 0.07, 0.05), stain=0.2, tile=(0.3, 0.2), wall=True, bond=0.5)
    panel = finish("panel", (0.75, 0.5, 0.05), stain=0.15, roughness=0.5)
    x, y, deck = -6.2, -10.5, 1.7
    corners = [(x + i, y + j) for i, j in ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85))]
    for u, v in corners:
        scenery.box(wood, (u - 0.07, v - 0.07, 0), (u + 0.07, v + 0.07, 3.3))
    scenery.box(wood, (x - 0.95, y - 0.95, deck - 0.12), (x + 0.95, y + 0.95, deck))
    scenery.box(panel, (x - 0.8, y + 0.82, deck + 0.05), (x + 0.8, y + 0.88, deck + 0.8))
    scenery.box(panel, (x - 0.88, y - 0.8, deck + 0.05), (x - 0.82, y + 0.8, deck + 0.8))
    eaves = [(x + 1.47 * (u - x), y + 1.47 * (v - y), 3.2) for u, v in corners]
    scenery.mesh(red, [*eaves, (x, y, 4.5)], [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4), (3, 2, 1, 0)])
    for side in (-0.38, 0.38):  # the ladder
        scenery.tube(wood, [(x + side, y + 1.45, 0.0), (x + side, y + 0.9, deck)], 0.04, 6)
    for i in range(6):
        out, height = y + 0.9 + 0.1 * i, deck - 0.3 * i
        scenery.tube(wood, [(x - 0.35, out, height), (x + 0.35, out, height)], 0.03, 6)


def _slide(scenery: Scenery) -> None:
    blue = finish("chute", (0.08, 0.25, 0.6), stain=0.1, roughness=0.25)
    steel = finish("slide foot", (0.4, 0.4, 0.4), stain=0.1, roughness=0.4)
    x, y, deck = -5.3, -10.5, 1.7
    run = [(0.0, deck), (0.4, deck - 0.02), (1.0, deck - 0.38), (2.2, 0.55), (2.8, 0.32), (3.5, 0.27)]
    for side, width, lift in ((-0.35, 0.05, 0.28), (0.35, 0.05, 0.28), (0.0, 0.34, 0.0)):
        section = ((side - width, -0.06), (side + width, -0.06), (side + width, lift), (side - width, lift))
        points = [(x + out, y + across, z + above) for out, z in run for across, above in section]
        bands = [
            (k + i, k + (i + 1) % 4, k + 4 + (i + 1) % 4, k + 4 + i)
            for k in range(0, 20, 4)
            for i in range(4)
        ]
        scenery.mesh(blue, points, [*bands, range(4), range(20, 24)])
    scenery.box(steel, (x + 3.1, y - 0.3, 0), (x + 3.2, y + 0.3, 0.25))


def _dome(scenery: Scenery) -> None:
    steel = finish("dome", (0.7, 0.28, 0.03), stain=0.1, roughness=0.4)
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=2, radius=2.1)
    ball = bpy.context.object.data
    for edge in ball.edges:
        ends = [tuple(np.add(ball.vertices[i].co, (0.9, -13.8, 0.02))) for i in edge.vertices]
        if min(z for _, _, z in ends) > -0.05:
            scenery.tube(steel, ends, 0.035, 6)
    bpy.data.meshes.remove(ball)  # removes its object, too


def _park(scenery: Scenery) -> None:
    rng = np.random.default_rng(1)
    bark = finish("bark", (0.12, 0.08, 0.05), stain=0.3, stain_size=0.4)
    green = leaves("leaves", (0.03, 0.09, 0.012), (0.13, 0.24, 0.04))
    meshes = [
        broadleaf(green, bark, seed=seed, height=4.6, crown=(2.6, 2.6, 2.3), leaf=0.42, count=1100)
        for seed in (1, 2)
    ]
    for i, x in enumerate((-27, -21, -15, -10, -4.5, 3, 9, 14, 19.5, 27)):
        y = -30 - 7 * rng.random() - (6 if i % 2 else 0)
        plant(scenery, meshes[i % 2], (x, y, -0.03), 0.95 + 0.35 * rng.random(), 360 * rng.random())
    plant(scenery, meshes[0], (13.5, -15.0, -0.03), 1.0, 50)
    plant(scenery, meshes[1], (-14.5, -17.0, -0.03), 0.9, 200)
    tan, brown = (0.55, 0.42, 0.28), (0.45, 0.33, 0.2)
    pales = finish("fence", tan, other=brown, grain=0.2, stretch=(0.3, 1, 6), stain=0.3)
    for x in np.arange(-30, 30, 0.4):
        scenery.box(pales, (x, -21.53, 0), (x + 0.22, -21.5, 0.95))
    for z in (0.3, 0.75):
        scenery.box(pales, (-30, -21.58, z), (30, -21.53, z + 0.09))


def _houses(scenery: Scenery) -> None:
    tiles = finish("tiles", (0.30, 0.09, 0.05), tile=(0.35, 0.3), bond=0.5, variation=0.4, stain=0.2)
    glass = finish("glass", (0.03, 0.04, 0.05), stain=0.0, roughness=0.1)
    frame = finish("frames", (0.75, 0.74, 0.7), stain=0.0)
    walls = {20.0: (0.66, 0.58, 0.43), 1.5: (0.72, 0.7, 0.66), -18.0: (0.6, 0.45, 0.33)}
    for i, (x, color) in enumerate(walls.items()):
        plaster = finish(f"plaster {i}", color, stain=0.15)
        left, right, front, height = x + 6.5, x - 6.5, -46.0 - 3 * i, 5.6
        scenery.box(plaster, (right, front - 8, 0), (left, front, height))
        eaves = ((left + 0.5, front + 0.6, height - 0.3), (right - 0.5, front + 0.6, height - 0.3))
        roof(scenery, tiles, eaves, 4.6, 3.7)
        windows(scenery, ((left, front, 0), (right, front, 0)), (0.9, 3.6), 5, (1.2, 1.5), glass, frame)
