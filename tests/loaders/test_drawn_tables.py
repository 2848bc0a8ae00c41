"""Tables of what was drawn, from plans and frames, and the checks of positivity."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.generators import load_recipe, make_plan, render
from candlelight.generators.planning.plan_table import save_plan
from candlelight.loaders import open_frames
from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.drawn_tables import (
    DrawnTable,
    check_estimated_positivity,
    check_observed,
    check_recorded_positivity,
    drawn_table,
    interventional_tables,
    planned_tables,
)
from tests.refusals import refused


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Plan forty samples of each set of the recipe with a hidden variable."""
    sizes = [f"sets.{name}.draws=40" for name in ("observed", "do_blue", "do_red")]
    path = tmp_path_factory.mktemp("plans") / "plan.parquet"
    save_plan(make_plan(load_recipe("effects-hidden", sizes)), path)
    return planned_tables(path)


def test_a_plan_has_values_propensities_interventions_and_graphs(tables):
    observed = tables["observed"]
    assert list(tables) == ["observed", "do_blue", "do_red"]
    assert len(observed) == len(set(observed.units)) == 40
    assert {"shape", "color", "size", "maker", "x"} <= observed.values.keys()
    assert observed.graph.node("color").parents == ("shape", "maker")
    chance = np.array([0.5 + 0.1 * (s == "cube") - 0.1 * (s == "cylinder") for s in observed.column("shape")])
    chance += np.where(observed.column("maker") == "a", 0.3, -0.3)
    red = observed.rows_with("color", "red")
    np.testing.assert_allclose(observed.propensities["color"], np.where(red, chance, 1 - chance))
    assert observed.interventions == ({},) * 40
    assert tables["do_red"].interventions == ({"color": "red"},) * 40
    part = observed.take([3, 1])
    assert (part.ids, part.column("size").tolist()) == (
        (observed.ids[3], observed.ids[1]),
        observed.column("size")[[3, 1]].tolist(),
    )


@pytest.mark.blender
def test_frames_have_the_table_of_their_plan(tables, tmp_path):
    sizes = [f"sets.{name}.draws=40" for name in ("observed", "do_blue", "do_red")]
    plan = make_plan(load_recipe("effects-hidden", [*sizes, "render.preset=draft"])).limit(3)
    render(plan, tmp_path / "frames")
    frames = open_frames(tmp_path / "frames", "observed")
    found = drawn_table(frames, range(len(frames)))
    rows = [tables["observed"].ids.index(name) for name in found.ids]
    wanted = tables["observed"].take(rows)
    assert found.values.keys() == wanted.values.keys()
    for name, column in wanted.values.items():
        assert found.column(name).tolist() == column.tolist()
    assert found.graphs == wanted.graphs
    assert found.interventions == wanted.interventions


def test_sets_under_interventions_are_found_by_them(tables):
    def find(values, names=(), among=tables):
        found = interventional_tables(among["observed"], "color", values, names, among.__getitem__)
        return [one.name for one in found]

    assert find(["red", "blue"]) == ["do_red", "do_blue"]
    assert find(["blue"], ["do_red", "do_blue"]) == ["do_blue"]
    with refused(r"one set of 4 rows or more under do\(color = green\) alone, got none"):
        find(["green"])
    mixed = DrawnTable(**{**vars(tables["do_red"]), "interventions": ({"color": "red", "x": 0},) * 40})
    with refused("got none"):
        find(["red"], among={**tables, "do_red": mixed})


def table_of(graph=None, **columns):
    values = {name: np.array(column) for name, column in columns.items() if name != "propensity"}
    count = len(values["x"])
    rows, propensity = tuple(map(str, range(count))), np.array(columns["propensity"])
    return DrawnTable("toys", rows, rows, values, {"x": propensity}, ({},) * count, {"toys": graph})


def graph_of(**changes):
    nodes = [
        CausalNode(name="c", kind="factor", type="categorical", mechanism=""),
        CausalNode(name="x", kind="factor", type="categorical", parents=("c",), mechanism="", **changes),
    ]
    return CausalGraph(nodes=tuple(nodes))


