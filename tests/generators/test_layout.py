import itertools
import math

import numpy as np
import pytest

from blender_assets import AssetLibrary
from generators.camera import project, world_to_camera
from generators.layout import (
    Draws,
    draw_material,
    footprint,
    hang_lights,
    place_camera,
    place_objects,
    scatter,
    surround,
)
from generators.load import load_recipe
from generators.plan import make_plan
from generators.scene import Camera
from generators.specs import Appearance, CameraSpec, EnvironmentSpec, Layout, LightSpec, ObjectSpec, Scatter
from generators.streams import stream
from loaders.colour import linear_to_srgb
from loaders.errors import InputError

LIBRARY = AssetLibrary()
CAMERA = Camera(location=(0, 5, 2), look_at=(0, 0, 0.5), field_of_view=50)
SPEC = CameraSpec(location=(0, 5, 2), look_at=(0, 0, 0.5))
LAMP = LightSpec()
ROOMY = Scatter(
    count="$count", types=("cube", "torus", "suzanne"), size=(0.3, 0.9), region=(-3, 3, -2, 2), gap=0.1
)


def draws(unit="set/000000", seed=0, **values):
    return Draws(seed, unit, values)


def layout(**fields):
    return Layout(**{"camera": SPEC, "lights": (LAMP,), **fields})


# ---------------------------------------------------------------------------------------------- objects


def test_objects_take_their_values():
    spec = ObjectSpec(type="$kind", material="$color", size="$s", rotation=30, location=("$x", -1))
    (thing,) = place_objects(layout(objects=(spec,)), draws(kind="cone", color="red", s=2, x=0.25), LIBRARY)
    assert (thing.type, thing.material.label, thing.size, thing.rotation) == ("cone", "red", 2.0, 30.0)
    assert thing.location == (0.25, -1.0, 0.0)
    assert thing.material.base_color is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"type": "blob"},
            r"layout\.objects\.type: asset `blob` is not among the objects; expected one of: cone, cube",
        ),
        (
            {"material": "pink"},
            r"layout\.objects\.material: asset `pink` is not among the materials; .*blue, green",
        ),
        (
            {"material": "../objects/cube"},
            r"layout\.objects\.material: asset `\.\./objects/cube` is not among",
        ),
        ({"size": "$word"}, r"layout\.objects\.size: expected a number, got `red` from `\$word`"),
        ({"size": 0}, r"layout\.objects\.size: expected more than 0 m, got 0\.0"),
        ({"rotation": "$word"}, r"layout\.objects\.rotation: expected a number, got `red`"),
        ({"location": (0, "$word")}, r"layout\.objects\.location: expected a number, got `red`"),
    ],
)
def test_object_errors_name_the_field(fields, message):
    spec = ObjectSpec(**{"type": "cube", "material": "red", **fields})
    with pytest.raises(InputError, match=message):
        place_objects(layout(objects=(spec,)), draws(word="red"), LIBRARY)


def test_arrangements_are_chosen_by_name():
    arrangements = {
        "one": (ObjectSpec(type="cube"),),
        "two": (ObjectSpec(type="cone"), ObjectSpec(type="torus")),
    }
    chosen = layout(arrangement="$scene", arrangements=arrangements)
    assert [thing.type for thing in place_objects(chosen, draws(scene="two"), LIBRARY)] == ["cone", "torus"]
    with pytest.raises(InputError, match=r"layout\.arrangement: expected one of one, two, got `three`"):
        place_objects(chosen, draws(scene="three"), LIBRARY)


# -------------------------------------------------------------------------------------------- materials


def test_a_variation_is_the_same_whenever_asked_and_each_is_another():
    plain = Appearance(variation="$n")
    colors = [draw_material(plain, draws(n=n), i).base_color for n in range(20) for i in range(2)]
    assert len(set(colors)) == 40
    assert draw_material(plain, draws(n=7, other=3), 1).base_color == colors[15]
    assert draw_material(plain, draws("set/000001", n=7), 1).base_color != colors[15]


