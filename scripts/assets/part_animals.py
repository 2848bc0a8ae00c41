"""Birds with the eleven parts that CUB-70 names, and fishes: parts and colours of each class."""

from dataclasses import dataclass

from part_shapes import Rgb, box, ellipsoid, mirrored, rod, slab
from shapes import Shape

BLACK: Rgb = (0.01, 0.01, 0.012)


@dataclass(frozen=True)
class Bird:
    """Lengths in units of half the body's; ``beak`` is length, width and height."""

    beak: tuple[float, float, float]
    neck: tuple[float, float]  # forwards, upwards
    legs: float
    tail: tuple[float, float]  # length, width
    head: float
    pitch: float
    colors: dict[str, Rgb]


BIRDS = {
    "finch": Bird(
        beak=(0.3, 0.13, 0.13), neck=(0.62, 0.5), legs=0.45, tail=(0.75, 0.3), head=0.36, pitch=25,
        colors={
            "body": (0.42, 0.05, 0.03), "head": (0.6, 0.04, 0.03), "neck": (0.3, 0.05, 0.04),
            "beak": (0.75, 0.45, 0.08), "tail": (0.06, 0.035, 0.02), "left_wing": (0.14, 0.07, 0.035),
            "right_wing": (0.14, 0.07, 0.035), "left_leg": (0.3, 0.12, 0.06), "right_leg": (0.3, 0.12, 0.06),
            "left_eye": BLACK, "right_eye": BLACK,
        },
    ),
    "heron": Bird(
        beak=(0.95, 0.09, 0.1), neck=(0.75, 1.35), legs=1.5, tail=(0.45, 0.28), head=0.25, pitch=30,
        colors={
            "body": (0.25, 0.32, 0.42), "head": (0.75, 0.75, 0.72), "neck": (0.5, 0.55, 0.6),
            "beak": (0.8, 0.5, 0.03), "tail": (0.07, 0.09, 0.13), "left_wing": (0.1, 0.15, 0.25),
            "right_wing": (0.1, 0.15, 0.25), "left_leg": (0.6, 0.35, 0.1), "right_leg": (0.6, 0.35, 0.1),
            "left_eye": (0.8, 0.65, 0.02), "right_eye": (0.8, 0.65, 0.02),
        },
    ),
    "duck": Bird(
        beak=(0.42, 0.2, 0.07), neck=(0.8, 0.62), legs=0.3, tail=(0.4, 0.4), head=0.34, pitch=5,
        colors={
            "body": (0.36, 0.3, 0.24), "head": (0.01, 0.22, 0.08), "neck": (0.8, 0.8, 0.78),
            "beak": (0.85, 0.62, 0.04), "tail": (0.7, 0.7, 0.68), "left_wing": (0.28, 0.2, 0.13),
            "right_wing": (0.28, 0.2, 0.13), "left_leg": (0.8, 0.25, 0.02), "right_leg": (0.8, 0.25, 0.02),
            "left_eye": BLACK, "right_eye": BLACK,
        },
    ),
}  # fmt: skip


def bird(b: Bird) -> dict[str, list[Shape]]:
    """Return the shapes of each part of a bird."""
    high = b.legs + 0.5
    head = (0.0, -b.neck[0], high + b.neck[1])
    face = (0.0, head[1] - 0.75 * b.head, head[2])
    tip = (0.0, head[1] - b.head - b.beak[0], head[2] - 0.08)
    flat = b.beak[2] / b.beak[1]
    points, faces = rod(
        (0, 0, 0), (0, tip[1] - face[1], (tip[2] - face[2]) / flat), b.beak[1], 0.25 * b.beak[1]
    )
    beak = (points * (1.0, 1.0, flat) + face, faces)
    eye = ellipsoid(
        (0.62 * b.head, head[1] - 0.55 * b.head, head[2] + 0.3 * b.head), (0.07,) * 3, segments=16
    )
    wing = ellipsoid((0.5, 0.2, high + 0.08), (0.1, 0.78, 0.32), 0.6 * b.pitch)
    leg = [
        rod((0.2, 0.1, high - 0.1), (0.2, 0.05, 0.03), 0.05, segments=16),
        box((0.2, -0.06, 0.025), (0.2, 0.36, 0.05), top=(0.6, 0.7)),
    ]
    length, width = b.tail
    fan = [(-0.16, 0.0), (0.16, 0.0), (width, length), (-width, length)]
    return {
        "body": [ellipsoid((0, 0, high), (0.54, 1.0, 0.52), b.pitch)],
        "head": [ellipsoid(head, (b.head, 1.05 * b.head, b.head))],
        "neck": [rod((0, -0.55, high + 0.1), head, 0.34, 0.7 * b.head)],
        "beak": [beak],
        "tail": [slab(fan, 0.1, (0, 0.75, high - 0.3 * b.pitch / 25), (1, 0, 0), (0, 1, -0.1))],
        "left_wing": [wing],
        "right_wing": [mirrored(wing)],
        "left_leg": leg,
        "right_leg": [mirrored(shape) for shape in leg],
        "left_eye": [eye],
        "right_eye": [mirrored(eye)],
    }


