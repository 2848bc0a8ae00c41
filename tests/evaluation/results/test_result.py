import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from candlelight.evaluation.run.intervals import Score, mean_interval
from candlelight.evaluation.run.result import (
    MeanResult,
    Provenance,
    StatisticResult,
    fill_failures,
    table,
)
from candlelight.evaluation.run.result_files import (
    RESULTS_FORMAT,
    check_writable,
    read_results,
    write_results,
)
from tests.refusals import refused

NAN, INF = math.nan, math.inf
ABOUT = Provenance(
    "lmse",
    2,
    "lower",
    {"name": "net", "sha256": None},
    {"name": "demo", "set_name": "candle", "sha256": "1f"},
    {"window": 20, "size": (64, 64)},
    {"torch": "2"},
)


def means(columns=None, ids=("a", "b", "c"), groups=("s", "s", "t"), failed=("b",), about=ABOUT):
    columns = {"lmse": (0.1, 1.0, float("nan")), "mse": (0.25, INF, 3.0)} if columns is None else columns
    return MeanResult(about, ids, groups, columns, failed)


def statistics():
    scores = {"csm": Score(0.5, float("nan"), INF), "csm_r": Score(float("nan"), NAN, NAN)}
    details = {"sets": [{"size": (1, 2), "p": float("nan"), "name": "ä\ud800" + '"'}]}
    return StatisticResult(ABOUT, scores, {"csm": (0.5, float("nan"))}, ("s", "t"), ("dead",), details)


def test_a_mean_by_hand():
    result = means()
    assert result.scores["lmse"] == mean_interval([0.1, 1.0], ["s", "s"])
    assert result.score == pytest.approx(0.55)
    assert result.undefined == 1
    assert result.mean_of_rest == {"lmse": 0.1, "mse": 1.625}


def test_intervals_are_cut_at_the_ranges_of_columns_and_after_reading_too(tmp_path):
    columns = {"lmse": (0.0, 0.9), "ssim": (0.0, 1.0), "mse": (0.0, 1.0), "psnr": (0.0, 1.0)}
    ranges = {"lmse": (0.0, 1.0), "ssim": (-1.0, 1.0), "mse": (0.0, INF)}
    result = MeanResult(ABOUT, ("a", "b"), ("s", "t"), columns, (), ranges=ranges)
    bounds = {name: (score.low, score.high) for name, score in result.scores.items()}
    plain = mean_interval([0.0, 1.0], ["s", "t"])
    assert bounds == {
        "lmse": (0, 1),
        "ssim": (-1, 1),
        "mse": (0, plain.high),
        "psnr": (plain.low, plain.high),
    }
    write_results(tmp_path / "r.json", [result])
    assert read_results(tmp_path / "r.json") == [result]


def test_a_result_of_no_defined_row():
    result = means({"lmse": (NAN, NAN, NAN)}, failed=("a", "b", "c"))
    assert math.isnan(result.score)
    assert math.isnan(result.mean_of_rest["lmse"])
    assert result.undefined == 3
    assert "undefined" in str(result)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": {}}, "expected columns and groups of 3 rows"),
        ({"columns": {"lmse": (0.1, 0.2)}}, r"got \{'lmse': 2, 'groups': 3\}"),
        ({"groups": ("s",)}, "expected columns and groups of 3 rows"),
        ({"ids": ("a", "a", "c")}, "expected each id once"),
        ({"failed": ("d",)}, "`failed` must hold ids of rows, got `d`"),
    ],
)
def test_rows_must_agree(changes, message):
    with refused(message):
        means(**changes)


def test_statistics_have_scores():
    with refused("expected `scores`"):
        StatisticResult(ABOUT, {}, {}, (), (), {})
    with refused(r"expected `scores` of \['b'\] or more, got \['a'\]"):
        StatisticResult(ABOUT, {"a": Score(1, 1, 1)}, {"b": (1.0,)}, (), (), {})


def test_equal_results_have_equal_bytes():
    other = Provenance(
        "lmse",
        2,
        "lower",
        {"sha256": None, "name": "net"},
        {"sha256": "1f", "set_name": "candle", "name": "demo"},
        {"size": [64, 64], "window": 20},
        {"torch": "2"},
    )
    assert other == ABOUT
    assert means() == means(about=other)
    assert means().to_json() == means(about=other).to_json()
    assert statistics() == statistics()


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


