"""Sequences: previous values, noise of each step, targets drawn at each step, interventions at one step."""

import numpy as np
import pytest

from candlelight.generators.planning.interventions import (
    counterfactual,
    do,
    inverse_propensity_weights,
)
from candlelight.generators.planning.plan import make_plan, plan_samples
from candlelight.generators.planning.plan_table import load_plan, save_plan
from candlelight.generators.random_streams import stream
from tests.refusals import refused

STEPS = 6
TEXT = """
name: pong
seed: 3
sets:
  s:
    draws: 20
    steps: 6
    factors:
      shape: [cube, sphere]
      color: {values: [red, blue], given: previous(color), first: red,
              table: {red: {red: 3, blue: 1}, blue: {red: 1, blue: 1}}}
      x: {low: "0.5 * previous(x) - 0.1", high: "0.5 * previous(x) + 0.1", first: "uniform(-1, 1)"}
      y: {value: "x + noise if previous(color) == 'red' else noise", first: "x - 1"}
      size: {low: 0, high: "2 + x"}
    variables:
      noise: {low: -0.1, high: 0.1, every: step}
    targets: {of: {x: "uniform(-1, 1)", color: null, size: 0.5}}
    layout:
      objects: [{type: $shape, size: 1, location: [$x, $y, 0]}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""


@pytest.fixture(scope="module")
def recipe(load):
    return load(TEXT)


@pytest.fixture(scope="module")
def plan(recipe):
    return make_plan(recipe)


def values(sample):
    return {**sample.factors, **sample.exogenous}


def reference(unit, number, change_at=None, changes=None):
    """Work out the values and targets of each step of a unit, one formula after another."""

    def u(name):
        return stream(3, unit, name).random()

    def uniform(low, high, draw):
        return low + (high - low) * draw

    rows, before = [], None
    for step in range(STEPS):
        at = f"@{step}" if step else ""
        names = ["x", "color", "size"]
        target = names[stream(3, unit, f"|targets{at}").permutation(3)[0]] if step else None
        forced = (changes or {}) if step == change_at else {}
        row = {"shape": ["cube", "sphere"][number // 20]}
        if "color" in forced:
            row["color"] = forced["color"]
        elif target == "color":
            row["color"] = "red" if u(f"color|targets{at}") < 0.5 else "blue"
        elif step == 0:
            row["color"] = "red"
        else:
            row["color"] = "red" if u(f"color{at}") < (0.75 if before["color"] == "red" else 0.5) else "blue"
        if "x" in forced:
            row["x"] = forced["x"]
        elif target == "x":
            row["x"] = uniform(-1, 1, u(f"x|targets{at}"))
        elif step == 0:
            row["x"] = uniform(-1, 1, u("x"))
        else:
            row["x"] = uniform(0.5 * before["x"] - 0.1, 0.5 * before["x"] + 0.1, u(f"x{at}"))
        row["noise"] = uniform(-0.1, 0.1, u(f"noise{at}"))
        if step == 0:
            row["y"] = row["x"] - 1
        else:
            row["y"] = row["noise"] + (row["x"] if before["color"] == "red" else 0)
        row["size"] = 0.5 if target == "size" else uniform(0, 2 + row["x"], u("size"))
        rows.append((row, {target} - {None} | forced.keys()))
        before = {name: round(value, 9) if name in ("x", "y") else value for name, value in row.items()}
    return rows


def close(one, other):
    return all(
        one[name] == other[name] if isinstance(one[name], str) else abs(one[name] - other[name]) < 2e-9
        for name in one.keys() | other.keys()
    )


def test_sequences_follow_their_mechanisms_and_record_the_targets_that_happened(plan):
    assert len(plan) == 2 * 20 * STEPS
    seen = set()
    for number in range(40):
        rows = reference(f"s/{number:06d}", number)
        for step, (row, targets) in enumerate(rows):
            sample = plan.samples[number * STEPS + step]
            assert (sample.index, sample.unit, sample.step) == (
                number * STEPS + step,
                f"s/{number:06d}",
                step,
            )
            assert close(values(sample), row)
            assert sample.intervention.keys() == targets
            assert sample.intervention == {name: sample.factors[name] for name in targets}
            assert sample.intervention_kind == dict.fromkeys(targets - {"size"}, "drawn")
            seen |= targets
    assert seen == {"x", "color", "size"}


def test_the_steps_of_a_unit_share_the_seed_of_the_renderer(plan):
    seeds = [{sample.trace.cycles_seed for sample in plan.samples[i : i + STEPS]} for i in (0, STEPS)]
    assert [len(one) for one in seeds] == [1, 1]
    assert seeds[0] != seeds[1]


def test_an_intervention_at_a_step_leaves_earlier_steps_and_reaches_later_ones_by_their_parents(plan):
    changed = counterfactual(plan, {"x": 0.9}, {"color": "blue"}, step=3)
    sizes = 2 * STEPS  # samples of each unit
    assert len(changed) == 40 * sizes
    for number in range(40):
        for k, change in enumerate(({"x": 0.9}, {"color": "blue"})):
            rows = reference(f"s/{number:06d}", number, 3, change)
            for step, (row, targets) in enumerate(rows):
                sample = changed.samples[number * sizes + k * STEPS + step]
                factual = plan.samples[number * STEPS + step]
                assert sample.counterfactual_of == factual.id
                assert (sample.index, sample.step) == (number * sizes + k * STEPS + step, step)
                assert close(values(sample), row)
                assert sample.intervention.keys() == targets
                if step < 3:
                    assert (sample.trace, sample.factors) == (factual.trace, factual.factors)
                elif k == 1:
                    # A colour reaches later colours and, through them, y; never x, size or noise.
                    kept = ("x", "size", "noise", "shape")
                    assert all(values(sample)[name] == values(factual)[name] for name in kept)


def test_an_intervention_on_all_steps(recipe, plan):
    for sample, factual in zip(make_plan(do(recipe, x=0.25)).samples, plan.samples, strict=True):
        assert sample.factors["x"] == sample.intervention["x"] == 0.25
        assert sample.factors["color"] == factual.factors["color"]


def test_plans_of_sequences_are_saved_sampled_and_limited(recipe, plan, tmp_path):
    both = counterfactual(plan["s-000008"], x=0.5, step=2)
    assert [sample.counterfactual_of for sample in both.samples] == [f"s-{6 + i:06d}" for i in range(6)]
    for one in (plan, both):
        save_plan(one, tmp_path / "plan.parquet")
        read = load_plan(tmp_path / "plan.parquet")
        assert read == one
        assert [list(a.intervention) for a in read.samples] == [list(a.intervention) for a in one.samples]
    assert plan_samples(recipe, ["s-000013", "s-000100"]).samples == plan.samples.take([13, 100])
    few = make_plan(recipe, 3)
    assert len(few) == 3 * STEPS
    assert few.samples == plan.limit(3).samples
    assert {sample.unit for sample in few.samples} == {one.unit for one in few.samples[::STEPS]}
    with refused("expected an id from s-000000 to s-000239"):
        plan_samples(recipe, ["s-000240"])["s-000240"]


def test_a_sequence_begins_as_the_same_set_without_steps(load, plan):
    single = make_plan(load(TEXT, "sets.s.steps=1", "sets.s.targets=null"))
    first = plan.samples.where(lambda key: key.index % STEPS == 0)
    assert [values(sample) for sample in single.samples] == [values(sample) for sample in first]
    assert {sample.step for sample in single.samples} == {None}


# ------------------------------------------------------------------------------------------- drawn targets

PAIRS = """
name: pairs
sets:
  s: {extends: negatives/negatives, draws: 60}
  t:
    counterfactual:
      of: s
      targets: {of: {light_azimuth: "uniform(500, 600)", count: 1, texturing: null}, number: 2}
