"""Plans: indices, trace groups, interventions that shift no other draw, limits and shards."""

import itertools

import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256
from candlelight.generators.language.set_settings import factor_infos
from candlelight.generators.planning.interventions import (
    condition,
    counterfactual,
    do,
    inverse_propensity_weights,
)
from candlelight.generators.planning.plan import Plan, make_plan
from candlelight.loaders.factor_space import FactorSpace
from tests.refusals import refused

# Overrides that make the shipped recipes small, with a set of each kind.
AZIMUTHS = "sets.illumination.factors.light_azimuth.values=[-44, -2, 44]"
SCENES = [f"sets.{name}.factors.scene.values=[cube, arch_sphere_star]" for name in ("albedo", "illumination")]
SMALL = {
    "candle": [
        f"sets.candle.factors.{name}.values={values}"
        for name, values in (
            *(("scene", "[garden, outdoor]"), ("lights", "[left]"), ("object_type", "[cube, cone]")),
            *(("color", "[red, blue, yellow]"), ("size", "[2]")),
        )
    ],
    "concepts": ["sets.albedo.factors.material.count=3", AZIMUTHS, *SCENES],
    "negatives": ["sets.negatives.draws=20"],
    "demo": [
        *("sets.candle.factors.object_type.values=[cube]", "sets.albedo.factors.material.count=2", AZIMUTHS),
        *("sets.negatives.draws=15", "sets.tabletop.draws=20", "sets.tabletop_test.draws=5"),
    ],
}


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {name: make_plan(load_recipe(name, overrides)) for name, overrides in SMALL.items()}


# ---------------------------------------------------------------------------------------- grid and groups


@pytest.mark.parametrize(
    ("name", "set_name"), [("candle", "candle"), ("concepts", "albedo"), ("concepts", "illumination")]
)
def test_indices_are_those_of_the_factor_space(plans, name, set_name):
    factors = factor_infos(plans[name].recipe.sets[set_name])
    space = FactorSpace(*zip(*((one.name, one.values) for one in factors if one.values), strict=True))
    samples = list(plans[name].samples.of_set(set_name))
    assert len(samples) == space.size
    for row, sample in enumerate(samples):
        assert (sample.index, sample.id) == (row, f"{set_name}-{row:06d}")
        assert space.index(sample.factors) == row


def test_draws_repeat_each_cell(tiny):
    plan = make_plan(load_recipe(tiny, ["sets.cubes.draws=3"]))
    cells = [(sample.factors["size"], sample.factors["color"]) for sample in plan.samples]
    assert cells == [cell for cell in itertools.product((1, 1.5), ("red", "blue")) for _ in range(3)]
    assert len({sample.exogenous["x"] for sample in plan.samples}) == len(plan)


def test_temperatures_share_a_trace_and_directions_do_not(plans):
    plan = plans["concepts"]
    for members in plan.groups.values():
        assert sorted(sample.factors["temperature"] for sample in members) == [2500, 4500, 6500]
        assert len({sample.factors["light_azimuth"] for sample in members}) == 1
        assert len({sample.gain for sample in members}) == 3
    # The samples of a concept set share a unit, and with it the renderer's seed and every drawn colour.
    by_concept: dict[tuple, set] = {}
    for sample in plan.samples.of_set("illumination"):
        fixed = tuple(v for k, v in sample.factors.items() if k not in ("light_azimuth", "temperature"))
        by_concept.setdefault(fixed, set()).add((sample.trace.objects, sample.trace.cycles_seed))
    assert all(len(scenes) == 1 for scenes in by_concept.values())


def test_samples_with_an_environment_map_share_no_trace(plans):
    plan = plans["negatives"]
    assert all(sample.gain == (1, 1, 1) for sample in plan.samples)
    assert all(len(members) == 1 for members in plan.groups.values())
    assert plan.samples[0].trace.lights == plan.samples[0].lights[:1]


# ------------------------------------------------------------------- fixing one variable shifts no other