def test_colours_are_uniform_as_they_are_seen():
    plain = Appearance(variation="$n", low=0.2, high=0.8)
    linear = np.array([draw_material(plain, draws(n=n), 0).base_color for n in range(1000)])
    seen = (linear_to_srgb(linear) - 0.2) / 0.6
    assert seen.min() > -1e-4
    assert seen.max() < 1 + 1e-4
    counts = np.stack([np.histogram(seen[:, channel], 10, (-1e-4, 1 + 1e-4))[0] for channel in range(3)])
    # Chi square with 9 degrees of freedom: 33.7 is exceeded once in ten thousand.
    assert (((counts - 100) ** 2 / 100).sum(axis=1) < 33.7).all()


def test_textures_are_drawn_evenly_and_placed():
    textured = Appearance(texturing="$t", variation="$n")
    drawn = [draw_material(textured, draws(t="textured", n=n), 0) for n in range(1000)]
    labels, counts = np.unique([material.label for material in drawn], return_counts=True)
    assert labels.tolist() == ["bricks", "checker", "dots", "marble", "stripes"]
    assert ((counts - 200) ** 2 / 200).sum() < 23.5  # 4 degrees of freedom, once in ten thousand
    assert all(material.base_color is None and material.color_a != material.color_b for material in drawn)
    assert all(0.7 <= material.scale <= 1.8 for material in drawn)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"texturing": "fur"}, r"layout\.appearance\.texturing: expected rgb or textured, got `fur`"),
        ({"variation": 1.5}, r"layout\.appearance\.variation: expected a whole number, at least 0, got 1\.5"),
        ({"variation": "$word"}, r"layout\.appearance\.variation: expected a number, got `red`"),
        (
            {"texturing": "textured", "textures": ("fur",)},
            r"layout\.appearance\.textures: asset `fur` is not among",
        ),
    ],
)
def test_appearance_errors(fields, message):
    with pytest.raises(InputError, match=message):
        place_objects(
            layout(objects=(ObjectSpec(type="cube"),), appearance=Appearance(**fields)),
            draws(word="red"),
            LIBRARY,
        )


# ---------------------------------------------------------------------------------------------- scatter


def test_scattered_objects_keep_their_distance_and_the_region():
    for unit in range(60):
        placed = scatter(ROOMY, draws(f"set/{unit:06d}", count=6), LIBRARY)
        assert len(placed) == 6
        for a, b in itertools.combinations(placed, 2):
            reach = sum(spec.size * footprint(LIBRARY, spec.type) for spec in (a, b))
            assert math.dist(a.location, b.location) >= reach + ROOMY.gap
        for spec in placed:
            assert -3 <= spec.location[0] <= 3
            assert -2 <= spec.location[1] <= 2
            assert 0.3 <= spec.size <= 0.9
            assert 0 <= spec.rotation < 360


def test_one_more_object_moves_none():
    for unit in range(20):
        few, many = (scatter(ROOMY, draws(f"set/{unit:06d}", count=count), LIBRARY) for count in (3, 5))
        assert many[:3] == few


def test_scatter_draws_types_and_sizes_evenly():
    placed = [scatter(ROOMY, draws(f"set/{unit:06d}", count=1), LIBRARY)[0] for unit in range(900)]
    _, counts = np.unique([spec.type for spec in placed], return_counts=True)
    assert ((counts - 300) ** 2 / 300).sum() < 18.5  # 2 degrees of freedom, once in ten thousand
    sizes = np.array([spec.size for spec in placed])
    assert sizes.mean() == pytest.approx(0.6, abs=4 * 0.6 / math.sqrt(12 * 900))
    corners = np.array([spec.location for spec in placed])
    assert np.abs(corners.mean(axis=0)).max() < 4 * 6 / math.sqrt(12 * 900)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (
            60,
            r"layout\.scatter: no room for object \d+ in region \[-3\.0, 3\.0, -2\.0, 2\.0\]; widen",
        ),
        (-1, r"layout\.scatter\.count: expected a whole number, at least 0, got -1"),
        (2.5, r"layout\.scatter\.count: expected a whole number"),
        ("red", r"layout\.scatter\.count: expected a number, got `red`"),
    ],
)
def test_scatter_errors(count, message):
    with pytest.raises(InputError, match=message):
        scatter(ROOMY, draws(count=count), LIBRARY)


