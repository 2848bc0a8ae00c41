import csv
from dataclasses import replace

import pytest

from candlelight.evaluation.coverage.coverage_tables import (
    coverage_tables,
    make_comparison,
    split_comparisons,
    write_coverage_tables,
)
from candlelight.evaluation.report.blocks import split_method_names
from tests.refusals import refused

CALL = ("comparison", "data", "classifier")
OPTIONAL = (
    *("by_pooling", "accuracy", "completeness", "labels", "unlabelled", "extremes"),
    *("controls", "sensitivity", "dissection"),
)


def without(result, *names):
    kept = {name: value for name, value in result.details.items() if name not in names}
    return replace(result, details=kept)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["net vebi", "net topics"], ("net", ("vebi", "topics"))),
        (
            ["my net vebi", "my net topics", "my own net vebi"],
            ("my", ("net vebi", "net topics", "own net vebi")),
        ),
        (["net", "net layer"], ("", ("net", "net layer"))),  # each method keeps a word
        (["net layer"], ("", ("net layer",))),
        (["network", "net"], ("", ("network", "net"))),
    ],
)
def test_words_that_all_names_share_are_the_classifier(names, expected):
    assert split_method_names(names) == expected


def test_results_of_several_calls_are_split_by_settings_and_data(coverage_call):
    results = [*coverage_call("kinds"), *coverage_call("colours"), *coverage_call("kinds", data="faces")]
    found = split_comparisons(results)
    assert [(one.classifier, one.data, len(one.results)) for one in found] == [
        *(("kinds", "birds", 3), ("colours", "birds", 3), ("kinds", "faces", 3))
    ]


def test_a_detail_of_the_whole_comparison_is_found_in_any_result(coverage_call):
    first, second, third = coverage_call("kinds")
    moved = make_comparison([second, first, third])
    assert moved.shared_detail("controls") == first.details["controls"]
    assert moved.shared_detail("nothing") is None


def test_lines_of_every_table(coverage_call):
    tables = coverage_tables([*coverage_call("kinds"), *coverage_call("colours", ("vebi",))])
    vebi = {
        name: [line for line in lines if line[:4] == (1, "birds", "kinds", "vebi")]
        for name, lines in tables.items()
    }
    assert tables["figure5"][0] == (*CALL, "method", "pooling", "proportion", "average_iou")
    assert [line[4:] for line in vebi["figure5"]] == [
        ("set", 0.01, pytest.approx(0.1)),
        ("set", 0.05, pytest.approx(0.11)),
        ("set", 0.1, pytest.approx(0.12)),
        ("image", 0.01, pytest.approx(0.095)),
        ("image", 0.05, pytest.approx(0.105)),
        ("image", 0.1, pytest.approx(0.115)),
    ]
    assert [line[4:] for line in vebi["figure6"]] == [
        ("highest", 1, "row-1", 0.5),
        ("highest", 2, "row-0", 0.4),
        ("lowest", 1, "row-2", 0.0),
        ("lowest", 2, "row-0", 0.1),
    ]
    assert [line[4] for line in vebi["figure7"]] == [0.01, 0.05, 0.1]
    assert [line[5] for line in vebi["figure7"]] == pytest.approx([0.05, 0.055, 0.06])
    assert [line[4:] for line in vebi["figure8"]] == [
        ("head", pytest.approx(0.06), pytest.approx(0.12), 8),
        ("tail", pytest.approx(0.06), 0.5, 6),
        ("wing", None, None, 0),
    ]
    assert [line[4:] for line in vebi["table1"]] == [(0.93, 0.9, 0.75, None)]
    assert [line[4:] for line in vebi["table2"]] == [(0.1, pytest.approx(0.12))]
    assert [line[4:] for line in vebi["labels"]] == [("head", 6), ("tail", 3), ("wing", 0), ("", 1)]
    assert [line[4:] for line in vebi["dissection"]] == [(64, 3, "tail", 1), (64, 3, "sky", 2)]
    assert tables["controls"][3] == (1, "birds", "kinds", "constant", 0.0, None)
    assert [line[0] for line in tables["controls"]] == ["comparison", *[1] * 6, *[2] * 6]
    assert [line[3:] for line in tables["sensitivity"][1:4]] == [
        ("vebi", "k=3", pytest.approx(0.3), 1, -1.0),
        ("topics", "k=3", pytest.approx(0.2), 2, -1.0),
        ("prototypes", "k=3", pytest.approx(0.1), 3, -1.0),
    ]
    # A single method shares no words with others.
    assert tables["table2"][-1][:4] == (2, "birds", "", "colours vebi")
    assert all(len({len(line) for line in lines}) == 1 for lines in tables.values())


def test_results_of_old_files_have_the_tables_that_they_can_have(coverage_call):
    old = [without(result, *OPTIONAL) for result in coverage_call("kinds")]
    tables = coverage_tables(old)
    assert list(tables) == ["figure5", "figure7", "figure8", "table2"]
    assert {line[4] for line in tables["figure5"][1:]} == {"set"}
    assert "figure7" not in coverage_tables([without(result, "curve") for result in old])


def test_csv_files_hold_the_tables(tmp_path, coverage_call):
    results = coverage_call("kinds, old")
    folder = tmp_path / "new" / "tables"
    paths = write_coverage_tables(folder, results)
    tables = coverage_tables(results)
    assert [path.name for path in paths] == [f"{name}.csv" for name in tables]
    assert sorted(folder.iterdir()) == sorted(paths)
    for path, lines in zip(paths, tables.values(), strict=True):
        with path.open(newline="", encoding="utf-8") as opened:
            read = list(csv.reader(opened))
        assert read == [["" if cell is None else str(cell) for cell in line] for line in lines]


def test_a_folder_that_is_a_file_is_refused(tmp_path, coverage_call):
    blocked = tmp_path / "tables"
    blocked.write_text("")
    with refused(r"figure5\.csv cannot be written"):
        write_coverage_tables(blocked, coverage_call("kinds"))


def test_results_of_other_metrics_are_refused(coverage_call):
    waiou, other, _ = coverage_call("kinds")
    other = replace(other, about=replace(other.about, metric="irs"))
    with refused("expected results of `waiou`, got `irs`; leave them out"):
        coverage_tables([waiou, other])
