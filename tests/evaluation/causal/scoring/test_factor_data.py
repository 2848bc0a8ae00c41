import itertools

import numpy as np
import pytest

from candlelight.evaluation.catalogue.causal_options import CodesOptions
from candlelight.evaluation.causal.factor_data import (
    factors_of_columns,
    open_factors,
    read_factors,
    select_confounded,
)
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused

OBJECTS = ("cube", "sphere", "cylinder", "cone", "torus")
COLORS = ("red", "blue", "yellow", "purple", "orange")
ALL = {"rows": None, "limit": None}


@pytest.fixture
def view(memory_view):
    infos = (
        FactorInfo(name="object_type", kind="categorical", values=OBJECTS),
        FactorInfo(name="color", kind="categorical", values=COLORS),
    )
    table = np.array(list(itertools.product(range(5), repeat=2)), np.float64)
    return memory_view([None] * 25, factors=infos, table=table)


def test_a_selection_keeps_the_colors_of_each_object_of_table_6(view):
    rows = select_confounded(view, "candle-color", ALL)
    kept = {(OBJECTS[row // 5], COLORS[row % 5]) for row in rows}
    assert len(kept) == 10
    assert {color for shape, color in kept if shape == "cube"} == {"red", "blue"}
    assert {color for shape, color in kept if shape == "torus"} == {"orange", "red"}
    assert select_confounded(view, "candle-color:0", ALL) == list(range(25))


@pytest.mark.parametrize(
    ("selection", "choice", "message"),
    [
        ("candle-color", {"rows": "0:5", "limit": None}, "omit `rows` and `limit`"),
        ("candle-color:much", ALL, r"expected a strength in \[0, 1\], got `much`"),
        ("candle-color:2", ALL, "strength"),
        ("candle-hue", ALL, "preset: expected one of"),
        ("candle-size", ALL, "size"),
    ],
)
def test_selections_that_cannot_be_made_are_refused(view, selection, choice, message):
    with refused(message):
        select_confounded(view, selection, choice)


COLUMNS = {
    "id": ["b", "a", "c"],
    "group": ["x", "x", "y"],
    "shape": ["cube", "ball", "cube"],
    "size": [1, 3, 2],
}


def _write(path, columns):
    if path.suffix == ".csv":
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").table(columns), path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
def test_a_table_of_factors_is_read(suffix, tmp_path):
    columns = {**COLUMNS, "angle": [0.5, 0.25, 1.0]}
    view = read_factors(_write(tmp_path / f"mine.{suffix}", columns))
    assert (view.identity.name, view.ids, view.groups) == ("mine", ("b", "a", "c"), ("x", "x", "y"))
    kinds = {info.name: (info.kind, info.values) for info in view.factors}
    assert kinds["shape"] == ("categorical", ("ball", "cube"))
    assert kinds["size"] == ("categorical", (1, 2, 3))
    assert kinds["angle"] == ("continuous", None)
    assert view.table.tolist() == [[1, 0, 0.5], [0, 2, 0.25], [1, 1, 1.0]]
    assert view.take([2]).ids == ("c",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a", "b"]}, r"expected a column \[rows\] for each factor, got id \[2\]"),
        ({"x": [1, 2], "y": [1]}, r"got x \[2\], y \[1\]"),
        ({"id": ["a", "a"], "x": [1, 2]}, "expected rows with different ids, got 1 in 2 rows"),
        ({"x": [1.0, np.nan]}, "`x`: expected finite numbers"),
        ({"x": [1, None]}, "`x`: expected numbers or texts, got object"),
    ],
)
def test_tables_that_do_not_fit_are_refused(columns, message):
    with refused(message):
        factors_of_columns("mine", columns)


def test_files_that_cannot_be_read_are_one_line(tmp_path):
    (tmp_path / "gap.csv").write_text("x,y\n1,2\n3,\n")
    with refused(r"row 3: expected 2 values, got '3,'"):
        read_factors(tmp_path / "gap.csv")
    (tmp_path / "twice.csv").write_text("x,y,x\n1,2,3\n")
    with refused("expected columns of different names, got `x` twice"):
        read_factors(tmp_path / "twice.csv")
    (tmp_path / "no.npz").write_bytes(b"PK")
    with refused(r"no\.npz: cannot be read as a table of factors"):
        read_factors(tmp_path / "no.npz")
    with refused(r"expected a table of factors, there is none"):
        read_factors(tmp_path / "nothing.csv")


def test_a_reduced_file_of_mpi3d_opens_by_its_sizes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "mpi3d_toy.npz", images=images)
    choice = {"data": f"mpi3d:{tmp_path}", "set_name": "toy", "split": None, "rows": None, "limit": None}
    view = open_factors(choice, CodesOptions(sizes="2,1,1,1,1,1,3"), {})
    varying = [info.name for info, column in zip(view.factors, view.table.T, strict=True) if column.any()]
    assert (len(view), varying) == (6, ["object_color", "vertical_axis"])
    with refused(r"`sizes`: expected 7 numbers from 1"):
        open_factors(choice, CodesOptions(sizes="2,3"), {})
    with refused("`sizes`: expected numbers such as"):
        open_factors(choice, CodesOptions(sizes="2;3"), {})