"""


def test_each_counterfactual_has_so_many_targets_as_the_recipe_says(load):
    plan = make_plan(load(PAIRS), 60)
    factual, changed = plan.of_set("s").samples, plan.of_set("t").samples
    assert len(changed) == 60
    for one, other in zip(factual, changed, strict=True):
        assert len(other.intervention) == 2
        assert other.counterfactual_of == one.id
        kept = one.factors.keys() - other.intervention.keys() - {"texturing"}
        assert all(one.factors[name] == other.factors[name] for name in kept - {"light_azimuth"})
        if "light_azimuth" in other.intervention:
            assert 500 <= other.factors["light_azimuth"] <= 600
    counts = {name: sum(name in one.intervention for one in changed) for name in ("count", "texturing")}
    assert all(25 < count < 55 for count in counts.values())  # of 40 expected, within 4 deviations


def test_two_sets_of_counterfactuals_of_one_set_have_draws_of_their_own(load):
    again = PAIRS + PAIRS[PAIRS.index("  t:") :].replace("  t:", "  v:")
    plan = make_plan(load(again), 30)
    one, other = ([s.intervention for s in plan.of_set(name).samples] for name in "tv")
    assert 0 < sum(a.keys() == b.keys() for a, b in zip(one, other, strict=True)) < 30
    assert not any(a == b for a, b in zip(one, other, strict=True) if "light_azimuth" in a)


@pytest.mark.parametrize(
    ("change", "mechanism"),
    [
        ("do: [{x: 1}, {x: 2}]", "do(...)"),
        ("do: [{x: 1}, {x: 'uniform(0, 1)'}]", "do(...)"),
        ("do: [{x: 'uniform(0, 1)'}]", "do(uniform(0, 1))"),
        ("do: [{x: 1}, {y: 1}]", "do(...)"),
        ("targets: {of: {x: 'uniform(0, 1)'}}", "do(...)"),
    ],
)
def test_the_graph_of_counterfactuals_of_a_set_under_an_intervention(load, change, mechanism):
    text = TEXT.replace("    targets:", "    do: {x: 0.5}\n    targets:")
    recipe = load(text + f"  t: {{counterfactual: {{of: s, {change}}}}}\n")
    node = recipe.sets["t"].graph.node("x")
    assert (node.mechanism, node.intervened) == (mechanism, "all")
    assert node.parents == ()
    assert recipe.sets["s"].graph.node("x").mechanism == "do(0.5)"


def test_targets_by_chance_may_be_none(load):
    plan = make_plan(load(PAIRS.replace("number: 2", "chance: 0.3")), 60)
    counts = np.bincount([len(sample.intervention) for sample in plan.of_set("t").samples], minlength=4)
    expected = 60 * np.array([0.343, 0.441, 0.189, 0.027])
    assert ((counts - expected) ** 2 / expected).sum() < 25.9  # of chi-square with 3 degrees, at 1e-5
    alone = make_plan(load(PAIRS.replace("number: 2", "chance: 0")), 9)
    assert {len(sample.intervention) for sample in alone.of_set("t").samples} == {0}


# ------------------------------------------------------------------------------------------------ refusals

S = "sets.s."


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["factors.x.first=null"],
            r"factors\.x: reads previous\(x\), which the first step does not have; add",
        ),
        (["factors.x.first=previous(y)"], r"factors\.x: first: expected a mechanism that reads no previous"),
        (
            ["factors.x.first={weights: [1]}"],
            r"factors\.x: first: expected some of .*: the factor is a range",
        ),
        (["factors.color.first=pink"], r"factors\.color\.weights: expected weights of values among"),
        (["factors.x.first=y"], r"first: factors: expected a graph without cycles, got"),
        (["factors.x.low=previous(far)"], r"factors\.x: `far` is no factor or variable"),
        (["factors.color.given=previous(x)"], r"factors\.color\.given: expected categorical names, got `x`"),
        (["factors.y.value=previous(x + 1)"], r"`previous\(x \+ 1\)` is not allowed"),
        (["factors.y.value=1 if previous(color) == 'pink' else 0"], r"`color` is compared with 'pink'"),
        (["factors.shape={values: [cube, sphere], every: step}", "grid=[shape]"], r"grid: .* drawn at each"),
        (["unit_factors=[shape]"], r"steps: the steps of a sequence are its unit"),
        (
            ["rules=[{exclude: {color: red, shape: cube}, selection: true}]"],
            r"rules\.0: a selection on drawn values would reject single steps",
        ),
        (["targets.of=[far]"], r"targets\.of: `far` is no factor or variable of this set"),
        (["targets.of=[{x: 1}]"], r"targets\.of: expected a mapping; got \[\{'x': 1\}\]"),
        (["targets.of=[size]"], r"targets\.of\.size: its range depends on x; state the range of the target"),
        (["targets.number=4"], r"number: expected at most 3, the number of names, got 4"),
        (["targets.number=1", "targets.chance=0.5"], "expected `number` or `chance`, got both"),
        (["targets.of={x: {mean: y, std: 1}}"], r"targets: factors: expected a graph without cycles"),
        # The first target alone closes a cycle, both together do not.
        (
            ["targets={of: {x: {mean: y, std: 1}, y: 0}, chance: 0.5}"],
            r"recipe .*targets: factors: expected a graph without cycles",
        ),
        (["factors.size.first=0"], r"sets\.s\.factors\.size\.first: the mechanism reads no `previous\(\)`"),
        (["factors.x={mean: previous(x), std: 1, low: -1, high: 1, first: 2}"], "expected -1 to 1, got 2"),
        (
            ["targets.of=[noise]", "variables.noise={low: previous(x), high: 2, first: 0}"],
            "its range depends on x; state",
        ),
    ],
)
def test_wrong_sequences(load, overrides, message):
    with refused(message):
        make_plan(load(TEXT, *(S + one for one in overrides)), limit=3)


def test_targets_that_never_act_together_may_be_causes_of_each_other(load):
    both = load(
        TEXT, "sets.s.targets={of: {x: 0.1 * noise, noise: 0.1 * size}}", "sets.s.factors.size.high=2"
    )
    kinds = {tuple(sample.intervention_kind.items()) for sample in make_plan(both, 3).samples}
    assert kinds == {(), (("x", "soft"),), (("noise", "soft"),)}


def test_the_first_step_of_a_target_without_a_first_step_is_refused_with_the_recipe(load):
    with refused(
        r"recipe .*t: counterfactual\.targets: .*reads previous\(x\), which the first step does not"
    ):
        load(
            TEXT + "  t: {counterfactual: {of: s, step: 0, targets: {of: {size: previous(x)}}}}\n",
        )


def test_wrong_interventions_on_sequences(plan, load):
    with refused(r"counterfactual\.step: expected 0 to 5, got 6"):
        counterfactual(plan, x=0, step=6)
    with refused(r"do: variables\.noise: reads previous\(x\), which the first step does not have"):
        do(plan.recipe, noise="previous(x)")
    with refused(r"counterfactual\.step: the set has no steps; leave it out"):
        counterfactual(make_plan(load(TEXT, "sets.s.steps=1"), 1), x=0, step=0)
    with refused(r"`s` has steps, which are not independent"):
        inverse_propensity_weights(plan, "color")
    with refused(r"expected `do` or `targets`, got neither"):
        load(PAIRS.replace("targets:", "step:").replace("{of: {light", "3 # "))
