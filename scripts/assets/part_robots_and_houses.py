"""Robots and houses: parts and colours of each class."""

from dataclasses import dataclass

from part_shapes import Rgb, both, box, ellipsoid, mirrored, rod
from shapes import Shape


@dataclass(frozen=True)
class Robot:
    """Width, depth and height of torso and head; thickness and length of the limbs; round or angular."""

    torso: tuple[float, float, float]
    head: tuple[float, float, float]
    arm: tuple[float, float]
    leg: tuple[float, float]
    antenna: float
    round: bool
    colors: dict[str, Rgb]


ROBOTS = {
    "butler": Robot(
        torso=(0.8, 0.5, 1.0), head=(0.6, 0.5, 0.5), arm=(0.14, 0.9), leg=(0.18, 0.7), antenna=0.4,
        round=False,
        colors={
            "torso": (0.1, 0.25, 0.5), "head": (0.6, 0.62, 0.65), "antenna": (0.7, 0.05, 0.03),
            **both("eye", (0.9, 0.75, 0.1)), **both("arm", (0.6, 0.62, 0.65)),
            **both("leg", (0.05, 0.1, 0.2)),
            "panel": (0.8, 0.3, 0.03),
        },
    ),
    "diver": Robot(
        torso=(0.95, 0.85, 0.9), head=(0.75, 0.75, 0.7), arm=(0.2, 0.7), leg=(0.24, 0.5), antenna=0.2,
        round=True,
        colors={
            "torso": (0.75, 0.5, 0.04), "head": (0.7, 0.3, 0.08), "antenna": (0.1, 0.1, 0.1),
            **both("eye", (0.1, 0.5, 0.6)), **both("arm", (0.75, 0.5, 0.04)),
            **both("leg", (0.25, 0.1, 0.04)),
            "panel": (0.6, 0.6, 0.6),
        },
    ),
    "strider": Robot(
        torso=(0.5, 0.4, 0.6), head=(0.9, 0.5, 0.35), arm=(0.09, 1.0), leg=(0.12, 1.4), antenna=0.6,
        round=False,
        colors={
            "torso": (0.12, 0.4, 0.12), "head": (0.75, 0.75, 0.7), "antenna": (0.05, 0.05, 0.06),
            **both("eye", (0.7, 0.02, 0.02)), **both("arm", (0.05, 0.05, 0.06)),
            **both("leg", (0.3, 0.3, 0.32)),
            "panel": (0.7, 0.65, 0.1),
        },
    ),
}  # fmt: skip


def robot(r: Robot) -> dict[str, list[Shape]]:
    """Return the shapes of each part of a robot."""
    width, depth, height = r.torso
    thick, long = r.leg
    belly, neck = long + height / 2, long + height
    head = (0.0, 0.0, neck + 0.45 * r.head[2])
    x = width / 2 + 0.6 * r.arm[0]
    leg = [
        rod((0.27 * width, 0, 0.08), (0.27 * width, 0, long + 0.15 * height), thick),
        box((0.27 * width, -0.1, 0.06), (2.3 * thick, 4.0 * thick, 0.12)),
    ]
    arm = [
        rod((x, 0, neck - 0.15 * height), (x + 0.15, -0.25, neck - 0.15 * height - r.arm[1]), r.arm[0]),
        rod((0.35 * width, 0, neck - 0.2 * height), (x, 0, neck - 0.15 * height), 0.8 * r.arm[0]),
        ellipsoid((x + 0.15, -0.25, neck - 0.15 * height - r.arm[1]), (1.4 * r.arm[0],) * 3, segments=16),
    ]
    eye = ellipsoid((0.22 * r.head[0], -0.46 * r.head[1], head[2] + 0.08), (0.11, 0.09, 0.11), segments=16)

    def block(center: tuple[float, float, float], size: tuple[float, float, float]) -> Shape:
        return ellipsoid(center, [0.55 * s for s in size]) if r.round else box(center, size)

    tip = head[2] + 0.4 * r.head[2] + r.antenna
    return {
        "torso": [block((0, 0, belly), r.torso)],
        "head": [block(head, r.head), rod((0, 0, neck - 0.2), head, 0.14)],
        "antenna": [
            rod((0, 0, head[2]), (0, 0, tip), 0.04),
            ellipsoid((0, 0, tip), (0.09,) * 3, segments=16),
        ],
        "left_eye": [eye],
        "right_eye": [mirrored(eye)],
        "left_arm": arm,
        "right_arm": [mirrored(shape) for shape in arm],
        "left_leg": leg,
        "right_leg": [mirrored(shape) for shape in leg],
        "panel": [box((0, -0.5 * depth, belly), (0.5 * width, 0.16, 0.4 * height))],
    }


