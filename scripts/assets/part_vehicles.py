"""Cars and planes: parts and colours of each class."""

from dataclasses import dataclass

from part_shapes import Rgb, both, box, ellipsoid, mirrored, rod, slab
from shapes import Shape

RUBBER: Rgb = (0.02, 0.02, 0.022)
GLASS: Rgb = (0.1, 0.2, 0.28)


@dataclass(frozen=True)
class Car:
    """Lengths in metres; ``cabin`` holds its ends along y, and its roof is ``slope`` times as long."""

    length: float
    height: float
    wheel: float
    cabin: tuple[float, float]
    cabin_height: float
    slope: float
    bed: bool
    colors: dict[str, Rgb]


def _wheels(rgb: Rgb) -> dict[str, Rgb]:
    return {f"{side}_{end}_wheel": rgb for side in ("left", "right") for end in ("front", "rear")}


CARS = {
    "sedan": Car(
        length=4.4, height=0.55, wheel=0.36, cabin=(-0.9, 1.5), cabin_height=0.5, slope=0.6, bed=False,
        colors={
            "body": (0.5, 0.02, 0.02), "cabin": GLASS, "roof": (0.5, 0.02, 0.02), **_wheels(RUBBER),
            **both("light", (0.85, 0.8, 0.5)), "bumper": (0.45, 0.45, 0.47),
        },
    ),
    "van": Car(
        length=4.2, height=0.8, wheel=0.36, cabin=(-1.75, 2.05), cabin_height=0.85, slope=0.85, bed=False,
        colors={
            "body": (0.7, 0.7, 0.66), "cabin": (0.05, 0.09, 0.12), "roof": (0.05, 0.35, 0.5),
            **_wheels((0.1, 0.1, 0.11)), **both("light", (0.85, 0.5, 0.05)), "bumper": (0.05, 0.35, 0.5),
        },
    ),
    "pickup": Car(
        length=5.0, height=0.6, wheel=0.5, cabin=(-0.9, 0.55), cabin_height=0.65, slope=0.75, bed=True,
        colors={
            "body": (0.04, 0.16, 0.06), "cabin": GLASS, "roof": (0.7, 0.7, 0.66), **_wheels(RUBBER),
            **both("light", (0.85, 0.85, 0.8)), "bumper": (0.03, 0.03, 0.03),
        },
    ),
}  # fmt: skip


def car(c: Car) -> dict[str, list[Shape]]:
    """Return the shapes of each part of a car."""
    floor, half = 0.6 * c.wheel, c.length / 2
    top = floor + c.height
    front, back = c.cabin
    middle, long = (front + back) / 2, back - front
    body = [box((0, 0, floor + c.height / 2), (1.75, c.length, c.height), top=(0.94, 0.97))]
    if c.bed:
        walls = [((0.76, (back + half) / 2), (0.12, half - back)), ((0.0, half - 0.1), (1.64, 0.12))]
        sides = [box((*at, top + 0.15), (*size, 0.36)) for at, size in walls]
        body += [*sides, mirrored(sides[0])]
    wheels = {
        f"{end}_wheel": rod((0.66, y, c.wheel), (0.94, y, c.wheel), c.wheel)
        for end, y in (("front", -0.62 * half), ("rear", 0.6 * half))
    }
    light = box((0.58, -half + 0.01, floor + 0.68 * c.height), (0.36, 0.12, 0.2))
    roof = (1.6 * 0.86, long * c.slope + 0.06)
    parts = {
        "body": body,
        "cabin": [
            box((0, middle, top + c.cabin_height / 2 - 0.02), (1.6, long, c.cabin_height), (0.86, c.slope))
        ],
        "roof": [box((0, middle, top + c.cabin_height), (*roof, 0.1))],
        **{f"left_{name}": [wheel] for name, wheel in wheels.items()},
        **{f"right_{name}": [mirrored(wheel)] for name, wheel in wheels.items()},
        "left_light": [light],
        "right_light": [mirrored(light)],
        "bumper": [box((0, y, floor + 0.12), (1.8, 0.2, 0.2)) for y in (-half, half)],
    }
    return {name: parts[name] for name in c.colors}


@dataclass(frozen=True)
class Plane:
    """Lengths in metres; a wing is its chord at root and tip, its span, and the sweep of its tip."""

    fuselage: tuple[float, float]  # half length, radius
    wing: tuple[float, float, float, float]
    wing_height: float  # -1 .. 1 of the radius
    fin: float
    jets: bool
    colors: dict[str, Rgb]


