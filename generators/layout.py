"""From the values of a sample's factors and variables to the numbers of its scene."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from blender_assets import AssetLibrary
from generators.blackbody import blackbody
from generators.scene import Camera, Environment, Material, Thing
from generators.specs import Appearance, Layout, LightSpec, ObjectSpec, Scatter, substitute
from generators.streams import stream
from loaders.colour import srgb_to_linear
from loaders.errors import InputError
from loaders.schema import FactorValue, LightRecord, Vector

PLACING_ATTEMPTS = 2000
WORLD = "environment"  # the light layer of the map
LAMP = "lamp"  # a light that the recipe does not name
PLAIN = "rgb"  # the label of a material of one colour that the plan states
ABOVE = 1e-6  # m; what is less than this beside the camera is straight below or above it


@dataclass(frozen=True)
class Draws:
    """What a layout may draw from: the recipe's seed, the unit, and the values of the sample."""

    seed: int
    unit: str
    values: Mapping[str, FactorValue]

    def stream(self, name: str) -> np.random.Generator:
        """Return the unit's stream of one named variable."""
        return stream(self.seed, self.unit, name)

    def fill(self, value: Any) -> Any:
        """Put the sample's values where ``$name`` stands."""
        return substitute(value, self.values.__getitem__)

    def number(self, value: Any, field: str) -> float:
        """Return the number that a field stands for.

        Raises:
            InputError: the field names a factor whose value is no number.
        """
        filled = self.fill(value)
        if isinstance(filled, str):
            raise InputError(f"{field}: expected a number, got `{filled}` from `{value}`")
        return float(filled)

    def whole(self, value: Any, field: str) -> int:
        """Return the whole number, at least 0, that a field stands for.

        Raises:
            InputError: it stands for something else.
        """
        number = self.number(value, field)
        if number < 0 or not number.is_integer():
            raise InputError(f"{field}: expected a whole number, at least 0, got {number}")
        return int(number)

    def vector(self, value: Any, field: str) -> Vector:
        """Return the three numbers that a field stands for.

        Raises:
            InputError: one of them names a factor whose value is no number.
        """
        x, y, z = (self.number(part, field) for part in value)
        return x, y, z


def place_objects(layout: Layout, draws: Draws, library: AssetLibrary) -> tuple[Thing, ...]:
    """Resolve the objects of a layout.

    Raises:
        InputError: an arrangement, type or material that does not exist, or no room for a scattered object.
    """
    if layout.scatter is not None:
        specs = scatter(layout.scatter, draws, library)
    elif layout.arrangement is not None:
        name = str(draws.fill(layout.arrangement))
        if name not in layout.arrangements:
            known = ", ".join(layout.arrangements)
            raise InputError(f"layout.arrangement: expected one of {known}, got `{name}`")
        specs = layout.arrangements[name]
    else:
        specs = layout.objects
    return tuple(_thing(spec, i, layout.appearance, draws, library) for i, spec in enumerate(specs))


def _thing(spec: ObjectSpec, i: int, appearance: Appearance, draws: Draws, library: AssetLibrary) -> Thing:
    kind = str(draws.fill(spec.type))
    _require(library, "objects", kind, "layout.objects.type")
    if spec.material is None:
        material = draw_material(appearance, draws, i)
        if material.label != PLAIN:
            _require(library, "textures", material.label, "layout.appearance.textures")
    else:
        material = Material(label=str(draws.fill(spec.material)))
        _require(library, "materials", material.label, "layout.objects.material")
    size = draws.number(spec.size, "layout.objects.size")
    if size <= 0:
        raise InputError(f"layout.objects.size: expected more than 0 m, got {size}")
    return Thing(
        type=kind,
        material=material,
        size=size,
        rotation=draws.number(spec.rotation, "layout.objects.rotation"),
        location=draws.vector((*spec.location, 0.0), "layout.objects.location"),
    )


def _require(library: AssetLibrary, kind: str, label: str, field: str) -> None:
    """Look an asset up, and name the field of the layout if there is none."""
    try:
        library.find(kind, label)
    except InputError as error:
        raise InputError(f"{field}: {error}") from None


