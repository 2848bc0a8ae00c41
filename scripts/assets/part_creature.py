"""A creature of a closed body and five slots (beak, crest, wings, tail, feet), with four variants of each."""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from part_shapes import Rgb, box, ellipsoid, mirrored, rod, slab
from shapes import Shape, tube

RED: Rgb = (0.7, 0.025, 0.025)
ORANGE: Rgb = (0.85, 0.24, 0.01)
YELLOW: Rgb = (0.8, 0.6, 0.02)
GREEN: Rgb = (0.03, 0.42, 0.05)
CYAN: Rgb = (0.02, 0.5, 0.55)
BLUE: Rgb = (0.025, 0.07, 0.65)
PURPLE: Rgb = (0.28, 0.02, 0.5)
WHITE: Rgb = (0.85, 0.85, 0.82)


@dataclass(frozen=True)
class Creature:
    """Colours of the body and of all variants; variants of a slot differ in colour."""

    colors: dict[str, Rgb]


CREATURES = {
    "creature": Creature(
        {
            "body": (0.3, 0.24, 0.18),
            "beak_hooked": RED, "beak_flat": YELLOW, "beak_spear": BLUE, "beak_trunk": GREEN,
            "crest_comb": ORANGE, "crest_horns": WHITE, "crest_ball": CYAN, "crest_fan": PURPLE,
            "wings_round": WHITE, "wings_raised": RED, "wings_long": BLUE, "wings_fingers": YELLOW,
            "tail_fan": GREEN, "tail_fork": CYAN, "tail_ball": PURPLE, "tail_curl": ORANGE,
            "feet_webbed": ORANGE, "feet_wheels": BLUE, "feet_boots": WHITE, "feet_claws": GREEN,
        }
    )
}  # fmt: skip

SIDE = ((0, 1, 0), (0, 0, 1))  # the plane that is seen from the side: towards the tail, and upwards


def creature(c: Creature) -> dict[str, list[Shape]]:
    """Return the shapes of the body and of each variant, which reach into the body."""
    parts = {"body": _body(), **_beaks(), **_crests(), **_wings(), **_tails(), **_feet()}
    return {part: parts[part] for part in c.colors}


def _body() -> list[Shape]:
    return [
        ellipsoid((0, 0.1, 0.95), (0.42, 0.75, 0.46), 12),
        rod((0, -0.35, 1.1), (0, -0.6, 1.5), 0.34, 0.26),
        ellipsoid((0, -0.6, 1.55), (0.33, 0.37, 0.35)),
    ]


def _beaks() -> dict[str, list[Shape]]:
    return {
        "beak_hooked": [
            ellipsoid((0, -1.02, 1.58), (0.27, 0.4, 0.27)),
            rod((0, -1.27, 1.66), (0, -1.4, 0.98), 0.24, 0.0),
        ],
        "beak_flat": [
            box((0, -1.22, 1.6), (0.44, 0.78, 0.19)),
            box((0, -1.16, 1.34), (0.44, 0.64, 0.17)),
        ],
        "beak_spear": [rod((0, -0.75, 1.56), (0, -1.75, 1.4), 0.29, 0.0)],
        "beak_trunk": [tube(_trunk, 0.17, 16, closed=False)],
    }


def _trunk(t: ndarray) -> ndarray:
    angle = np.pi / 2 * (1 - t)
    return np.column_stack([0 * t, -0.85 - 0.45 * np.cos(angle), 0.8 + 0.75 * np.sin(angle)])


