"""Wrong factors and rules: each is refused in one line that names the field."""

import datetime
from fractions import Fraction

import numpy as np
import pytest

from candlelight.generators.language.factors import Categorical
from candlelight.generators.language.field_types import key_of
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import load_plan, save_plan
from candlelight.loaders.errors import InputError

RECIPE = """
name: trial
description: A factor of each kind.
sets:
  s:
    factors:
      kind: {assets: objects, values: [cube, sphere]}
      tone: {values: [1, 2], given: kind, table: {cube: [1, 0], sphere: {1: 1, 2: 3}}}
      size: {low: 1, high: "1.5 if kind == 'cube' else 2"}
    variables:
      x: {low: 0, high: 1}
    layout:
      objects: [{type: $kind, size: $size}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""
HUGE = "1" + "0" * 400


@pytest.fixture
def load(write_recipe):
    def read(*overrides):
        return load_recipe(write_recipe(RECIPE), overrides)

    return read


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("factors.tone.table={null: [1]}", r"tone\.table: expected names or numbers as keys, got None"),
        ("factors.tone.table={true: [1]}", r"tone\.table: expected names or numbers as keys, got True"),
        ("factors.tone.table={null: [1]}", "expected names or numbers as keys, got None"),
        ("factors.tone.table={2: [1], '2': [2]}", "expected distinct keys, got"),
        (
            "factors.tone.table={cube: null}",
            r"tone\.table\.cube: expected a mapping from value to weight .* got None",
        ),
        (
            "factors.tone.table={cube: [[1]]}",
            r"table\.cube: expected finite weights of at least 0, got \[1\]",
        ),
        (
            "factors.tone.table={cube: [true]}",
            r"table\.cube: expected finite weights of at least 0, got True",
        ),
        ("factors.tone.table={cube: [red]}", r"table\.cube: expected a mapping .* got \['red'\]"),
        ("factors.tone.weights=[red]", r"weights: expected a mapping .* got \['red'\]"),
        ("factors.tone.weights={1: -1}", r"weights: expected finite weights of at least 0, got -1"),
        ("factors.tone.table={cube: []}", r"table\.cube: expected weights with a sum above 0"),
        (
            "factors.tone.table={cube: {1: .nan}}",
            r"table\.cube: expected finite weights of at least 0, got nan",
        ),
        (
            "factors.tone.table={cube: {1: true}}",
            r"table\.cube: expected finite weights of at least 0, got True",
        ),
        ("factors.tone.table={cube: {1: .inf}}", r"table\.cube: expected finite weights"),
        (f"factors.tone.table={{cube: {{1: {HUGE}}}}}", r"table\.cube: expected finite weights"),
        (
            "factors.tone.table={cube: {1: {2: 1}}}",
            r"expected finite weights of at least 0, got \{'2.0': 1\}",
        ),
        ("factors.tone.table=&a {cube: *a}", r"`overrides` .*table: expected a YAML value"),
        ("factors.tone.table=" + "[" * 3000, r"`overrides` .*table: expected a YAML value, got `\[{60}`$"),
        ("factors.tone.given=[kind, kind]", r"given: expected distinct names, got \['kind', 'kind'\]"),
        (
            "factors.tone.given=[kind, size]",
            r"table\.cube: expected a row for each value of `size`, got \[1, 0\]",
        ),
        ("factors.tone.weights=[1.0e+308, 1.0e+308]", r"weights: expected finite weights of at least 0"),
        ("factors.tone.values=[1, null]", r"tone\.values\.1: expected a name or a number, got None"),
        ("factors.tone.values=[1, .nan]", r"tone\.values\.1: expected a finite number, got nan"),
        (f"factors.tone.values=[1, {HUGE}]", r"tone\.values\.1: expected a whole number of at most 2\^53"),
        ("factors.tone.values=['1', '01']", "tone: expected distinct values"),
        ("factors.tone={count: 1000000000000}", r"tone\.count: .*less than or equal to 1000000"),
        (f"factors.size.low={HUGE}", r"size\.low: expected a whole number of at most 2\^53"),
        ("factors.size={low: -1.0e+308, high: 1.0e+308}", "`size`: expected a finite range"),
        ("factors.size.low=max", "size: `max` is no factor or variable"),
        ("factors.size.high=2 if kind == 'cubee' else 3", r"size\.high: `kind` is compared with 'cubee'"),
        ("factors.size.high=2 if 'a' != x else 3", r"`x` is compared with 'a'; expected one of numbers"),
        ("factors.size.high=2 if tone == '1' else 3", r"`tone` is compared with '1'; expected one of 1, 2"),
        (
            "factors.size.high=2 if kind == cube else 3",
            r"size: `cube` is no factor or variable; expected .*; names of values stand in quotes: 'cube'$",
        ),
        (
            "factors={kind: {assets: objects}, size: {low: 0, high: 2 if kind == torus else 3}}",
            r"size: `torus` is no factor .*; names of values stand in quotes: 'torus'$",
        ),
        (
            "factors.size.high=2 if kin == 'cube' else 3",
            r"size: `kin` is no factor .*expected one of: [^;]*$",
        ),
        ("factors.tone.given=cube", r"tone: `cube` is no factor or variable; expected one of: [^;]*$"),
        (
            "factors.size={low: -80, high: 80, given: kind, strength: 0.8}",
            r"factors\.size: `given`, `table`, `strength` and `weights` belong to lists of values; a range "
            r"depends on others through expressions such as `mean: \"40 if style == 'a' else -40\"`",
        ),
        (
            "factors.size={low: 1, high: 2, values: [1], given: kind}",
            r"size: expected a list \(.*\) or a range \(.*\); got \['low', 'high', 'values', 'given'\]$",
        ),
        (
            "factors.tone.given=Kind",
            r"given\.0: expected lower-case letters, digits and _, starting with a letter; got 'Kind'$",
        ),
        (
            "factors.Tone={count: 2}",
            r"factors\.Tone: expected lower-case letters, digits and _, starting with a letter; got 'Tone'$",
        ),
        ("factors.pi={low: 0, high: 1}", "`pi` is a number in expressions"),
        ("variables.pi={low: 0, high: 1}", "`pi` is a number in expressions"),
        ("rules=[{exclude: {tone: []}, target: tone}]", r"rules\.0\.exclude\.tone: .* at least 1 item"),
        ("rules=[{exclude: {tone: '1'}, target: tone}]", r"rules\.0\.exclude\.tone: expected some of 1, 2"),
        ("rules=[{exclude: {tone: null}, target: tone}]", r"exclude\.tone\.0: expected a name or a number"),
    ],
)
def test_wrong_factors_are_refused_in_one_line(load, override, message):
    with pytest.raises(InputError, match=message) as caught:
        make_plan(load(f"sets.s.{override}"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "do={x: true}",
            r"do\.x: expected a name or a number, got True; put a name such as 'true' in quotes",
        ),
        ("do={tone: null}", r"do\.tone: expected a name or a number, got None"),
        ("do={x: .inf}", r"do\.x: expected a finite number, got inf"),
        (f"do={{x: {HUGE}}}", r"do\.x: expected a whole number of at most 2\^53"),
        (
            "sets.t={counterfactual: {of: [], do: [{x: 1}]}}",
            r"t\.counterfactual\.of: expected one of s, got \[\]",
        ),
        (
            "sets.t={counterfactual: {of: t, do: [{x: 1}]}}",
            r"t\.counterfactual\.of: expected one of s, got 't'",
        ),
        ("sets.t={counterfactual: 3}", r"t\.counterfactual\.of: expected one of s, got 3"),
        (
            "sets.t={counterfactual: {of: s, do: [{x: false}]}}",
            r"do\.0\.x: expected a name or a number, got False",
        ),
    ],
)
def test_wrong_interventions_are_refused_in_one_line(load, override, message):
    with pytest.raises(InputError, match=message):
        make_plan(load(override))


def test_a_variable_has_one_kind_in_all_sets(write_recipe):
    second = RECIPE.split("  s:\n")[1].replace("x: {low: 0, high: 1}", "x: {values: [a, b]}")
    with pytest.raises(
        InputError, match="`x`: expected names in every set or numbers in every set, got both"
    ):
        load_recipe(write_recipe(RECIPE + "  t:\n" + second))


def test_tables_and_expressions_may_name_values_that_the_factor_lacks(load):
    plan = make_plan(load("sets.s.factors.kind.values=[sphere]", "sets.s.draws=40"))
    assert {sample.factors["tone"] for sample in plan.samples} == {1, 2}
    assert max(sample.factors["size"] for sample in plan.samples) > 1.5


def test_a_factor_may_be_called_like_a_function(load, tmp_path):
    plan = make_plan(load("sets.s.factors.max={low: 2, high: 3}", "sets.s.factors.size.high=max(max, 2.5)"))
    save_plan(plan, tmp_path / "plan.parquet")
    assert load_plan(tmp_path / "plan.parquet") == plan
    assert plan.recipe.sets["s"].graph()["size"] == ("max",)


def test_an_override_finds_rows_of_numbers(load):
    recipe = load("sets.s.factors.tone.table={cube: {1: 1, 2: 1}, sphere: [0, 1]}")
    changed = load(
        "sets.s.factors.tone.table={cube: {1: 1, 2: 1}, sphere: [0, 1]}", "sets.s.factors.tone.table.cube.2=5"
    )
    assert [r.sets["s"].factors["tone"].rows()["cube",] for r in (recipe, changed)] == [
        {"1.0": 1.0, "2.0": 1.0},
        {"1.0": 1.0, "2.0": 5.0},
    ]


def test_values_from_arrays_are_numbers():
    values = Categorical(values=(np.int64(2), np.float64(0.5), Fraction(1, 4))).values
    assert values == (2, 0.5, 0.25)
    assert [type(value) for value in values] == [int, float, float]
    with pytest.raises(ValueError, match="expected a name or a number"):
        Categorical(values=(datetime.date(2020, 1, 1),))


def test_keys_are_spelled_alike():
    assert key_of(2) == key_of(2.0) == key_of("2") == "2.0"
    assert key_of(int(HUGE)) == HUGE
