"""IRS by true interventions: by hand, against loops, and on confounded factors to which IRS is blind."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal import (
    CounterfactualData,
    factors_of_columns,
    irs,
    irs_by_interventions,
    planted_codes,
)
from candlelight.evaluation.causal.causal_report import CODES_PAGE
from candlelight.evaluation.causal.rendered_counterfactuals import pair_units
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.predictions import open_codes
from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from tests.refusals import refused


def confounded(units=60, strength=1.0, seed=0):
    """Draw factors of which two are equal, and two counterfactuals of each unit and factor."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, units)
    second = np.where(rng.random(units) < strength, first, rng.integers(0, 3, units))
    factual = np.stack([first, second, rng.integers(0, 4, units)], axis=1)
    rows = np.repeat(np.arange(units), 6)
    changed = factual[rows]
    for place in range(len(rows)):
        factor, step = place % 6 // 2, 1 + place % 2
        changed[place, factor] = (changed[place, factor] + step) % (3, 3, 4)[factor]
    return *map(torch.from_numpy, (factual, changed, rows)), torch.from_numpy(changed != factual[rows])


def both(name, factual, changed):
    codes = planted_codes(name, torch.cat([factual, changed]), 1)
    return codes[: len(factual)], codes[len(factual) :]


def slow(codes, moved, samples, changed):
    weights = [
        max(abs(moved[pair] - codes[samples[pair]])[code] for pair in range(len(moved))) for code in (0, 1)
    ]
    matrix = np.zeros((2, changed.shape[1]))
    for code in (0, 1):
        for factor in range(changed.shape[1]):
            largest = {}
            for pair, row in enumerate(samples):
                if changed[pair].any() and not changed[pair, factor]:
                    largest[row] = max(largest.get(row, 0), abs(moved[pair] - codes[row])[code])
            matrix[code, factor] = 1 - np.mean(list(largest.values())) / weights[code]
    return matrix, np.array(weights)


def test_equals_loops():
    rng = np.random.default_rng(3)
    codes, moved, samples = rng.normal(size=(9, 2)), rng.normal(size=(40, 2)), rng.integers(0, 9, 40)
    changed = rng.random((40, 3)) < 0.4
    moved[~changed.any(1)] = codes[samples[~changed.any(1)]]
    found = irs_by_interventions(*map(torch.from_numpy, (codes, moved, samples, changed)))
    matrix, weights = slow(codes, moved, samples, changed)
    np.testing.assert_allclose(found.matrix, matrix)
    np.testing.assert_allclose(found.weights, weights)
    np.testing.assert_allclose(found.score, (weights * matrix.max(1)).sum() / weights.sum())
    kept = [
        len({row for row, some in zip(samples, changed, strict=True) if some.any() and not some[i]})
        for i in range(3)
    ]
    assert found.class_sizes == tuple((count,) for count in kept)


def test_interventions_see_what_confounding_hides_from_irs():
    factual, changed, samples, differs = confounded()
    for name, robust in (("identity", True), ("permuted", True), ("rotated", False), ("mixed", False)):
        codes, moved = both(name, factual[:, :2], changed[:, :2])  # of the two factors that are equal
        assert float(irs(codes, factual).score) == pytest.approx(1), name
        score = float(irs_by_interventions(codes, moved, samples, differs).score)
        assert (score > 0.999) if robust else (score < 0.7), name
    one, other = both("random", factual, changed)
    assert float(irs_by_interventions(one, other, samples, differs).score) < 0.75


def test_one_entangled_code_lowers_its_row_alone():
    factual, changed, samples, differs = confounded()
    codes, moved = (part.double() for part in (factual, changed))
    found = irs_by_interventions(
        codes @ torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 1]]).double(),
        moved @ torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 1]]).double(),
        samples,
        differs,
    )
    assert found.matrix.amax(1)[1:].tolist() == [1, 1]
    assert found.matrix[0].amax() < 0.3
    assert found.parents.tolist()[1:] == [1, 2]


