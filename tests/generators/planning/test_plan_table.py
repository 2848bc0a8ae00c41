"""Plan files: saved plans are loaded again, and damaged or edited files are refused."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition, do
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import join, load_plan, planned_traces, save_plan
from candlelight.loaders.errors import InputError

AZIMUTHS = "sets.illumination.factors.light_azimuth.values=[-20, 20]"
SCENES = [f"sets.{name}.factors.scene.values=[cube, arch_sphere_star]" for name in ("albedo", "illumination")]
CASES = {
    "candle": (
        ["sets.candle.factors.rotation.values=[0, 7.5]", "sets.candle.factors.scene.values=[garden]"],
        {"size": 2, "color": "red"},
    ),
    "concepts": (["sets.albedo.factors.material.count=2", AZIMUTHS, *SCENES], {"temperature": 4500}),
    # Light azimuth is categorical in some sets and continuous in others.
    "demo": (
        [AZIMUTHS, "sets.albedo.factors.material.count=2", "sets.tabletop.draws=5", "sets.negatives.draws=5"],
        {"light_azimuth": -20, "color": "blue"},
    ),
    "negatives": (["sets.negatives.draws=30"], {"light_azimuth": 30, "count": 2}),
}


@pytest.mark.parametrize("intervened", [False, True], ids=["observed", "do"])
@pytest.mark.parametrize("name", CASES)
def test_round_trip(tmp_path, name, intervened):
    overrides, values = CASES[name]
    recipe = load_recipe(name, overrides)
    plan = make_plan(do(recipe, **values) if intervened else recipe).limit(20)
    save_plan(plan, tmp_path / "plan.parquet")
    again = load_plan(tmp_path / "plan.parquet")
    assert again == plan
    # Numbers are equal to the digit: 15 does not become 15.0.
    assert [s.model_dump_json() for s in again.samples] == [s.model_dump_json() for s in plan.samples]
    assert again.groups == plan.groups
    assert planned_traces(tmp_path / "plan.parquet") == {s.id: (s.group, s.gain) for s in plan.samples}


def test_every_number_has_a_column(tmp_path, tiny):
    plan = make_plan(do(load_recipe(tiny), color="red"))
    save_plan(plan, tmp_path / "plan.parquet")
    table = pq.read_table(tmp_path / "plan.parquet")
    assert {"id", "set", "index", "unit", "group", "gain", "lights", "trace"} <= set(table.column_names)
    assert table.column("drawn.x").to_pylist() == [sample.exogenous["x"] for sample in plan.samples]
    assert table.column("factor.size").to_pylist() == [1, 1, 1.5, 1.5]
    assert table.column("do.color").to_pylist() == ["red"] * 4


def test_saving_leaves_no_temporary_file(tmp_path, tiny):
    save_plan(make_plan(load_recipe(tiny)), tmp_path / "plan.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"plan.parquet", "tiny.yaml"}


def test_join_restores_a_plan_from_its_parts(tiny):
    plan = make_plan(load_recipe(tiny))
    red, blue = condition(plan, color="red"), condition(plan, color="blue")
    assert join(blue, red) == join(red, blue) == join(plan, red) == plan
    assert join(red, replace(red, samples=red.samples[::-1])) == red


def test_a_file_written_in_chunks_has_the_columns_of_one_written_at_once(tmp_path, monkeypatch):
    overrides, values = CASES["demo"]
    plan = make_plan(do(load_recipe("demo", overrides), **values)).limit(5)
    save_plan(plan, tmp_path / "whole.parquet")
    monkeypatch.setattr("candlelight.generators.planning.plan_table._CHUNK", 2)
    monkeypatch.setattr("candlelight.generators.planning.plan_table._ROW_GROUP", 4)
    save_plan(plan, tmp_path / "chunks.parquet")
    assert pq.ParquetFile(tmp_path / "chunks.parquet").num_row_groups == -(-len(plan) // 4)
    assert pq.read_table(tmp_path / "chunks.parquet").equals(pq.read_table(tmp_path / "whole.parquet"), True)
    assert load_plan(tmp_path / "chunks.parquet") == plan


@pytest.mark.parametrize(
    ("column", "message"),
    [("id", "id, got 2 with `cubes-000000`"), ("index", "set and index, got 2 with `cubes, 0`")],
)
def test_two_rows_for_one_frame_are_refused(tmp_path, tiny, column, message):
    path = tmp_path / "plan.parquet"
    save_plan(make_plan(load_recipe(tiny)), path)
    table = pq.read_table(path)
    values = table.column(column).to_pylist()
    twice = pa.array([values[0], values[0], *values[2:]], table.schema.field(column).type)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, table.schema.field(column), twice), path)
    with pytest.raises(InputError, match=rf"expected one row for each {message}"):
        load_plan(path)


def damaged(tmp_path, kind):
    path = tmp_path / "plan.parquet"
    if kind == "other table":
        pq.write_table(pa.table({"a": [1]}), path)
    elif kind == "no parquet":
        path.write_text("id,set\n")
    elif kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    else:
        save_plan(make_plan(load_recipe("negatives", ["sets.negatives.draws=5"])), path)
        path.write_bytes(path.read_bytes()[: -20 if kind == "cut off" else 40])
    return path


@pytest.mark.parametrize("kind", ["other table", "no parquet", "empty", "folder", "cut off", "cut short"])
def test_a_file_that_is_no_plan_is_refused_in_one_line(tmp_path, kind):
    with pytest.raises(
        InputError, match=r"plan .*plan\.parquet: expected a file written by `candlelight plan`"
    ) as e:
        load_plan(damaged(tmp_path, kind))
    assert "\n" not in str(e.value)
    with pytest.raises(InputError, match="expected a file written by `candlelight plan`"):
        planned_traces(tmp_path / "plan.parquet")


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"there is no such file; make one with `candlelight plan`"):
        load_plan(tmp_path / "plan.parquet")


@pytest.mark.parametrize("change", ["lost", "unknown"])
def test_a_plan_with_missing_factors_or_unknown_values_is_refused(tmp_path, tiny, change):
    path = tmp_path / "plan.parquet"
    save_plan(make_plan(load_recipe(tiny)), path)
    table = pq.read_table(path)
    place = table.column_names.index("factor.color")
    if change == "lost":
        edited = table.remove_column(place)
    else:
        edited = table.set_column(place, "factor.color", pa.array(["pink"] * len(table)))
    pq.write_table(edited.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputError, match="expected a file written by `candlelight plan`"):
        load_plan(path)


def test_an_unknown_column_is_named(tmp_path, tiny):
    plan, path = make_plan(load_recipe(tiny)), tmp_path / "plan.parquet"
    save_plan(plan, path)
    table = pq.read_table(path)
    pq.write_table(table.append_column("colour", [["red"] * 4]), path)
    with pytest.raises(InputError, match=r"is damaged; plan again \(colour: there is no such field"):
        load_plan(path)


def test_a_plan_of_another_version_is_refused_in_one_line(tmp_path, tiny):
    path = tmp_path / "plan.parquet"
    save_plan(make_plan(load_recipe(tiny)), path)
    table = pq.read_table(path)
    about = {key: value for key, value in table.schema.metadata.items() if key != b"candlelight.plan"}
    pq.write_table(table.replace_schema_metadata(about), path)
    with pytest.raises(InputError, match=r"expected version 3; plan again with `candlelight plan`$"):
        load_plan(path)
