"""Plan files: columns and chunks, and files that are damaged, edited or hostile."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition, do
from candlelight.generators.planning.plan import Plan, make_plan
from candlelight.generators.planning.plan_table import join, load_plan, planned_traces, save_plan
from tests.refusals import refused

NO_PLAN = "expected a file written by `candlelight plan`"


@pytest.fixture
def plan(tiny) -> Plan:
    return make_plan(do(load_recipe(tiny), color="red"))


@pytest.fixture
def path(tmp_path, plan) -> Path:
    save_plan(plan, tmp_path / "plan.parquet")
    return tmp_path / "plan.parquet"


def test_every_number_has_a_column(path, plan):
    table = pq.read_table(path)
    assert {"id", "set", "index", "unit", "group", "gain", "lights", "trace"} <= set(table.column_names)
    assert table.column("drawn.x").to_pylist() == [sample.exogenous["x"] for sample in plan.samples]
    assert table.column("factor.size").to_pylist() == [1, 1, 1.5, 1.5]
    assert table.column("do.color").to_pylist() == ["red"] * 4


def test_a_file_written_in_chunks_has_the_columns_of_one_written_at_once(tmp_path, monkeypatch):
    # Light azimuth is categorical in some sets and continuous in others.
    recipe = load_recipe("demo", ["sets.illumination.factors.light_azimuth.values=[-20, 20]"])
    plan = make_plan(do(recipe, light_azimuth=-20, color="blue"), 5)
    save_plan(plan, tmp_path / "whole.parquet")
    monkeypatch.setattr("candlelight.generators.planning.plan_table._CHUNK", 2)
    monkeypatch.setattr("candlelight.generators.planning.plan_table._ROW_GROUP", 4)
    save_plan(plan, tmp_path / "chunks.parquet")
    assert pq.ParquetFile(tmp_path / "chunks.parquet").num_row_groups == -(-len(plan) // 4)
    assert pq.read_table(tmp_path / "chunks.parquet").equals(pq.read_table(tmp_path / "whole.parquet"), True)
    assert load_plan(tmp_path / "chunks.parquet") == plan
    last = plan.samples[-1].id
    assert load_plan(tmp_path / "chunks.parquet", ids=[last, "unknown"]) == plan[last]


def test_join_restores_a_plan_from_its_parts(tiny):
    plan = make_plan(load_recipe(tiny))
    red, blue = condition(plan, color="red"), condition(plan, color="blue")
    assert join(blue, red) == join(red, blue) == join(plan, red) == plan
    assert join(red, replace(red, samples=red.samples[::-1])) == red


def test_the_name_of_a_plan_need_not_be_utf8(plan, tmp_path):
    path = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.parquet"))
    save_plan(plan, path)
    assert load_plan(path).samples.keys == plan.samples.keys


def test_missing_file(tmp_path):
    with refused(r"there is no such file; make one with `candlelight plan`"):
        load_plan(tmp_path / "plan.parquet")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "other table": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "no parquet": lambda path: path.write_text("id,set\n"),
    "empty": lambda path: path.write_bytes(b""),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:40]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_file_that_is_no_plan_is_refused_in_one_line(path, damage):
    damage(path)
    with refused(rf"\A.*plan .*plan\.parquet: {NO_PLAN}.*\Z"):
        load_plan(path)
    with refused(NO_PLAN):
        planned_traces(path)


def put(column: str, *values: object) -> Callable[[pa.Table], pa.Table]:
    """Replace the first values of a column."""

    def change(table: pa.Table) -> pa.Table:
        place, field = table.schema.get_field_index(column), table.schema.field(column)
        kept = table.column(column).to_pylist()[len(values) :]
        return table.set_column(place, field, pa.array([*values, *kept], field.type))

    return change


EDITS = [
    # The id of a failed sample is the name of its log file.
    *((put("id", text), "id: string should match pattern") for text in ("../../up", "/up", "..", "", "a\n")),
    (put("id", "x" * 300), "id: string should have at most 200 characters"),
    (put("group", "../up"), "group: string should match pattern"),
    (put("set", "../up"), NO_PLAN),
    (put("index", -1), "index: input should be greater than or equal to 0"),
    (put("id", "cubes-0", "cubes-0"), "expected one row for each id, got 2 with `cubes-0`"),
    (put("index", 0, 0), "expected one row for each set and index, got 2 with `cubes, 0`"),
    (put("factor.color", "pink"), NO_PLAN),
    (lambda table: table.drop_columns("factor.color"), NO_PLAN),
    (
        lambda table: table.append_column("colour", [["red"] * 4]),
        r"is damaged; plan again \(colour: there is no such field",
    ),
    (
        lambda table: table.replace_schema_metadata(
            {key: value for key, value in table.schema.metadata.items() if key != b"candlelight.plan"}
        ),
        r"expected version 3; plan again with `candlelight plan`$",
    ),
]


@pytest.mark.parametrize(("edit", "message"), EDITS)
def test_an_edited_plan_is_refused_in_one_line(path, edit, message):
    pq.write_table(edit(pq.read_table(path)), path)
    with refused(rf"\A.*{message}.*\Z"):
        load_plan(path)
