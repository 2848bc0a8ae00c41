import itertools
import math

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.layout import ObjectSpec, Scatter, SceneLayout
from candlelight.generators.language.lights_and_camera import CameraSpec, EnvironmentSpec, LightSpec
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.random_streams import stream
from candlelight.generators.scenes.camera import place_camera, project, world_to_camera
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.object_materials import place_floor
from candlelight.generators.scenes.object_placement import (
    footprint,
    place_environment,
    place_objects,
    scatter,
    turn,
)
from candlelight.loaders.errors import InputError

LIBRARY = AssetLibrary()
SPEC = CameraSpec(location=(0, 5, 2), look_at=(0, 0, 0.5))
LAMP = LightSpec()
ROOMY = Scatter(
    count="$count", types=("cube", "torus", "suzanne"), size=(0.3, 0.9), region=(-3, 3, -2, 2), gap=0.1
)


def inputs(unit="set/000000", seed=0, **values):
    return LayoutInputs(seed, unit, values)


def layout(**fields):
    return SceneLayout(**{"camera": SPEC, "lights": (LAMP,), **fields})


# ---------------------------------------------------------------------------------------------- objects


def test_objects_take_the_values_of_the_sample():
    spec = ObjectSpec(type="$kind", material="$color", size="$s", rotation=30, location=("$x", -1))
    values = inputs(kind="cone", color="red", s=2, x=0.25)
    (placed,) = place_objects(layout(objects=(spec,)), values)
    assert (placed.type, placed.material.label, placed.size, placed.rotation) == ("cone", "red", 2.0, 30.0)
    assert placed.location == (0.25, -1.0, 0.0)
    assert placed.material.base_color is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"type": "blob"},
            r"layout\.objects\.\d+\.type: asset `blob` is not among the objects; expected one of: .*cone, ",
        ),
        (
            {"material": "pink"},
            r"layout\.objects\.\d+\.material: asset `pink` is not among the materials; .*blue, green",
        ),
        (
            {"material": "../objects/cube"},
            r"layout\.objects\.\d+\.material: asset `\.\./objects/cube` is not among",
        ),
        ({"size": "$word"}, r"layout\.objects\.\d+\.size: expected a number, got `red` from `\$word`"),
        ({"size": 0}, r"layout\.objects\.\d+\.size: expected more than 0 m, got 0\.0"),
        ({"rotation": "$word"}, r"layout\.objects\.\d+\.rotation: expected a number, got `red`"),
        ({"location": (0, "$word")}, r"layout\.objects\.\d+\.location: expected a number, got `red`"),
    ],
)
def test_object_errors_name_the_field(fields, message):
    spec = ObjectSpec(**{"type": "cube", "material": "red", **fields})
    with pytest.raises(InputError, match=message):
        place_objects(layout(objects=(spec,)), inputs(word="red"))


def test_as_many_objects_as_a_mask_numbers():
    objects = place_objects(layout(objects=(ObjectSpec(type="cube", material="red"),) * 255), inputs())
    assert len(objects) == 255
    with pytest.raises(InputError, match=r"at most 255 objects, .*got 256"):
        place_objects(layout(objects=(ObjectSpec(type="cube", material="red"),) * 256), inputs())


def test_an_object_in_the_air_turns_about_its_base_or_its_middle():
    spec = ObjectSpec(
        type="cylinder", material="red", size=2, tilt=("$a", 0), rotation=90, location=(1, "$y", 3)
    )
    (held,) = place_objects(layout(objects=(spec,)), inputs(a=90, y=-1))
    assert (held.tilt, held.rotation, held.location) == ((90.0, 0.0), 90.0, (1.0, -1.0, 3.0))
    # About x by 90 degrees what was up is towards -y; about z by 90 degrees, that is towards x.
    middle = spec.model_copy(update={"anchor": "centre"})
    (held,) = place_objects(layout(objects=(middle,)), inputs(a=90, y=-1))
    assert held.location == pytest.approx((0.0, -1.0, 3.0))
    (upright,) = place_objects(layout(objects=(middle,)), inputs(a=0, y=-1))
    assert upright.location == pytest.approx((1.0, -1.0, 2.0))


def test_an_object_turns_about_one_axis_after_the_other():
    rng = np.random.default_rng(0)
    for a, b, c in rng.uniform(-180, 180, (20, 3)):
        alone = [turn((a, 0), 0), turn((0, b), 0), turn((0, 0), c)]
        np.testing.assert_allclose(turn((a, b), c), alone[2] @ alone[1] @ alone[0], atol=1e-12)
    # Right-handed each: y to z, z to x, x to y.
    np.testing.assert_allclose(turn((90, 0), 0) @ (0, 1, 0), (0, 0, 1), atol=1e-12)
    np.testing.assert_allclose(turn((0, 90), 0) @ (0, 0, 1), (1, 0, 0), atol=1e-12)
    np.testing.assert_allclose(turn((0, 0), 90) @ (1, 0, 0), (0, 1, 0), atol=1e-12)


