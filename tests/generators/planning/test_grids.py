"""Grids whose factors depend on each other: their cells, and the effect of interventions on them."""

import itertools
from collections import Counter

import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.planning.interventions import counterfactual, do, inverse_propensity_weights
from candlelight.generators.planning.plan import make_plan, plan_samples
from candlelight.generators.planning.sample_values import unit_indices
from tests.refusals import refused

# The rule limits the kinds of a scene, and the table the sizes of a kind; the grid lists all three factors.
LISTED = """
name: trial
description: A grid with mechanisms.
sets:
  s:
    factors:
      scene: {values: [hall, yard]}
      kind: {values: [cube, cone, sphere]}
      size: {values: [1, 2, 3, 4], given: kind,
             table: {cube: {1: 1, 2: 1}, cone: [0, 1, 1, 1], sphere: {4: 1}}}
      tone: {low: 0, high: 1}
    rules: [{target: kind, exclude: {scene: hall, kind: sphere}}]
    grid: [scene, kind, size]
    draws: 20
    layout:
      objects: [{type: cube, size: 1}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""
SIZES = {"cube": [1, 2], "cone": [2, 3, 4], "sphere": [4]}


@pytest.fixture(scope="module")
def listed(load):
    return lambda *overrides: load(LISTED, *overrides)


def test_a_grid_has_the_cells_that_its_mechanisms_allow(listed, rows):
    cells = itertools.product(["hall", "yard"], ["cube", "cone", "sphere"], [1, 2, 3, 4])
    allowed = {
        number: cell
        for number, cell in enumerate(cells)
        if cell[2] in SIZES[cell[1]] and cell[:2] != ("hall", "sphere")
    }
    found = {
        row.index // 20: tuple(row.values[n] for n in ("scene", "kind", "size")) for row in rows(listed())
    }
    assert found == allowed
    assert unit_indices(listed(), "s", AssetLibrary()) == [row.index for row in rows(listed())]


@pytest.mark.parametrize(("name", "value"), [("scene", "hall"), ("kind", "cone"), ("size", 1), ("tone", 2.0)])
def test_do_keeps_the_samples_and_recomputes_descendants(listed, rows, name, value):
    before, after = rows(listed()), rows(do(listed(), **{name: value}))
    assert [(row.index, row.unit) for row in before] == [(row.index, row.unit) for row in after]
    below = {"scene": {"kind", "size"}, "kind": {"size"}}.get(name, set())
    for one, other in zip(before, after, strict=True):
        moved = {key for key in one.values if one.values[key] != other.values[key]}
        assert moved <= below | {name}
        assert other.values[name] == value
        assert name == "size" or other.values["size"] in SIZES[other.values["kind"]]
        assert name == "kind" or (other.values["scene"], other.values["kind"]) != ("hall", "sphere")
        assert other.propensities[name] == 1
        assert min(other.propensities.values()) > 0


def test_descendants_in_a_grid_have_the_distribution_of_their_mechanism(listed, rows):
    # By hand: the draw of a cube's size is uniform on half of [0, 1), a cone's on a third, a sphere's on all.
    plain = listed("sets.s.factors.scene.values=[yard]", "sets.s.rules=[]", "sets.s.draws=100")
    pairs = list(zip(rows(plain), rows(do(plain, kind="cone")), strict=True))
    draws = {("cube", 1): [0, 1 / 2], ("cone", 3): [1 / 3, 2 / 3], ("sphere", 4): [0, 1]}
    for made_as, (low, high) in draws.items():
        made = [
            other.values["size"]
            for one, other in pairs
            if (one.values["kind"], one.values["size"]) == made_as
        ]
        for k, size in enumerate((2, 3, 4)):
            overlap = max(0, min(high, (k + 1) / 3) - max(low, k / 3)) / (high - low)
            assert made.count(size) / len(made) == pytest.approx(overlap, abs=0.2 if overlap > 1e-9 else 0)


def test_a_counterfactual_in_a_grid_equals_do_on_its_unit(listed, rows):
    plan = make_plan(listed(), 12)
    changed = counterfactual(plan, scene="hall").samples
    made = {row.index: row.values for row in rows(do(listed(), scene="hall"))}
    assert [other.factors for other in changed] == [
        {name: made[sample.index][name] for name in sample.factors} for sample in plan.samples
    ]
    assert not any(other.factors["kind"] == "sphere" for other in changed)
    assert any(sample.factors["kind"] == "sphere" for sample in plan.samples)


def test_a_table_with_unequal_weights_cannot_be_listed(listed, rows):
    table = "sets.s.factors.size.table={cube: {1: 1, 2: 2}, cone: {2: 1}, sphere: {4: 1}}"
    with refused("grid: lists every combination once, but `size` has weights"):
        listed(table)
    for change, name in (("kind.weights=[1, 1, 1]", "kind"), ("size.strength=0.5", "size")):
        with refused(f"grid: lists every combination once, but `{name}` has weights"):
            listed(f"sets.s.factors.{change}")
    even = listed("sets.s.factors.size.table={cube: {1: 3, 2: 3, 3: 0}, cone: {2: 1}, sphere: {4: 1}}")
    assert {row.values["size"] for row in rows(even) if row.values["kind"] == "cube"} == {1, 2}


def test_inverse_propensities_of_listed_factors_need_a_full_grid(listed, rows):
    with refused("`scene` is not drawn but listed, in a grid without the cells that `kind`"):
        inverse_propensity_weights(make_plan(listed(), 5), "scene")
    full = listed("sets.s.rules=[]", "sets.s.grid=[scene, kind]")
    assert set(inverse_propensity_weights(make_plan(full, 5), "scene").values()) == {1.0}


def test_some_units_of_a_huge_grid_are_planned_alone(listed, rows):
    factors = ", ".join(f"f{i}: {{count: 10}}" for i in range(8))
    huge = [f"sets.s.factors={{{factors}}}", "sets.s.grid=null", "sets.s.draws=1"]
    rule = "sets.s.rules=[{target: f7, exclude: {f7: 3, f0: 1}}]"
    found = rows(listed(*huge, rule), [12_345_678, 12_345_673, 98_765_432])
    assert [row.index for row in found] == [12_345_678, 98_765_432]
    assert "".join(str(value) for value in found[0].values.values()) == "12345678"
    twice = listed(*huge[:2], "sets.s.draws=2", rule)
    with refused(r"draws: expected at most 1e\+08 samples, got 100000000 cells x 2"):
        rows(twice, [5])


def test_some_samples_can_be_planned_alone(listed, rows):
    recipe = listed()
    plan = make_plan(recipe, 10)
    ids = [sample.id for sample in plan.samples]
    assert plan_samples(recipe, ids) == plan
    # Unknown ids: a cell that a mechanism excludes, an index beyond the grid, another set, and no index.
    assert len(plan_samples(recipe, ["s-000040", "s-999999", "t-000000", "s", "s-x"])) == 0
    changed = counterfactual(plan, {"scene": "hall"}, {"size": 3})
    again = plan_samples(changed.recipe, [sample.id for sample in changed.samples[3:]])
    assert again.samples == changed.samples[3:]


def test_counterfactuals_without_their_factual_samples_can_be_limited(listed, rows):
    changed = counterfactual(make_plan(listed(), 10), {"scene": "hall"}, {"size": 3})
    some = changed.limit(4)
    assert Counter(Counter(other.counterfactual_of for other in some.samples).values()) == {2: 4}
    assert changed.limit(99) == changed


def test_a_set_with_the_name_of_the_counterfactuals_is_not_replaced(load):
    text = LISTED + "  s_counterfactual: {extends: candle/candle}\n"
    with refused("there is a set `s_counterfactual` already"):
        counterfactual(make_plan(load(text), 1), scene="hall")
