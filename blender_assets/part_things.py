"""Cars, planes, robots and houses: parts and colours of each class."""

from dataclasses import dataclass

from blender_assets.part_shapes import Shape, box, ellipsoid, mirrored, rod, slab

Rgb = tuple[float, float, float]
RUBBER: Rgb = (0.02, 0.02, 0.022)
GLASS: Rgb = (0.1, 0.2, 0.28)


def _pair(name: str, rgb: Rgb) -> dict[str, Rgb]:
    return {f"left_{name}": rgb, f"right_{name}": rgb}


@dataclass(frozen=True)
class Car:
    """Lengths in metres; the cabin stands between two places along y, its roof that much shorter."""

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
            **_pair("light", (0.85, 0.8, 0.5)), "bumper": (0.45, 0.45, 0.47),
        },
    ),
    "van": Car(
        length=4.2, height=0.8, wheel=0.36, cabin=(-1.75, 2.05), cabin_height=0.85, slope=0.85, bed=False,
        colors={
            "body": (0.7, 0.7, 0.66), "cabin": (0.05, 0.09, 0.12), "roof": (0.05, 0.35, 0.5),
            **_wheels((0.1, 0.1, 0.11)), **_pair("light", (0.85, 0.5, 0.05)), "bumper": (0.05, 0.35, 0.5),
        },
    ),
    "pickup": Car(
        length=5.0, height=0.6, wheel=0.5, cabin=(-0.9, 0.55), cabin_height=0.65, slope=0.75, bed=True,
        colors={
            "body": (0.04, 0.16, 0.06), "cabin": GLASS, "roof": (0.7, 0.7, 0.66), **_wheels(RUBBER),
            **_pair("light", (0.85, 0.85, 0.8)), "bumper": (0.03, 0.03, 0.03),
        },
    ),
}  # fmt: skip


def car(c: Car) -> dict[str, list[Shape]]:
    """Put a car together."""
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
    """Lengths in metres; a wing is its chord at the root and at the tip, its span, and how far the tip is back."""

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
            **_pair("wing", (0.45, 0.47, 0.5)), **_pair("tailplane", (0.45, 0.47, 0.5)), "fin": (0.02, 0.1, 0.5),
            **_pair("engine", (0.02, 0.1, 0.5)), "gear": (0.03, 0.03, 0.03),
        },
    ),
    "racer": Plane(
        fuselage=(2.2, 0.42), wing=(0.95, 0.75, 2.3, 0.1), wing_height=-0.4, fin=0.8, jets=False,
        colors={
            "fuselage": (0.7, 0.04, 0.03), "nose": (0.8, 0.7, 0.1), "cockpit": GLASS,
            **_pair("wing", (0.8, 0.75, 0.65)), **_pair("tailplane", (0.8, 0.75, 0.65)), "fin": (0.7, 0.04, 0.03),
            **_pair("engine", (0.15, 0.15, 0.16)), "gear": (0.03, 0.03, 0.03),
        },
    ),
    "glider": Plane(
        fuselage=(2.4, 0.28), wing=(0.5, 0.25, 3.6, 0.15), wing_height=0.6, fin=0.75, jets=True,
        colors={
            "fuselage": (0.82, 0.8, 0.76), "nose": (0.75, 0.2, 0.02), "cockpit": (0.02, 0.2, 0.25),
            **_pair("wing", (0.8, 0.45, 0.03)), **_pair("tailplane", (0.75, 0.2, 0.02)), "fin": (0.75, 0.2, 0.02),
            **_pair("engine", (0.3, 0.3, 0.32)), "gear": (0.1, 0.1, 0.1),
        },
    ),
}  # fmt: skip


def plane(p: Plane) -> dict[str, list[Shape]]:
    """Put a plane together; it stands on its gear, the nose a little up."""
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


@dataclass(frozen=True)
class Robot:
    """Width, depth and height of the torso and the head, thickness and length of the limbs; round or boxed."""

    torso: tuple[float, float, float]
    head: tuple[float, float, float]
    arm: tuple[float, float]
    leg: tuple[float, float]
    antenna: float
    round: bool
    colors: dict[str, Rgb]


