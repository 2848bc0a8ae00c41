"""Layouts whose values are out of range for one sample: each error names its field."""

import pytest

from candlelight.generators.language.layout import Scene
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.resolve_trace import resolve
from tests.refusals import refused

CAMERA = {"location": (0, 5, 2), "look_at": (0, 0, 0.5)}
SCATTER = {"types": ("cube",), "size": (0.3, 0.9), "region": (-3, 3, -2, 2), "gap": 0.1}
CHOICE = {"choose": "$word", "among": {"one": ({"type": "cube"},)}}
CUBE = {"type": "cube", "material": "red"}
COLORS = {"color_a": (0, 0, 0), "color_b": (1, 1, 1)}


def thing(**fields):
    return {"objects": [{**CUBE, **fields}]}


def light(**fields):
    return {"lights": [fields]}


def camera(**fields):
    return {"camera": {**CAMERA, **fields}}


def floor(**fields):
    return {"floor": fields}


def paint(**fields):
    return {"objects": [{"type": "cube"}], "random_material": fields}


FIELDS = [
    (
        thing(type="blob"),
        r"objects\.\d+\.type: asset `blob` is not among the objects; expected one of: .*cone, ",
    ),
    (
        thing(material="pink"),
        r"objects\.\d+\.material: asset `pink` is not among the materials; .*blue, green",
    ),
    (thing(material="../objects/cube"), r"objects\.\d+\.material: asset `\.\./objects/cube` is not among"),
    (thing(material="own"), r"objects\.\d+\.material: `own` stands for the colours.*no parts of `cube`"),
    (
        thing(material={"base_color": ("$two", 0, 0)}),
        r"base_color: expected channels of 0 to 1, got \[2\.0, 0",
    ),
    (thing(size="$word"), r"objects\.\d+\.size: expected a number, got `red` from `\$word`"),
    (thing(size=0), r"objects\.\d+\.size: expected more than 0 m, got 0\.0"),
    (
        thing(parts={"horn": "red"}),
        r"parts: `horn` is no part of `cube`; expected some of: none, it has no parts",
    ),
    (thing(type="finch", parts={"horn": "red"}), r"`horn` is no part of `finch`; expected some of: body"),
    (thing(type="finch", parts={"beak": "pink"}), r"parts\.beak: asset `pink` is not among the materials"),
    ({"objects": [CUBE] * 256}, "at most 255 objects, .*got 256"),
    ({"objects": CHOICE}, r"objects\.among: expected an entry for each value of `word`, got none for red"),
    *(
        ({"scatter": {**SCATTER, "count": count}}, message)
        for count, message in (
            (60, r"scatter: no room for object \d+ in region \[-3\.0, 3\.0, -2\.0, 2\.0\]; widen"),
            (-1, r"scatter\.count: expected a whole number, at least 0, got -1"),
            ("$word", r"scatter\.count: expected a number, got `red`"),
            (256, "expected at most 255 objects, as many as a mask can number, got 256"),
        )
    ),
    (paint(texturing="fur"), r"random_material\.texturing: expected rgb or textured, got `fur`"),
    (paint(variation=1.5), r"random_material\.variation: expected a whole number, at least 0, got 1\.5"),
    (paint(variation="$word"), r"random_material\.variation: expected a number, got `red`"),
    (paint(texturing="textured", textures=("fur",)), r"random_material\.textures: asset `fur` is not among"),
    (
        {**thing(), "random_pose": {"variation": 1.5}},
        r"random_pose\.variation: expected a whole number, .* 1\.5",
    ),
    (floor(material="own"), r"layout\.floor\.material: asset `own` is not among the materials"),
    (
        floor(material={"choose": "$word", "among": {"red": {"texture": "fur", **COLORS}}}),
        r"layout\.floor\.material\.among\.red\.texture: asset `fur` is not among the textures",
    ),
    (floor(half_width=0), r"floor\.half_width: expected more than 0 m, got 0"),
    (floor(random_material={"texturing": "$word"}), r"floor\.random_material\.texturing: expected rgb or"),
    (
        floor(base_color={"hue": "$word"}),
        r"floor\.base_color\.hue: expected a number, got `red` from `\$word`",
    ),
    (floor(base_color={"hue": 0, "saturation": 1.5}), r"base_color\.saturation: expected 0 to 1, got 1\.5"),
    ({"environment": {"scene": "moon"}}, r"environment\.scene: asset `moon` is not among the scenes"),
    (
        {"environment": {"scene": "garden", "strength": -1}},
        r"environment\.strength: expected at least 0, got -",
    ),
    ({"environment": {"scene": "garden", "rotation": "$word"}}, r"environment\.rotation: expected a number"),
    *(
        (
            {"environment": {"scene": "hall", **change}},
            "environment: `hall` is a .blend file, which has its own place and light; expected rotation 0",
        )
        for change in ({"rotation": 10}, {"strength": 0.5})
    ),
    ({"lights": [{}, {}]}, "lights: expected a different `name` for each light, none `environment`, got"),
    (light(name="environment"), "lights: expected a different `name`"),
    (light(asset="back"), r"lights\.\d+\.asset: asset `back` is not among the lights; .*left, middle"),
    (light(power=0), r"lights\.0\.power: expected more than 0 W, got 0\.0"),
    (light(radius=-1), r"lights\.0\.radius: expected at least 0 m, got -1\.0"),
    (light(power="$word"), r"lights\.\d+\.power: expected a number, got `red` from `\$word`"),
    (light(temperature=999.9), r"temperature: expected 1000 to 40000 K, got 999.9"),
    (light(temperature=40001), r"temperature: expected 1000 to 40000 K, got 40001"),
    (light(distance=0), r"lights\.\d+\.distance: expected more than 0 m, got 0"),
    (light(target=(0, 5, 0)), r"lights\.\d+\.target: .*straight below or above the camera"),
    (light(chromaticity=(300, 1)), r"chromaticity: expected a dominant wavelength of 440 to 650 nm, .* 300"),
    (light(chromaticity=(-510, 9)), r"chromaticity: expected a saturation of 0 to 8 steps, got 9"),
    (light(color=(0, 0, 0)), r"lights\.\d+\.color: expected a channel above 0, got \[0\.0, 0"),
    (light(color=(1, -1, 0)), r"lights\.\d+\.color: expected channels of at least 0, got \["),
    (light(kind="area", size="$low"), r"lights\.\d+\.size: expected more than 0 m, got -200"),
    (light(kind="area", size=(1, 0)), r"lights\.\d+\.size: expected more than 0 m, got 0\.0"),
    (light(kind="sun", power=1, angle="$large"), r"lights\.\d+\.angle: expected 0 to 90 degrees, got 181"),
    (light(kind="spot", cone=200), r"lights\.\d+\.cone: expected 1 to 180 degrees, got 200"),
    (light(kind="spot", blend=2), r"lights\.\d+\.blend: expected 0 to 1, got 2"),
    (
        light(kind="spot", location=(1, 2, 3), aim=(1, 2, 3)),
        r"lights\.\d+\.aim: expected a point away from the light, got \[1\.0, 2\.0, 3\.0\]",
    ),
    (camera(field_of_view=180), r"camera\.field_of_view: expected 0 to 180 degrees, got 180"),
    (camera(field_of_view=0), r"camera\.field_of_view: expected 0 to 180 degrees, got 0"),
    (camera(field_of_view="$word"), r"camera\.field_of_view: expected a number, got `red`"),
    (camera(roll="$large"), r"camera\.roll: expected -180 to 180 degrees, got 181"),
    (camera(shift=(0, -46)), r"camera\.shift: expected at most 45 degrees to each side, got \[0\.0, -46"),
    (camera(yaw="$low"), r"camera\.yaw: expected -180 to 180 degrees, got -200"),
    (camera(zoom=11), r"camera\.zoom: expected 0\.1 to 10, got 11"),
    (camera(zoom=0), r"camera\.zoom: expected 0\.1 to 10, got 0"),
    (camera(look_at=(0, 5, 0)), "camera: expected `look_at` not straight above or below"),
    (
        {"camera": {"choose": "$word", "among": {"red": {**CAMERA, "zoom": 11}}}},
        r"layout\.camera\.among\.red\.zoom: expected 0\.1 to 10, got 11",
    ),
]


@pytest.mark.parametrize(("fields", "message"), FIELDS)
def test_errors_name_the_field(fields, message):
    layout = Scene.model_validate({"camera": CAMERA, "lights": [{}], **fields})
    inputs = LayoutInputs(0, "set/0", {"word": "red", "two": 2, "large": 181, "low": -200})
    with refused(message):
        resolve(layout, inputs)