def drawn(plan):
    return [(one.unit, one.exogenous, one.trace.camera, one.trace.cycles_seed) for one in plan.samples]


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def test_do_keeps_every_other_draw_and_changes_what_depends_on_the_factor(plans):
    plain = plans["negatives"]
    for name, value in {"count": 1, "texturing": "rgb", "light_azimuth": 200}.items():  # of at most 90
        changed = make_plan(do(plain.recipe, **{name: value}))
        assert drawn(changed) == drawn(plain)
        assert {repr(one.factors[name]) for one in changed.samples} == {
            repr(float(value) if name == "light_azimuth" else value)
        }
        for before, after in zip(plain.samples, changed.samples, strict=True):
            assert after.factors == {**before.factors, name: value}
            assert (after.intervention, before.intervention) == ({name: value}, {})
            objects, kept = after.trace.objects, before.trace.objects
            assert all(one.location == other.location for one, other in zip(objects, kept, strict=False))
            assert name != "count" or objects == kept[:1]
            assert name == "texturing" or name == "count" or objects == kept
            moved = after.lights[0].location != before.lights[0].location
            assert moved == (name == "light_azimuth")


def test_do_on_a_grid_keeps_ids_units_and_draws(plans):
    plain = plans["candle"]
    changed = make_plan(do(plain.recipe, color="red", size=2.0))
    assert [(one.id, one.unit) for one in changed.samples] == [(one.id, one.unit) for one in plain.samples]
    assert drawn(changed) == drawn(plain)
    assert {one.factors["color"] for one in changed.samples} == {"red"}
    # A number is written as the recipe writes it, so that 2 does not become 2.0 in the metadata.
    numbers = {repr(of["size"]) for one in changed.samples for of in (one.factors, one.intervention)}
    assert numbers == {"2"}


def test_do_applies_to_the_sets_that_have_the_factor(plans):
    changed = make_plan(do(plans["demo"].recipe, count=2))
    for before, after in zip(plans["demo"].samples, changed.samples, strict=True):
        assert after.intervention == ({"count": 2} if "count" in before.factors else {})
        assert "count" in before.factors or after == before


def test_interventions_combine(tiny):
    recipe = load_recipe(tiny)
    assert do(do(recipe, color="red"), size=1) == do(recipe, color="red", size=1)
    assert do(do(recipe, color="red"), color="blue") == do(recipe, color="blue")
    assert recipe_sha256(do(recipe, color="red")) != recipe_sha256(recipe)
    assert recipe.do == {}


def test_one_value_shifts_no_other_draw(plans):
    for field in ("factors.light_power={low: 900, high: 900}", "variables.camera_x={low: 1, high: 1}"):
        name = field.split("=")[0].split(".")[1]
        changed = make_plan(load_recipe("negatives", [*SMALL["negatives"], f"sets.negatives.{field}"]))
        for before, after in zip(plans["negatives"].samples, changed.samples, strict=True):
            assert without(after.factors, name) == without(before.factors, name)
            assert without(after.exogenous, name) == without(before.exogenous, name)
            assert after.trace.objects == before.trace.objects
            assert after.trace.cycles_seed == before.trace.cycles_seed


def test_fewer_grid_values_shift_nothing_in_the_same_unit(plans):
    # The unit of a concept set is its scene, so fewer materials do not change the remaining samples.
    fewer = make_plan(load_recipe("concepts", [*SMALL["concepts"], "sets.albedo.factors.material.count=1"]))
    many, few = (
        {(one.set, *one.factors.items()): (one.trace, one.lights) for one in plan.samples}
        for plan in (plans["concepts"], fewer)
    )
    assert few.items() <= many.items()


def test_adding_a_variable_shifts_nothing(tiny):
    plain = make_plan(load_recipe(tiny))
    more = make_plan(load_recipe(tiny, ["sets.cubes.variables.a={low: 0, high: 1}"]))
    for before, after in zip(plain.samples, more.samples, strict=True):
        assert without(after.exogenous, "a") == before.exogenous
        assert (after.factors, after.trace, after.group) == (before.factors, before.trace, before.group)


# ------------------------------------------------------------------------------- condition, limit, shard


