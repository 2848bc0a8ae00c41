"""Marginals, mutual information, inverse propensities, and the report of a plan."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import fisher_exact
from sklearn.metrics import mutual_info_score
from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

from candlelight.cli import main
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import do, inverse_propensity_weights
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.generators.reports.dependence import dependences, marginals, most_tables
from candlelight.generators.reports.plan_report import report_plan, report_text, write_plan_report
from candlelight.generators.scenes.plan_records import SamplePlan
from tests.refusals import refused

CONFOUNDED = """
name: trial
description: A hidden toy decides kind and color.
sets:
  s:
    factors:
      kind: {values: [cube, sphere], given: toy, table: {a: {cube: 1}, b: {sphere: 1}}, strength: 0.8}
      color: {values: [red, blue], assets: materials, given: toy, table: {a: [1, 0], b: {blue: 1}},
              strength: 0.6}
      size: {low: 1, high: 2}
    variables:
      toy: {values: [a, b], weights: [1, 2]}
    draws: 500
    layout:
      objects: [{type: $kind, material: $color, size: $size}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""


GRID = """
name: grid
description: All images of one scene, a rule makes kind and color depend on each other.
sets:
  s:
    factors:
      scene: {assets: scenes, values: [garden]}
      kind: {values: [cube, sphere, cone, torus, gear]}
      color: {values: [red, blue, green, yellow, purple], assets: materials}
      size: {values: [1, 2, 3, 4]}
    unit_factors: [scene]
    rules:
      - {exclude: {kind: [cube, sphere], color: [red, blue, green]}, selection: true}
      - {exclude: {kind: [cone, torus], color: [yellow, purple]}, selection: true}
    layout:
      objects: [{type: $kind, material: $color, size: $size}]
      environment: {scene: $scene}
      floor: {catcher: true}
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""


def samples(**columns):
    keys = list(columns)
    return [
        SamplePlan.model_construct(unit=str(i), factors=dict(zip(keys, values, strict=True)), exogenous={})
        for i, values in enumerate(zip(*columns.values(), strict=True))
    ]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    path = tmp_path_factory.mktemp("trial") / "trial.yaml"

    def make(text, *overrides, limit=None):
        path.write_text(text)
        return make_plan(load_recipe(path, overrides), limit)

    return make


@pytest.fixture(scope="module")
def plan(planned):
    return planned(CONFOUNDED)


# ------------------------------------------------------------------------------------------- information


def test_a_copy_shares_all_information_and_a_full_grid_none():
    columns = samples(a=[1, 1, 2, 2] * 5, b=["x", "x", "y", "y"] * 5, c=[1, 2, 1, 2] * 5)
    found = {(pair.first, pair.second): pair for pair in dependences(columns)}
    assert found["a", "b"].information == pytest.approx(math.log(2))
    assert found["a", "b"].share == pytest.approx(1)
    assert found["a", "c"].information == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("n", "values"), [(20, 2), (60, 25), (400, 5)])
def test_information_and_chance_are_those_of_scikit_learn(n, values):
    rng = np.random.default_rng(n)
    a, b = rng.integers(values, size=n), rng.integers(values, size=n)
    (pair,) = dependences(samples(a=a.tolist(), b=[f"v{value}" for value in b]))
    assert pair.information == pytest.approx(mutual_info_score(a, b))
    expected = expected_mutual_information(contingency_matrix(a, b), n)
    shuffled = [mutual_info_score(a, rng.permutation(b)) for _ in range(200)]
    assert pair.chance == pytest.approx(expected, abs=np.std(shuffled) / 5)
    assert pair.p == pytest.approx(np.mean(np.array(shuffled) > pair.information - 1e-9), abs=0.08)


def test_p_values_of_independent_factors_are_uniform():
    rng = np.random.default_rng(0)
    columns = {f"v{i}": rng.integers(2 + i % 7, size=60).tolist() for i in range(25)}
    ps = np.array([pair.p for pair in dependences(samples(**columns))])
    assert (ps < 0.5).mean() == pytest.approx(0.5, abs=0.1)
    assert (ps < 0.05).mean() == pytest.approx(0.05, abs=0.03)


def test_information_by_hand():
    # p(1, x) = 1/2, p(2, x) = p(2, y) = 1/4
    (pair,) = dependences(samples(a=[1, 1, 2, 2], b=["x", "x", "x", "y"]))
    by_hand = 0.5 * math.log(0.5 / (0.5 * 0.75)) + 0.25 * math.log(0.25 / (0.5 * 0.75)) + 0.25 * math.log(2)
    assert pair.information == pytest.approx(by_hand)
    assert pair.share == pytest.approx(by_hand / (-0.75 * math.log(0.75) - 0.25 * math.log(0.25)))


def test_many_numbers_are_sorted_into_ranges():
    rng = np.random.default_rng(0)
    a = rng.normal(size=500)
    columns = samples(a=a.tolist(), b=(a**2).tolist(), c=rng.normal(size=500).tolist())
    counted = {m.name: m.counts for m in marginals(columns)}
    assert all(sum(counts.values()) == 500 for counts in counted.values())
    assert len(counted["a"]) == 10
    first = dependences(columns)[0]
    assert {first.first, first.second} == {"a", "b"}
    assert first.information > 0.8


def test_ranges_have_enough_digits_to_differ():
    columns = samples(a=[6500 + i / 100 for i in range(100)], b=[1e9 + i * 1e-6 for i in range(100)])
    for marginal in marginals(columns):
        assert len(marginal.counts) == 10
        assert sum(marginal.counts.values()) == 100
    assert next(iter(marginals(columns)[0].counts)) == "6500 to 6500.1"


def test_chance_in_sparse_tables_is_no_dependence():
    rng = np.random.default_rng(1)
    independent = samples(**{name: rng.uniform(size=50).tolist() for name in "abcd"})
    assert all(pair.p > 0.01 / 6 for pair in dependences(independent))
    x = rng.uniform(size=50)
    (pair,) = dependences(samples(a=x.tolist(), b=(x + 0.02 * rng.uniform(size=50)).tolist()))
    assert pair.p == 1 / 20_001


# Columns have equal sums, so that Fisher's test and the information order the tables alike.
@pytest.mark.parametrize("table", [(1, 10, 9, 0), (2, 9, 8, 1), (1, 6, 11, 6), (5, 9, 15, 11)])
def test_p_values_of_two_values_are_those_of_fishers_exact_test(table):
    exact = fisher_exact(np.reshape(table, (2, 2))).pvalue
    a, b = (np.repeat(codes, table).tolist() for codes in ([0, 0, 1, 1], [0, 1, 0, 1]))
    (pair,) = dependences(samples(a=a, b=b))
    tables = 400 if exact > 0.05 else 10 / exact if exact > 0.001 else 20_000  # at least
    assert abs(pair.p - exact) < 1 / tables + 3 * math.sqrt(exact * (1 - exact) / tables)
    assert pair.p > exact / 2


def test_a_unit_of_many_samples_is_tested_as_one():
    rng, units = np.random.default_rng(0), np.repeat(np.arange(30), [40, 40] + [1] * 28)
    ps = []
    for _ in range(50):
        found = samples(**{name: rng.integers(3, size=30)[units].tolist() for name in "ab"})
        placed = [one.model_copy(update={"unit": f"u{unit}"}) for one, unit in zip(found, units, strict=True)]
        ps += [pair.p for pair in dependences(placed)]
    assert np.mean(np.array(ps) < 0.05) < 0.12  # with all samples tested, more than half of the sets


def test_many_pairs_get_as_many_tables_as_their_level_needs(monkeypatch):
    assert most_tables(21 * 20 // 2) == 21_000
    assert most_tables(6) == 20_000
    monkeypatch.setattr("candlelight.generators.reports.dependence._MOST_TABLES", 500)
    found = dependences(samples(**{name: [0, 1] * 20 for name in "abcd"}))
    assert {pair.p for pair in found} == {1 / 601}


def test_counterfactuals_are_no_independent_samples(planned):
    many = ", ".join(f"{{color: {color}}}" for color in ("red", "blue") * 4)
    text = CONFOUNDED + f"  changed: {{counterfactual: {{of: s, do: [{many}]}}}}\n"
    plan = planned(text, "sets.s.draws=30", "sets.s.factors.turn={low: 0, high: 1}")
    own, changed = report_plan(plan)
    assert (own.count, own.units, changed.count, changed.units) == (30, 30, 240, 30)
    for pairs in ({(pair.first, pair.second) for pair in one.pairs} for one in (own, changed)):
        assert ("size", "turn") not in pairs
        assert ("kind", "toy") in pairs
    assert "changed: 240 samples of 30 units" in report_text(plan)


def test_two_factors_of_a_grid_are_counted_over_all_samples(planned):
    (report,) = report_plan(planned(GRID))
    assert (report.count, report.units) == (60, 1)
    assert {(pair.first, pair.second) for pair in report.pairs} == {("kind", "color")}


def test_a_constant_factor_is_in_no_pair():
    assert dependences(samples(a=[1, 1, 1], b=["x", "y", "x"])) == []
    assert marginals(samples(a=[1, 1, 1]))[0].counts == {"1": 3}


# --------------------------------------------------------------------------------------- propensity weights


def test_weights_undo_the_confounding(plan):
    weights = inverse_propensity_weights(plan, "color")
    w = np.array([weights[s.id] for s in plan.samples])
    red = np.array([s.factors["color"] == "red" for s in plan.samples])
    cube = np.array([s.factors["kind"] == "cube" for s in plan.samples])
    assert abs(cube[red].mean() - cube[~red].mean()) > 0.25
    assert np.average(cube[red], weights=w[red]) == pytest.approx(
        np.average(cube[~red], weights=w[~red]), abs=0.12
    )
    assert np.average(red, weights=w) == pytest.approx(0.5, abs=0.06)
    assert w.mean() == pytest.approx(1, abs=0.1)
    # P(red | a) = 0.6 + 0.4 / 2, and so on.
    for sample in plan.samples[:50]:
        p = 0.8 if (sample.exogenous["toy"] == "a") == (sample.factors["color"] == "red") else 0.2
        assert weights[sample.id] == pytest.approx(1 / (2 * p))


SELECTION = "sets.s.rules=[{selection: true, exclude: {kind: cube, color: red}}]"


@pytest.mark.parametrize(
    ("change", "factor", "message"),
    [
        (lambda plan, _: plan, "size", "expected one of kind, color, toy, got `size`"),
        (lambda plan, _: plan, "shape", "expected one of kind, color, toy, got `shape`"),
        (
            lambda plan, _: make_plan(do(plan.recipe, color="red"), 5),
            "color",
            "was set by intervention and depends on no parent",
        ),
        (
            lambda _, planned: planned(CONFOUNDED, SELECTION, limit=5),
            "color",
            "`s` has selections, whose effect mechanisms do not describe",
        ),
        (
            lambda _, planned: planned(CONFOUNDED, "sets.s.factors.color.strength=1", limit=20),
            "color",
            "`color` is never (red|blue) where toy=[ab]; without positivity",
        ),
        (lambda *_: make_plan(load_recipe("demo"), 1), "scene", "expected samples of one set"),
    ],
)
def test_inverse_propensities_are_refused(plan, planned, change, factor, message):
    with refused(message):
        inverse_propensity_weights(change(plan, planned), factor)


# ------------------------------------------------------------------------------------------------- report


def test_the_report_has_marginals_dependences_and_a_graph(plan, tmp_path):
    text = report_text(plan)
    reds = sum(s.factors["color"] == "red" for s in plan.samples)
    assert "s: 500 samples" in text
    assert f"red: {reds}" in text
    assert "toy -> kind ~ table(toy), strength 0.8, else uniform(cube, sphere)" in text
    assert "toy -> color ~ table(toy), strength 0.6, else uniform(red, blue)" in text
    (report,) = report_plan(plan)
    shown = {(pair.first, pair.second) for pair in report.pairs}
    assert shown == {("kind", "toy"), ("color", "toy"), ("kind", "color")}
    assert "3 of 6 pairs are shown: 3 that the graph connects, and 0 others with p < 0.0017" in text
    assert "(0.01 / 6 pairs); permutation test of 400 to 20,000 random tables" in text
    write_plan_report(plan, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 1
    assert "stroke-dasharray" in page
    assert "<script" not in page
    assert "3 of 6 pairs are shown" in page


def test_pairs_that_the_graph_connects_are_shown_however_weak(planned):
    text = report_text(planned(CONFOUNDED, "sets.s.factors.color.strength=0.05", limit=30))
    (line,) = (line for line in text.split("\n") if line.startswith("    kind, color  "))
    assert float(line.rpartition("; ")[2].rstrip(")")) > 0.01


def test_significant_pairs_that_the_graph_does_not_connect_are_shown_as_such(plan):
    sorted_by_color = [
        sample.model_copy(update={"factors": {**sample.factors, "size": i}})
        for i, sample in enumerate(sorted(plan.samples, key=lambda sample: sample.factors["color"]))
    ]
    chosen = replace(plan, samples=compress_samples(sorted_by_color))
    text = report_text(chosen)
    assert re.search(r"    color, size  .*; 5e-05\), not by the graph", text)
    assert "and 3 others with p" in text


def test_a_value_that_no_sample_has_is_counted():
    (marginal,) = marginals(samples(a=["x", "z"]), {"a": ["z", "y", "x"]})
    assert marginal.counts == {"x": 1, "y": 0, "z": 1}


def test_the_command_prints_the_report_and_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trial.yaml").write_text(CONFOUNDED)
    done = CliRunner().invoke(main, ["plan", "trial.yaml", "--report", "--limit", "60"])
    assert done.exit_code == 0, done.output
    assert "toy -> kind" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["trial.yaml"]
    told = ["--report", "--out", "new/p.parquet"]
    done = CliRunner().invoke(main, ["plan", "trial.yaml", "--limit", "9", *told])
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"p.html", "p.parquet"}
    done = CliRunner().invoke(main, ["plan", "trial.yaml"])
    assert done.exit_code == 2
    assert "expected --out FILE.parquet, --report, --estimate, or several of them" in done.output