ROBOTS = {
    "butler": Robot(
        torso=(0.8, 0.5, 1.0), head=(0.6, 0.5, 0.5), arm=(0.14, 0.9), leg=(0.18, 0.7), antenna=0.4, round=False,
        colors={
            "torso": (0.1, 0.25, 0.5), "head": (0.6, 0.62, 0.65), "antenna": (0.7, 0.05, 0.03),
            **_pair("eye", (0.9, 0.75, 0.1)), **_pair("arm", (0.6, 0.62, 0.65)), **_pair("leg", (0.05, 0.1, 0.2)),
            "panel": (0.8, 0.3, 0.03),
        },
    ),
    "diver": Robot(
        torso=(0.95, 0.85, 0.9), head=(0.75, 0.75, 0.7), arm=(0.2, 0.7), leg=(0.24, 0.5), antenna=0.2, round=True,
        colors={
            "torso": (0.75, 0.5, 0.04), "head": (0.7, 0.3, 0.08), "antenna": (0.1, 0.1, 0.1),
            **_pair("eye", (0.1, 0.5, 0.6)), **_pair("arm", (0.75, 0.5, 0.04)), **_pair("leg", (0.25, 0.1, 0.04)),
            "panel": (0.6, 0.6, 0.6),
        },
    ),
    "strider": Robot(
        torso=(0.5, 0.4, 0.6), head=(0.9, 0.5, 0.35), arm=(0.09, 1.0), leg=(0.12, 1.4), antenna=0.6, round=False,
        colors={
            "torso": (0.12, 0.4, 0.12), "head": (0.75, 0.75, 0.7), "antenna": (0.05, 0.05, 0.06),
            **_pair("eye", (0.7, 0.02, 0.02)), **_pair("arm", (0.05, 0.05, 0.06)), **_pair("leg", (0.3, 0.3, 0.32)),
            "panel": (0.7, 0.65, 0.1),
        },
    ),
}  # fmt: skip


def robot(r: Robot) -> dict[str, list[Shape]]:
    """Put a robot together."""
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
    """Width, depth and height of the walls; height and overhang of the roof, which is a gable or a hip."""

    walls: tuple[float, float, float]
    roof: tuple[float, float]
    gable: bool
    window: tuple[float, float]
    door: tuple[float, float]
    chimney: tuple[float, float]
    colors: dict[str, Rgb]


HOUSES = {
    "cottage": House(
        walls=(2.6, 2.0, 1.3), roof=(1.1, 0.3), gable=True, window=(0.5, 0.5), door=(0.5, 0.95), chimney=(0.32, 1.3),
        colors={
            "walls": (0.75, 0.68, 0.55), "roof": (0.45, 0.08, 0.04), "door": (0.1, 0.25, 0.08),
            **_pair("window", (0.1, 0.25, 0.4)), "chimney": (0.3, 0.1, 0.07), "step": (0.4, 0.4, 0.38),
        },
    ),
    "tower": House(
        walls=(1.3, 1.3, 2.6), roof=(1.2, 0.2), gable=False, window=(0.3, 0.7), door=(0.45, 0.9), chimney=(0.22, 0.9),
        colors={
            "walls": (0.35, 0.36, 0.4), "roof": (0.03, 0.12, 0.3), "door": (0.25, 0.1, 0.03),
            **_pair("window", (0.8, 0.6, 0.1)), "chimney": (0.6, 0.55, 0.5), "step": (0.15, 0.15, 0.16),
        },
    ),
    "barn": House(
        walls=(2.4, 3.2, 1.5), roof=(0.8, 0.2), gable=True, window=(0.4, 0.35), door=(1.0, 1.2), chimney=(0.25, 0.9),
        colors={
            "walls": (0.4, 0.03, 0.025), "roof": (0.2, 0.2, 0.21), "door": (0.75, 0.72, 0.65),
            **_pair("window", (0.7, 0.72, 0.75)), "chimney": (0.05, 0.05, 0.05), "step": (0.45, 0.35, 0.2),
        },
    ),
}  # fmt: skip


def house(h: House) -> dict[str, list[Shape]]:
    """Put a house together; the door is in front."""
    width, depth, height = h.walls
    rise, over = h.roof
    front = -depth / 2
    wide, tall = h.window
    across = width + 2 * over
    roof = box(
        (0, 0, height + rise / 2 - 0.02), (across, depth + 2 * over, rise), (0.02, 1.0 if h.gable else 0.02)
    )
    # Beside the door, or above it where there is no room.
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
