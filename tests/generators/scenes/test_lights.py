import math
from dataclasses import replace

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.layout import Scene
from candlelight.generators.language.lights_and_camera import Camera, Light, PlacedCamera
from candlelight.generators.scenes.camera import world_to_camera
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.lights import (
    HIGHEST,
    LOWEST,
    REFERENCE_POWER,
    blackbody,
    normalise_lights,
    place_lights,
)
from candlelight.loaders.illuminants import illuminant
from candlelight.loaders.schema import LightRecord
from tests.refusals import refused

CAMERA = PlacedCamera(location=(0, 5, 2), look_at=(0, 0, 0.5), field_of_view=50)
SPEC = Camera(location=(0, 5, 2), look_at=(0, 0, 0.5))


def inputs(**values):
    return LayoutInputs(0, "set/000000", values)


def layout(**fields):
    return Scene(**{"camera": SPEC, **fields})


@pytest.mark.parametrize("azimuth", [-90, -44, 0, 2, 180])
@pytest.mark.parametrize("place", [(3, 1, 1), (-2, -4, 3)], ids=str)
def test_azimuth_counts_from_the_camera_to_the_right_in_the_image(azimuth, place):
    camera = CAMERA.model_copy(update={"location": place, "look_at": (0.0, 0.0, 0.0)})
    spec = Light(azimuth="$azimuth", elevation=30, distance=4)
    (light,) = place_lights(layout(lights=(spec,)), inputs(azimuth=azimuth), camera)
    assert math.dist(light.location, (0, 0, 0)) == pytest.approx(4)
    assert light.location[2] == pytest.approx(2)
    right, _, forward, _ = world_to_camera(camera) @ (*light.location, 0)
    assert right == pytest.approx(4 * math.cos(math.radians(30)) * math.sin(math.radians(azimuth)), abs=1e-6)
    if abs(azimuth) < 45:
        assert forward < 0  # on the camera's side of what it looks at


def test_lights_by_location_asset_and_temperature():
    specs = (
        Light(name="spot", location=("$x", 1, 3), power=50, radius=0.1),
        Light(name="warm", temperature="$kelvin"),
        Light(asset="$side"),
        Light(asset="middle", name="top"),
    )
    spot, warm, side, top = place_lights(
        layout(lights=specs), inputs(x=-2.5, kelvin=3000, side="left"), CAMERA
    )
    assert (spot.location, spot.power, spot.radius) == ((-2.5, 1.0, 3.0), 50.0, 0.1)
    assert (spot.color, spot.temperature) == ((1.0, 1.0, 1.0), None)
    assert warm.temperature == 3000
    assert warm.color[0] > 1 > warm.color[2]
    assert (side.name, side.location, side.power) == ("left", (5.0, -5.0, 7.0), 5000.0)
    assert (top.name, top.location) == ("top", (0.0, 0.0, 7.0))


def test_a_users_light_file_without_a_manifest_is_refused(tmp_path):
    (tmp_path / "left.blend").touch()
    own = replace(inputs(), library=AssetLibrary({"lights": tmp_path}))
    with refused("light asset `left`: a plan states every number"):
        place_lights(layout(lights=(Light(asset="left"),)), own, CAMERA)


def test_a_light_has_the_colour_of_the_recipe():
    specs = (
        Light(name="white"),
        Light(name="E", chromaticity=(611, 0)),
        Light(name="hue", chromaticity=("$nm", "$s")),
        Light(name="channels", color=(0.5, "$s", 0)),
        Light(name="hsv", color={"hue": 120, "saturation": 0.8, "value": 2}),
    )
    lights = place_lights(layout(lights=specs), inputs(nm=-510, s=3), CAMERA)
    colors = {light.name: light.color for light in lights}
    assert colors["white"] == (1.0, 1.0, 1.0)
    assert colors["E"] == illuminant(500, 0)
    assert colors["hue"] == illuminant(-510, 3)
    assert colors["channels"] == (0.5, 3.0, 0.0)
    assert colors["hsv"] == pytest.approx((0.4, 2.0, 0.4))
    assert {light.temperature for light in lights} == {None}


def test_a_spot_shines_at_its_aim_and_otherwise_at_its_target():
    specs = (
        Light(name="aimed", kind="spot", location=(0, 3, 4), aim=("$x", 0, 0), cone="$cone"),
        Light(name="circling", kind="spot", azimuth=30, distance=5, target=("$x", 0, 1), blend=0),
        Light(name="point"),
    )
    aimed, circling, point = place_lights(layout(lights=specs), inputs(x=0, cone=35), CAMERA)
    assert (aimed.kind, aimed.cone, aimed.blend, aimed.direction) == ("spot", 35, 0.15, (0, -0.6, -0.8))
    assert math.dist(circling.location, (0, 0, 1)) == pytest.approx(5)
    np.testing.assert_allclose(
        np.array(circling.location) + 5 * np.array(circling.direction), (0, 0, 1), atol=1e-7
    )
    assert (point.kind, point.cone, point.blend, point.direction) == ("point", None, None, None)