def test_codes_and_factors_without_change_are_left_out():
    codes, moved = torch.zeros(1, 2), torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    changed = torch.tensor([[True, False, True], [False, False, True]])
    found = irs_by_interventions(codes, moved, torch.tensor([0, 0]), changed)
    assert found.codes.tolist() == [0]
    assert found.matrix[0].isnan().tolist() == [False, False, True]  # every pair changes factor 2
    assert found.parents.tolist() == [0] or float(found.score) == 0
    nothing = irs_by_interventions(codes, codes[[0, 0]], torch.tensor([0, 0]), changed)
    assert (float(nothing.score), nothing.matrix.shape) == (0, (0, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": torch.tensor([[torch.nan]])}, "codes must be finite"),
        ({"samples": torch.tensor([1])}, "`samples` must be rows of the 1 codes"),
        ({"changed": torch.tensor([[False, False]])}, "keep a factor and change another, got none"),
        ({"changed": torch.tensor([[1, 0]])}, "`changed` must be boolean"),
        ({"counterfactual_codes": torch.ones(1, 2)}, r"`counterfactual_codes` \[pairs, codes\]"),
    ],
)
def test_invalid_arguments_are_refused(change, message):
    given = {
        "codes": torch.zeros(1, 1),
        "counterfactual_codes": torch.ones(1, 1),
        "samples": torch.tensor([0]),
    }
    with refused(message):
        irs_by_interventions(**given | {"changed": torch.tensor([[True, False]])} | change)


def view(name, table, units):
    columns = {factor: table[:, place].numpy() for place, factor in enumerate("xyz")}
    ids = [f"{name}-{row}" for row in range(len(table))]
    return factors_of_columns(name, {**columns, "id": ids, "group": [str(unit) for unit in units]})


def test_score_of_the_evaluation_with_its_page(tmp_path, monkeypatch):
    monkeypatch.setattr("candlelight.evaluation.causal.measure_codes.MOST_RESAMPLES", 5)
    monkeypatch.setattr("candlelight.evaluation.causal.score_codes.MOST_RESAMPLES", 5)
    factual, changed, samples, differs = confounded()
    data = CounterfactualData(view("a", factual, range(60)), view("b", changed, samples.tolist()))
    codes = torch.cat(both("mixed", factual, changed))
    np.savez(tmp_path / "codes.npz", ids=[*data.images.ids, *data.counterfactuals.ids], codes=codes.numpy())
    mine = {"mine": open_codes(tmp_path / "codes.npz")}
    found = evaluate("codes", data, mine, metrics=["irs"])
    expected = irs_by_interventions(*both("mixed", factual, changed), samples, differs)
    score = found["mine"].scores["irs_do"]
    assert score.value == pytest.approx(float(expected.score))
    assert score.low <= score.value <= score.high
    np.testing.assert_allclose(found["mine"].details["matrices"]["irs_do"], expected.matrix)
    assert "irs_do" in found["random codes"].scores
    assert CODES_PAGE.section(list(found.values()), ()).blocks
    page = write_report(tmp_path / "page.html", list(found.values()), title="t").read_text()
    assert "IRS by interventions" in page
    strangers = CounterfactualData(data.images, view("b", changed, ["other"] * len(changed)))
    with refused(r"no unit \(group\) of `b` is one of `a`"):
        evaluate("codes", strangers, mine, metrics=["irs"])
    named = {"name": "x", "kind": "factor", "type": "categorical", "mechanism": "", "every": "step"}
    images = SimpleNamespace(**vars(data.images), graph=CausalGraph(nodes=(CausalNode(**named),)))
    with refused("`a` has steps, which differ by more than an intervention"):
        pair_units(images, data.counterfactuals, ["x"])


def test_rows_that_are_left_out_are_known(tmp_path):
    factual, changed, samples, _ = confounded()
    views = view("a", factual, range(60)), view("b", changed, samples.tolist())
    codes = torch.cat([factual, changed]).double().numpy()
    np.savez(tmp_path / "codes.npz", ids=[*views[0].ids, *views[1].ids], codes=codes)
    data = CounterfactualData(views[0].take(range(30)), views[1])
    mine = {"mine": open_codes(tmp_path / "codes.npz")}
    found = evaluate("codes", data, mine, metrics=["irs"], controls=False)
    assert found["mine"].scores["irs_do"].value == pytest.approx(1)
