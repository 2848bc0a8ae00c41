"""Tables, rules, expressions and selections: values, propensities, and the effect of interventions."""

import itertools
from collections import Counter

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import counterfactual, do
from candlelight.generators.planning.mechanisms import mechanisms_of
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import load_plan, save_plan
from candlelight.generators.planning.sample_values import sample_values
from candlelight.loaders.errors import InputError

LAYOUT = """
    layout:
      objects: [{type: cube, size: 1}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""

# toy -> kind -> color, toy -> tone; kind -> size; x and y are exogenous.
CONFOUNDED = (
    """
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
    draws: 1600
"""
    + LAYOUT
)


def chi_square_limit(degrees):
    """Upper quantile of the chi-square distribution at 1e-5, by Wilson and Hilferty (1931)."""
    return degrees * (1 - 2 / (9 * degrees) + 4.265 * np.sqrt(2 / (9 * degrees))) ** 3


def chi_square(counts, expected):
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert expected.min() > 5
    return ((counts - expected) ** 2 / expected).sum()


def load(tmp_path, text, *overrides):
    path = tmp_path / "trial.yaml"
    path.write_text(text)
    return load_recipe(path, overrides)


def rows(recipe, only=None):
    return list(sample_values(recipe, "s", AssetLibrary(), only))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return rows(load(tmp_path_factory.mktemp("trial"), CONFOUNDED))


@pytest.fixture
def confounded(tmp_path):
    return load(tmp_path, CONFOUNDED)


# ---------------------------------------------------------------------------------- tables and their strength


def test_draws_follow_the_declared_tables(drawn):
    toys = Counter(row.values["toy"] for row in drawn)
    assert chi_square([toys["a"], toys["b"]], [400, 1200]) < chi_square_limit(1)
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
def test_strength_mixes_the_table_with_independence(confounded, strength):
    recipe = load_from(confounded, strength)
    mechanisms = mechanisms_of(recipe.sets["s"], AssetLibrary())
    base, row = np.array([0.25, 0.5, 0.25]), np.array([0, 0.75, 0.25])
    found = mechanisms.probabilities("color", {"kind": "sphere"})
    assert found == pytest.approx(strength * row + (1 - strength) * base)


def load_from(recipe, strength):
    factor = recipe.sets["s"].factors["color"].model_copy(update={"strength": strength})
    image_set = recipe.sets["s"].model_copy(update={"factors": {**recipe.sets["s"].factors, "color": factor}})
    return recipe.model_copy(update={"sets": {"s": image_set}})


def test_variables_without_a_common_cause_are_independent(drawn):
    table = Counter((row.values["kind"], row.values["x"] > 0) for row in drawn)
    counts = np.array([[table[k, s] for s in (False, True)] for k in ("cube", "sphere")], float)
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / counts.sum()
    assert ((counts - expected) ** 2 / expected).sum() < chi_square_limit(1)


def test_expressions_give_bounds_means_and_values(drawn):
    for row in drawn:
        assert row.values["y"] == pytest.approx(5 + row.values["x"], abs=1e-8)
        assert (0.5 if row.values["kind"] == "cube" else 1.0) <= row.values["size"] <= 2
    cubes = [row.values for row in drawn if row.values["kind"] == "cube"]
    low = np.mean([v["size"] for v in cubes if v["x"] < -0.5])
    high = np.mean([v["size"] for v in cubes if v["x"] > 0.5])
    assert high - low > 0.3


# --------------------------------------------------------------------------------------------- propensities


def test_propensities_are_those_of_the_tables_and_sum_to_one(confounded, drawn):
    mechanisms = mechanisms_of(confounded.sets["s"], AssetLibrary())
    by_hand = {
        ("cube", "red"): 0.7,
        ("cube", "blue"): 0.2,
        ("cube", "green"): 0.1,
        ("sphere", "red"): 0.1,
        ("sphere", "blue"): 0.65,
        ("sphere", "green"): 0.25,
    }
    for row in drawn[:300]:
        assert row.propensities["color"] == pytest.approx(by_hand[row.values["kind"], row.values["color"]])
        assert row.propensities["toy"] == {"a": 0.25, "b": 0.75}[row.values["toy"]]
        for name in ("color", "kind", "tone", "toy"):
            assert mechanisms.probabilities(name, row.values).sum() == pytest.approx(1)


def test_the_density_of_a_truncated_normal_integrates_to_one(confounded):
    mechanisms = mechanisms_of(confounded.sets["s"], AssetLibrary())
    values = {"kind": "cube", "x": 0.3}
    us = (np.arange(1000) + 0.5) / 1000
    pairs = [mechanisms.draw("size", values, u) for u in us]
    sizes, densities = np.array(pairs).T
    # The mass between neighbouring quantiles is 1/1000: density x width, by trapezoids.
    mass = np.diff(sizes) * (densities[1:] + densities[:-1]) / 2
    assert mass == pytest.approx(np.full(999, 1 / 1000), rel=2e-2)
    assert (np.diff(sizes) > 0).all()


# ---------------------------------------------------------------------------- interventions, counterfactuals


@pytest.mark.parametrize(
    ("name", "value"), [("kind", "cube"), ("color", "green"), ("toy", "b"), ("x", 0.5), ("size", 9.0)]
)
def test_do_changes_only_descendants(confounded, name, value):
    some = range(120)
    before, after = rows(confounded, some), rows(do(confounded, **{name: value}), some)
    graph = confounded.sets["s"].graph()
    below: set[str] = set()
    for _ in graph:
        below |= {child for child in graph if {name, *below} & set(graph[child])}
    moved = set()
    for one, other in zip(before, after, strict=True):
        assert other.values[name] == value
        assert (one.unit, one.index) == (other.unit, other.index)
        moved |= {key for key in one.values if one.values[key] != other.values[key]} - {name}
    assert moved <= below
    assert moved == below - {"tone"} or moved == below


def test_do_is_not_condition(confounded, drawn):
    # An observed sphere is evidence about the hidden toy; a sphere set by intervention is none.
    seen = [row.values["toy"] == "b" for row in drawn if row.values["kind"] == "sphere"]
    made = [row.values["toy"] == "b" for row in rows(do(confounded, kind="sphere"), range(1000))]
    assert np.mean(seen) == pytest.approx(0.75 * 0.8 / (0.75 * 0.8 + 0.25 * 0.1), abs=0.06)
    assert np.mean(made) == pytest.approx(0.75, abs=0.06)


def test_a_counterfactual_keeps_the_exogenous_draws(confounded):
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
    plan = make_plan(confounded, 10)
    for sample in plan.samples:
        other = counterfactual(plan[sample.id], **{k: sample.factors[k] for k in ("kind", "color")}).samples[
            0
        ]
        assert (other.factors, other.exogenous, other.trace) == (
            sample.factors,
            sample.exogenous,
            sample.trace,
        )


def test_a_set_of_counterfactuals_equals_the_function_counterfactual(tmp_path):
    text = CONFOUNDED + "  changed: {counterfactual: {of: s, do: [{kind: cube}, {color: red, toy: b}]}}\n"
    recipe = load(tmp_path, text, "sets.s.draws=30")
    bulk = make_plan(recipe)
    asked = [{"kind": "cube"}, {"color": "red", "toy": "b"}]
    plain = make_plan(load(tmp_path, CONFOUNDED, "sets.s.draws=30"))
    single = counterfactual(plain, *asked)
    changed = [sample for sample in bulk.samples if sample.set == "changed"]
    assert [t.index for t in changed] == list(range(60))
    for one, other in zip(changed, single.samples, strict=True):
        same = ("factors", "exogenous", "intervention", "counterfactual_of", "unit", "index", "trace")
        assert {k: getattr(one, k) for k in same} == {k: getattr(other, k) for k in same}
    limited = bulk.limit(4)
    kept = {sample.id for sample in limited.samples if sample.set == "s"}
    assert len(kept) == 4
    assert {s.counterfactual_of for s in limited.samples if s.set == "changed"} == kept
    assert make_plan(recipe, 4) == limited
    save_plan(bulk, tmp_path / "plan.parquet")
    assert load_plan(tmp_path / "plan.parquet") == bulk


@pytest.mark.parametrize(
    ("changes", "values", "message"),
    [
        ((), {}, "expected factors to change, as in color='yellow', got none"),
        ((), {"shape": "cube"}, r"expected factors of `s` \(.*kind.*\), got \['shape'\]"),
        ((), {"kinds": "cube"}, r"got \['kinds'\]; did you mean `kind`\?"),
        ((), {"kind": "cone"}, r"counterfactual\.do\.0\.kind: expected one of cube, sphere, got 'cone'"),
        (({"x": "far"},), {}, r"counterfactual\.do\.0\.x: expected a number, got 'far'"),
    ],
)
def test_counterfactual_errors(confounded, changes, values, message):
    with pytest.raises(InputError, match=message):
        counterfactual(make_plan(confounded, 2), *changes, **values)


def test_counterfactuals_of_counterfactuals_are_refused(confounded):
    changed = counterfactual(make_plan(confounded, 2), kind="cube")
    with pytest.raises(InputError, match="holds counterfactuals; name the samples that they are of"):
        counterfactual(changed, color="red")


# --------------------------------------------------------------------------------------------------- rules

GRID = (
    """