def test_areas_and_suns_have_the_fields_of_their_kinds():
    specs = (
        Light(name="square", kind="area", location=(0, 3, 4), aim=(0, 0, 0), size="$side"),
        Light(name="panel", kind="area", location=(0, 0, 3), size=("$side", 0.5)),
        Light(name="sun", kind="sun", power=5, azimuth=90, elevation="$up", angle=2),
        Light(name="far", kind="sun", power="$side", location=(0, 3, 4)),
    )
    square, panel, sun, far = place_lights(layout(lights=specs), inputs(side=0.4, up=30), CAMERA)
    assert (square.size, panel.size) == ((0.4, 0.4), (0.4, 0.5))
    assert (square.direction, panel.direction) == ((0, -0.6, -0.8), (0, 0, -1))
    assert (square.power, square.radius, square.angle) == (1000, None, None)
    # The camera is at positive y, so that its right is at negative x.
    np.testing.assert_allclose(sun.direction, (math.sqrt(3) / 2, 0, -0.5), atol=1e-7)
    assert (sun.power, sun.angle, sun.location, sun.radius, sun.size) == (5, 2, None, None, None)
    assert (far.direction, far.angle, far.power) == ((0, -0.6, -0.8), 0.53, 0.4)


def test_fields_of_new_kinds_are_written_for_them_alone():
    (point,) = place_lights(layout(lights=(Light(),)), inputs(), CAMERA)
    assert {"size", "angle"}.isdisjoint(point.model_dump())
    assert {"size", "angle"}.isdisjoint(Light(kind="spot").model_dump())


# ------------------------------------------------------------------------------------------ temperatures

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
REC709_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def chromaticity(temperature):
    x, y, z = REC709_TO_XYZ @ blackbody(temperature)
    return x / (x + y + z), y / (x + y + z)


# CIE 1931, 2 degrees: illuminant A is the black body of 2856 K; the others lie on the Planckian locus.
PLANCKIAN = {
    2000: (0.5267, 0.4133),
    2856: (0.4476, 0.4074),
    4000: (0.3805, 0.3768),
    5000: (0.3451, 0.3516),
    6504: (0.3135, 0.3237),
    10000: (0.2807, 0.2884),
}


@pytest.mark.parametrize("temperature", PLANCKIAN)
def test_chromaticity_lies_on_the_planckian_locus(temperature):
    # The fit of the observer is good to about 0.003 in x and y.
    np.testing.assert_allclose(chromaticity(temperature), PLANCKIAN[temperature], atol=0.004)


def test_luminance_is_one_and_nothing_negative():
    for temperature in np.linspace(LOWEST, HIGHEST, 100).tolist():
        color = np.array(blackbody(temperature))
        assert color @ LUMINANCE == pytest.approx(1, abs=1e-12)
        assert (color >= 0).all()
    with refused("temperature: expected 1000 to 40000 K, got nan"):
        blackbody(float("nan"))
    # The gamut clips the blue of candlelight only.
    assert blackbody(LOWEST)[2] == 0
    assert blackbody(2000)[2] > 0


# ------------------------------------------------------------------------------- traced light and gain


def light(name="key", power=500.0, color=(1.0, 0.5, 0.25), temperature=None):
    location = (0.0, 1.0, 3.0)
    return LightRecord(
        name=name, location=location, power=power, radius=0.2, color=color, temperature=temperature
    )


def emitted(lights):
    return np.array([np.array(light.color) * light.power for light in lights])


@pytest.mark.parametrize("count", [1, 3])
def test_traced_light_times_gain_is_the_light(count):
    rng = np.random.default_rng(count)
    lights = tuple(
        light(f"l{i}", float(rng.uniform(10, 5000)), tuple(rng.uniform(0.1, 2, 3).tolist()))
        for i in range(count)
    )
    traced, gain = normalise_lights(lights)
    np.testing.assert_allclose(emitted(traced) * gain, emitted(lights), rtol=1e-6)
    assert traced[0].color == (1.0, 1.0, 1.0)
    assert {light.power for light in traced} == {REFERENCE_POWER}


def test_power_and_colour_of_all_lights_at_once_leave_the_trace_alone():
    def pair(power, color):
        return light(power=power, color=color), light("fill", power / 3, color)

    one, other = pair(300.0, (1.0, 0.9, 0.7)), pair(2000.0, (0.7, 1.0, 1.9))
    assert normalise_lights(one)[0] == normalise_lights(other)[0]
    moved = one[0].model_copy(update={"location": (1.0, 0.0, 3.0)})
    assert normalise_lights((moved, one[1]))[0] != normalise_lights(one)[0]


def test_an_area_and_a_sun_of_any_power_and_temperature_share_a_trace():
    def pair(factor, kelvin):
        specs = (
            Light(kind="area", name="a", size=(2, 1), power=100 * factor, temperature=kelvin),
            Light(kind="sun", name="b", power=5 * factor, temperature=kelvin),
        )
        return place_lights(layout(lights=specs), inputs(), CAMERA)

    traced, gain = normalise_lights(pair(2.5, 9000))
    assert traced == normalise_lights(pair(1, 3000))[0]
    np.testing.assert_allclose(emitted(traced) * gain, emitted(pair(2.5, 9000)), rtol=1e-6)
    assert (traced[0].size, traced[1].angle) == ((2, 1), 0.53)


def test_place_and_radius_are_traced_and_the_temperature_is_not():
    (traced,), _ = normalise_lights((light(temperature=2500.0),))
    assert (traced.name, traced.location, traced.radius) == ("key", (0.0, 1.0, 3.0), 0.2)
    assert traced.temperature is None


def test_a_channel_without_light_is_no_reference():
    # Blue of a light at 1000 K lies outside the gamut: another light's could not be told relative to it.
    lights = (light(color=(3.0, 0.5, 0.0)), light("fill", color=(1.0, 1.0, 1.0)))
    assert normalise_lights(lights) == (lights, (1.0, 1.0, 1.0))