def test_json_of_means():
    content = strict(means().to_json())
    assert content["scores"]["lmse"] == {"value": 0.55, "low": None, "high": None}
    assert content["columns"] == {"lmse": [0.1, 1.0, None], "mse": [0.25, "inf", 3.0]}
    assert (content["undefined"], content["failed"]) == (1, ["b"])
    assert content["about"]["settings"] == {"size": [64, 64], "window": 20}


def test_json_of_statistics():
    content = strict(statistics().to_json())
    assert content["scores"]["csm"] == {"value": 0.5, "low": None, "high": "inf"}
    assert content["details"]["sets"][0]["size"] == [1, 2]


def test_files_are_read_back_exactly(tmp_path):
    path = tmp_path / "results.json"
    some = means({"lmse": (0.1 + 0.2, 1e-320, -0.0)}, failed=())
    plain = StatisticResult(
        ABOUT,
        {"irs": Score(1 / 3, 0, 1)},
        {"irs": (NAN, -INF, 0.1)},
        (),
        (),
        {"a": [1, "x"]},
        {"irs": {"scenes": 2}},
    )
    write_results(path, [means(), some, plain])
    first = path.read_bytes()
    again = read_results(path)
    assert again == [means(), some, plain]
    assert str(again[1].columns["lmse"][2]) == "-0.0"
    write_results(path, again)
    assert path.read_bytes() == first
    assert strict(first)["format"] == "candlelight results 1"


def test_tables_count_the_fewest_units():
    some = replace(statistics(), groups=tuple("abcdefgh"), units={"csm": {"scenes": 9, "controls": 3}})
    assert [line.split()[-2] for line in table([some]).splitlines()[1:]] == ["3", "8"]


def test_csv_of_means_and_statistics():
    rows = "id,group,lmse,mse,failed\na,s,0.1,0.25,false\nb,s,1.0,inf,true\nc,t,,3.0,false\n"
    assert means().to_csv() == rows
    assert statistics().to_csv() == "score,value,low,high\ncsm,0.5,,inf\ncsm_r,,,\n"


def test_csv_of_several_models(tmp_path):
    path = tmp_path / "means.rows.csv"
    odd = Provenance("lmse", 2, "lower", {"name": 'a "b", c'}, {}, {}, {})
    write_results(path, [means(), means(about=odd)])
    lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert lines[0] == ["model", "id", "group", "lmse", "mse", "failed"]
    assert [line[0] for line in lines[1:]] == ["net"] * 3 + ['a "b", c'] * 3
    assert lines[3] == ["net", "c", "t", "", "3.0", "false"]


def test_csv_takes_one_kind_of_rows(tmp_path):
    with refused(r"^\.rows\.csv takes results with the same columns"):
        write_results(tmp_path / "a.rows.csv", [means(), statistics()])
    assert not list(tmp_path.iterdir())


