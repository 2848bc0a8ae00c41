import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.layout import Object, Scatter, Scene
from candlelight.generators.language.lights_and_camera import Camera, Environment, Light
from candlelight.generators.random_streams import stream
from candlelight.generators.scenes.layout_inputs import LayoutInputs, hue_to_rgb
from candlelight.generators.scenes.object_materials import place_floor
from candlelight.generators.scenes.object_placement import (
    footprint,
    place_environment,
    place_objects,
    scatter,
    turn,
)
from candlelight.generators.scenes.plan_records import PlacedFloor
from candlelight.generators.scenes.resolve_trace import resolve

LIBRARY = AssetLibrary()
SPEC = Camera(location=(0, 5, 2), look_at=(0, 0, 0.5))
LAMP = Light()
ROOMY = Scatter(
    count="$count", types=("cube", "torus", "suzanne"), size=(0.3, 0.9), region=(-3, 3, -2, 2), gap=0.1
)


def inputs(unit="set/000000", seed=0, **values):
    return LayoutInputs(seed, unit, values)


def layout(**fields):
    return Scene(**{"camera": SPEC, "lights": (LAMP,), **fields})


# ---------------------------------------------------------------------------------------------- objects


def test_objects_take_the_values_of_the_sample():
    spec = Object(type="$kind", material="$color", size="$s", rotation=30, location=("$x", -1))
    values = inputs(kind="cone", color="red", s=2, x=0.25)
    (placed,) = place_objects(layout(objects=(spec,)), values)
    assert (placed.type, placed.material.label, placed.size, placed.rotation) == ("cone", "red", 2.0, 30.0)
    assert placed.location == (0.25, -1.0, 0.0)
    assert placed.material.base_color is None


def test_an_object_in_the_air_turns_about_its_base_or_its_middle():
    spec = Object(type="cylinder", material="red", size=2, tilt=("$a", 0), rotation=90, location=(1, "$y", 3))
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
        objects=(Object(type="cube", material={"base_color": ("$h", 0.5, 0)}),), floor={"base_color": hue}
    )
    (cube,) = place_objects(coloured, inputs(h=1))
    assert cube.material.base_color == (1.0, 0.5, 0.0)
    assert place_floor(coloured, inputs(h=240)).base_color == pytest.approx((0.4, 0.4, 1.0))


def test_a_factor_chooses_objects():
    among = {"one": ({"type": "cube"},), "two": ({"type": "cone"}, {"type": "torus"})}
    chosen = layout(objects={"choose": "$scene", "among": among})
    assert [placed.type for placed in place_objects(chosen, inputs(scene="two"))] == ["cone", "torus"]


def test_hues_lie_on_the_hexagon():
    corners = {0: (1, 0, 0), 60: (1, 1, 0), 120: (0, 1, 0), 180: (0, 1, 1), 240: (0, 0, 1), 300: (1, 0, 1)}
    for hue, rgb in corners.items():
        for turns in (-360, 0, 360):
            assert hue_to_rgb(hue + turns, 1, 1) == pytest.approx(rgb)
    assert hue_to_rgb(30, 1, 1) == pytest.approx((1, 0.5, 0))
    assert hue_to_rgb(123, 0, 0.7) == pytest.approx((0.7, 0.7, 0.7))
    assert hue_to_rgb(240, 0.8, 1) == pytest.approx((0.2, 0.2, 1))


# ---------------------------------------------------------------------------------------------- scatter


def test_scattered_objects_keep_their_distance_and_the_region():
    for unit in range(30):
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
    for unit in range(10):
        few, many = (scatter(ROOMY, inputs(f"set/{unit:06d}", count=count)) for count in (3, 5))
        assert many[:3] == few


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


def test_footprint_holds_the_turned_object():
    assert footprint(LIBRARY, "cube") == pytest.approx(math.sqrt(2) / 2)
    # Round, so that it reaches no further than its width.
    assert footprint(LIBRARY, "torus") == pytest.approx(1.25 / 2)


def test_an_unknown_object_has_the_footprint_of_a_unit_box(tmp_path):
    (tmp_path / "torus.blend").touch()
    assert footprint(AssetLibrary({"objects": tmp_path}), "torus") == pytest.approx(math.sqrt(2) / 2)


# ------------------------------------------------------------------------------------------ environment


def test_the_environment_adds_turn_and_strength_of_its_manifest():
    spec = Environment(scene="$m", rotation="$r", strength=2)
    facts = LIBRARY.facts("scenes", "dusk city")
    placed = place_environment(layout(environment=spec), inputs(m="dusk city", r=350))
    assert placed.rotation == pytest.approx((350 + facts["rotation"]) % 360)
    assert placed.strength == pytest.approx(2 * facts["strength"])
    assert place_environment(layout(), inputs()) is None


def test_a_modelled_scene_replaces_the_floor():
    for scene, modelled, floor in (("hall", True, None), ("garden", False, PlacedFloor(catcher=True))):
        _, _, trace = resolve(layout(environment={"scene": scene}, floor={"catcher": True}), inputs())
        assert (trace.environment.modelled, trace.floor) == (modelled, floor)


def test_a_users_blend_counts_as_modelled_and_an_environment_map_may_be_hdr(tmp_path):
    for name in ("yard.blend", "sky.hdr", "both.exr", "both.blend"):
        (tmp_path / name).touch()
    library = AssetLibrary({"scenes": tmp_path})
    assert library.labels("scenes") == ["both", "sky", "yard"]
    for name, modelled in (("yard", True), ("sky", False), ("both", True)):
        placed = place_environment(layout(environment={"scene": name}), replace(inputs(), library=library))
        assert placed.modelled == modelled


def test_the_inputs_use_the_streams_of_the_unit():
    one = inputs("set/000004", seed=3)
    assert one.stream("x").random() == stream(3, "set/000004", "x").random()
