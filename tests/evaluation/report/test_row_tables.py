"""Tables of parts, groups and rows: cells by hand, the best in bold, and the limit of long tables."""

import math

from candlelight.evaluation.report import row_tables as module
from candlelight.evaluation.report.row_tables import row_tables
from candlelight.evaluation.run.result import BestCell, MeanResult, Provenance, StatisticResult

NAN = math.nan
BETTER = {"mae": "lower", "psnr": "higher"}


def result(
    name: str, columns: dict, groups: str = "xxy", failed: tuple[str, ...] = (), **model
) -> MeanResult:
    about = Provenance("layer", 1, BETTER, {"name": name, **model}, {"name": "demo"}, {}, {})
    return MeanResult(about, tuple("abcd"[: len(groups)]), tuple(groups), columns, failed)


def marked(table: module.TableBlock) -> list[list[str]]:
    """Write the cells of numbers, with a star before those that are bold."""
    keys = table.head.index("model") + 1
    return [[f"*{cell}" if isinstance(cell, BestCell) else cell for cell in row[keys:]] for row in table.rows]


def test_groups_and_rows_have_means_of_defined_values_and_bold_models() -> None:
    net = result("net", {"mae": (1.0, 3.0, NAN), "psnr": (10.0, 20.0, 30.0)}, failed=("b",))
    old = result("old", {"mae": (2.0, 4.0, NAN), "psnr": (10.0, 10.0, 40.0)})
    flat = result("flat", {"mae": (0.0, 0.0, NAN), "psnr": (99.0, 99.0, 99.0)}, source="control")
    groups, rows = row_tables([net, old, flat])
    assert groups.head == ("group", "model", "mae ↓", "psnr ↑")
    assert rows.head == ("row", "group", "model", "mae ↓", "psnr ↑")
    assert groups.folded
    assert marked(groups) == [
        *(["*2.00", "*15.0"], ["3.00", "10.0"], ["0.00", "99.0"]),
        *(["not defined", "30.0"], ["not defined", "*40.0"], ["not defined", "99.0"]),
    ]
    assert marked(rows)[:2] == [["*1.00", "*10.0"], ["2.00", "*10.0"]]  # equal values are both the best
    assert [row[2] for row in rows.rows[3:5]] == ["net (failed)", "old"]


def test_groups_of_one_row_and_one_group_of_all_have_no_table() -> None:
    for groups in ("xyz", "xxx"):
        (rows,) = row_tables([result("net", {"mae": (1.0, 2.0, 3.0)}, groups)])
        assert rows.head == ("row", "model", "mae ↓")
    assert row_tables([result("net", {"mae": (1.0,)}, "x")]) == []


def test_parts_have_a_table_of_their_own_and_are_left_out_of_the_others() -> None:
    columns = {"mae": (1.0, 2.0, 3.0), "mae of cube": (4.0, 4.0, 4.0), "mae of old toy": (NAN, 5.0, 6.0)}
    parts, _, rows = row_tables([result("net", columns)])
    assert parts.head == ("part", "model", "mae ↓")
    assert [(row[0], row[2].split()[0]) for row in parts.rows] == [("cube", "4.00"), ("old toy", "5.50")]
    assert rows.head == ("row", "group", "model", "mae ↓")


def test_long_tables_keep_the_worst_rows_in_their_order_and_say_so(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 4)
    models = [result(name, {"psnr": (3.0, NAN, 2.0, 1.0)}, "wxyz") for name in ("net", "old")]
    (rows,) = row_tables(models)
    assert [row[0] for row in rows.rows] == ["c", "c", "d", "d"]
    assert rows.caption == (
        "Scores of each row: the 2 of 4 with the worst psnr of net; --out FILE.rows.csv writes all rows"
    )


def test_statistics_and_results_of_other_rows_have_no_rows() -> None:
    net = result("net", {"mae": (1.0, 2.0, 3.0)})
    about = Provenance("layer", 1, BETTER, {"name": "s"}, {}, {}, {})
    assert row_tables([StatisticResult(about, {"mae": net.scores["mae"]}, {}, (), (), {})]) == []
    assert row_tables([net, result("old", {"mae": (1.0, 2.0)}, "xy")]) == []