name: trial
description: A grid with rules.
sets:
  s:
    factors:
      scene: {values: [hall, yard, road]}
      kind: {values: [cube, cone]}
      size: {values: [1, 2, 3]}
    rules: RULES
"""
    + LAYOUT
)


def cells(recipe):
    return {row.index: (row.values["scene"], row.values["kind"], row.values["size"]) for row in rows(recipe)}


FULL = dict(enumerate(itertools.product(["hall", "yard", "road"], ["cube", "cone"], [1, 2, 3])))


@pytest.mark.parametrize("kind", ["selection: true", "target: size"])
def test_rules_leave_out_cells_and_the_others_keep_their_index(tmp_path, kind):
    recipe = load(tmp_path, GRID.replace("RULES", f"[{{{kind}, exclude: {{size: 3, scene: [hall, road]}}}}]"))
    slow = {i: cell for i, cell in FULL.items() if not (cell[2] == 3 and cell[0] in ("hall", "road"))}
    assert cells(recipe) == slow


def test_a_rule_raises_the_propensity_of_the_remaining_values_of_its_target(tmp_path):
    recipe = load(tmp_path, GRID.replace("RULES", "[{target: size, exclude: {size: [2, 3], scene: hall}}]"))
    for row in rows(recipe):
        assert row.propensities["size"] == (1.0 if row.values["scene"] == "hall" else pytest.approx(1 / 3))
    assert recipe.sets["s"].graph()["size"] == ("scene",)


def test_do_removes_only_the_rules_of_its_target(tmp_path):
    rules = (
        "[{target: size, exclude: {size: 3, scene: hall}}, "
        "{target: kind, exclude: {kind: cone, scene: road}}]"
    )
    recipe = load(tmp_path, GRID.replace("RULES", rules))
    observed, changed = cells(recipe), cells(do(recipe, size=3))
    # The rule on size is removed, so the size is 3 in halls too. All other values stay the same.
    assert changed == {index: (*cell[:2], 3) for index, cell in observed.items()}
    # The target of a rule is a descendant of the rule's other factors: no cones in a road, no sample less.
    moved = cells(do(recipe, scene="road"))
    assert {cell[1] for cell in moved.values()} == {"cube"}
    assert moved.keys() == observed.keys()


def test_an_intervention_does_not_change_a_selection(tmp_path):
    recipe = load(tmp_path, GRID.replace("RULES", "[{selection: true, exclude: {size: 3, scene: hall}}]"))
    observed, changed = cells(recipe), cells(do(recipe, size=3))
    assert observed.keys() == changed.keys()
    assert {cell[2] for cell in changed.values()} == {3}


def test_a_selection_on_drawn_values_rejects_whole_samples(tmp_path):
    text = CONFOUNDED.replace(
        "    draws: 1600", "    rules: [{selection: true, exclude: {kind: cube, tone: 2}}]\n    draws: 1200"
    )
    drawn = rows(load(tmp_path, text))
    assert len(drawn) == 1200
    joint = Counter((row.values["toy"], row.values["kind"], row.values["tone"]) for row in drawn)
    assert not any(kind == "cube" and tone == 2 for _, kind, tone in joint)
    # By enumeration: P(toy, kind, tone | accepted by the selection).
    share = {}
    for toy, kind, tone in itertools.product("ab", ["cube", "sphere"], [1, 2]):
        cube = {"a": 0.9, "b": 0.2}[toy]
        one = {"a": 0.5, "b": 0.25}[toy]
        p = (
            {"a": 0.25, "b": 0.75}[toy]
            * (cube if kind == "cube" else 1 - cube)
            * (one if tone == 1 else 1 - one)
        )
        if not (kind == "cube" and tone == 2):
            share[toy, kind, tone] = p
    total = sum(share.values())
    observed = [joint[key] for key in share]
    assert chi_square(observed, [1200 * p / total for p in share.values()]) < chi_square_limit(len(share) - 1)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("[{exclude: {size: 3}}]", "rules.0: expected `target`.* or `selection: true`, got neither"),
        ("[{exclude: {size: 3}, target: size, selection: true}]", "got both"),
        ("[{exclude: {size: 3}, target: kind}]", "target: expected one of size, got `kind`"),
        (
            "[{exclude: {shape: 3}, selection: true}]",
            "rules.0.exclude: expected categorical names, got `shape`",
        ),
        (
            "[{exclude: {size: 4}, selection: true}]",
            r"rules\.0\.exclude\.size: expected some of 1, 2, 3, got \[4\]",
        ),
        ("[{exclude: {size: [1, 2, 3]}, selection: true}]", "they leave no cell of the grid"),
        (
            "[{exclude: {size: [1, 2], scene: hall}, target: size}, {exclude: {size: 3}, target: size}]",
            "leave no value of `size` where scene=hall",
        ),
        ("[{exclude: {}, selection: true}]", "at least 1"),
        (
            "[{exclude: {size: 1, kind: cube}, target: size}, {exclude: {kind: cone, size: 2}, target: kind}"
            "]",
            "expected a graph without cycles",
        ),
    ],
)
def test_impossible_rules_are_refused_when_planning(tmp_path, rules, message):
    with pytest.raises(InputError, match=message):
        make_plan(load(tmp_path, GRID.replace("RULES", rules)))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("color.table={cube: {red: 1}}", r"`color`\.table: expected a row for kind=sphere, got none"),
        (
            "color.table={cube: {red: 1}, sphere: {pink: 1}}",
            r"factors\.color\.table\.sphere: expected weights of values among .*pink",
        ),
        ("color.table={cube: {red: 1}, sphere: {red: -1}}", r"expected finite weights of at least 0, got -1"),
        ("color.table={cube: {red: 1}, sphere: {red: 0}}", r"expected weights with a sum above 0"),
        (
            "color.weights=[1, 2]",
            r"factors\.color\.weights: expected 3 weights, one for each of red, blue, green, got 2",
        ),
        ("color.given=shape", r"factors\.color: `shape` is no factor or variable"),
        ("color.given=size", r"factors\.color\.given: expected categorical names, got `size`"),
        ("color.strength=1.5", r"strength.*less than or equal to 1"),
        ("kind.given=color", r"factors: expected a graph without cycles, got .*color.*kind"),
        ("size.mean=1 / (x - x)", r"`size`: `1 / \(x - x\)` cannot be evaluated"),
        ("size.mean=import os", r"factors\.size\.mean: expected an expression"),
        ("size.low=3", r"factors\.size: expected low <= high, got 3"),
        ("size.std=0 * x", r"`size`: std: expected more than 0"),
        ("size.mean=100", r"reaches \[0\.5, 2\]|reaches \[1, 2\]|expected the mean within"),
    ],
)
def test_impossible_mechanisms_are_refused_when_planning(tmp_path, override, message):
    with pytest.raises(InputError, match=message):
        make_plan(load(tmp_path, CONFOUNDED, f"sets.s.factors.{override}", "sets.s.draws=40"), 40)


def test_factors_with_weights_cannot_be_listed(tmp_path):
    with pytest.raises(InputError, match="grid: lists every combination once, but `color` has weights"):
        load(tmp_path, CONFOUNDED, "sets.s.grid=[color]")


def test_a_table_of_several_parents(tmp_path):
    text = GRID.replace("    rules: RULES\n", "") + "    draws: 200\n"
    table = (
        "{hall: {cube: {1: 1}, cone: {2: 1}}, yard: {cube: {1: 1, 3: 1}, cone: {3: 1}}, "
        "road: {cube: {1: 1, 2: 1}, cone: {2: 1}}}"
    )
    recipe = load(
        tmp_path, text, f"sets.s.factors.size={{values: [1, 2, 3], given: [scene, kind], table: {table}}}"
    )
    seen = {}
    for row in rows(recipe):
        seen.setdefault((row.values["scene"], row.values["kind"]), set()).add(row.values["size"])
    assert seen == {
        ("hall", "cube"): {1},
        ("hall", "cone"): {2},
        ("yard", "cube"): {1, 3},
        ("yard", "cone"): {3},
        ("road", "cube"): {1, 2},
        ("road", "cone"): {2},
    }


def test_a_recipe_with_tables_survives_json(confounded):
    again = type(confounded).model_validate_json(confounded.model_dump_json())
    assert again == confounded
    assert rows(again, range(20)) == rows(confounded, range(20))


def test_a_counterfactual_set_with_fields_of_its_own_is_refused(tmp_path):
    text = CONFOUNDED + "  changed: {draws: 3, counterfactual: {of: s, do: [{kind: cube}]}}\n"
    with pytest.raises(InputError, match=r"sets\.changed"):
        load(tmp_path, text)


def test_a_counterfactual_set_of_an_unknown_set_is_refused(tmp_path):
    text = CONFOUNDED + "  changed: {counterfactual: {of: t, do: [{kind: cube}]}}\n"
    with pytest.raises(InputError, match=r"sets\.changed"):
        load(tmp_path, text)