def test_footprint_holds_the_turned_object():
    assert footprint(LIBRARY, "cube") == pytest.approx(math.sqrt(2) / 2)
    assert footprint(LIBRARY, "torus") == pytest.approx(1.25 * math.sqrt(2) / 2)


def test_footprint_of_a_users_own_is_that_of_a_unit_box(tmp_path):
    (tmp_path / "torus.blend").touch()
    assert footprint(AssetLibrary({"objects": tmp_path}), "torus") == pytest.approx(math.sqrt(2) / 2)


# ----------------------------------------------------------------------------------------------- lights


@pytest.mark.parametrize("azimuth", [-90, -44, -2, 0, 2, 44, 90, 180])
@pytest.mark.parametrize("place", [(0, 5, 2), (3, 1, 1), (-2, -4, 3)], ids=str)
def test_azimuth_is_counted_from_the_camera_to_the_right_in_the_picture(azimuth, place):
    camera = CAMERA.model_copy(update={"location": place, "look_at": (0.0, 0.0, 0.0)})
    spec = LightSpec(azimuth="$azimuth", elevation=30, distance=4)
    (light,) = hang_lights(layout(lights=(spec,)), draws(azimuth=azimuth), LIBRARY, camera)
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
    spot, warm, side, top = hang_lights(
        layout(lights=specs), draws(x=-2.5, kelvin=3000, side="left"), LIBRARY, CAMERA
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
            r"layout\.lights\.asset: asset `back` is not among the lights; .*left, middle",
        ),
        ((LightSpec(power=0),), r"layout\.lights: expected power > 0 W and radius >= 0 m, got 0\.0"),
        (
            (LightSpec(radius=-1),),
            r"layout\.lights: expected power > 0 W and radius >= 0 m, got 1000\.0 and -1\.0",
        ),
        ((LightSpec(power="$word"),), r"layout\.lights\.power: expected a number, got `red` from `\$word`"),
        ((LightSpec(temperature="$word"),), r"layout\.lights\.temperature: expected a number, got `red`"),
        ((LightSpec(temperature=500),), r"temperature: expected 1000 to 40000 K, got 500"),
        ((LightSpec(azimuth="$word"),), r"layout\.lights\.azimuth: expected a number"),
        ((LightSpec(location=(0, 0, "$word")),), r"layout\.lights\.location: expected a number"),
        ((LightSpec(distance=0),), r"layout\.lights\.distance: expected more than 0 m, got 0"),
        ((LightSpec(target=(0, 5, 0)),), r"layout\.lights\.target: .*straight below the camera"),
    ],
)
def test_light_errors(lights, message):
    with pytest.raises(InputError, match=message):
        hang_lights(layout(lights=lights), draws(word="red"), LIBRARY, CAMERA)


def test_a_light_file_of_the_users_own_has_no_numbers_to_plan_with(tmp_path):
    (tmp_path / "left.blend").touch()
    with pytest.raises(InputError, match="light asset `left`: a plan states every number"):
        hang_lights(
            layout(lights=(LightSpec(asset="left"),)), draws(), AssetLibrary({"lights": tmp_path}), CAMERA
        )


# ------------------------------------------------------------------------------- camera and environment


def test_camera_takes_its_values():
    spec = CameraSpec(location=("$x", 5, 2), look_at=(0, 0, 0), field_of_view="$fov", pitch=1, yaw="$x")
    camera = place_camera(layout(camera=spec), draws(x=0.5, fov=40))
    assert camera == Camera(location=(0.5, 5, 2), look_at=(0, 0, 0), field_of_view=40, pitch=1, yaw=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"field_of_view": 180}, r"field_of_view: expected 0 to 180 degrees, got 180"),
        ({"field_of_view": 0}, r"field_of_view: expected 0 to 180 degrees, got 0"),
        ({"field_of_view": "$word"}, r"layout\.camera\.field_of_view: expected a number, got `red`"),
        ({"location": (0, "$word", 0)}, r"layout\.camera\.location: expected a number, got `red`"),
        ({"look_at": (0, 5, 0)}, r"layout\.camera: expected look_at beside the camera"),
    ],
)
def test_camera_errors(changes, message):
    with pytest.raises(InputError, match=message):
        place_camera(layout(camera=SPEC.model_copy(update=changes)), draws(word="red"))


