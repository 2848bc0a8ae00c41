"""The recipe `captures`, and choices of lights and materials by a factor."""

import math

import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.scenes.plan_records import PlacedMaterial

LIGHTS = ("main", "second", *(f"light{number:02d}" for number in range(1, 11)))
RECIPE = """
name: own
description: A twin in gray under two lights.
sets:
  units:
    factors:
      paint: {values: [own, gray]}
      light: {values: [left, right]}
    layout:
      objects:
        - {type: cube, material: red}
        - type: sphere
          material: {texture: dots, color_a: [1, 0, 0], color_b: [0, 0, 0.5], roughness: 0.2}
      material:
        choose: $paint
        among: {own: null, gray: {base_color: [0.5, 0.5, 0.5], specular: 0}}
      lights:
        choose: $light
        among:
          left: [{azimuth: -40, power: 500}]
          right: [{azimuth: 40}, {name: fill, azimuth: 0, power: 10}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""


@pytest.fixture(scope="module")
def captures():
    return {tuple(s.factors.values()): s for s in make_plan(load_recipe("captures")).samples}


def test_each_object_is_captured_in_every_light_and_in_gray_in_the_two_fixed_lights(captures):
    items = {item for item, _, _ in captures}
    assert len(items) == 16
    own = {(item, "own", light) for item in items for light in LIGHTS}
    units = {(item, "uniform", light) for item in items for light in LIGHTS[:2]}
    assert captures.keys() == own | units


def test_a_uniform_object_differs_in_material_alone(captures):
    gray = PlacedMaterial(label="rgb", base_color=(0.5, 0.5, 0.5), roughness=0.5, specular=0)
    for (item, paint, light), sample in captures.items():
        if paint == "uniform":
            own = captures[item, "own", light]
            (placed,) = own.trace.objects
            assert placed.material != gray
            repainted = placed.model_copy(update={"material": gray})
            assert sample.trace == own.trace.model_copy(update={"objects": (repainted,)})


def test_an_object_keeps_its_seed_and_its_place_while_the_light_moves(captures):
    for item in {item for item, _, _ in captures}:
        traces = [captures[item, "own", light].trace for light in LIGHTS]
        assert len({trace.cycles_seed for trace in traces}) == 1
        assert len({trace.model_copy(update={"lights": ()}) for trace in traces}) == 1
        assert len({trace.lights for trace in traces}) == 12


def test_one_white_light_at_a_time_over_black_ground(captures):
    for sample in captures.values():
        (light,) = sample.lights
        assert light.color == (1, 1, 1)
        assert math.dist(light.location, (0, 0, 0.4)) == pytest.approx(4)
        assert light.location[2] > 1
        assert light.location[1] > 0  # on the camera's side, for what is seen to be lit
        assert sample.trace.environment is None
        assert max(sample.trace.floor.base_color) <= 0.02


def test_some_objects_have_gloss_and_some_have_none(captures):
    gloss = [captures[item, "own", "main"].trace.objects[0].material.specular for item, _, _ in captures]
    assert {0, 0.5} == set(gloss)


# ----------------------------------------------------------------------------------------------- choices


def test_factors_choose_lights_and_material(write_recipe):
    samples = {tuple(s.factors.values()): s for s in make_plan(load_recipe(write_recipe(RECIPE))).samples}
    assert [light.power for light in samples["own", "left"].lights] == [500]
    assert [light.name for light in samples["own", "right"].lights] == ["light", "fill"]
    red, dots = (placed.material for placed in samples["own", "left"].trace.objects)
    assert (red.label, red.specular) == ("red", None)
    assert (dots.label, dots.color_b, dots.roughness, dots.specular) == ("dots", (0, 0, 0.5), 0.2, 0.5)
    assert {placed.material.label for placed in samples["gray", "left"].trace.objects} == {"rgb"}
    assert {placed.material.specular for placed in samples["gray", "left"].trace.objects} == {0}