def test_colours_by_hue_or_channel():
    hue = {"hue": "$h", "saturation": 0.6}
    coloured = layout(
        objects=(ObjectSpec(type="cube", material={"base_color": ("$h", 0.5, 0)}),), floor={"base_color": hue}
    )
    (cube,) = place_objects(coloured, inputs(h=1))
    assert cube.material.base_color == (1.0, 0.5, 0.0)
    assert place_floor(coloured, inputs(h=240)).base_color == pytest.approx((0.4, 0.4, 1.0))
    with pytest.raises(InputError, match=r"material\.base_color: expected channels of 0 to 1, got \[2\.0, 0"):
        place_objects(coloured, inputs(h=2))
    with pytest.raises(InputError, match=r"floor\.base_color\.hue: expected a number, got `red` from `\$h`"):
        place_floor(coloured, inputs(h="red"))
    stark = layout(floor={"base_color": {"hue": 0, "saturation": 1.5}})
    with pytest.raises(InputError, match=r"floor\.base_color\.saturation: expected 0 to 1, got 1\.5"):
        place_floor(stark, inputs())


def test_a_factor_chooses_objects():
    among = {
        "one": (ObjectSpec(type="cube"),),
        "two": (ObjectSpec(type="cone"), ObjectSpec(type="torus")),
    }
    chosen = layout(objects={"choose": "$scene", "among": among})
    assert [placed.type for placed in place_objects(chosen, inputs(scene="two"))] == [
        "cone",
        "torus",
    ]
    with pytest.raises(
        InputError,
        match=r"layout\.objects\.among: expected an entry for each value of `scene`, got none for three",
    ):
        place_objects(chosen, inputs(scene="three"))


# ---------------------------------------------------------------------------------------------- scatter


def test_scattered_objects_keep_their_distance_and_the_region():
    for unit in range(60):
        placed = scatter(ROOMY, inputs(f"set/{unit:06d}", count=6))
        assert len(placed) == 6
        for a, b in itertools.combinations(placed, 2):
            reach = sum(spec.size * footprint(LIBRARY, spec.type) for spec in (a, b))
            assert math.dist(a.location, b.location) >= reach + ROOMY.gap
        for spec in placed:
            assert -3 <= spec.location[0] <= 3
            assert -2 <= spec.location[1] <= 2
            assert 0.3 <= spec.size <= 0.9
            assert 0 <= spec.rotation < 360


def test_one_more_object_moves_no_other():
    for unit in range(20):
        few, many = (scatter(ROOMY, inputs(f"set/{unit:06d}", count=count)) for count in (3, 5))
        assert many[:3] == few


def test_scatter_draws_types_and_sizes_evenly():
    placed = [scatter(ROOMY, inputs(f"set/{unit:06d}", count=1))[0] for unit in range(900)]
    _, counts = np.unique([spec.type for spec in placed], return_counts=True)
    assert ((counts - 300) ** 2 / 300).sum() < 18.5  # 2 degrees of freedom, once in ten thousand
    sizes = np.array([spec.size for spec in placed])
    assert sizes.mean() == pytest.approx(0.6, abs=4 * 0.6 / math.sqrt(12 * 900))
    corners = np.array([spec.location for spec in placed])
    assert np.abs(corners.mean(axis=0)).max() < 4 * 6 / math.sqrt(12 * 900)


CROWDED = ROOMY.model_copy(update={"region": (-1.2, 1.2, -1.0, 1.0), "size": (0.6, 0.9)})


def placed_at_once(plan, drawn):
    """Place objects one after another in a plain loop, once; None if an object finds no room."""
    circles, specs = [], []
    for i in range(int(drawn.values["count"])):
        rng = drawn.stream(f"scatter/{i}")
        kind, size = plan.types[int(rng.integers(len(plan.types)))], round(float(rng.uniform(*plan.size)), 6)
        rotation, radius = round(float(rng.uniform(0, 360)), 6), size * footprint(LIBRARY, kind)
        tries = ([round(float(rng.uniform(*plan.region[k : k + 2])), 6) for k in (0, 2)] for _ in range(2000))
        free = (p for p in tries if all(math.dist(p, q) >= radius + r + plan.gap for q, r in circles))
        if (place := next(free, None)) is None:
            return None
        circles.append((place, radius))
        specs.append((kind, size, rotation, tuple(place)))
    return specs


