from dataclasses import replace

import pytest

from generators.load import load_recipe
from generators.plan import Plan, condition, make_plan
from generators.strata import TRAITS, cost_strata, place_of

FEW = [
    f"sets.candle.factors.{name}.values={values}"
    for name, values in {
        "scene": "[garden, hall, garage]",
        "lights": "[left]",
        "object_type": "[cube, torus]",
        "color": "[red, blue]",
        "size": "[2]",
        "rotation": "[0, 15]",
    }.items()
]


@pytest.fixture(scope="module")
def candle():
    return make_plan(load_recipe("candle", FEW))


@pytest.fixture(scope="module")
def demo():
    return make_plan(load_recipe("demo"))


def test_every_group_is_in_one_stratum(candle, demo):
    for plan in (candle, demo):
        found = [group for stratum in cost_strata(plan) for group in stratum.groups]
        assert sorted(found) == list(range(len(plan.groups)))


def test_scenes_are_told_apart_and_colours_are_not(candle):
    strata = cost_strata(candle)
    assert [stratum.traits[TRAITS.index("scene")] for stratum in strata] == ["garden", "hall", "garage"]
    assert [len(stratum.groups) for stratum in strata] == [8, 8, 8]
    # The plan comes to each scene once.
    assert [stratum.arrivals for stratum in strata] == [1, 1, 1]


def test_a_plan_that_goes_from_scene_to_scene_arrives_with_every_group(candle):
    turned = Plan(candle.recipe, tuple(candle.samples[8 * (i % 3) + i // 3] for i in range(24)))
    assert [stratum.arriving for stratum in cost_strata(turned)] == [1.0, 1.0, 1.0]


def test_too_many_strata_are_merged_by_kind_of_scene_first(candle):
    (maps, modelled) = cost_strata(candle, most=2)
    assert maps.traits == ("candle", "garden", "catcher", "1", "1")
    # Two modelled scenes, named by how many they are.
    assert modelled.traits == ("candle", "2 kinds", "none", "1", "1")
    assert (len(modelled.groups), modelled.arrivals) == (16, 2)


@pytest.mark.parametrize("most", [1, 5, 12])
def test_no_more_strata_than_asked_for_or_than_there_are_sets(demo, most):
    names = {sample.set for sample in demo.samples}
    strata = cost_strata(demo, most)
    assert len(strata) <= max(most, len(names))
    assert {stratum.traits[0] for stratum in strata} == names
    assert sum(len(stratum.groups) for stratum in strata) == len(demo.groups)


def test_only_the_set_that_has_most_strata_is_parted_less_finely(demo):
    finest, coarser = cost_strata(demo, 1000), cost_strata(demo, 40)

    def of(strata, name):
        return [stratum.groups for stratum in strata if stratum.traits[0] == name]

    assert len(of(coarser, "negatives")) < len(of(finest, "negatives"))
    assert of(coarser, "candle") == of(finest, "candle")


def test_groups_of_more_samples_are_strata_of_their_own():
    scenes = [f"sets.{name}.factors.scene.values=[cube]" for name in ("albedo", "illumination")]
    chosen = "sets.illumination.factors.light_azimuth.values=[10, 20]", "sets.albedo.factors.material.count=2"
    plan = condition(make_plan(load_recipe("concepts", [*chosen, *scenes])), texturing="rgb")
    short = replace(plan, samples=plan.samples[1:])  # one temperature of the first trace is left out
    samples = [stratum.traits[-1] for stratum in cost_strata(short) if stratum.traits[0] == "albedo"]
    assert sorted(samples) == ["2", "3"]


def test_a_place_is_the_set_and_its_surroundings(candle):
    first, last = (list(candle.groups.values())[i] for i in (0, -1))
    assert place_of(first) == ("candle", "garden")
    assert place_of(last) == ("candle", "garage")


def test_a_plan_of_nothing_has_no_strata(candle):
    assert cost_strata(replace(candle, samples=())) == []