PLANES = {
    "airliner": Plane(
        fuselage=(3.0, 0.42), wing=(1.2, 0.45, 2.7, 1.2), wing_height=-0.5, fin=1.0, jets=True,
        colors={
            "fuselage": (0.75, 0.75, 0.75), "nose": (0.1, 0.1, 0.12), "cockpit": (0.05, 0.09, 0.13),
            **both("wing", (0.45, 0.47, 0.5)), **both("tailplane", (0.45, 0.47, 0.5)),
            "fin": (0.02, 0.1, 0.5),
            **both("engine", (0.02, 0.1, 0.5)), "gear": (0.03, 0.03, 0.03),
        },
    ),
    "racer": Plane(
        fuselage=(2.2, 0.42), wing=(0.95, 0.75, 2.3, 0.1), wing_height=-0.4, fin=0.8, jets=False,
        colors={
            "fuselage": (0.7, 0.04, 0.03), "nose": (0.8, 0.7, 0.1), "cockpit": GLASS,
            **both("wing", (0.8, 0.75, 0.65)), **both("tailplane", (0.8, 0.75, 0.65)),
            "fin": (0.7, 0.04, 0.03),
            **both("engine", (0.15, 0.15, 0.16)), "gear": (0.03, 0.03, 0.03),
        },
    ),
    "glider": Plane(
        fuselage=(2.4, 0.28), wing=(0.5, 0.25, 3.6, 0.15), wing_height=0.6, fin=0.75, jets=True,
        colors={
            "fuselage": (0.82, 0.8, 0.76), "nose": (0.75, 0.2, 0.02), "cockpit": (0.02, 0.2, 0.25),
            **both("wing", (0.8, 0.45, 0.03)), **both("tailplane", (0.75, 0.2, 0.02)),
            "fin": (0.75, 0.2, 0.02),
            **both("engine", (0.3, 0.3, 0.32)), "gear": (0.1, 0.1, 0.1),
        },
    ),
}  # fmt: skip


def plane(p: Plane) -> dict[str, list[Shape]]:
    """Return the shapes of each part of a plane, which stands on its gear with the nose raised a little."""
    half, radius = p.fuselage
    root, tip, span, sweep = p.wing
    high = radius + 0.62
    at = high + p.wing_height * radius
    outline = [(0.0, -0.55 * root), (span, sweep - tip / 2), (span, sweep + tip / 2), (0.0, 0.45 * root)]
    wing = slab(outline, 0.1, (0.25 * radius, -0.1, at), (1, 0, 0.06), (0, 1, 0))
    behind = [(0.0, -0.3), (1.0, 0.1), (1.0, 0.4), (0.0, 0.3)]
    tailplane = slab(behind, 0.07, (0.0, 0.82 * half, high + 0.1), (1, 0, 0), (0, 1, 0))
    upright = [(-0.45, 0.0), (0.05, p.fin + 0.2), (0.42, p.fin + 0.2), (0.35, 0.0)]
    out = 0.38 * span
    engine = rod((out, sweep * 0.38 - 0.7, at - 0.12), (out, sweep * 0.38 + 0.25, at - 0.12), 0.2, 0.13)
    gear = [
        rod((x, y, 0.16), (0.6 * x, y, high - 0.4 * radius), 0.05)
        for x, y in ((0.55, 0.15), (-0.55, 0.15), (0, -0.62 * half))
    ]
    gear += [
        rod((x - 0.07, y, 0.16), (x + 0.07, y, 0.16), 0.16)
        for x, y in ((0.55, 0.15), (-0.55, 0.15), (0, -0.62 * half))
    ]
    nose = [ellipsoid((0, -0.86 * half, high), (0.62 * radius, 0.24 * half, 0.62 * radius))]
    if not p.jets:
        nose.append(box((0, -1.04 * half, high), (0.16, 0.06, 2.2)))
    return {
        "fuselage": [ellipsoid((0, 0, high), (radius, half, radius))],
        "nose": nose,
        "cockpit": [
            ellipsoid((0, -0.5 * half, high + 0.62 * radius), (0.6 * radius, 0.2 * half, 0.6 * radius))
        ],
        "left_wing": [wing],
        "right_wing": [mirrored(wing)],
        "left_tailplane": [tailplane],
        "right_tailplane": [mirrored(tailplane)],
        "fin": [slab(upright, 0.08, (0, 0.78 * half, high), (0, 1, 0), (0, 0, 1))],
        "left_engine": [engine],
        "right_engine": [mirrored(engine)],
        "gear": gear,
    }
