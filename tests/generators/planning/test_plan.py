"""Plans: indices, units, trace groups, interventions, distributions, limits and shards."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.factors import Categorical, Continuous
from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256
from candlelight.generators.language.set_settings import factor_infos
from candlelight.generators.planning.interventions import (
    condition,
    counterfactual,
    do,
    inverse_propensity_weights,
)
from candlelight.generators.planning.mechanisms import Mechanisms
from candlelight.generators.planning.plan import Plan, make_plan
from candlelight.generators.planning.plan_table import load_plan, save_plan
from candlelight.loaders.errors import InputError
from candlelight.loaders.factor_space import FactorSpace

# Overrides that make the shipped recipes small, with a set of each kind.
AZIMUTHS = "sets.illumination.factors.light_azimuth.values=[-44, -2, 44]"
SCENES = [f"sets.{name}.factors.scene.values=[cube, arch_sphere_star]" for name in ("albedo", "illumination")]
SMALL = {
    "candle": ["sets.candle.factors.scene.values=[garden, outdoor]", "sets.candle.factors.size.values=[2]"],
    "concepts": ["sets.albedo.factors.material.count=3", AZIMUTHS, *SCENES],
    "negatives": ["sets.negatives.draws=40"],
    "demo": [
        *("sets.candle.factors.object_type.values=[cube]", "sets.albedo.factors.material.count=2", AZIMUTHS),
        *("sets.negatives.draws=15", "sets.tabletop.draws=60", "sets.tabletop_test.draws=5"),
    ],
}


@pytest.fixture(scope="session")
def plans() -> dict[str, Plan]:
    return {name: make_plan(load_recipe(name, overrides)) for name, overrides in SMALL.items()}


def grid_of(plan: Plan, name: str) -> FactorSpace:
    image_set = plan.recipe.sets[name]
    factors = factor_infos(image_set)
    listed = [(factor.name, factor.values) for factor in factors if factor.values]
    return FactorSpace(*zip(*listed, strict=True))


# ------------------------------------------------------------------------------------ grid, units, groups


@pytest.mark.parametrize(
    ("name", "set_name"), [("candle", "candle"), ("concepts", "albedo"), ("concepts", "illumination")]
)
def test_indices_are_those_of_the_factor_space(plans, name, set_name):
    plan = plans[name]
    space = grid_of(plan, set_name)
    samples = [sample for sample in plan.samples if sample.set == set_name]
    assert len(samples) == space.size
    for row, sample in enumerate(samples):
        assert (sample.index, sample.id) == (row, f"{set_name}-{row:06d}")
        assert space.index(sample.factors) == row


def test_draws_repeat_each_cell(tiny):
    plan = make_plan(load_recipe(tiny, ["sets.cubes.draws=3"]))
    cells = [(sample.factors["size"], sample.factors["color"]) for sample in plan.samples]
    assert cells == [cell for cell in itertools.product((1, 1.5), ("red", "blue")) for _ in range(3)]
    assert len({sample.exogenous["x"] for sample in plan.samples}) == len(plan)


def test_ids_units_and_sets_are_consistent(plans):
    for plan in plans.values():
        assert len({sample.id for sample in plan.samples}) == len(plan)
        for unit, samples in itertools.groupby(sorted(plan.samples, key=lambda s: s.unit), lambda s: s.unit):
            members = list(samples)
            assert len({sample.trace.cycles_seed for sample in members}) == 1, unit
            assert len({tuple(sample.exogenous.items()) for sample in members}) == 1, unit


def test_a_trace_group_has_one_trace(plans):
    for plan in plans.values():
        for members in plan.groups.values():
            assert len({(sample.set, sample.trace) for sample in members}) == 1
        traces = {(sample.set, sample.trace) for sample in plan.samples}
        assert len(traces) == len(plan.groups)


def test_temperatures_share_a_trace_and_directions_do_not(plans):
    plan = plans["concepts"]
    for members in plan.groups.values():
        assert sorted(sample.factors["temperature"] for sample in members) == [2500, 4500, 6500]
        assert len({sample.factors["light_azimuth"] for sample in members}) == 1
        assert len({sample.gain for sample in members}) == 3
    # The samples of a concept set share a unit, and with it the renderer's seed and every drawn colour.
    by_concept: dict[tuple, set] = {}
    for sample in plan.samples:
        if sample.set == "illumination":
            fixed = tuple(v for k, v in sample.factors.items() if k not in ("light_azimuth", "temperature"))
            by_concept.setdefault(fixed, set()).add((sample.trace.objects, sample.trace.cycles_seed))
    assert all(len(scenes) == 1 for scenes in by_concept.values())


def test_samples_with_an_environment_map_share_no_trace(plans):
    assert all(sample.gain == (1, 1, 1) for sample in plans["negatives"].samples)
    assert all(len(members) == 1 for members in plans["negatives"].groups.values())
    light = plans["negatives"].samples[0].lights[0]
    assert plans["negatives"].samples[0].trace.lights == (light,)


def test_planning_again_gives_the_same(plans):
    for name in ("negatives", "demo"):
        assert make_plan(load_recipe(name, SMALL[name])) == plans[name]


# ------------------------------------------------------------------- fixing one variable shifts no other


def drawn(plan):
    return [
        (sample.unit, sample.exogenous, sample.trace.camera, sample.trace.cycles_seed)
        for sample in plan.samples
    ]


def without(mapping, *names):
    return {name: value for name, value in mapping.items() if name not in names}


def test_do_keeps_every_other_draw(plans):
    plain = plans["negatives"]
    for name, value in {
        "count": 2,
        "texturing": "rgb",
        "light_azimuth": 12,
        "light_power": 700.0,
    }.items():
        changed = make_plan(do(plain.recipe, **{name: value}))
        assert drawn(changed) == drawn(plain)
        for before, after in zip(plain.samples, changed.samples, strict=True):
            assert after.factors[name] == value
            assert without(after.factors, name) == without(before.factors, name)
            both = zip(before.trace.objects, after.trace.objects, strict=False)
            assert all(one.location == other.location for one, other in both)
            assert after.intervention == {name: value}
            assert before.intervention == {}


def test_do_changes_the_layout_that_depends_on_the_factor(plans):
    plain = plans["negatives"]
    fewer = make_plan(do(plain.recipe, count=1))
    for before, after in zip(plain.samples, fewer.samples, strict=True):
        assert after.trace.objects == before.trace.objects[:1]
        assert after.lights == before.lights
    turned = make_plan(do(plain.recipe, light_azimuth=200.0))  # outside the range of the factor
    assert {sample.factors["light_azimuth"] for sample in turned.samples} == {200.0}
    for before, after in zip(plain.samples, turned.samples, strict=True):
        assert after.trace.objects == before.trace.objects
        assert after.lights[0].location != before.lights[0].location


def test_do_on_a_grid_keeps_ids_units_and_draws(plans):
    plain = plans["candle"]
    changed = make_plan(do(plain.recipe, color="red", size=2.0))
    assert [(s.id, s.unit) for s in changed.samples] == [(s.id, s.unit) for s in plain.samples]
    assert drawn(changed) == drawn(plain)
    assert {sample.factors["color"] for sample in changed.samples} == {"red"}
    # A number is written as the recipe writes it, so that 2 does not become 2.0 in the metadata.
    assert {repr(sample.factors["size"]) for sample in changed.samples} == {"2"}
    assert {repr(sample.intervention["size"]) for sample in changed.samples} == {"2"}


def test_do_on_a_continuous_factor_gives_a_float(plans):
    changed = make_plan(do(plans["negatives"].recipe, light_azimuth=30))
    assert {repr(sample.factors["light_azimuth"]) for sample in changed.samples} == {"30.0"}


def test_do_applies_to_the_sets_that_have_the_factor(plans):
    changed = make_plan(do(plans["demo"].recipe, count=2))
    for before, after in zip(plans["demo"].samples, changed.samples, strict=True):
        assert after.intervention == ({"count": 2} if "count" in before.factors else {})
        if "count" not in before.factors:
            assert after == before


def test_interventions_combine(tiny):
    recipe = load_recipe(tiny)
    assert do(do(recipe, color="red"), size=1) == do(recipe, color="red", size=1)
    assert do(do(recipe, color="red"), color="blue") == do(recipe, color="blue")
    assert recipe_sha256(do(recipe, color="red")) != recipe_sha256(recipe)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shape": "cube"}, r"do: `shape` is no factor or variable of any set"),
        ({"color": "pink"}, r"sets\.cubes: do\.color: expected one of red, blue, got 'pink'"),
        ({"size": 3}, r"sets\.cubes: do\.size: expected one of 1, 1\.5, got 3"),
        ({"azimuth": "left"}, r"sets\.cubes: do\.azimuth: expected a number, got 'left'"),
        ({"x": "left"}, r"sets\.cubes: do\.x: expected a number, got 'left'"),
    ],
)
def test_do_errors(tiny, values, message):
    recipe = load_recipe(tiny)
    with pytest.raises(InputError, match=message):
        do(recipe, **values)


def test_one_value_shifts_no_other_draw(plans):
    plain = plans["negatives"].samples
    for field in ("factors.light_power={low: 900, high: 900}", "variables.camera_x={low: 1, high: 1}"):
        name = field.split("=")[0].split(".")[1]
        changed = make_plan(
            load_recipe("negatives", [*SMALL["negatives"], f"sets.negatives.{field}"])
        ).samples
        for before, after in zip(plain, changed, strict=True):
            assert without(after.factors, name) == without(before.factors, name)
            assert without(after.exogenous, name) == without(before.exogenous, name)
            assert after.trace.objects == before.trace.objects
            assert after.trace.cycles_seed == before.trace.cycles_seed


def test_fewer_grid_values_shift_nothing_in_the_same_unit():
    # The unit of a concept set is its scene, so fewer materials do not change the remaining samples.
    many, few = (
        make_plan(
            load_recipe("concepts", [*SMALL["concepts"], f"sets.albedo.factors.material.count={count}"])
        )
        for count in (3, 1)
    )
    key = lambda sample: (sample.set, *sample.factors.items())  # noqa: E731
    before = {key(sample): (sample.trace, sample.lights) for sample in many.samples}
    assert all(before[key(sample)] == (sample.trace, sample.lights) for sample in few.samples)


def test_adding_a_variable_shifts_nothing(tiny):
    plain = make_plan(load_recipe(tiny))
    more = make_plan(load_recipe(tiny, ["sets.cubes.variables.a={low: 0, high: 1}"]))
    for before, after in zip(plain.samples, more.samples, strict=True):
        assert without(after.exogenous, "a") == before.exogenous
        assert (after.factors, after.trace, after.group) == (before.factors, before.trace, before.group)


# ------------------------------------------------------------------------------------------- distributions


def draw(factor, count=4000):
    lists = {"v": factor.values} if isinstance(factor, Categorical) else {}
    mechanisms = Mechanisms(image_set_of(factor), lists)
    return np.array([mechanisms.sample(0, f"u/{i}", {}, {})[0]["v"] for i in range(count)])


def image_set_of(factor):
    layout = {"camera": {"location": (0, 5, 2), "look_at": (0, 0, 0.5)}, "lights": [{}]}
    return ImageSet.model_validate({"factors": {"v": factor.model_dump()}, "grid": [], "layout": layout})


def test_uniform():
    drawn = draw(Continuous(low=-2, high=6))
    assert drawn.min() >= -2
    assert drawn.max() <= 6
    counts, _ = np.histogram(drawn, 20, (-2, 6))
    assert ((counts - 200) ** 2 / 200).sum() < 50.8  # 19 degrees of freedom, p = 1e-4
    assert drawn.mean() == pytest.approx(2, abs=4 * 8 / np.sqrt(12 * 4000))


def test_truncated_normal():
    # Reference: rejection sampling with another generator gives the same distribution within sampling error.
    drawn = draw(Continuous(low=-1, high=0.5, mean=0, std=1))
    slow = np.random.default_rng(5).normal(size=400_000)
    slow = slow[(slow >= -1) & (slow <= 0.5)]
    edges = np.quantile(slow, np.linspace(0, 1, 21))
    counts, _ = np.histogram(drawn, [-1, *edges[1:-1], 0.5])
    assert counts.sum() == 4000
    assert ((counts - 200) ** 2 / 200).sum() < 50.8
    assert drawn.mean() == pytest.approx(slow.mean(), abs=4 * slow.std() / np.sqrt(4000))
    assert drawn.std() == pytest.approx(slow.std(), rel=0.05)


def test_a_wide_truncated_normal_is_a_normal():
    drawn = draw(Continuous(low=-1000, high=1000, mean=3, std=2))
    assert drawn.mean() == pytest.approx(3, abs=4 * 2 / np.sqrt(4000))
    assert drawn.std() == pytest.approx(2, rel=0.05)
    assert ((drawn - 3) ** 3).mean() / 8 == pytest.approx(0, abs=4 * np.sqrt(15 / 4000))


@pytest.mark.parametrize("high", [0.0, 1e-9, 1e-3])
def test_a_narrow_piece_of_a_normal_takes_no_longer(high):
    # Rejection sampling would practically never end here.
    drawn = draw(Continuous(low=0, high=high, mean=0, std=1e6), 10)
    assert ((drawn >= 0) & (drawn <= high)).all()


def test_rounding_never_leaves_the_range():
    third = 2 / 3
    assert set(draw(Continuous(low=third, high=third), 10)) == {third}
    assert set(draw(Continuous(low=third, high=third, mean=third, std=1), 10)) == {third}


@pytest.mark.parametrize(
    "spread", [{}, {"mean": 2.5e-10, "std": 1e-10}, {"low": -1, "high": 1, "mean": 0, "std": 1e-10}]
)
def test_small_draws_keep_their_digits(spread):
    drawn = draw(Continuous(**{"low": 1e-10, "high": 4e-10, **spread}), 1000)
    assert len(set(drawn)) == 1000
    assert np.histogram(drawn, 4)[0].min() > 10
    assert drawn.std() == pytest.approx(1e-10, rel=0.3)


def test_draws_have_nine_decimals_unless_their_range_is_small():
    for low, high in ((-1, 1), (0, 1e-3), (1000, 1000.004)):
        drawn = draw(Continuous(low=low, high=high), 1000)
        assert (drawn == drawn.round(9)).all()
    # In a wide range, the rounding error of a result near 0 is rounded to 0.
    assert set(draw(Continuous(low=-1, high=1, value="sin(pi)"), 1)) == {0.0}
    assert set(draw(Continuous(low=0, high=1e-9, value="1e-9 / 3"), 1)) == {round(1e-9 / 3, 15)}


def test_categorical():
    factor = Categorical(values=("a", "b", "c", "d", "e"))
    drawn = draw(factor)
    _, counts = np.unique(drawn, return_counts=True)
    assert ((counts - 800) ** 2 / 800).sum() < 23.5  # 4 degrees of freedom, p = 1e-4


def test_draws_of_a_set_are_uniform_over_its_samples(plans):
    azimuths = np.array([s.factors["light_azimuth"] for s in plans["demo"].samples if s.set == "tabletop"])
    assert np.histogram(azimuths, 3, (-80, 80))[0].min() > 8  # of 60


# ------------------------------------------------------------------------------- condition, limit, shard


def test_condition_selects_and_changes_nothing(plans):
    plan = plans["candle"]
    chosen = condition(plan, scene="garden", color=["red", "blue"])
    wanted = [
        s for s in plan.samples if s.factors["scene"] == "garden" and s.factors["color"] in ("red", "blue")
    ]
    assert list(chosen.samples) == wanted
    assert chosen.recipe == plan.recipe
    assert {s.set for s in condition(plans["demo"], texturing="rgb", temperature=2500).samples} == {
        "albedo",
        "illumination",
    }


def test_condition_is_not_do(plans):
    plain = plans["negatives"]
    selected, forced = condition(plain, count=1), make_plan(do(plain.recipe, count=1))
    assert len(selected) < len(forced) == len(plain)
    assert all(sample.intervention == {} for sample in selected.samples)


def test_condition_errors(plans):
    with pytest.raises(InputError, match="condition: `shape` is no factor of any set of `candle`"):
        condition(plans["candle"], shape="cube")
    with pytest.raises(InputError, match=r"condition: no sample of `candle` has \{'color': 'pink'\}"):
        condition(plans["candle"], color="pink")


@pytest.mark.parametrize("count", [1, 7, 100])
def test_limit_keeps_a_number_of_samples_of_each_set(plans, count):
    plan = plans["demo"]
    limited = plan.limit(count)
    for name in plan.recipe.sets:
        rows, kept = ([s for s in p.samples if s.set == name] for p in (plan, limited))
        assert len(kept) == min(count, len(rows))
        assert [s.index for s in kept] == sorted(s.index for s in kept)
        assert all(sample in rows for sample in kept)


def test_a_larger_limit_keeps_the_samples_of_a_smaller_limit(plans):
    ids = [{sample.id for sample in plans["demo"].limit(count).samples} for count in (1, 5, 30)]
    assert ids[0] < ids[1] < ids[2]
    assert plans["demo"].limit(10_000) == plans["demo"]


@pytest.mark.parametrize("count", [0, -3])
def test_limit_error(plans, count):
    with pytest.raises(InputError, match=f"`limit`: expected at least 1 sample of each set, got {count}"):
        plans["demo"].limit(count)


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("sets", [["tabletop"], ["albedo", "negatives"]])
def test_samples_of_some_sets_are_those_of_the_whole_plan(plans, sets, limit):
    whole = plans["demo"] if limit is None else plans["demo"].limit(limit)
    alone = make_plan(plans["demo"].recipe, limit, sets=sets)
    assert alone == whole.of_set(*sets)
    assert [*alone.samples] == [sample for sample in whole.samples if sample.set in sets]


def test_unknown_set_error(plans):
    message = "set `tabeltop` is not in the {}; expected one of: .*albedo.*; did you mean `tabletop`"
    with pytest.raises(InputError, match=message.format("plan")):
        plans["demo"].of_set("albedo", "tabeltop")
    with pytest.raises(InputError, match=message.format("recipe")):
        make_plan(plans["demo"].recipe, sets=["tabeltop"])
    with pytest.raises(InputError, match="set `albedo` is not in the plan; expected one of: tabletop"):
        plans["demo"].of_set("tabletop").of_set("albedo")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["demo", "concepts"])
def test_shards_are_a_partition_into_whole_groups(plans, name, count):
    plan = plans[name]
    shards = [plan.shard(index, count) for index in range(1, count + 1)]
    assert sorted(s.id for shard in shards for s in shard.samples) == sorted(s.id for s in plan.samples)
    owners = [{sample.group for sample in shard.samples} for shard in shards]
    assert sum(map(len, owners)) == len(plan.groups)
    sizes = [len(groups) for groups in owners]
    assert max(sizes) - min(sizes) <= 1
    for shard in shards:
        assert all(shard.groups[group] == plan.groups[group] for group in shard.groups)


def test_more_shards_than_groups_leaves_some_empty(tiny):
    plan = make_plan(load_recipe(tiny))
    assert sum(len(plan.shard(index, 9)) for index in range(1, 10)) == len(plan) == 4


@pytest.mark.parametrize(("index", "count"), [(0, 2), (3, 2), (-1, 2), (1, 0)])
def test_shard_error(plans, index, count):
    with pytest.raises(InputError, match=f"`shard`: expected I/N with 1 <= I <= N, got {index}/{count}"):
        plans["demo"].shard(index, count)


# ------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "sets.cubes.factors.color.values=[red, pink]",
            r"sets\.cubes: factors\.color: asset `pink` is not among the",
        ),
        (
            "sets.cubes.layout.objects.0.type=blob",
            r"sets\.cubes: layout\.objects\.0\.type: asset `blob` is not among",
        ),
        (
            "sets.cubes.layout.lights.0.temperature=999",
            r"sets\.cubes: temperature: expected 1000 to 40000 K, got 999",
        ),
        (
            "sets.cubes.layout.camera.field_of_view=180",
            r"sets\.cubes: layout\.camera\.field_of_view: expected 0 to",
        ),
    ],
)
def test_errors_name_set_and_field_in_one_line(tiny, override, message):
    with pytest.raises(InputError, match=message) as caught:
        make_plan(load_recipe(tiny, [override]))
    assert "\n" not in str(caught.value)


def test_the_name_of_a_plan_need_not_be_utf8(plans, tmp_path):
    path = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.parquet"))
    plan = next(iter(plans.values()))
    save_plan(plan, path)
    assert load_plan(path).samples.keys == plan.samples.keys


@pytest.mark.parametrize("call", [make_plan, lambda given: do(given, color="red")])
def test_what_is_no_recipe_is_refused_in_one_line(call):
    with pytest.raises(
        InputError, match=r"^expected a recipe, got 'candle'; load it: load_recipe\('candle'\)$"
    ):
        call("candle")
    with pytest.raises(InputError, match=r"^expected a recipe, got NoneType$"):
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
def test_what_is_no_plan_is_refused_in_one_line(call):
    with pytest.raises(InputError, match=r"^expected a plan of make_plan, got 'candle'; plan it"):
        call("candle")
    with pytest.raises(InputError, match="got the recipe 'candle'; plan it"):
        call(load_recipe("candle"))