@dataclass(frozen=True)
class Fish:
    """Half axes of the body; outlines of the fins as (towards the tail, upwards)."""

    body: tuple[float, float, float]
    tail: tuple[tuple[float, float], ...]
    back: tuple[tuple[float, float], ...]
    belly: tuple[tuple[float, float], ...]
    colors: dict[str, Rgb]


FISHES = {
    "carp": Fish(
        body=(0.28, 0.8, 0.42),
        tail=((0, -0.12), (0.5, -0.42), (0.58, 0.0), (0.5, 0.42), (0, 0.12)),
        back=((-0.3, 0), (-0.15, 0.24), (0.3, 0.2), (0.45, 0)),
        belly=((0.05, 0), (0.35, -0.22), (0.42, 0)),
        colors={
            "body": (0.8, 0.2, 0.02), "head": (0.65, 0.09, 0.02), "tail_fin": (0.85, 0.42, 0.06),
            "dorsal_fin": (0.8, 0.3, 0.03), "anal_fin": (0.85, 0.42, 0.06), "left_fin": (0.85, 0.5, 0.12),
            "right_fin": (0.85, 0.5, 0.12), "mouth": (0.7, 0.3, 0.22), "left_eye": BLACK, "right_eye": BLACK,
            "stand": (0.12, 0.12, 0.13),
        },
    ),
    "tuna": Fish(
        body=(0.24, 1.05, 0.3),
        tail=((0, -0.08), (0.4, -0.6), (0.2, 0.0), (0.4, 0.6), (0, 0.08)),
        back=((-0.2, 0), (0.05, 0.42), (0.12, 0)),
        belly=((0.15, 0), (0.42, -0.35), (0.45, 0)),
        colors={
            "body": (0.09, 0.2, 0.42), "head": (0.04, 0.08, 0.2), "tail_fin": (0.05, 0.1, 0.22),
            "dorsal_fin": (0.75, 0.6, 0.05), "anal_fin": (0.75, 0.6, 0.05), "left_fin": (0.4, 0.5, 0.6),
            "right_fin": (0.4, 0.5, 0.6), "mouth": (0.5, 0.5, 0.5), "left_eye": (0.75, 0.75, 0.7),
            "right_eye": (0.75, 0.75, 0.7), "stand": (0.12, 0.12, 0.13),
        },
    ),
    "angelfish": Fish(
        body=(0.16, 0.62, 0.6),
        tail=((0, -0.12), (0.42, -0.35), (0.45, 0.35), (0, 0.12)),
        back=((-0.15, -0.08), (0.35, 0.75), (0.5, 0.7), (0.32, -0.3)),
        belly=((-0.15, 0.08), (0.35, -0.6), (0.48, -0.55), (0.32, 0.3)),
        colors={
            "body": (0.85, 0.68, 0.05), "head": (0.8, 0.8, 0.72), "tail_fin": (0.8, 0.8, 0.75),
            "dorsal_fin": (0.05, 0.05, 0.3), "anal_fin": (0.05, 0.05, 0.3), "left_fin": (0.3, 0.5, 0.75),
            "right_fin": (0.3, 0.5, 0.75), "mouth": (0.5, 0.1, 0.3), "left_eye": BLACK, "right_eye": BLACK,
            "stand": (0.12, 0.12, 0.13),
        },
    ),
}  # fmt: skip


def fish(f: Fish) -> dict[str, list[Shape]]:
    """Return the shapes of each part of a fish, which is on a stand."""
    wide, long, tall = f.body
    high = tall + 0.55
    front = -0.62 * long
    eye = ellipsoid((0.66 * wide, front - 0.16 * long, high + 0.22 * tall), (0.06, 0.08, 0.08), segments=16)
    outline = [(0.0, 0.0), (0.42, -0.1), (0.4, -0.28), (0.05, -0.14)]
    fin = slab(outline, 0.05, (0.7 * wide, -0.25 * long, high - 0.1 * tall), (0.55, 0.9, 0), (-0.35, 0, 1))
    side = ((0, 1, 0), (0, 0, 1))
    return {
        "body": [ellipsoid((0, 0, high), f.body)],
        "head": [ellipsoid((0, front, high), (0.88 * wide, 0.4 * long, 0.72 * tall))],
        "tail_fin": [slab(f.tail, 0.07, (0, 0.9 * long, high), *side)],
        "dorsal_fin": [slab(f.back, 0.06, (0, 0, high + 0.9 * tall), *side)],
        "anal_fin": [slab(f.belly, 0.06, (0, 0.1, high - 0.86 * tall), *side)],
        "left_fin": [fin],
        "right_fin": [mirrored(fin)],
        "mouth": [ellipsoid((0, front - 0.39 * long, high - 0.08 * tall), (0.09, 0.06, 0.05), segments=16)],
        "left_eye": [eye],
        "right_eye": [mirrored(eye)],
        "stand": [
            rod((0, 0, 0.05), (0, 0, high - 0.5 * tall), 0.05),
            rod((0, 0, 0), (0, 0, 0.06), 0.35, 0.3),
        ],
    }