def test_a_printed_result_fits_a_screen():
    columns = {f"error {number}": (0.5,) * 2000 for number in range(40)}
    ids, groups = tuple(map(str, range(2000))), tuple(str(row // 4) for row in range(2000))
    text = repr(means(columns, ids, groups, failed=()))
    assert len(text.splitlines()) <= 20
    assert text.splitlines()[0] == "lmse (version 2) on demo, candle"
    assert text.endswith("... and 24 more")
    assert str(means()) == repr(means())


def test_a_table_of_two_models():
    whole = means({"lmse": (0.1, 0.2, 0.4)}, groups=("s", "t", "u"), failed=(), about=ABOUT)
    assert table([means(), whole]).splitlines() == [
        "model  metric  value   95 % interval      without failed  rows  groups  failed  undefined",
        "net    lmse ↓  0.55                       0.1             3     2       1       1",
        "net    mse ↓   inf                        1.625           3     2       1       0",
        "net    lmse ↓  0.2333  -0.1461 to 0.6128                  3     3       0       0",
    ]


def test_a_table_of_statistics():
    assert "csm ↓" in str(statistics())
    assert table([statistics()]).splitlines()[0] == "model  metric   value      groups  failed"


# Errors that a failed prediction counts with


def test_a_failure_counts_as_the_larger_error_of_zeros_and_the_worst_row():
    errors = {
        "good": np.array([[1.0, 9.0], [2.0, 1.0], [NAN, 5.0]]),
        "bad": np.array([[8.0, 7.0], [4.0, INF], [0.0, 3.0]]),
    }
    failed = {"good": np.array([True, False, True]), "bad": np.array([False, False, False])}
    zeros = np.array([[10.0, 1.0], [3.0, 1.0], [3.0, NAN]])
    filled = fill_failures(errors, failed, zeros)
    np.testing.assert_array_equal(filled["good"], [[10, 7], [2, 1], [8, NAN]])
    np.testing.assert_array_equal(filled["bad"], errors["bad"])


def test_if_all_models_fail_the_error_of_zeros_counts():
    filled = fill_failures(
        {"net": np.full((2, 1), NAN)}, {"net": np.array([True, True])}, np.array([[1.0], [NAN]])
    )
    np.testing.assert_array_equal(filled["net"], [[1], [NAN]])


def test_failing_never_improves_a_score():
    rng = np.random.default_rng(0)
    errors, zeros = rng.exponential(size=(20, 1)), np.ones((20, 1))
    for row in range(20):
        filled = fill_failures({"net": errors}, {"net": np.arange(20) == row}, zeros)
        assert filled["net"].mean() >= errors.mean() or errors.argmax() == row


# Files that are not as they should be


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.txt", r"a\.txt: expected a file name that ends in \.json, \.csv, \.md or \.tex"),
        ("folder.json", "expected a file, but it is a folder"),
        ("nowhere/a.json", "its folder does not exist; make it first"),
        ("n" * 300 + ".json", "cannot be written: File name too long"),
    ],
)
def test_places_that_cannot_be_written(tmp_path, name, message):
    (tmp_path / "folder.json").mkdir()
    with refused("expected at least one result"):
        write_results(tmp_path / "a.json", [])
    for attempt in (check_writable, lambda path: write_results(path, [means()])):
        with refused(message):
            attempt(tmp_path / name)
    assert [one.name for one in tmp_path.iterdir()] == ["folder.json"]


def test_a_missing_file_names_the_nearest(tmp_path):
    write_results(tmp_path / "scores.json", [means()])
    with refused(r"No such file or directory; .*did you mean `scores.json`"):
        read_results(tmp_path / "score.json")
    with refused("cannot be read: Is a directory"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON: Expecting value"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "expected `format` to be 'candlelight results 1', got none"),
        (b'{"format": "candlelight results 2"}', "got 'candlelight results 2'"),
        (b'{"format": "candlelight results 1"}', "expected a list of one or more `results`"),
        (b'{"format": "candlelight results 1", "results": [3]}', "expected `kind` to be one of"),
    ],
    ids=["empty", "binary", "deep", "list", "version", "no results", "no record"],
)
def test_files_of_another_format(tmp_path, data, message):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with refused(message):
        read_results(path)


def without(name):
    return lambda record: record.pop(name)


def changed(*place, to):
    def change(record):
        for name in place[:-1]:
            record = record[name]
        record[place[-1]] = to

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without("kind"), "result 1: expected `kind` to be one of mean, statistic, got None"),
        (without("about"), "result 1: about: Field required"),
        (changed("kind", to=["mean"]), r"got \['mean'\]"),
        (
            changed("about", "better", to="more"),
            r"result 1: about\.better.*: Input should be 'lower', 'higher' or 'neither'",
        ),
        (
            changed("columns", "lmse", 0, to="0.1"),
            r"result 1: columns\.lmse\.0: Input should be a valid number",
        ),
        (changed("columns", "lmse", to=[0.1]), "result 1: mean: expected columns and groups of 3 rows"),
        (changed("failed", to=["x"]), "result 1: mean: `failed` must hold ids of rows, got `x`"),
    ],
)
def test_damaged_results(tmp_path, damage, message):
    record = json.loads(means().to_json())
    damage(record)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"format": RESULTS_FORMAT, "results": [record]}))
    with refused(message):
        read_results(path)
