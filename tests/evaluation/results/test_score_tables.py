"""Tables of scores in files: the best in bold, unknown scores, several metrics, names that LaTeX reads."""

import csv
import math

from candlelight.evaluation.report.blocks import scores_table
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import BestCell, Provenance, StatisticResult, table
from candlelight.evaluation.run.score_tables import score_csv, score_latex, score_markdown

NAN = math.nan


def result(name, scores, metric="irs", better="higher", **settings):
    about = Provenance(metric, 1, better, {"name": name}, {"name": "demo", "rows": 4}, settings, {})
    return StatisticResult(about, {key: Score(*value) for key, value in scores.items()}, {}, (), (), {})


def test_the_best_of_each_column_is_bold_and_unknown_scores_are_named():
    results = [
        result("a", {"irs": (0.5, 0.4, 0.6), "mig": (0.25, NAN, NAN)}),
        result("b|c", {"irs": (NAN, NAN, NAN), "mig": (0.5, 0.4, 0.6)}),
        result("d", {"mig": (0.50001, 0.4, 0.6)}),
    ]
    assert score_markdown(results, intervals=True).splitlines() == [
        "| model | irs ↑ | mig ↑ |",
        "|---|---:|---:|",
        "| a | 0.5 [0.4, 0.6] | 0.25 |",
        "| b\\|c | undefined | **0.5** [0.4, 0.6] |",  # equal as printed: both are the best
        "| d |  | **0.5** [0.4, 0.6] |",
    ]
    lower = [
        result(name, {"x": (value, NAN, NAN)}, better="lower") for name, value in (("a", 2.0), ("b", 1.0))
    ]
    assert "\\textbf{1}" in score_latex(lower)
    assert "textbf" not in score_latex([result("a", {"x": (1.0, NAN, NAN)}, better="neither")] * 2)


def test_controls_and_published_scores_stand_beside_models_and_are_never_bold():
    results = [
        result("a", {"whdr": (0.5, 0.4, 0.6)}, "whdr", "lower"),
        result("b", {"whdr": (0.25, 0.2, 0.3)}, "whdr", "lower"),
        result("flat", {"whdr": (0.125, NAN, NAN)}, "whdr", "lower"),
    ]
    results[2].about.model["source"] = "control"
    results[0].details["published"] = {"old (published, Table 1)": {"whdr": 0.0625}}
    assert score_markdown(results).splitlines()[2:] == [
        "| a | 0.5 |",
        "| b | **0.25** |",
        "| flat | 0.125 |",
        "| old (published, Table 1) | 0.0625 |",
    ]
    assert score_latex(results).count("textbf") == 1
    assert score_csv(results).splitlines()[-1] == '"old (published, Table 1)",0.0625,,'
    lines = table(results, styled=True).splitlines()
    assert ["\x1b[1m" in line for line in lines] == [False, False, True, False, False]
    assert "\x1b[1m0.25  \x1b[0m" in lines[2]
    assert lines[-1].split("  ")[0] == "old (published, Table 1)"
    shown = scores_table("", results, whole=True)
    assert [row[1] for row in shown.rows] == [
        *("0.500 (0.400\xa0to\xa00.600)", "0.250 (0.200\xa0to\xa00.300)", "0.125", "0.0625")
    ]
    assert [isinstance(row[1], BestCell) for row in shown.rows] == [False, True, False, False]
    alone = [results[0], results[2]]
    assert "**" not in score_markdown(alone)  # a control is no rival


def test_names_are_escaped_for_latex():
    text = score_latex([result("50%_{a}\\b & c~^#$", {"c_mat": (0.5, 0.4, 0.6)})])
    row = r"50\%\_\{a\}\textbackslash{}b \& c\textasciitilde{}\textasciicircum{}\#\$ & 0.5 \\"
    assert row in text.splitlines()
    assert text.splitlines()[0] == r"% \usepackage{booktabs}; irs, version 1, on demo, 4 rows"


def test_several_metrics_and_protocols_name_their_columns(tmp_path):
    results = [
        result("a", {"lmse": (0.5, 0.4, 0.6)}, "mit", protocol="mit-grosse"),
        result("a", {"whdr": (0.25, 0.2, 0.3)}, "whdr", protocol="iiw-whdr"),
        result("b", {"lmse": (0.75, 0.7, 0.8)}, "mit", protocol="mit-grosse"),
    ]
    rows = list(csv.DictReader(score_csv(results).splitlines()))
    assert [row["model"] for row in rows] == ["a", "b"]
    assert [row["mit-grosse: lmse"] for row in rows] == ["0.5", "0.75"]
    assert [(row["iiw-whdr: whdr low"], row["iiw-whdr: whdr high"]) for row in rows] == [
        ("0.2", "0.3"),
        ("", ""),
    ]


def test_figures_are_files_that_open_by_themselves(tmp_path):
    from xml.etree import ElementTree

    from candlelight.evaluation.report.drawing import drawing, saving_figures, to_svg

    with saving_figures(tmp_path / "figures") as saved:
        for height in (1.0, 2.0):
            with drawing(height) as figure:
                figure.subplots().plot([0, 1])
                shown = to_svg(figure, "a b")
    assert [path.name for path in saved] == ["a-b.pdf", "a-b.svg", "a-b-2.pdf", "a-b-2.svg"]
    root = ElementTree.parse(saved[1]).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert saved[0].read_bytes().startswith(b"%PDF")
    with drawing(2.0) as figure:  # saving changes nothing on the page
        figure.subplots().plot([0, 1])
        assert to_svg(figure, "a b") == shown
    assert len(list((tmp_path / "figures").iterdir())) == 4


def test_many_scores_are_rows_beside_models():
    scores = {f"s_{place}": (place / 10, NAN, NAN) for place in range(9)}
    results = [result("a", scores), result("b", scores | {"s_8": (0.5, NAN, NAN)})]
    lines = score_markdown(results).splitlines()
    assert lines[:3] == ["| score | a | b |", "|---|---:|---:|", "| s_0 ↑ | **0** | **0** |"]
    assert lines[-1] == "| s_8 ↑ | **0.8** | 0.5 |"
    tex = score_latex(results).splitlines()
    assert tex[1] == r"\begin{tabular}{lrr}"
    assert tex[-3] == r"s\_8 $\uparrow$ & \textbf{0.8} & 0.5 \\"
    few = [{name: scores[name] for name in list(scores)[:8]}, scores]
    for some, count in zip(few, (1, 9), strict=True):  # no more than a page holds, or than models
        shown = score_markdown([result(f"m{row}", some) for row in range(count)])
        assert shown.startswith("| model | s_0 ↑ |")
    assert score_csv(results).startswith("model,s_0,")


def test_scores_that_no_model_defines_are_left_out():
    scores = {"s": (0.5, NAN, NAN), "t": (NAN, NAN, NAN), "u": (0.25, NAN, NAN)}
    results = [result("a", scores), result("b", scores | {"u": (NAN, NAN, NAN)})]
    assert score_markdown(results).splitlines()[0] == "| model | s ↑ | u ↑ |"
    assert score_latex(results).splitlines()[3] == r"model & s $\uparrow$ & u $\uparrow$ \\"
    assert score_csv(results).startswith("model,s,s low,s high,t,")
    assert score_markdown([result("a", {"t": (NAN, NAN, NAN)})]).splitlines()[-1] == "| a | undefined |"