def test_all_objects_are_placed_again_until_each_has_room():
    again = 0
    for unit in range(40):
        drawn = inputs(f"set/{unit:06d}", count=5)
        found = [(s.type, s.size, s.rotation, s.location) for s in scatter(CROWDED, drawn)]
        for (_, _, _, a), (_, _, _, b) in itertools.combinations(found, 2):
            assert math.dist(a, b) >= 0.7  # two of the smallest radii, and the gap
        once = placed_at_once(CROWDED, drawn)
        if once is None:
            again += 1
            # The objects are as they were drawn: no size or type is favoured by having room.
            assert [s[:3] for s in found] == [s[:3] for s in drawn_things(CROWDED, drawn)]
            assert found == [(s.type, s.size, s.rotation, s.location) for s in scatter(CROWDED, drawn)]
        else:
            assert found == once
    assert 0 < again < 40


def drawn_things(plan, drawn):
    for i in range(int(drawn.values["count"])):
        rng = drawn.stream(f"scatter/{i}")
        kind = plan.types[int(rng.integers(len(plan.types)))]
        yield kind, round(float(rng.uniform(*plan.size)), 6), round(float(rng.uniform(0, 360)), 6)


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
        (256, r"layout: expected at most 255 objects, as many as a mask can number, got 256"),
    ],
)
def test_scatter_errors(count, message):
    with pytest.raises(InputError, match=message):
        scatter(ROOMY, inputs(count=count))


def test_footprint_holds_the_turned_object():
    assert footprint(LIBRARY, "cube") == pytest.approx(math.sqrt(2) / 2)
    # Round, so that it reaches no further than its width.
    assert footprint(LIBRARY, "torus") == pytest.approx(1.25 / 2)


def test_an_unknown_object_has_the_footprint_of_a_unit_box(tmp_path):
    (tmp_path / "torus.blend").touch()
    assert footprint(AssetLibrary({"objects": tmp_path}), "torus") == pytest.approx(math.sqrt(2) / 2)


# ------------------------------------------------------------------------------------------ environment


def test_the_environment_adds_turn_and_strength_of_its_manifest():
    spec = EnvironmentSpec(scene="$m", rotation="$r", strength=2)
    facts = LIBRARY.facts("scenes", "dusk city")
    placed = place_environment(layout(environment=spec), inputs(m="dusk city", r=350))
    assert placed.rotation == pytest.approx((350 + facts["rotation"]) % 360)
    assert placed.strength == pytest.approx(2 * facts["strength"])
    assert place_environment(layout(), inputs()) is None


def test_environment_errors():
    for spec, message in (
        (EnvironmentSpec(scene="moon"), r"layout\.environment\.scene: asset `moon` is not among the scenes"),
        (EnvironmentSpec(scene="garden", strength=-1), r"environment\.strength: expected at least 0, got -"),
        (EnvironmentSpec(scene="garden", rotation="$word"), r"environment\.rotation: expected a number"),
    ):
        with pytest.raises(InputError, match=message):
            place_environment(layout(environment=spec), inputs(word="red"))


def test_the_inputs_use_the_streams_of_the_unit():
    one = inputs("set/000004", seed=3)
    assert one.stream("x").random() == stream(3, "set/000004", "x").random()


# ---------------------------------------------------------------------- shipped recipes stay in the picture


def corners(kind, size, rotation, location):
    """Corners of the box around an object, from its height and its turned base."""
    width, depth, height = (length * size for length in LIBRARY.facts("objects", kind)["dimensions"])
    turn = math.radians(rotation)
    base = np.array([(sx * width / 2, sy * depth / 2) for sx in (-1, 1) for sy in (-1, 1)])
    base = base @ np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]) + location
    return np.array([(x, y, z) for x, y in base for z in (0.0, height)])


def margins(points, camera, width, height):
    """Smallest distance of projected points from each of the four edges of the image, in pixels."""
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
        camera = place_camera(candle.layout, inputs(**values))
        edges = margins(corners(kind, size, rotation, (x, y)), camera, image.width, image.height)
        assert min(edges) > 0, (kind, size, rotation, values, edges)


def test_every_object_of_concepts_stays_inside_the_image():
    recipe = load_recipe("concepts")
    for image_set in recipe.sets.values():
        camera = place_camera(image_set.layout, inputs())
        for spec in itertools.chain(*image_set.layout.objects.among.values()):
            points = corners(spec.type, spec.size, spec.rotation, spec.location)
            assert min(margins(points, camera, recipe.image.width, recipe.image.height)) > 0, spec


@pytest.mark.parametrize("name", ["demo", "negatives"])
def test_every_drawn_object_stays_inside_the_picture(name):
    recipe = load_recipe(name)
    for sample in make_plan(recipe).samples:
        image = recipe.sets[sample.set].image or recipe.image
        for placed in sample.trace.objects:
            points = corners(placed.type, placed.size, placed.rotation, placed.location[:2])
            assert min(margins(points, sample.trace.camera, image.width, image.height)) > 0, sample.id
