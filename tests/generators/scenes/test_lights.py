import math
from dataclasses import replace

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.layout import SceneLayout
from candlelight.generators.language.lights_and_camera import Camera, CameraSpec, LightSpec
from candlelight.generators.scenes.camera import world_to_camera
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.lights import place_lights
from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import illuminant

CAMERA = Camera(location=(0, 5, 2), look_at=(0, 0, 0.5), field_of_view=50)
SPEC = CameraSpec(location=(0, 5, 2), look_at=(0, 0, 0.5))
LAMP = LightSpec()


def inputs(**values):
    return LayoutInputs(0, "set/000000", values)


def layout(**fields):
    return SceneLayout(**{"camera": SPEC, **fields})


@pytest.mark.parametrize("azimuth", [-90, -44, -2, 0, 2, 44, 90, 180])
@pytest.mark.parametrize("place", [(0, 5, 2), (3, 1, 1), (-2, -4, 3)], ids=str)
def test_azimuth_counts_from_the_camera_to_the_right_in_the_image(azimuth, place):
    camera = CAMERA.model_copy(update={"location": place, "look_at": (0.0, 0.0, 0.0)})
    spec = LightSpec(azimuth="$azimuth", elevation=30, distance=4)
    (light,) = place_lights(layout(lights=(spec,)), inputs(azimuth=azimuth), camera)
    assert math.dist(light.location, (0, 0, 0)) == pytest.approx(4)
    assert light.location[2] == pytest.approx(2)
    right, _, forward, _ = world_to_camera(camera) @ (*light.location, 0)
    assert right == pytest.approx(4 * math.cos(math.radians(30)) * math.sin(math.radians(azimuth)), abs=1e-6)
    if abs(azimuth) < 45:
        assert forward < 0  # on the camera's side of what it looks at


def test_lights_by_location_asset_and_temperature():
    specs = (
        LightSpec(name="spot", location=("$x", 1, 3), power=50, radius=0.1),
        LightSpec(name="warm", temperature="$kelvin"),
        LightSpec(asset="$side"),
        LightSpec(asset="middle", name="top"),
    )
    spot, warm, side, top = place_lights(
        layout(lights=specs), inputs(x=-2.5, kelvin=3000, side="left"), CAMERA
    )
    assert (spot.location, spot.power, spot.radius, spot.color) == (
        (-2.5, 1.0, 3.0),
        50.0,
        0.1,
        (1.0, 1.0, 1.0),
    )
    assert spot.temperature is None
    assert warm.temperature == 3000
    assert warm.color[0] > 1 > warm.color[2]
    assert (side.name, side.location, side.power) == ("left", (5.0, -5.0, 7.0), 5000.0)
    assert (top.name, top.location) == ("top", (0.0, 0.0, 7.0))