def test_a_value_that_never_occurs_in_a_stratum_is_refused():
    free = table_of(graph_of(), c=["a", "a", "b", "b"], x=[0, 1, 0, 0], propensity=[0.5, 0.5, 0.9, 0.9])
    check_observed(free, "x", ["0", "1"])
    fixed = table_of(graph_of(), c=["a", "a", "b", "b"], x=[0, 1, 0, 0], propensity=[0.5, 0.5, 1.0, 1.0])
    with refused("by its mechanism, `x` is never 1 where c=b, so that no data tell its effect there"):
        check_observed(fixed, "x", ["0", "1"])
    # Of three values, two are possible everywhere.
    some = table_of(graph_of(), c=["a", "a", "a"], x=[0, 1, 1], propensity=[0.5, 0.5, 0.5])
    check_recorded_positivity(some, "x", ["0", "1"])
    with refused("never 2 where c=a"):
        check_recorded_positivity(some, "x", ["1", "2"])
    with refused("a propensity of 1 in 2 of 4 rows"):
        check_observed(table_of(None, x=[0, 1, 0, 0], propensity=[0.5, 0.5, 1.0, 1.0]), "x", ["0", "1"])


def test_rows_of_the_wrong_kind_are_refused(tables):
    with refused("`do_red`: expected an observed set"):
        check_observed(tables["do_red"], "color", ["blue", "red"])
    with refused("`size` is continuous; expected a factor with `values`"):
        check_observed(tables["observed"], "size", ["1", "2"])
    with refused("expected two values of `x`, got one, as 1 and 1.0"):
        check_observed(table_of(x=[0, 1], propensity=[0.5, 0.5]), "x", ["1", "1.0"])
    with refused("has no factor or variable `colour`; .* did you mean `color`"):
        check_observed(tables["observed"], "colour", ["1", "2"])
    chosen = graph_of().model_copy(update={"selections": ({"c": ("a",), "x": (1,)},)})
    with refused("the set has selections"):
        check_observed(table_of(chosen, c=["a"], x=[0], propensity=[0.5]), "x", ["0", "1"])


def test_strata_without_a_value_and_foretold_values_are_refused():
    ten = {"c": ["a"] * 10 + ["b"] * 10, "x": [0, 1] * 5 + [1] * 10, "propensity": [0.5] * 20}
    with refused("none of 10 rows where c=b has x=0; adjust for less"):
        check_estimated_positivity(table_of(**ten), "x", ["0", "1"], ["c"], np.full(20, 0.5))
    check_estimated_positivity(table_of(**ten), "x", ["0", "1"], [], np.full(20, 0.5))
    each = table_of(c=list(range(20)), x=[0, 1] * 10, propensity=[0.5] * 20)
    check_estimated_positivity(each, "x", ["0", "1"], ["c"], np.full(20, 0.5))
    with refused("estimated propensities of `x` given c reach 0.0001 and 0.5"):
        check_estimated_positivity(each, "x", ["0", "1"], ["c"], np.array([0.0001] + [0.5] * 19))


def test_files_that_are_no_plan_are_refused(tmp_path):
    with refused("none.parquet: expected a plan, there is none"):
        planned_tables(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("text")
    with refused("text.parquet: cannot be read as a plan"):
        planned_tables(tmp_path / "text.parquet")
    columns = {"id": ["0"], "unit": ["0"], "set": ["s"], "factor.x": [np.nan]}
    for part, about, message in (
        (["id"], {}, "wrong.parquet: cannot be read as a plan: no column `set`"),
        ([*columns], {"candlelight.graphs": '{"s": {"nodes": 3}}'}, "cannot be read as a plan: 1 validation"),
        ([*columns], {"candlelight.graphs": "[1]"}, "cannot be read as a plan: "),
        ([*columns], {}, "set `s`: `x`: expected finite numbers, got nan or inf"),
    ):
        table = pa.table({name: columns[name] for name in part}).replace_schema_metadata(about)
        pq.write_table(table, tmp_path / "wrong.parquet")
        with refused(message):
            planned_tables(tmp_path / "wrong.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "wrong.parquet")
    with refused("cannot be read as a plan: no rows"):
        planned_tables(tmp_path / "wrong.parquet")


def test_texts_become_indicators_and_numbers_stay():
    table = table_of(c=["a", "b", "c"], d=[0.5, 1.0, 2.0], x=[0, 1, 1], propensity=[0.5] * 3)
    assert table.numbers(["c", "d"]).tolist() == [[0, 0, 0.5], [1, 0, 1.0], [0, 1, 2.0]]
    assert table.rows_with("d", "1").tolist() == [False, True, False]
    assert not table.rows_with("d", "much").any()
