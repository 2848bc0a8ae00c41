"""Elements of towns in modelled scenes: roofs, windows and parked cars; lengths are metres."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from build_finishes import Point
from build_scenes import Scenery


def roof(scenery: Scenery, paint: Any, front: tuple[Point, Point], deep: float, rise: float) -> None:
    """Add a roof that slopes from the eaves, given by their ends, back by ``deep`` and up by ``rise``."""
    (x0, y0, z), (x1, y1, _) = front
    scenery.quad(paint, (x0, y0, z), (x1, y1, z), (x1, y1 - deep, z + rise), (x0, y0 - deep, z + rise))


def windows(
    scenery: Scenery,
    wall: tuple[Point, Point],
    rows: Sequence[float],
    count: int,
    size: tuple[float, float],
    glass: Any,
    frame: Any,
    plain: bool = False,
) -> None:
    """Add rows of windows on a wall, each with a frame, a cross bar and a sill.

    Args:
        scenery: the scene.
        wall: the lower left and lower right corner of the wall as seen from outside; it runs along x or y.
        rows: height of each row's lower edge above them.
        count: windows in a row.
        size: width and height of a window.
        glass: finish of the panes.
        frame: finish of frames and sills.
        plain: leave out bars and sills, for windows that are small in the picture.
    """
    left, right = np.array(wall[0], float), np.array(wall[1], float)
    length = float(np.linalg.norm(right - left))
    along = (right - left) / length
    out = np.cross(along, (0.0, 0.0, 1.0))
    w, h = size[0] / 2, size[1]
    # Two corners of each block: along the wall, out of it, up.
    blocks = [
        (frame, (-w - 0.08, 0.0, -0.08), (w + 0.08, 0.05, h + 0.1)),
        (glass, (-w, 0.0, 0.0), (w, 0.06, h)),
        (frame, (-0.03, 0.0, 0.0), (0.03, 0.08, h)),
        (frame, (-w - 0.15, 0.0, -0.16), (w + 0.15, 0.16, -0.07)),
    ]
    for low in rows:
        for i in range(count):
            middle = left + along * (length * (i + 0.5) / count) + (0.0, 0.0, low)
            for paint, *corners in blocks[:2] if plain else blocks:
                ends = [middle + along * u + out * v + (0.0, 0.0, z) for u, v, z in corners]
                scenery.box(paint, np.minimum(*ends), np.maximum(*ends))


def car(scenery: Scenery, at: Point, body: Any, glass: Any, tyre: Any, ahead: int = 1) -> None:
    """Add a car whose length runs along y; ``ahead`` -1 turns it around."""
    x, y, z = at
    shell = (
        (0.8, -2.0, 2.05, 0.22),
        (0.87, -2.12, 2.15, 0.45),
        (0.86, -2.1, 2.1, 0.72),
        (0.8, -2.0, 1.85, 0.86),
    )
    for paint, rings in (
        (body, (*shell, (0.76, -1.9, 1.0, 0.93))),
        (glass, ((0.75, -1.85, 0.95, 0.9), (0.6, -1.4, 0.25, 1.38))),
        (body, ((0.61, -1.42, 0.27, 1.37), (0.52, -1.25, 0.1, 1.45))),
    ):
        points = [
            (x + side * half, y + ahead * end, z + height)
            for half, back, front, height in rings
            for side, end in ((-1, back), (1, back), (1, front), (-1, front))
        ]
        last = len(points) - 4
        sides = [
            (k + i, k + (i + 1) % 4, k + 4 + (i + 1) % 4, k + 4 + i)
            for k in range(0, last, 4)
            for i in range(4)
        ]
        scenery.mesh(paint, points, [*sides, range(4), range(last, last + 4)])
    for side in (-0.8, 0.8):
        for wheel in (-1.3, 1.35):
            axle = [(x + side + out, y + ahead * wheel, z + 0.32) for out in (-0.09, 0.09)]
            scenery.tube(tyre, axle, 0.32, sides=14)
