"""The rule and the tables of the validity matrix on tiny cases, and the page of the docs."""

import math
import re
from pathlib import Path

import pytest
import torch

from benchmarks.trials import causal_validity, validity_page
from benchmarks.trials.planned_factors import FACTOR_SOURCES, planned_counterfactuals, planned_factors
from benchmarks.trials.validity_grid import draw_grid
from benchmarks.trials.validity_rule import CLAIMS, has_claim, mark_cells, wrong_pairs
from candlelight.evaluation.causal import PLANTED_CODES, estimators
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.measure_codes import CODE_METRICS

PAGE = Path(__file__).parents[3] / "docs" / "causal-validity.md"
GRID = torch.cartesian_prod(*[torch.arange(n) for n in (3, 4, 2)]).repeat(4, 1)
TABLE = FactorTable(("a", "b", "c"), GRID.double(), GRID, (0, 1, 2), (), ())


def part(name):
    page = PAGE if name in ("failures", "codes") else validity_page.VALUES
    text = page.read_text(encoding="utf-8")
    return text.split(f"<!-- {validity_page.MAKER}: {name} -->")[1].split(f"<!-- end: {name} -->")[0].strip()


def ideal(claims):
    """Values of a metric without fault: 1 for codes that have the properties, 0 for codes that lack one."""
    value = {True: 1.0, False: 0.0, None: 0.5}
    return {kind: [value[has_claim(kind, claims)]] * 3 for kind in PLANTED_CODES}


@pytest.mark.parametrize("claims", sorted(set(filter(None, CLAIMS.values()))), ids=" ".join)
def test_a_metric_without_fault_has_no_marks_and_its_opposite_only_marks(claims):
    values = ideal(claims)
    assert set(mark_cells(values, claims).values()) == {""}
    opposite = {kind: [1 - value for value in some] for kind, some in values.items()}
    wrong, pairs = wrong_pairs(opposite, claims)
    assert len(wrong) == pairs > 0
    expected = {True: "", False: "▲▲", None: ""}  # codes are no misses if the identity is no better
    assert mark_cells(opposite, claims) == {kind: expected[has_claim(kind, claims)] for kind in values}
    opposite["identity"] = [2.0] * 3
    expected = {True: "▼▼", False: "▲", None: ""}
    marks = {kind: expected[has_claim(kind, claims)] for kind in values}
    assert mark_cells(opposite, claims) == {**marks, "identity": ""}


def test_single_faults_noise_over_seeds_and_undefined_values():
    values = ideal(["informative"]) | {"missing": [0.6] * 3, "wrapped": [0.3] * 3}
    marks = {kind: mark for kind, mark in mark_cells(values, ["informative"]).items() if mark}
    assert marks == {"wrapped": "▼", "missing": "▲"}
    values = ideal(["informative"])
    values["random"] = [0.0, 0.0, 2.9]  # not surely below
    values["constant"] = [math.nan] * 3
    wrong, pairs = wrong_pairs(values, ["informative"])
    good = [kind for kind in PLANTED_CODES if has_claim(kind, ["informative"])]
    assert sorted(wrong) == sorted((kind, "random") for kind in good)
    assert pairs == 2 * len(good)  # with random and missing


def tiny_matrix():
    found = {
        kind: {
            **causal_validity.scores_of(
                "mig", causal_validity.planted_codes(kind, TABLE.values, 0), TABLE, 0
            ),
            "irs": math.nan if kind == "constant" else 0.5,
        }
        for kind in PLANTED_CODES
    }
    table = {}
    for seed in range(2):
        causal_validity.add_seed(table, found, seed)
    return {"one": table, "other": {"irs": table["irs"]}}


def test_matrix_of_a_tiny_case_is_written_and_drawn(tmp_path, monkeypatch):
    matrix = tiny_matrix()
    mig = matrix["one"]["mig"]
    assert mig["identity"] == pytest.approx([1, 1])
    assert mig["redundant"] == pytest.approx([0, 0])
    page, beside = tmp_path / "page.md", tmp_path / "values.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    beside.write_text(validity_page.VALUES.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(validity_page, "VALUES", beside)
    validity_page.write_page(page, matrix, dict.fromkeys(FACTOR_SOURCES, (9, 4)))
    assert "| `mig` | complete and informative |" in page.read_text(encoding="utf-8")
    text = beside.read_text(encoding="utf-8")
    assert "| score | one | other |" in text
    values = text.split("### one\n\n")[1].splitlines()
    cells = dict(zip(values[0].split(" | "), values[3].split(" | "), strict=True))
    assert values[3].startswith("| `mig` |")
    assert (cells["identity"], cells["redundant"]) == ("1.00", "0.00")
    irs = values[2].split(" | ")
    assert irs[-2].endswith("▲▲")  # the identity is not above random codes
    assert irs[-1].strip(" |") == ""
    draw_grid(tmp_path / "grid.png", matrix)
    assert (tmp_path / "grid.png").stat().st_size > 5_000


