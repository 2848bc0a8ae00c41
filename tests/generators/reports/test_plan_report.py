"""The report of a plan with interventions: their values, and a graph without the mechanisms they replace."""

import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition, counterfactual, do
from candlelight.generators.planning.plan import make_plan, plan_samples
from candlelight.generators.reports.plan_report import report_plan, report_text, write_plan_report

RECIPE = """
name: trial
description: A style decides kind and color, a rule and a selection act on color and size.
sets:
  observed:
    factors:
      kind: {values: [cube, sphere], given: style, table: {a: [1, 0], b: [0, 1]}, strength: 0.8}
      color: {values: [red, blue], assets: materials, given: style, table: {a: [1, 0], b: [0, 1]},
              strength: 0.6}
      size: {low: 0.5, high: 1, mean: "1 if kind == 'cube' else 0.5", std: 0.2}
    variables:
      style: {values: [a, b]}
      tone: {values: [1, 2]}
    rules:
      - {exclude: {color: blue, tone: 2}, target: color}
      - {exclude: {kind: sphere, color: red}, selection: true}
    draws: 12
    layout:
      objects: [{type: $kind, material: $color, size: $size}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
  red: {extends: observed, do: {color: red}}
  what_if:
    counterfactual: {of: observed, do: [{color: blue}, {color: red, kind: cube}, {color: red, size: 3.5}]}
"""
STYLE, TONE = "style ~ uniform(a, b) (hidden)", "tone ~ uniform(1, 2) (hidden)"
KIND = "style -> kind ~ table(style), strength 0.8, else uniform(cube, sphere)"
COLOR = "style, tone -> color ~ table(style), strength 0.6, else uniform(red, blue)"
SIZE = "kind -> size ~ normal(1 if kind == 'cube' else 0.5, 0.2, 0.5, 1)"
RULE = "rule: never color in [blue] and tone in [2]"
SELECTION = "selection 1 before the intervention: never kind in [sphere] and color in [red]"
IMAGE = "kind, color, size -> the image"
OBSERVED = [STYLE, KIND, SIZE, TONE, COLOR, RULE, SELECTION.replace(" before the intervention", ""), IMAGE]


@pytest.fixture
def recipe(write_recipe):
    return load_recipe(write_recipe(RECIPE))


def told(text):
    """Return the interventions and the graph of each set in a report."""
    sets = {}
    for line in text.split("\n"):
        if not line.startswith(" "):
            found = sets[line.partition(":")[0]] = ([], [])
            in_graph = False
        elif line.startswith("  do: "):
            found[0].append(line.strip())
        elif in_graph:
            found[1].append(line.strip())
        in_graph = in_graph or line == "  graph"
    return sets


def test_arrows_into_the_factors_that_interventions_set_are_gone(recipe):
    sets = told(report_text(make_plan(recipe)))
    assert sets["observed"] == ([], OBSERVED)
    assert sets["red"] == (
        ["do: color = red"],
        ["color ~ do(red)", STYLE, KIND, SIZE, TONE, SELECTION, IMAGE],
    )
    some = " (changed by some interventions)"
    assert sets["what_if"] == (
        ["do: color = blue", "do: color = red, kind = cube", "do: color = red, size = 3.5"],
        ["color ~ do(...)", STYLE, f"{KIND}{some}", f"{SIZE}{some}", TONE, SELECTION, IMAGE],
    )


def test_the_recipes_own_do_and_do_of_plans_are_named(recipe, write_recipe):
    for changed in (do(recipe, tone=2), load_recipe(write_recipe(RECIPE), ["do.tone=2"])):
        sets = told(report_text(make_plan(changed)))
        assert [does for does, _ in sets.values()][:2] == [["do: tone = 2"], ["do: tone = 2, color = red"]]
        assert sets["observed"][1] == [
            STYLE,
            KIND,
            SIZE,
            "tone ~ do(2) (hidden)",
            COLOR,
            RULE,
            SELECTION,
            IMAGE,
        ]
    sets = told(report_text(make_plan(do(recipe, "observed", color="red", kind="cube"))))
    graph = ["kind ~ do(cube)", "color ~ do(red)", SIZE, STYLE, TONE, SELECTION, IMAGE]
    assert sets["observed"] == (["do: color = red, kind = cube"], graph)


def test_the_report_of_counterfactuals_names_the_interventions_of_the_samples_at_hand(recipe):
    plan = counterfactual(plan_samples(recipe, ["observed-000000"]), {"color": "red"}, {"color": "blue"})
    assert told(report_text(plan))["observed_counterfactual"][0] == ["do: color = red", "do: color = blue"]
    (one,) = report_plan(condition(plan, color="blue"))
    assert one.interventions == [{"color": "blue"}]


def test_a_rule_on_a_listed_factor_decides_the_units_before_the_intervention(write_recipe):
    listed = [f"sets.observed.factors.{name}={{values: [1, 2]}}" for name in ("finish", "polish")]
    rule = "sets.observed.rules=[{exclude: {finish: 1, polish: 2}, target: polish}]"
    recipe = load_recipe(write_recipe(RECIPE), [*listed, "sets.observed.grid=[finish, polish]", rule])
    _, graph = told(report_text(make_plan(do(recipe, polish=2), 6)))["observed"]
    assert "rule on polish before the intervention: never finish in [1] and polish in [2]" in graph
    assert "finish -> polish" not in graph


def test_the_page_has_the_interventions_and_the_cut_graph(recipe, tmp_path):
    write_plan_report(make_plan(recipe), tmp_path / "page.html")
    observed, red, what_if = (tmp_path / "page.html").read_text().split("<h2>")[1:]
    for page in (observed, red, what_if):
        assert page.count("</svg>") == 1
    assert not any(sign in observed for sign in ("do(", "do: ", "Thick frames", "intervention"))
    assert "<code>do: color = red</code>" in red
    assert ">do(color)</text>" in red
    assert "Thick frames" in red
    assert "Dashed arrows" not in red
    assert "reject samples by their values before the intervention" in red
    # Two arrows lead to color in the observed set, and none in the other sets. The layout does not use
    # style and tone.
    assert [page.count('<path d="M') for page in (observed, red, what_if)] == [10, 8, 8]
    assert what_if.count("<code>do: ") == 3
    assert what_if.count('stroke-dasharray="3 3"') == 2
    assert "Dashed arrows" in what_if


def test_names_cannot_control_the_terminal(write_recipe):
    mark = 'sets.observed.variables.mark={values: [a, "b\\e[2J\\n\\u202e"]}'
    text = report_text(make_plan(load_recipe(write_recipe(RECIPE), [mark])))
    assert r"b\u001b[2J\u000a\u202e" in text
    assert all(line.isprintable() for line in text.split("\n"))