@pytest.mark.parametrize(
    ("lights", "message"),
    [
        (
            (LAMP, LAMP),
            r"layout\.lights: expected a different `name` for each light, none `environment`, got",
        ),
        ((LightSpec(name="environment"),), r"layout\.lights: expected a different `name`"),
        (
            (LightSpec(asset="back"),),
            r"layout\.lights\.\d+\.asset: asset `back` is not among the lights; .*left, middle",
        ),
        ((LightSpec(power=0),), r"layout\.lights\.0: expected power > 0 W and radius >= 0 m, got 0\.0"),
        (
            (LightSpec(radius=-1),),
            r"layout\.lights\.0: expected power > 0 W and radius >= 0 m, got 1000\.0 and -1\.0",
        ),
        (
            (LightSpec(power="$word"),),
            r"layout\.lights\.\d+\.power: expected a number, got `red` from `\$word`",
        ),
        (
            (LightSpec(temperature="$word"),),
            r"layout\.lights\.\d+\.temperature: expected a number, got `red`",
        ),
        ((LightSpec(temperature=500),), r"temperature: expected 1000 to 40000 K, got 500"),
        ((LightSpec(azimuth="$word"),), r"layout\.lights\.\d+\.azimuth: expected a number"),
        ((LightSpec(location=(0, 0, "$word")),), r"layout\.lights\.\d+\.location: expected a number"),
        ((LightSpec(distance=0),), r"layout\.lights\.\d+\.distance: expected more than 0 m, got 0"),
        (
            (LightSpec(target=(0, 5, 0)),),
            r"layout\.lights\.\d+\.target: .*straight below or above the camera",
        ),
        (
            (LightSpec(chromaticity=(300, 1)),),
            r"layout\.lights\.\d+\.chromaticity: expected a dominant wavelength of 440 to 650 nm, .* 300",
        ),
        (
            (LightSpec(chromaticity=(-510, 9)),),
            r"layout\.lights\.\d+\.chromaticity: expected a saturation of 0 to 8 steps, got 9",
        ),
        (
            (LightSpec(color=(0, 0, 0)),),
            r"layout\.lights\.\d+\.color: expected a channel above 0, got \[0\.0, 0",
        ),
        (
            (LightSpec(color=(1, -1, 0)),),
            r"layout\.lights\.\d+\.color: expected channels of at least 0, got \[",
        ),
        (
            (LightSpec(kind="spot", cone=200),),
            r"layout\.lights\.\d+\.cone: expected 1 to 180 degrees, got 200",
        ),
        ((LightSpec(kind="spot", blend=2),), r"layout\.lights\.\d+\.blend: expected 0 to 1, got 2"),
        (
            (LightSpec(kind="spot", location=(1, 2, 3), aim=(1, 2, 3)),),
            r"layout\.lights\.\d+\.aim: expected a point away from the light, got \[1\.0, 2\.0, 3\.0\]",
        ),
    ],
)
def test_light_errors(lights, message):
    with pytest.raises(InputError, match=message):
        place_lights(layout(lights=lights), inputs(word="red"), CAMERA)


def test_a_users_light_file_without_a_manifest_is_refused(tmp_path):
    (tmp_path / "left.blend").touch()
    own = replace(inputs(), library=AssetLibrary({"lights": tmp_path}))
    with pytest.raises(InputError, match="light asset `left`: a plan states every number"):
        place_lights(layout(lights=(LightSpec(asset="left"),)), own, CAMERA)


def test_a_light_has_the_colour_of_the_recipe():
    specs = (
        LightSpec(name="white"),
        LightSpec(name="E", chromaticity=(611, 0)),
        LightSpec(name="hue", chromaticity=("$nm", "$s")),
        LightSpec(name="channels", color=(0.5, "$s", 0)),
        LightSpec(name="hsv", color={"hue": 120, "saturation": 0.8, "value": 2}),
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
        LightSpec(name="aimed", kind="spot", location=(0, 3, 4), aim=("$x", 0, 0), cone="$cone"),
        LightSpec(name="circling", kind="spot", azimuth=30, distance=5, target=("$x", 0, 1), blend=0),
        LightSpec(name="point"),
    )
    aimed, circling, point = place_lights(layout(lights=specs), inputs(x=0, cone=35), CAMERA)
    assert (aimed.kind, aimed.cone, aimed.blend, aimed.direction) == ("spot", 35, 0.15, (0, -0.6, -0.8))
    assert math.dist(circling.location, (0, 0, 1)) == pytest.approx(5)
    np.testing.assert_allclose(
        np.array(circling.location) + 5 * np.array(circling.direction), (0, 0, 1), atol=1e-7
    )
    assert (point.kind, point.cone, point.blend, point.direction) == ("point", None, None, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"temperature": 3000, "color": (1, 1, 1)},
            "expected one of `temperature`, .*, got temperature, color",
        ),
        ({"cone": 30}, "cone: a point light shines in all directions; add `kind: spot`"),
        (
            {"asset": "left", "kind": "spot"},
            "a light asset decides every field of the light; expected no kind",
        ),
        ({"color": {"saturation": 1}}, "hue"),
        ({"kind": "sun"}, "'point' or 'spot'"),
    ],
)
def test_fields_that_do_not_go_together(fields, message):
    with pytest.raises(ValueError, match=message):
        LightSpec(**fields)
