"""The plans of `parts`, `parts-confounded` and `parts-recoloured`."""

from collections import Counter

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.colour import linear_to_srgb

LIBRARY = AssetLibrary()
KINDS = ("bird", "fish", "car", "plane", "robot", "house")


@pytest.fixture(scope="module")
def plan():
    return make_plan(load_recipe("parts", ["sets.parts.draws=2"]))


def test_classes_are_balanced_and_belong_to_their_kinds(plan):
    assert load_recipe("parts").sets["parts"].draws * 18 == 2016
    classes = Counter(sample.factors["class"] for sample in plan.samples)
    assert set(classes.values()) == {2}
    kinds = {(sample.factors["kind"], sample.factors["class"]) for sample in plan.samples}
    assert len(kinds) == 18
    assert set(Counter(kind for kind, _ in kinds).values()) == {3}
    for kind, label in kinds:
        assert LIBRARY.facts("objects", label)["kind"] == kind


def test_classes_of_a_kind_have_the_same_parts_in_other_colours():
    for kind in KINDS:
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


SCENES = {"outdoor", "city square", "grassland", "garden", "dusk city", "studio"}


@pytest.fixture(scope="module")
def confounded():
    return make_plan(load_recipe("parts-confounded", ["sets.train.draws=2"]))


@pytest.fixture(scope="module")
def recoloured():
    return make_plan(load_recipe("parts-recoloured", [f"sets.{kind}.draws=1" for kind in KINDS]))


def test_the_scene_gives_the_kind_away(confounded):
    pairs = {(one.factors["kind"], one.factors["scene"]) for one in confounded.samples}
    assert len(pairs) == 6
    assert {kind for kind, _ in pairs} == set(KINDS)
    assert {scene for _, scene in pairs} == SCENES
    assert len(confounded.samples) == 36
    assert set(load_recipe("parts").sets["parts"].factors["scene"].values) == SCENES


def test_each_part_is_recoloured_once_and_nothing_else_changes(recoloured):
    originals = {one.id: one for one in recoloured.samples if one.set in KINDS}
    assert Counter(one.factors["kind"] for one in originals.values()) == dict.fromkeys(KINDS, 3)
    changed = {name: [] for name in originals}
    for one in recoloured.samples:
        if one.set in KINDS:
            assert one.factors["recoloured"] == "none"
            continue
        original = originals[one.counterfactual_of]
        assert one.set == f"{original.factors['kind']}_changed"
        if "scene" in one.intervention:
            assert _differing(original, one) <= {"environment"}
            continue
        assert _differing(original, one) == {"objects"}
        (before,), (after,) = original.trace.objects, one.trace.objects
        assert before.model_copy(update={"parts": ()}) == after.model_copy(update={"parts": ()})
        pairs = zip(before.parts, after.parts, strict=True)
        (part,) = [its for its, new in pairs if its != new]
        assert part.name == one.factors["recoloured"] == one.intervention["recoloured"]
        changed[one.counterfactual_of].append(part.name)
    for name, parts in changed.items():
        facts = LIBRARY.facts("objects", originals[name].factors["class"])["parts"]
        assert sorted(parts) == sorted(part["name"] for part in facts)


def test_the_new_colour_is_far_from_all_colours_of_parts(recoloured):
    one = next(one for one in recoloured.samples if one.factors["recoloured"] == "roof")
    (new,) = [part.material.base_color for part in one.trace.objects[0].parts if part.name == "roof"]
    new = linear_to_srgb(np.array(new))
    for label in {one.factors["class"] for one in recoloured.samples}:
        for part in LIBRARY.facts("objects", label)["parts"]:
            assert np.abs(new - linear_to_srgb(np.array(part["color"]))).max() > 0.3, (label, part["name"])


def _differing(original, changed):
    before, after = original.trace.model_dump(), changed.trace.model_dump()
    return {field for field in before if before[field] != after[field]}
