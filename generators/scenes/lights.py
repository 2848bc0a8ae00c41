"""Resolve the lights of a layout: place, direction, power and colour; samples share traces by a gain."""

import math
from functools import cache

import numpy as np

from candlelight.generators.language.layout import Scene
from candlelight.generators.language.lights_and_camera import (
    DEFAULT_LIGHT_NAME,
    ENVIRONMENT_LIGHT,
    Light,
    PlacedCamera,
)
from candlelight.generators.scenes.camera import SAME_PLACE
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.loaders.errors import InputError, within
from candlelight.loaders.illuminants import illuminant, observer, xyz_to_rec709
from candlelight.loaders.schema import LightRecord, Vector

_WHITE = (1.0, 1.0, 1.0)
LOWEST, HIGHEST = 1000.0, 40000.0  # K
REFERENCE_POWER = 1000.0  # W (of a sun W/m2) of the first light of a trace that several samples share
# Numbers that the kinds of lights have beside their power.
_NUMBERS = {"point": ("radius",), "spot": ("radius", "cone", "blend"), "area": ("size",), "sun": ("angle",)}


def place_lights(layout: Scene, inputs: LayoutInputs, camera: PlacedCamera) -> tuple[LightRecord, ...]:
    """Resolve the lights of a layout; azimuths count from the side of ``camera``.

    Raises:
        InputError: an asset that does not exist or has no facts, two lights of one name, or a number out of
            range.
    """
    specs, field = inputs.chosen(layout.lights, "layout.lights")
    lights = tuple(_light(spec, camera, inputs, f"{field}.{i}") for i, spec in enumerate(specs))
    names = [light.name for light in lights]
    if len({*names, ENVIRONMENT_LIGHT}) != len(names) + 1:
        raise InputError(
            f"{field}: expected a different `name` for each light, none `{ENVIRONMENT_LIGHT}`, got {names}"
        )
    return lights


def _light(spec: Light, camera: PlacedCamera, inputs: LayoutInputs, field: str) -> LightRecord:
    if spec.asset is not None:
        label = inputs.asset("lights", spec.asset, f"{field}.asset")
        facts = inputs.library.facts("lights", label)
        if not facts:
            raise InputError(
                f"light asset `{label}`: a plan states every number of a light, and the manifest has none of "
                "this file; run `candlelight assets scan` on its folder, or write the light into the recipe "
                "(location, power, radius)"
            )
        return LightRecord(name=spec.name or label, **facts)
    numbers = inputs.numbers(spec, field, "power", *_NUMBERS[spec.kind])
    if "size" in numbers and not isinstance(numbers["size"], tuple):
        numbers["size"] = (numbers["size"], numbers["size"])
    location = _location(spec, camera, inputs, field)
    color, temperature = _colour(spec, inputs, field)
    return LightRecord(
        name=spec.name or DEFAULT_LIGHT_NAME,
        location=None if spec.kind == "sun" else location,
        color=color,
        temperature=temperature,
        kind=spec.kind,
        direction=None if spec.kind == "point" else _direction(spec, location, inputs, field),
        **{"radius": None, **numbers},
    )


def _colour(spec: Light, inputs: LayoutInputs, field: str) -> tuple[Vector, float | None]:
    """Return the linear Rec.709 colour of a light, and its temperature in kelvin, None without one."""
    if spec.temperature is not None:
        temperature = inputs.number(spec.temperature, f"{field}.temperature")
        return blackbody(temperature), temperature
    if spec.chromaticity is not None:
        where = f"{field}.chromaticity"
        hue, saturation = (inputs.number(part, where) for part in spec.chromaticity)
        with within(where):
            return illuminant(hue, saturation), None
    if spec.color is None:
        return _WHITE, None
    color = inputs.color(spec.color, f"{field}.color")
    if not max(color) > 0:
        raise InputError(f"{field}.color: expected a channel above 0, got {list(color)}")
    return color, None


def _direction(spec: Light, location: Vector, inputs: LayoutInputs, field: str) -> Vector:
    """Return the unit vector from a light to the point that it shines at."""
    aim = inputs.vector(spec.target if spec.aim is None else spec.aim, f"{field}.aim")
    if math.dist(aim, location) < SAME_PLACE:
        raise InputError(f"{field}.aim: expected a point away from the light, got {list(aim)}")
    direction = np.array(aim) - location
    x, y, z = (direction / np.linalg.norm(direction)).round(9).tolist()
    return x, y, z


