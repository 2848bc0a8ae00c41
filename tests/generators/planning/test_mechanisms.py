"""Tables, rules, expressions and selections: values, propensities, and the effect of interventions."""

from collections import Counter

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.set_settings import set_graph
from candlelight.generators.planning.interventions import counterfactual, do
from candlelight.generators.planning.mechanisms import mechanisms_of
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import load_plan, save_plan
from tests.refusals import refused

# toy -> kind -> color, toy -> tone; kind -> size; x and y are exogenous.
CONFOUNDED = """
name: trial
description: A graph with a hidden confounder.
sets:
  s:
    factors:
      color: {values: [red, blue, green], weights: [1, 2, 1], given: kind, strength: 0.6,
              table: {cube: {red: 1}, sphere: {blue: 3, green: 1}}}
      kind: {values: [cube, sphere], given: toy, table: {a: {cube: 9, sphere: 1}, b: {cube: 1, sphere: 4}}}
      tone: {values: [1, 2], given: toy, table: {a: {1: 1, 2: 1}, b: {2: 1}}, strength: 0.5}
      size: {low: "0.5 if kind == 'cube' else 1", high: 2, mean: "1 + 0.5 * x", std: 0.3}
    variables:
      toy: {values: [a, b], weights: [1, 3]}
      x: {low: -1, high: 1}
      y: {low: 0, high: 10, value: "5 + x"}
    draws: 800
    layout:
      objects: [{type: cube, size: 1}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""


def chi_square_limit(degrees):
    """Upper quantile of the chi-square distribution at 1e-5, by Wilson and Hilferty (1931)."""
    return degrees * (1 - 2 / (9 * degrees) + 4.265 * np.sqrt(2 / (9 * degrees))) ** 3


def chi_square(counts, expected):
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert expected.min() > 5
    return ((counts - expected) ** 2 / expected).sum()


@pytest.fixture(scope="module")
def confounded(load):
    return load(CONFOUNDED)


@pytest.fixture(scope="module")
def drawn(confounded, rows):
    return rows(confounded)


@pytest.fixture(scope="module")
def mechanisms(confounded):
    return mechanisms_of(confounded.sets["s"], AssetLibrary())


# ---------------------------------------------------------------------------------- tables and their strength


def test_draws_follow_the_declared_tables(drawn):
    toys = Counter(row.values["toy"] for row in drawn)
    assert chi_square([toys["a"], toys["b"]], [200, 600]) < chi_square_limit(1)
    declared = {"a": [0.9, 0.1], "b": [0.2, 0.8]}
    for toy, shares in declared.items():
        kinds = Counter(row.values["kind"] for row in drawn if row.values["toy"] == toy)
        expected = toys[toy] * np.array(shares)
        assert chi_square([kinds["cube"], kinds["sphere"]], expected) < chi_square_limit(1)
    # 0.6 x the table's row + 0.4 x (0.25, 0.5, 0.25)
    declared = {"cube": [0.7, 0.2, 0.1], "sphere": [0.1, 0.65, 0.25]}
    for kind, shares in declared.items():
        colors = Counter(row.values["color"] for row in drawn if row.values["kind"] == kind)
        expected = colors.total() * np.array(shares)
        assert chi_square([colors[c] for c in ("red", "blue", "green")], expected) < chi_square_limit(2)


@pytest.mark.parametrize("strength", [0, 0.25, 1])
def test_strength_mixes_the_table_with_independence(load, strength):
    recipe = load(CONFOUNDED, f"sets.s.factors.color.strength={strength}")
    base, row = np.array([0.25, 0.5, 0.25]), np.array([0, 0.75, 0.25])
    found = mechanisms_of(recipe.sets["s"], AssetLibrary()).probabilities("color", {"kind": "sphere"})
    assert found == pytest.approx(strength * row + (1 - strength) * base)


def test_expressions_give_bounds_means_and_values(drawn):
    for row in drawn:
        assert row.values["y"] == pytest.approx(5 + row.values["x"], abs=1e-8)
        assert (0.5 if row.values["kind"] == "cube" else 1.0) <= row.values["size"] <= 2
    cubes = [row.values for row in drawn if row.values["kind"] == "cube"]
    low = np.mean([v["size"] for v in cubes if v["x"] < -0.5])
    high = np.mean([v["size"] for v in cubes if v["x"] > 0.5])
    assert high - low > 0.3


# --------------------------------------------------------------------------------------------- propensities


def test_propensities_are_those_of_the_tables_and_sum_to_one(mechanisms, drawn):
    by_hand = {
        "cube": {"red": 0.7, "blue": 0.2, "green": 0.1},
        "sphere": {"red": 0.1, "blue": 0.65, "green": 0.25},
    }
    for row in drawn[:300]:
        assert row.propensities["color"] == pytest.approx(by_hand[row.values["kind"]][row.values["color"]])
        assert row.propensities["toy"] == {"a": 0.25, "b": 0.75}[row.values["toy"]]
        for name in ("color", "kind", "tone", "toy"):
            assert mechanisms.probabilities(name, row.values).sum() == pytest.approx(1)


def test_the_density_of_a_truncated_normal_integrates_to_one(mechanisms):
    us = (np.arange(1000) + 0.5) / 1000
    pairs = [mechanisms.draw("size", {"kind": "cube", "x": 0.3}, u) for u in us]
    sizes, densities = np.array(pairs).T
    # The mass between neighbouring quantiles is 1/1000: density x width, by trapezoids.
    mass = np.diff(sizes) * (densities[1:] + densities[:-1]) / 2
    assert mass == pytest.approx(np.full(999, 1 / 1000), rel=2e-2)
    assert (np.diff(sizes) > 0).all()


# ---------------------------------------------------------------------------- interventions, counterfactuals


@pytest.mark.parametrize(
    ("name", "value"), [("kind", "cube"), ("color", "green"), ("toy", "b"), ("x", 0.5), ("size", 9.0)]
)
def test_do_changes_only_descendants(confounded, rows, name, value):
    some = range(120)
    before, after = rows(confounded, some), rows(do(confounded, **{name: value}), some)
    graph = confounded.sets["s"].causal_parents()
    below: set[str] = set()
    for _ in graph:
        below |= {child for child in graph if {name, *below} & set(graph[child])}
    moved = set()
    for one, other in zip(before, after, strict=True):
        assert other.values[name] == value
        assert (one.unit, one.index) == (other.unit, other.index)
        moved |= {key for key in one.values if one.values[key] != other.values[key]} - {name}
    assert below - {"tone"} <= moved <= below


def test_do_is_not_condition(confounded, drawn, rows):
    # An observed sphere is evidence about the hidden toy; a sphere set by intervention is none.
    seen = [row.values["toy"] == "b" for row in drawn if row.values["kind"] == "sphere"]
    made = [row.values["toy"] == "b" for row in rows(do(confounded, kind="sphere"), range(500))]
    assert np.mean(seen) == pytest.approx(0.75 * 0.8 / (0.75 * 0.8 + 0.25 * 0.1), abs=0.06)
    assert np.mean(made) == pytest.approx(0.75, abs=0.06)


def test_a_counterfactual_keeps_the_exogenous_draws(confounded, rows):
    plan = make_plan(confounded, 20)
    changed = counterfactual(plan, {"kind": "cube"}, {"toy": "a", "x": 0.0})
    assert len(changed) == 40
    by_id = {sample.id: sample for sample in plan.samples}
    for i, other in enumerate(changed.samples):
        of = by_id[other.counterfactual_of]
        assert other.unit == of.unit
        assert other.trace.cycles_seed == of.trace.cycles_seed
        assert other.intervention == ({"kind": "cube"} if i % 2 == 0 else {"toy": "a", "x": 0.0})
        if i % 2 == 0:
            assert (other.exogenous, other.factors["tone"]) == (of.exogenous, of.factors["tone"])
            if of.factors["kind"] == "cube":
                assert other.factors == of.factors
        # Descendants take their value at the same exogenous draw, given the new parents.
        again = rows(do(confounded, **other.intervention), [of.index])[0].values
        assert {**other.factors, **other.exogenous} == again


def test_counterfactuals_without_a_change_equal_their_samples(confounded):
    plan = make_plan(confounded, 5)
    for sample in plan.samples:
        kept = {name: sample.factors[name] for name in ("kind", "color")}
        (other,) = counterfactual(plan[sample.id], **kept).samples
        assert (other.factors, other.exogenous) == (sample.factors, sample.exogenous)
        assert other.trace == sample.trace


def test_a_set_of_counterfactuals_equals_the_function_counterfactual(load, tmp_path):
    text = CONFOUNDED + "  changed: {counterfactual: {of: s, do: [{kind: cube}, {color: red, toy: b}]}}\n"
    recipe = load(text, "sets.s.draws=10")
    bulk, plain = make_plan(recipe), make_plan(load(CONFOUNDED, "sets.s.draws=10"))
    single = counterfactual(plain, {"kind": "cube"}, {"color": "red", "toy": "b"})
    changed = list(bulk.samples.of_set("changed"))
    assert [one.index for one in changed] == list(range(20))
    for one, other in zip(changed, single.samples, strict=True):
        same = ("factors", "exogenous", "intervention", "counterfactual_of", "unit", "index", "trace")
        assert {k: getattr(one, k) for k in same} == {k: getattr(other, k) for k in same}
    limited = bulk.limit(4)
    kept = {sample.id for sample in limited.samples.of_set("s")}
    assert len(kept) == 4
    assert {one.counterfactual_of for one in limited.samples.of_set("changed")} == kept
    assert make_plan(recipe, 4) == limited
    save_plan(bulk, tmp_path / "plan.parquet")
    assert load_plan(tmp_path / "plan.parquet") == bulk


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "expected factors to change, as in color='yellow', got none"),
        ([{"shape": "cube"}], r"expected factors of `s` \(.*kind.*\), got \['shape'\]"),
        ([{"kinds": "cube"}], r"got \['kinds'\]; did you mean `kind`\?"),
        ([{"kind": "cone"}], r"counterfactual\.do\.0\.kind: expected one of cube, sphere, got 'cone'"),
        ([{"x": "far"}], r"counterfactual\.do\.0: variables\.x: `far` is no factor or variable"),
    ],
)
def test_counterfactual_errors(confounded, changes, message):
    with refused(message):
        counterfactual(make_plan(confounded, 2), *changes)


def test_counterfactuals_of_counterfactuals_are_refused(confounded):
    changed = counterfactual(make_plan(confounded, 2), kind="cube")
    with refused("holds counterfactuals; name the samples that they are of"):
        counterfactual(changed, color="red")


# --------------------------------------------------------------------------------------------------- rules

GRID = """
name: trial
description: A grid with rules.
sets:
  s:
    factors:
      scene: {values: [hall, yard, road]}
      kind: {values: [cube, cone]}
      size: {values: [1, 2, 3]}
    rules: RULES
    layout:
      objects: [{type: cube, size: 1}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""


@pytest.fixture
def grid(load):
    return lambda rules: load(GRID.replace("RULES", rules))


@pytest.fixture
def cells(rows):
    return lambda recipe: {
        row.index: (row.values["scene"], row.values["kind"], row.values["size"]) for row in rows(recipe)
    }


def test_a_rule_raises_the_propensity_of_the_remaining_values_of_its_target(grid, rows):
    recipe = grid("[{target: size, exclude: {size: [2, 3], scene: hall}}]")
    for row in rows(recipe):
        assert row.propensities["size"] == (1.0 if row.values["scene"] == "hall" else pytest.approx(1 / 3))
    assert recipe.sets["s"].causal_parents()["size"] == ("scene",)


def test_do_removes_only_the_rules_of_its_target(grid, cells):
    size = "{target: size, exclude: {size: 3, scene: hall}}"
    recipe = grid(f"[{size}, {{target: kind, exclude: {{kind: cone, scene: road}}}}]")
    observed, changed = cells(recipe), cells(do(recipe, size=3))
    # The rule on size is removed, so the size is 3 in halls too. All other values stay the same.
    assert changed == {index: (*cell[:2], 3) for index, cell in observed.items()}
    # The target of a rule is a descendant of the rule's other factors: no cones in a road, no sample less.
    moved = cells(do(recipe, scene="road"))
    assert {cell[1] for cell in moved.values()} == {"cube"}
    assert moved.keys() == observed.keys()


def test_an_intervention_does_not_change_a_selection(grid, cells):
    recipe = grid("[{selection: true, exclude: {size: 3, scene: hall}}]")
    observed, changed = cells(recipe), cells(do(recipe, size=3))
    assert observed.keys() == changed.keys()
    assert {cell[2] for cell in changed.values()} == {3}


def test_a_selection_on_drawn_values_rejects_whole_samples(load, rows):
    rule = "sets.s.rules=[{selection: true, exclude: {kind: cube, tone: 2}}]"
    drawn = rows(load(CONFOUNDED, rule, "sets.s.draws=320"))
    assert len(drawn) == 320
    joint = Counter((row.values["toy"], row.values["kind"], row.values["tone"]) for row in drawn)
    assert not any(kind == "cube" and tone == 2 for _, kind, tone in joint)
    # By enumeration: P(toy, kind, tone | accepted by the selection).
    toys, cubes, ones = {"a": 0.25, "b": 0.75}, {"a": 0.9, "b": 0.2}, {"a": 0.5, "b": 0.25}
    share = {}
    for toy in "ab":
        share[toy, "cube", 1] = toys[toy] * cubes[toy] * ones[toy]
        share[toy, "sphere", 1] = toys[toy] * (1 - cubes[toy]) * ones[toy]
        share[toy, "sphere", 2] = toys[toy] * (1 - cubes[toy]) * (1 - ones[toy])
    expected = 320 * np.array(list(share.values())) / sum(share.values())
    assert chi_square([joint[key] for key in share], expected) < chi_square_limit(len(share) - 1)


def test_a_table_of_several_parents(load, rows):
    rest = "yard: {cube: {1: 1, 3: 1}, cone: {3: 1}}, road: {cube: {1: 1, 2: 1}, cone: {2: 1}}"
    table = f"{{hall: {{cube: {{1: 1}}, cone: {{2: 1}}}}, {rest}}}"
    factor = f"sets.s.factors.size={{values: [1, 2, 3], given: [scene, kind], table: {table}}}"
    seen = {}
    for row in rows(load(GRID.replace("RULES", "[]"), factor, "sets.s.draws=10")):
        seen.setdefault((row.values["scene"], row.values["kind"]), set()).add(row.values["size"])
    halls, yards, roads = (
        {kind: seen[scene, kind] for kind in ("cube", "cone")} for scene in ("hall", "yard", "road")
    )
    assert halls == {"cube": {1}, "cone": {2}}
    assert yards == {"cube": {1, 3}, "cone": {3}}
    assert roads == {"cube": {1, 2}, "cone": {2}}


# -------------------------------------------------------------------------------- mechanisms put in place


def test_a_mechanism_in_place_has_noise_of_its_own_and_shifts_no_other(confounded, rows):
    some = range(200)
    before = rows(confounded, some)
    drawn = rows(do(confounded, x={"low": 2, "high": 4}), some)
    for one, other in zip(before, drawn, strict=True):
        assert {k: v for k, v in one.values.items() if k not in ("x", "y", "size")} == {
            k: v for k, v in other.values.items() if k not in ("x", "y", "size")
        }
        assert other.intervention == {"x": other.values["x"]}
        assert other.intervention_kind == {"x": "drawn"}
        assert 2 <= other.values["x"] <= 4
        assert other.propensities["x"] == 0.5
    [constant] = rows(do(confounded, x="pi / 2"), range(1))
    assert (constant.intervention, constant.intervention_kind) == ({"x": np.pi / 2}, {})  # nothing is drawn
    old, new = ([row.values["x"] for row in one] for one in (before, drawn))
    assert abs(np.corrcoef(old, new)[0, 1]) < 0.2  # 2.8 standard errors of independent draws


def test_a_soft_intervention_has_new_parents_and_removes_the_old(confounded, rows):
    # x was a root and size its child; now x depends on size, which a value cuts off from x.
    soft = do(confounded, x={"low": -9, "high": 9, "value": "2 * size"}, size=1.5)
    for row in rows(soft, range(20)):
        assert row.intervention == {"x": 3.0, "size": 1.5}
        assert row.intervention_kind == {"x": "soft"}
    graph = set_graph(soft, "s")
    assert {node.name: node.parents for node in graph.nodes if node.intervened == "all"} == {
        "size": (),
        "x": ("size",),
    }
    assert graph.node("x").mechanism == "do(2 * size in [-9, 9])"
    assert graph.node("color").parents == confounded.sets["s"].graph.node("color").parents


def test_plans_with_mechanisms_in_place_are_saved(confounded, tmp_path):
    plan = make_plan(do(confounded, color={"weights": {"red": 1}}, x={"low": 0, "high": 1}), limit=9)
    save_plan(plan, tmp_path / "plan.parquet")
    assert load_plan(tmp_path / "plan.parquet") == plan
    assert {sample.factors["color"] for sample in plan.samples} == {"red"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": {"low": 0, "high": "size"}}, "do: factors: expected a graph without cycles, got"),
        ({"x": {"low": 0, "high": "huge"}}, "do: variables.x: `huge` is no factor or variable"),
        ({"x": {"weights": [1]}}, "do.x: expected some of .*: the factor is a range"),
        ({"x": {"low": 99}}, "do.x: expected low <= high, got 99"),
        ({"color": {"values": ["red"]}}, "do.color: expected .*: the factor keeps its list of values"),
        ({"color": {"weights": {"pink": 1}}}, "do: factors.color.weights: expected weights of values among"),
    ],
)
def test_wrong_mechanisms_in_place(confounded, change, message):
    with refused(message):
        make_plan(do(confounded, **change), limit=1)