def test_a_score_that_is_missing_in_some_seeds_is_nan_there():
    table = {}
    causal_validity.add_seed(table, {"identity": {}, "random": {"a": 1.0}}, 0)
    causal_validity.add_seed(table, {"identity": {}, "random": {}}, 1)
    assert str(table) == "{'a': {'identity': [nan, nan], 'random': [1.0, nan]}}"


def test_planned_counterfactuals_change_a_factor_and_what_it_causes(monkeypatch):
    table, rows, _, changed = planned_counterfactuals(FACTOR_SOURCES["causal"], 5, 0)
    assert (len(table.values), len(rows)) == (5 + 5 * 8, 5)
    sets = {tuple(row) for row in changed.tolist()}
    assert sets == {
        (True, True, False, False),
        (False, True, False, False),
        (False, False, True, True),
        (False, False, False, True),
    }
    monkeypatch.setattr(causal_validity, "UNITS", 20)
    found = causal_validity.intervened_scores("toy-confounded 1", 0)
    values = {kind: scores["irs_do"] for kind, scores in found.items()}
    assert values["identity"] == values["permuted"] == pytest.approx(1)
    assert max(values["rotated"], values["entangled"]) < 0.8


def test_planned_factors_are_those_of_the_recipe():
    fixed = planned_factors(FACTOR_SOURCES["toy-confounded 1"], 20, 0)
    assert fixed.names == ("object_type", "color")
    assert torch.equal(fixed.values[:, 0], fixed.values[:, 1])
    graph = planned_factors(FACTOR_SOURCES["causal"], 60, 3)
    assert len(graph.values) == 60
    assert graph.values.T.corrcoef()[0, 1] > 0.7
    few = planned_factors(FACTOR_SOURCES["candle, 100 images"], 1000, 0)
    assert len(few.values) == 100


def test_every_score_of_every_metric_has_a_claim_and_stands_on_the_page(monkeypatch):
    monkeypatch.setattr(estimators, "_STAGES", 5)
    codes = causal_validity.planted_codes("rotated", TABLE.values, 0)
    metrics = [name for name in causal_validity.METRICS if name in CODE_METRICS]
    scores = [score for name in metrics for score in causal_validity.scores_of(name, codes, TABLE, 0)]
    assert {*scores, causal_validity.INTERVENTIONS} == set(CLAIMS)
    for name in ("pairs", "failures", "values"):
        assert set(re.findall(r"^\| `(.*?)` \|", part(name), re.M)) == set(CLAIMS), "run the trial again"
    for title in FACTOR_SOURCES:
        assert part("values").count(f"### {title}\n") == 1
        assert f"| {title} |" in part("factors")
    heads = [line for line in part("values").splitlines() if line.startswith("| score")]
    assert heads == [f"| score | {' | '.join(PLANTED_CODES)} |"] * len(FACTOR_SOURCES)


def test_tables_of_codes_and_claims_are_up_to_date():
    assert part("codes") == validity_page.codes_table()
    claims = {f"`{score}`": " and ".join(some) or "none of these" for score, some in CLAIMS.items()}
    rows = [line.split(" | ")[:2] for line in part("failures").splitlines()[2:]]
    assert {score.removeprefix("| "): stated for score, stated in rows} == claims


def test_marks_of_the_page_agree_with_the_claims():
    for line in (line for line in part("values").splitlines() if line.startswith("| `")):
        score, *cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        for kind, cell in zip(PLANTED_CODES, cells, strict=True):
            allowed = {True: "▼", False: "▲", None: ""}[has_claim(kind, CLAIMS[score.strip("`")])]
            assert set(re.findall("[▲▼]", cell)) <= {allowed}, (score, kind)