def draw_material(appearance: Appearance, draws: Draws, i: int) -> Material:
    """Draw the material of object ``i``: that of the unit's numbered variation, the same whenever asked.

    Raises:
        InputError: ``texturing`` is neither "rgb" nor "textured".
    """
    texturing = str(draws.fill(appearance.texturing))
    variation = draws.whole(appearance.variation, "layout.appearance.variation")
    if texturing not in (PLAIN, "textured"):
        raise InputError(f"layout.appearance.texturing: expected rgb or textured, got `{texturing}`")
    rng = draws.stream(f"appearance/{texturing}/{variation}/{i}")

    def color() -> Vector:
        red, green, blue = srgb_to_linear(rng.uniform(appearance.low, appearance.high, 3)).round(6).tolist()
        return red, green, blue

    if texturing == PLAIN:
        return Material(label=PLAIN, base_color=color())
    label = appearance.textures[int(rng.integers(len(appearance.textures)))]
    x, y, z = rng.uniform(-10.0, 10.0, 3).round(6).tolist()
    scale = round(float(rng.uniform(0.7, 1.8)), 6)
    return Material(label=label, color_a=color(), color_b=color(), offset=(x, y, z), scale=scale)


def scatter(plan: Scatter, draws: Draws, library: AssetLibrary) -> tuple[ObjectSpec, ...]:
    """Place objects at random so that their bounding circles keep their distance.

    Each object has a stream of its own, so that one more object moves none of the others.

    Raises:
        InputError: an object found no room.
    """
    x_low, x_high, y_low, y_high = plan.region
    specs: list[ObjectSpec] = []
    circles: list[tuple[float, float, float]] = []
    for i in range(draws.whole(plan.count, "layout.scatter.count")):
        rng = draws.stream(f"scatter/{i}")
        kind = plan.types[int(rng.integers(len(plan.types)))]
        size = round(float(rng.uniform(*plan.size)), 6)
        rotation = round(float(rng.uniform(0.0, 360.0)), 6)
        radius = size * footprint(library, kind)
        for _ in range(PLACING_ATTEMPTS):
            x, y = round(float(rng.uniform(x_low, x_high)), 6), round(float(rng.uniform(y_low, y_high)), 6)
            if all(math.hypot(x - a, y - b) >= radius + r + plan.gap for a, b, r in circles):
                break
        else:
            raise InputError(
                f"layout.scatter: no room for object {i + 1} in region {list(plan.region)}; "
                "widen the region, or lower count, size or gap"
            )
        circles.append((x, y, radius))
        specs.append(ObjectSpec(type=kind, size=size, rotation=rotation, location=(x, y)))
    return tuple(specs)


def footprint(library: AssetLibrary, kind: str) -> float:
    """Radius of the circle around an object of size 1 in metres; a user's own counts as a unit box."""
    width, depth, _ = library.facts("objects", kind).get("dimensions", (1.0, 1.0, 1.0))
    return math.hypot(width, depth) / 2


def hang_lights(
    layout: Layout, draws: Draws, library: AssetLibrary, camera: Camera
) -> tuple[LightRecord, ...]:
    """Resolve the lights of a layout; azimuths count from the side of ``camera``.

    Raises:
        InputError: an asset that does not exist or has no facts, two lights of one name, or a number out of
            range.
    """
    lights = tuple(_light(spec, camera, draws, library) for spec in layout.lights)
    names = [light.name for light in lights]
    if len({*names, WORLD}) != len(names) + 1:
        raise InputError(
            f"layout.lights: expected a different `name` for each light, none `{WORLD}`, got {names}"
        )
    return lights


