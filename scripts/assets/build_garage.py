"""The modelled scene `garage`."""

from typing import Any

from build_finishes import finish
from build_scenes import Scenery

# Colour, x and y of the cars.
PARKED = (
    ((0.45, 0.03, 0.03), -7.7, -14.5),
    ((0.5, 0.52, 0.55), -7.7, -19.5),
    ((0.05, 0.12, 0.36), 7.7, -12.0),
    ((0.62, 0.6, 0.55), 7.7, -17.0),
    ((0.05, 0.16, 0.09), 7.7, -22.0),
)


def garage(scenery: Scenery) -> None:
    """Build a garage: concrete, pillars, bay lines, pipes, strip lights, a roller door, parked cars."""
    floor = finish(
        "floor",
        (0.31, 0.3, 0.28),
        other=(0.27, 0.262, 0.245),
        grain=0.05,
        stain=0.22,
        stain_size=2.6,
        roughness=0.45,
    )
    concrete = finish("concrete", (0.4, 0.39, 0.37), other=(0.34, 0.335, 0.32), grain=0.7, stain=0.3)
    white = finish("road paint", (0.75, 0.75, 0.72), stain=0.45, stain_size=0.35)
    scenery.quad(floor, (-18, 12, 0), (18, 12, 0), (18, -30, 0), (-18, -30, 0))
    _bays(scenery, white)
    _pillars(scenery, concrete)
    scenery.box(concrete, (-18, -30, 5.2), (18, -6.3, 5.5))
    for x in (-11.0, 10.7):
        scenery.box(concrete, (x, -30, 0), (x + 0.3, -5, 5.2))
    _garage_end(scenery, concrete)
    _pipes(scenery)
    _cars(scenery)
    scenery.sky((0.8, 0.9, 1.0), 0.16)


def _bays(scenery: Scenery, white: Any) -> None:
    """Paint the lines between the bays, along the lane, and an arrow on it."""
    for y in range(-27, 2, 5):
        for low in (-10.0, 4.6):
            scenery.box(white, (low, y - 0.07, 0), (low + 5.4, y + 0.07, 0.004))
    for x in (-4.6, 4.6):
        scenery.box(white, (x - 0.07, -27, 0), (x + 0.07, 5, 0.004))
    _arrow(scenery, white, (0.0, -11.5))


def _pillars(scenery: Scenery, concrete: Any) -> None:
    """Add pillars with striped feet, and the beams over them."""
    yellow = finish("yellow paint", (0.75, 0.5, 0.03), stain=0.2)
    black = finish("black paint", (0.03, 0.03, 0.03))
    for y in (-9.5, -17.0, -24.5):
        for x in (-5.4, 5.4):
            scenery.box(concrete, (x - 0.45, y - 0.45, 0), (x + 0.45, y + 0.45, 5.2))
            for i in range(4):
                paint, z = (yellow, black)[i % 2], 0.15 + 0.35 * i
                scenery.box(paint, (x - 0.47, y - 0.47, z), (x + 0.47, y + 0.47, z + 0.35))
        scenery.box(concrete, (-18, y - 0.35, 4.6), (18, y + 0.35, 5.2))


def _arrow(scenery: Scenery, paint: Any, at: tuple[float, float]) -> None:
    x, y = at
    outline = [
        (-0.25, 2.2),
        (0.25, 2.2),
        (0.25, -0.4),
        (0.75, -0.4),
        (0.0, -2.4),
        (-0.75, -0.4),
        (-0.25, -0.4),
    ]
    scenery.quad(paint, *((x + dx, y + dy, 0.004) for dx, dy in outline))