@dataclass(frozen=True)
class House:
    """Width, depth and height of the walls; height and overhang of the gable or hip roof."""

    walls: tuple[float, float, float]
    roof: tuple[float, float]
    gable: bool
    window: tuple[float, float]
    door: tuple[float, float]
    chimney: tuple[float, float]
    colors: dict[str, Rgb]


HOUSES = {
    "cottage": House(
        walls=(2.6, 2.0, 1.3), roof=(1.1, 0.3), gable=True, window=(0.5, 0.5), door=(0.5, 0.95),
        chimney=(0.32, 1.3),
        colors={
            "walls": (0.75, 0.68, 0.55), "roof": (0.45, 0.08, 0.04), "door": (0.1, 0.25, 0.08),
            **both("window", (0.1, 0.25, 0.4)), "chimney": (0.3, 0.1, 0.07), "step": (0.4, 0.4, 0.38),
        },
    ),
    "tower": House(
        walls=(1.3, 1.3, 2.6), roof=(1.2, 0.2), gable=False, window=(0.3, 0.7), door=(0.45, 0.9),
        chimney=(0.22, 0.9),
        colors={
            "walls": (0.35, 0.36, 0.4), "roof": (0.03, 0.12, 0.3), "door": (0.25, 0.1, 0.03),
            **both("window", (0.8, 0.6, 0.1)), "chimney": (0.6, 0.55, 0.5), "step": (0.15, 0.15, 0.16),
        },
    ),
    "barn": House(
        walls=(2.4, 3.2, 1.5), roof=(0.8, 0.2), gable=True, window=(0.4, 0.35), door=(1.0, 1.2),
        chimney=(0.25, 0.9),
        colors={
            "walls": (0.4, 0.03, 0.025), "roof": (0.2, 0.2, 0.21), "door": (0.75, 0.72, 0.65),
            **both("window", (0.7, 0.72, 0.75)), "chimney": (0.05, 0.05, 0.05), "step": (0.45, 0.35, 0.2),
        },
    ),
}  # fmt: skip


def house(h: House) -> dict[str, list[Shape]]:
    """Return the shapes of each part of a house, with the door in front."""
    width, depth, height = h.walls
    rise, over = h.roof
    front = -depth / 2
    wide, tall = h.window
    across = width + 2 * over
    roof = box(
        (0, 0, height + rise / 2 - 0.02), (across, depth + 2 * over, rise), (0.02, 1.0 if h.gable else 0.02)
    )
    # Windows are next to the door, or above it if there is no room.
    beside = (width + h.door[0]) / 4
    x, z = (beside, 0.55 * height) if beside - wide / 2 > h.door[0] / 2 else (0.27 * width, 0.68 * height)
    window = [box((x, front, z), (wide, 0.12, tall)), box((width / 2, 0.0, 0.6 * height), (0.12, wide, tall))]
    thick, high = h.chimney
    at = (0.22 * width, 0.2 * depth, height + high / 2)
    return {
        "walls": [box((0, 0, height / 2), h.walls)],
        "roof": [roof],
        "door": [box((0, front, h.door[1] / 2), (h.door[0], 0.14, h.door[1]))],
        "left_window": window,
        "right_window": [mirrored(shape) for shape in window],
        "chimney": [box(at, (thick, thick, high))],
        "step": [box((0, front - 0.2, 0.05), (1.5 * h.door[0], 0.44, 0.1))],
    }
