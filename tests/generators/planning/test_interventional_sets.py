"""Sets with an intervention of their own, and `do` on some sets alone."""

import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import do
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import load_plan, save_plan
from tests.refusals import refused

INTERVENED = """
name: intervened
description: One set as observed, and one for each intervention.
sets:
  observed: &observed {extends: toy-confounded/toys, draws: 5, grid: []}
  red: {<<: *observed, do: {color: red}}
  changed: {counterfactual: {of: red, do: [{object_type: cone}]}}
"""


@pytest.fixture
def intervened(write_recipe):
    return load_recipe(write_recipe(INTERVENED))


def test_an_interventional_set_has_units_of_its_own(intervened, tmp_path):
    plan = make_plan(intervened)
    observed, red, changed = (list(plan.samples.of_set(name)) for name in intervened.sets)
    assert [sample.intervention for sample in observed] == [{}] * 5
    assert [sample.intervention for sample in red] == [{"color": "red"}] * 5
    assert [sample.intervention for sample in changed] == [{"color": "red", "object_type": "cone"}] * 5
    assert {sample.factors["color"] for sample in (*red, *changed)} == {"red"}
    assert not {sample.unit for sample in observed} & {sample.unit for sample in red}
    assert [sample.unit for sample in red] == [sample.unit for sample in changed]
    save_plan(plan, tmp_path / "plan.parquet")
    assert load_plan(tmp_path / "plan.parquet") == plan
    assert make_plan(intervened, 2, sets=["changed"]) == make_plan(intervened, 2).of_set("changed")


def test_do_can_name_sets(intervened):
    changed = do(intervened, "observed", color="blue")
    assert [one.do["color"] for one in changed.sets.values()] == ["blue", "red", "red"]
    both = do(intervened, "red", object_type="cube").sets["changed"].do
    assert both == {"color": "red", "object_type": "cube"}
    assert do(intervened, color="blue").sets == intervened.sets
    with refused(r"do: expected names of sets of samples \(observed, red\), got `changed`"):
        do(intervened, "changed", color="red")


def test_do_on_all_sets_needs_the_value_in_all_sets(write_recipe):
    text = INTERVENED.replace("do: {color: red}}", "factors: {color: {assets: materials, values: [purple]}}}")
    recipe = load_recipe(write_recipe(text.replace("  changed", "  # changed")))
    with refused(r"^sets\.red: do\.color: .*; `sets\.NAME\.do` sets a factor of one set alone$"):
        do(recipe, color="blue")
    plan = make_plan(do(recipe, "observed", color="blue"))
    assert {sample.factors["color"] for sample in plan.samples} == {"blue", "purple"}


def test_a_number_may_leave_its_range_and_a_categorical_value_must_exist(write_recipe):
    text = (
        "name: far\nsets:\n  s: {extends: negatives/negatives, draws: 2, do: {light_azimuth: 400}}\n"
        "  t: {counterfactual: {of: s, do: [{light_azimuth: -400.5}]}}\n"
    )
    recipe = load_recipe(write_recipe(text))
    factor = recipe.sets["s"].factors["light_azimuth"]
    assert factor.low > -400
    assert factor.high < 400
    plan = make_plan(recipe, 2)
    assert [sample.factors["light_azimuth"] for sample in plan.samples] == [400, 400, -400.5, -400.5]
    with refused(r"do\.count: expected one of .*, got 400"):
        load_recipe(write_recipe(text), ["sets.s.do.count=400"])
    with refused(r"do: factors\.light_azimuth: `far` is no factor or variable; expected one of"):
        load_recipe(write_recipe(text), ["sets.s.do.light_azimuth=far"])