def _crests() -> dict[str, list[Shape]]:
    comb = [(-0.4, 0.0), (-0.48, 0.55), (-0.22, 0.34), (0.0, 0.68), (0.2, 0.34), (0.48, 0.5), (0.42, -0.1)]
    fan = [(0.62 * np.cos(a), 0.62 * np.sin(a)) for a in np.linspace(0, np.pi, 17)]
    horn = rod((0.12, -0.62, 1.72), (0.3, -0.98, 2.45), 0.19, 0.02)
    rear = rod((0.12, -0.52, 1.72), (0.3, -0.16, 2.45), 0.19, 0.02)
    return {
        "crest_comb": [slab(comb, 0.2, (0, -0.58, 1.78), *SIDE)],
        "crest_horns": [horn, rear, mirrored(horn), mirrored(rear)],
        "crest_ball": [rod((0, -0.6, 1.7), (0, -0.6, 2.2), 0.09), ellipsoid((0, -0.6, 2.25), (0.29,) * 3)],
        "crest_fan": [slab(fan, 0.16, (0, -0.5, 1.8), *SIDE)],
    }


def _wings() -> dict[str, list[Shape]]:
    raised = [(-0.28, -0.1), (0.25, -0.12), (0.75, 0.95), (0.3, 0.9)]
    long = [(-0.35, 0.1), (0.1, 0.22), (1.15, -0.45), (0.2, -0.3)]
    tilted = ((0, 1, 0), (0.3, 0, 1))
    fingers = [
        rod((0.36, -0.2, 1.0), (0.6, 0.3 + back, 1.0 + up), 0.1, 0.13)
        for back, up in ((0.0, 0.62), (0.3, 0.22), (0.3, -0.2))
    ]
    wings = {
        "wings_round": [ellipsoid((0.42, 0.1, 1.05), (0.16, 0.5, 0.36), 10)],
        "wings_raised": [slab(raised, 0.12, (0.4, 0.1, 1.05), *tilted)],
        "wings_long": [slab(long, 0.12, (0.46, 0.0, 1.05), (0.1, 1, 0), (-0.1, 0, 1))],
        "wings_fingers": fingers,
    }
    return {name: [*shapes, *map(mirrored, shapes)] for name, shapes in wings.items()}


def _tails() -> dict[str, list[Shape]]:
    fan = [(-0.15, -0.14), (0.62, -0.5), (0.75, 0.0), (0.62, 0.5), (-0.15, 0.14)]
    return {
        "tail_fan": [slab(fan, 0.16, (0, 0.8, 0.95), *SIDE)],
        "tail_fork": [
            rod((0, 0.6, 0.85), (0, 1.45, 1.4), 0.17, 0.13),
            rod((0, 0.6, 0.85), (0, 1.5, 0.55), 0.17, 0.13),
        ],
        "tail_ball": [rod((0, 0.65, 0.85), (0, 1.2, 1.0), 0.12), ellipsoid((0, 1.22, 1.02), (0.34,) * 3)],
        "tail_curl": [tube(_curl, 0.13, 24, closed=False)],
    }


def _curl(t: ndarray) -> ndarray:
    angle = -np.pi / 2 + 1.5 * np.pi * t
    return np.column_stack([0 * t, 0.75 + 0.25 * t + 0.38 * np.cos(angle) + 0.1, 1.15 + 0.38 * np.sin(angle)])


def _feet() -> dict[str, list[Shape]]:
    claws = [
        rod((0.15, y, 0.75), (0.5, y + step, 0.0), 0.15, 0.04)
        for y, step in ((-0.15, -0.45), (0.1, 0.0), (0.35, 0.45))
    ]
    feet = {
        "feet_webbed": [
            rod((0.2, 0.1, 0.8), (0.22, 0.1, 0.08), 0.13),
            box((0.24, -0.08, 0.09), (0.4, 0.95, 0.18), top=(0.9, 0.6)),
        ],
        "feet_wheels": [rod((0.22, y, 0.32), (0.4, y, 0.32), 0.32, segments=32) for y in (-0.28, 0.42)],
        "feet_boots": [
            rod((0.2, 0.1, 0.8), (0.2, 0.1, 0.02), 0.22),
            box((0.2, -0.1, 0.16), (0.4, 0.7, 0.32)),
        ],
        "feet_claws": claws,
    }
    return {name: [*shapes, *map(mirrored, shapes)] for name, shapes in feet.items()}