def _light(spec: LightSpec, camera: Camera, draws: Draws, library: AssetLibrary) -> LightRecord:
    if spec.asset is not None:
        label = str(draws.fill(spec.asset))
        _require(library, "lights", label, "layout.lights.asset")
        facts = library.facts("lights", label)
        if not facts:
            raise InputError(
                f"light asset `{label}`: a plan states every number of a light, and the manifest has none of "
                "this file; write the light into the recipe (location, power, radius) instead"
            )
        return LightRecord(name=spec.name or label, **facts)
    power, radius = (draws.number(getattr(spec, f), f"layout.lights.{f}") for f in ("power", "radius"))
    temperature = None
    if spec.temperature is not None:
        temperature = draws.number(spec.temperature, "layout.lights.temperature")
    if power <= 0 or radius < 0:
        raise InputError(f"layout.lights: expected power > 0 W and radius >= 0 m, got {power} and {radius}")
    return LightRecord(
        name=spec.name or LAMP,
        location=_stand(spec, camera, draws),
        power=power,
        radius=radius,
        color=(1.0, 1.0, 1.0) if temperature is None else blackbody(temperature),
        temperature=temperature,
    )


def _stand(spec: LightSpec, camera: Camera, draws: Draws) -> Vector:
    """Where a lamp stands: as given, or by azimuth from the camera's side, elevation and distance."""
    if spec.location is not None:
        return draws.vector(spec.location, "layout.lights.location")
    azimuth = math.radians(draws.number(spec.azimuth, "layout.lights.azimuth"))
    elevation = math.radians(draws.number(spec.elevation, "layout.lights.elevation"))
    distance = draws.number(spec.distance, "layout.lights.distance")
    if distance <= 0:
        raise InputError(f"layout.lights.distance: expected more than 0 m, got {distance}")
    towards = np.array([camera.location[0] - spec.target[0], camera.location[1] - spec.target[1], 0.0])
    if np.linalg.norm(towards) < ABOVE:
        raise InputError(
            "layout.lights.target: expected a point that is not straight below the camera, from "
            "whose side azimuths count; give the light a `location` instead"
        )
    towards /= np.linalg.norm(towards)
    rightwards = np.cross((0.0, 0.0, 1.0), towards)
    level = math.cos(azimuth) * towards + math.sin(azimuth) * rightwards
    direction = math.cos(elevation) * level + math.sin(elevation) * np.array([0.0, 0.0, 1.0])
    x, y, z = (np.array(spec.target) + distance * direction).round(9).tolist()
    return x, y, z


def place_camera(layout: Layout, draws: Draws) -> Camera:
    """Resolve the camera of a layout.

    Raises:
        InputError: a field of view outside (0, 180), or a camera that looks straight down or up.
    """
    spec = layout.camera
    camera = Camera(
        location=draws.vector(spec.location, "layout.camera.location"),
        look_at=draws.vector(spec.look_at, "layout.camera.look_at"),
        field_of_view=draws.number(spec.field_of_view, "layout.camera.field_of_view"),
        pitch=draws.number(spec.pitch, "layout.camera.pitch"),
        yaw=draws.number(spec.yaw, "layout.camera.yaw"),
    )
    if not 0 < camera.field_of_view < 180:
        raise InputError(
            f"layout.camera.field_of_view: expected 0 to 180 degrees, got {camera.field_of_view}"
        )
    if math.dist(camera.location[:2], camera.look_at[:2]) < ABOVE:
        raise InputError("layout.camera: expected look_at beside the camera, not straight above or below it")
    return camera


def surround(layout: Layout, draws: Draws, library: AssetLibrary) -> Environment | None:
    """Resolve the environment of a layout: the map's own turn and strength, and the layout's on top.

    Raises:
        InputError: a map that does not exist, or a negative strength.
    """
    spec = layout.environment
    if spec is None:
        return None
    label = str(draws.fill(spec.map))
    _require(library, "scenes", label, "layout.environment.map")
    facts = library.facts("scenes", label)
    strength = draws.number(spec.strength, "layout.environment.strength") * facts.get("strength", 1.0)
    if strength < 0:
        raise InputError(f"layout.environment.strength: expected at least 0, got {strength}")
    rotation = draws.number(spec.rotation, "layout.environment.rotation") + facts.get("rotation", 0.0)
    return Environment(map=label, rotation=rotation % 360.0, strength=strength)