def test_condition_selects_and_changes_nothing(plans):
    plan = plans["candle"]
    chosen = condition(plan, scene="garden", color=["red", "blue"])
    colors = ("red", "blue")
    wanted = [s for s in plan.samples if s.factors["scene"] == "garden" and s.factors["color"] in colors]
    assert list(chosen.samples) == wanted
    assert chosen.recipe == plan.recipe
    both = condition(plans["demo"], texturing="rgb", temperature=2500)
    assert {sample.set for sample in both.samples} == {"albedo", "illumination"}
    # Conditioning is no intervention.
    selected = condition(plans["negatives"], count=1)
    assert len(selected) < len(plans["negatives"])
    assert all(sample.intervention == {} for sample in selected.samples)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_limit_keeps_a_number_of_samples_of_each_set(plans, count):
    plan = plans["demo"]
    limited = plan.limit(count)
    for name in plan.recipe.sets:
        rows, kept = ([s for s in p.samples if s.set == name] for p in (plan, limited))
        assert len(kept) == min(count, len(rows))
        assert [s.index for s in kept] == sorted(s.index for s in kept)
        assert all(sample in rows for sample in kept)
    assert (limited == plan) == (count == 100)
    assert {s.id for s in limited.samples} <= {s.id for s in plan.limit(count + 1).samples}


@pytest.mark.parametrize(("sets", "limit"), [(["tabletop"], None), (["albedo", "negatives"], 3)])
def test_samples_of_some_sets_are_those_of_the_whole_plan(plans, sets, limit):
    whole = plans["demo"] if limit is None else plans["demo"].limit(limit)
    alone = make_plan(plans["demo"].recipe, limit, sets=sets)
    assert alone == whole.of_set(*sets)
    assert [*alone.samples] == [sample for sample in whole.samples if sample.set in sets]


@pytest.mark.parametrize("count", [1, 2, 7, 400])
def test_shards_are_a_partition_into_whole_groups(plans, count):
    plan = plans["concepts"]
    shards = [plan.shard(index, count) for index in range(1, count + 1)]
    assert sorted(s.id for shard in shards for s in shard.samples) == sorted(s.id for s in plan.samples)
    sizes = [len(shard.groups) for shard in shards]
    assert sum(sizes) == len(plan.groups)
    assert max(sizes) - min(sizes) <= 1
    for shard in shards:
        assert all(shard.groups[group] == plan.groups[group] for group in shard.groups)


# ------------------------------------------------------------------------------------------------- errors

UNKNOWN_SET = "set `tabeltop` is not in the {}; expected one of: .*albedo.*; did you mean `tabletop`"
NO_SHARD = "`shard`: expected I/N with 1 <= I <= N, got {}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda plan: condition(plan, shape="cube"), "condition: `shape` is no factor of any set of `demo`"),
        (lambda plan: condition(plan, color="pink"), r"no sample of `demo` has \{'color': 'pink'\}"),
        (lambda plan: plan.limit(0), "`limit`: expected at least 1 sample of each set, got 0"),
        (lambda plan: plan.of_set("albedo", "tabeltop"), UNKNOWN_SET.format("plan")),
        (lambda plan: make_plan(plan.recipe, sets=["tabeltop"]), UNKNOWN_SET.format("recipe")),
        (lambda plan: plan.of_set("tabletop").of_set("albedo"), "in the plan; expected one of: tabletop"),
        *(
            (lambda plan, i=i, n=n: plan.shard(i, n), NO_SHARD.format(f"{i}/{n}"))
            for i, n in ((0, 2), (3, 2), (1, 0))
        ),
        (lambda plan: do(plan.recipe, shape="cube"), "do: `shape` is no factor or variable of any set"),
    ],
)
def test_plan_errors(plans, call, message):
    with refused(message):
        call(plans["demo"])


@pytest.mark.parametrize("call", [make_plan, lambda given: do(given, color="red")])
def test_only_recipes_are_planned(call):
    with refused(r"^expected a recipe, got 'candle'; load it: load_recipe\('candle'\)$"):
        call("candle")
    with refused(r"^expected a recipe, got NoneType$"):
        call(None)


@pytest.mark.parametrize(
    "call",
    [
        lambda given: render(given, "nowhere"),
        lambda given: condition(given, color="red"),
        lambda given: counterfactual(given, color="red"),
        lambda given: inverse_propensity_weights(given, "color"),
    ],
)
def test_only_plans_are_rendered_selected_and_changed(call):
    with refused(r"^expected a plan of make_plan, got 'candle'; plan it"):
        call("candle")
    with refused("got the recipe 'candle'; plan it"):
        call(load_recipe("candle"))