def _garage_end(scenery: Scenery, concrete: Any) -> None:
    """Add the end wall with a roller door, a sign above it, and a bright slit under the door."""
    door = finish(
        "roller door",
        (0.33, 0.36, 0.38),
        tile=(40.0, 0.22),
        gap=0.05,
        gap_color=(0.1, 0.11, 0.12),
        wall=True,
        variation=0.1,
        stain=0.25,
        roughness=0.45,
    )
    stripe = finish("stripe", (0.04, 0.17, 0.42), stain=0.25)
    sign = finish("exit sign", (0.05, 0.8, 0.25), emission=1.6)
    letters = finish("letters", (1, 1, 1), emission=2.0)
    daylight = finish("daylight", (0.85, 0.93, 1.0), emission=4.0)
    scenery.box(concrete, (-11, -30.4, 0), (11, -30, 5.2))
    scenery.box(stripe, (-11, -30, 1.1), (11, -29.98, 1.6))
    scenery.box(concrete, (-4.1, -30, 0), (4.1, -29.7, 4.2))
    scenery.box(door, (-3.7, -30, 0.12), (3.7, -29.65, 3.9))
    scenery.quad(
        daylight, (-3.7, -29.64, 0.01), (3.7, -29.64, 0.01), (3.7, -29.64, 0.12), (-3.7, -29.64, 0.12)
    )
    scenery.box(sign, (-1.0, -16.2, 3.75), (1.0, -16.1, 4.45))
    for i, x in enumerate((0.72, 0.3, -0.12, -0.55)):
        scenery.box(letters, (x - 0.13, -16.1, 3.9), (x + (-0.02 if i == 2 else 0.13), -16.08, 4.3))


def _pipes(scenery: Scenery) -> None:
    red = finish("sprinkler pipe", (0.45, 0.04, 0.03), roughness=0.4, stain=0.2)
    zinc = finish(
        "duct", (0.42, 0.44, 0.46), metallic=0.6, roughness=0.4, tile=(1.2, 9.0), gap=0.04, stain=0.2
    )
    tube = finish("strip light", (0.9, 0.96, 1.0), emission=5.0)
    scenery.tube(red, [(-2.9, -30, 4.35), (-2.9, -6.3, 4.35)], 0.09)
    scenery.tube(red, [(-3.3, -30, 4.4), (-3.3, -6.3, 4.4)], 0.05)
    scenery.box(zinc, (2.5, -30, 4.0), (3.6, -6.3, 4.6))
    for y in (-8.0, -13.3, -20.5, -27.5):
        for x in (-1.4, 1.1, -7.8, 7.8):
            scenery.box(tube, (x - 0.09, y - 1.1, 5.0), (x + 0.09, y + 1.1, 5.1))
        scenery.light((0, y, 4.9), 480, (16, 2.2), (0.9, 0.96, 1.0))


def _cars(scenery: Scenery) -> None:
    glass = finish("car glass", (0.02, 0.025, 0.03), roughness=0.08, stain=0.0)
    tyre = finish("tyre", (0.02, 0.02, 0.02))
    rim = finish("rim", (0.5, 0.5, 0.5), metallic=0.8, roughness=0.35)
    for i, (color, x, y) in enumerate(PARKED):
        body = finish(f"car {i + 1}", color, roughness=0.25, stain=0.05)
        _car(scenery, (x, y), -1.0 if x > 0 else 1.0, (body, glass, tyre, rim))


def _car(scenery: Scenery, at: tuple[float, float], nose: float, finishes: tuple[Any, Any, Any, Any]) -> None:
    """Add a car that stands across the view, its nose towards +x or -x."""
    body, glass, tyre, rim = finishes
    x, y = at
    sides = [(-2.2, 0.35), (-2.25, 0.85), (-1.9, 1.0), (0.9, 1.0), (2.0, 0.85), (2.2, 0.6), (2.2, 0.3)]
    cabin = [(-1.8, 0.98), (-1.25, 1.48), (0.0, 1.48), (0.95, 0.98)]
    roof = [(-1.3, 1.46), (-1.2, 1.53), (0.0, 1.53), (0.1, 1.46)]
    for paint, outline, half in ((body, sides, 0.9), (glass, cabin, 0.78), (body, roof, 0.76)):
        scenery.extrude(paint, [(x + nose * u, z) for u, z in outline], y - half, y + half)
    for u in (x - nose * 1.4, x + nose * 1.35):
        for side in (y - 0.86, y + 0.76):
            scenery.tube(tyre, [(u, side, 0.34), (u, side + 0.12, 0.34)], 0.34, 18)
            scenery.tube(rim, [(u, side - 0.01, 0.34), (u, side + 0.13, 0.34)], 0.2, 12)
    for side in (-0.65, 0.65):
        scenery.blob(rim, (x + nose * 2.12, y + side, 0.7), (0.1, 0.18, 0.1), bumps=0.0)
