"""The plan of the recipe `parts`."""

import math
from collections import Counter

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.scenes.camera import intrinsics, world_to_camera

LIBRARY = AssetLibrary()


@pytest.fixture(scope="module")
def plan():
    return make_plan(load_recipe("parts", ["sets.parts.draws=25"]))


def test_classes_are_balanced_and_belong_to_their_kinds(plan):
    assert load_recipe("parts").sets["parts"].draws * 18 == 2016
    classes = Counter(sample.factors["class"] for sample in plan.samples)
    assert set(classes.values()) == {25}
    kinds = {(sample.factors["kind"], sample.factors["class"]) for sample in plan.samples}
    assert len(kinds) == 18
    assert set(Counter(kind for kind, _ in kinds).values()) == {3}
    for kind, label in kinds:
        assert LIBRARY.facts("objects", label)["kind"] == kind


def test_classes_of_a_kind_have_the_same_parts_in_other_colours():
    for kind in ("bird", "fish", "car", "plane", "robot", "house"):
        labels = [
            name for name in LIBRARY.labels("objects") if LIBRARY.facts("objects", name).get("kind") == kind
        ]
        assert len(labels) == 3
        facts = [LIBRARY.facts("objects", label) for label in labels]
        names = [{part["name"] for part in fact["parts"]} for fact in facts]
        assert names[0] == names[1] == names[2]
        assert len(names[0]) >= 6
        palettes = {tuple(tuple(part["color"]) for part in fact["parts"]) for fact in facts}
        shapes = {tuple(fact["dimensions"]) for fact in facts}
        assert len(palettes) == len(shapes) == 3


def test_birds_have_the_parts_of_cub_70():
    sides = {f"{side}_{part}" for side in ("left", "right") for part in ("wing", "leg", "eye")}
    for bird in ("finch", "heron", "duck"):
        names = [part["name"] for part in LIBRARY.facts("objects", bird)["parts"]]
        assert sorted(names) == sorted({"head", "beak", "neck", "body", "tail", *sides})


def test_objects_stand_on_the_table_and_stay_in_the_picture(plan):
    size = plan.recipe.image.width
    for sample in plan.samples:
        (placed,), camera, floor = sample.trace.objects, sample.trace.camera, sample.trace.floor
        facts = LIBRARY.facts("objects", placed.type)
        reach = math.hypot(*placed.location[:2]) + placed.size * facts["footprint"]
        assert reach < floor.half_width + 0.05
        width, depth, height = np.array(facts["dimensions"]) * placed.size
        corners = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (0, 1)])
        turn = math.radians(placed.rotation)
        spin = np.array(
            [[math.cos(turn), -math.sin(turn), 0], [math.sin(turn), math.cos(turn), 0], [0, 0, 1]]
        )
        points = (corners * (width / 2, depth / 2, height)) @ spin.T + placed.location
        seen = points @ world_to_camera(camera)[:3, :3].T + world_to_camera(camera)[:3, 3]
        pixels = seen @ np.array(intrinsics(camera, size, size)).T
        pixels = pixels[:, :2] / pixels[:, 2:]
        assert pixels.min() >= 0
        assert pixels.max() <= size