def test_environment_adds_what_the_map_needs_itself():
    spec = EnvironmentSpec(map="$m", rotation="$r", strength=2)
    facts = LIBRARY.facts("scenes", "dusk city")
    placed = surround(layout(environment=spec), draws(m="dusk city", r=350), LIBRARY)
    assert placed.rotation == pytest.approx((350 + facts["rotation"]) % 360)
    assert placed.strength == pytest.approx(2 * facts["strength"])
    assert surround(layout(), draws(), LIBRARY) is None


def test_environment_errors():
    for spec, message in (
        (EnvironmentSpec(map="moon"), r"layout\.environment\.map: asset `moon` is not among the scenes"),
        (EnvironmentSpec(map="garden", strength=-1), r"environment\.strength: expected at least 0, got -"),
        (EnvironmentSpec(map="garden", rotation="$word"), r"environment\.rotation: expected a number"),
    ):
        with pytest.raises(InputError, match=message):
            surround(layout(environment=spec), draws(word="red"), LIBRARY)


def test_substitution_uses_the_streams_of_the_unit():
    one = draws("set/000004", seed=3)
    assert one.stream("x").random() == stream(3, "set/000004", "x").random()


# ---------------------------------------------------------------------- shipped recipes stay in the picture


def corners(kind, size, rotation, location):
    """Corners of the box around an object: its height decides where its top is, its turned base the rest."""
    width, depth, height = (length * size for length in LIBRARY.facts("objects", kind)["dimensions"])
    turn = math.radians(rotation)
    base = np.array([(sx * width / 2, sy * depth / 2) for sx in (-1, 1) for sy in (-1, 1)])
    base = base @ np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]) + location
    return np.array([(x, y, z) for x, y in base for z in (0.0, height)])


def margins(points, camera, width, height):
    """Distance of projected points from the four edges of the picture, the smallest of each: pixels."""
    assert ((world_to_camera(camera) @ np.c_[points, np.ones(len(points))].T)[2] > 0).all()
    x, y = project(points, camera, width, height).T
    return x.min(), width - x.max(), y.min(), height - y.max()


def test_every_candle_object_stays_inside_the_picture():
    candle = load_recipe("candle").sets["candle"]
    image = load_recipe("candle").image
    factors, variables = candle.factors, candle.variables
    ends = {name: (variables[name].low, variables[name].high) for name in ("x", "y", "pitch", "yaw")}
    # Of a box only the extremes matter: the corners move monotonically with place and turn of the camera.
    for kind, size, rotation, x, y, pitch, yaw in itertools.product(
        factors["object_type"].values, factors["size"].values, factors["rotation"].values, *ends.values()
    ):
        values = {"x": x, "y": y, "pitch": pitch, "yaw": yaw}
        camera = place_camera(candle.layout, draws(**values))
        edges = margins(corners(kind, size, rotation, (x, y)), camera, image.width, image.height)
        assert min(edges) > 0, (kind, size, rotation, values, edges)


def test_every_arranged_object_of_concepts_stays_inside_the_picture():
    recipe = load_recipe("concepts")
    for image_set in recipe.sets.values():
        camera = place_camera(image_set.layout, draws())
        for spec in itertools.chain(*image_set.layout.arrangements.values()):
            points = corners(spec.type, spec.size, spec.rotation, spec.location)
            assert min(margins(points, camera, recipe.image.width, recipe.image.height)) > 0, spec


@pytest.mark.parametrize("name", ["demo", "negatives"])
def test_every_drawn_object_stays_inside_the_picture(name):
    recipe = load_recipe(name)
    for sample in make_plan(recipe).samples:
        image = recipe.sets[sample.set].image or recipe.image
        for thing in sample.trace.objects:
            points = corners(thing.type, thing.size, thing.rotation, thing.location[:2])
            assert min(margins(points, sample.trace.camera, image.width, image.height)) > 0, sample.id