def _location(spec: Light, camera: PlacedCamera, inputs: LayoutInputs, field: str) -> Vector:
    """Return the place of a light, as given or by azimuth, elevation and distance."""
    if spec.location is not None:
        return inputs.vector(spec.location, f"{field}.location")
    placed = inputs.numbers(spec, field, "azimuth", "elevation", "distance", "target")
    azimuth, elevation = (math.radians(placed[name]) for name in ("azimuth", "elevation"))
    target = placed["target"]
    towards = np.array([camera.location[0] - target[0], camera.location[1] - target[1], 0.0])
    if np.linalg.norm(towards) < SAME_PLACE:
        raise InputError(
            f"{field}.target: expected a point that is not straight below or above the camera, because "
            "azimuths count from the camera's side; give the light a `location` instead"
        )
    towards /= np.linalg.norm(towards)
    rightwards = np.cross((0.0, 0.0, 1.0), towards)
    level = math.cos(azimuth) * towards + math.sin(azimuth) * rightwards
    direction = math.cos(elevation) * level + math.sin(elevation) * np.array([0.0, 0.0, 1.0])
    x, y, z = (np.array(target) + placed["distance"] * direction).round(9).tolist()
    return x, y, z


@cache
def blackbody(temperature: float) -> Vector:
    """Colour of a black body at ``temperature``, at luminance 1.

    Spectral radiance by Planck's law ``B(l, T) ~ l^-5 / (exp(c2 / (l T)) - 1)``, ``c2`` = 1.4387769e-2 m K,
    integrated from 360 to 830 nm against the CIE 1931 observer, then XYZ to Rec.709. Negative channels (blue
    under about 1900 K) are clipped at 0, and the colour is scaled so that
    0.2126 R + 0.7152 G + 0.0722 B = 1: another temperature changes the colour of a light and not its
    luminous power.

    Args:
        temperature: kelvin, 1000 to 40000.

    Returns:
        Linear Rec.709 colour of luminance 1.

    Raises:
        InputError: temperature out of range.

    Example:
        >>> [round(channel, 2) for channel in blackbody(6500)]
        [1.04, 0.98, 1.03]
    """
    if not LOWEST <= temperature <= HIGHEST:
        raise InputError(f"temperature: expected {LOWEST:.0f} to {HIGHEST:.0f} K, got {temperature}")
    wavelength = np.arange(360.0, 831.0)
    radiance = wavelength**-5.0 / np.expm1(1.4387769e7 / (wavelength * temperature))
    return xyz_to_rec709(observer(wavelength) @ radiance)


def normalise_lights(lights: tuple[LightRecord, ...]) -> tuple[tuple[LightRecord, ...], Vector]:
    """Split the lights of a sample into lights to trace and a gain per channel.

    Light transport is linear: the first light is traced white at `REFERENCE_POWER`, the others relative to
    it, and the traced radiance times the gain is the radiance under the lights of the sample. So samples that
    differ in nothing but power and colour of their light come from one trace, and are exact multiples of each
    other.

    Args:
        lights: all light sources of the sample; there is no environment.

    Returns:
        The lights to trace, and the gain.

    Example:
        >>> light = LightRecord(name="light", location=(0, 0, 3), power=500, radius=0.5, color=(2, 1, 0.5))
        >>> traced, gain = normalise_lights((light,))
        >>> traced[0].power, traced[0].color, gain
        (1000.0, (1.0, 1.0, 1.0), (1.0, 0.5, 0.25))
    """
    first = np.array(lights[0].color) * lights[0].power / REFERENCE_POWER
    if not first.all():
        # A channel without light cannot be the reference for one that has some.
        return lights, (1.0, 1.0, 1.0)
    traced = []
    for light in lights:
        relative = (np.array(light.color) * light.power / REFERENCE_POWER / first).round(9)
        red, green, blue = relative.tolist()
        update = {"power": REFERENCE_POWER, "color": (red, green, blue), "temperature": None}
        traced.append(light.model_copy(update=update))
    red, green, blue = first.tolist()
    return tuple(traced), (red, green, blue)
