import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic import lmse_score
from candlelight.evaluation.intrinsic.benchmark_methods import FIXED_BASELINES, GRADIENT_METHODS, METHODS
from candlelight.evaluation.intrinsic.benchmark_report import neighbour_comparisons, summary_rows
from candlelight.evaluation.intrinsic.score_methods import add_ranks
from candlelight.evaluation.models import (
    ColourRetinex,
    GrayRetinex,
    Weiss,
    constant_reflectance,
    constant_shading,
)
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.steps import FinishedSteps
from tests.refusals import refused

GRADIENT = ("BAS", *GRADIENT_METHODS)


def model_at(name: str, values: list[float]):
    """Make the method with the thresholds of a candidate as a model of `candlelight.evaluation.models`."""
    if name == "COL-RET":
        return ColourRetinex(*values)
    if name == "GR-RET":
        return GrayRetinex(*values)
    return Weiss(*values)


def test_scores_are_those_of_the_models_of_the_chosen_candidates(objects) -> None:
    view = objects()
    run = evaluate("methods", view, methods=",".join(GRADIENT))
    for name in GRADIENT_METHODS:
        details = run[name].details
        for row, number in enumerate(details["chosen"]):
            one = replace_rows(view, row)
            model = model_at(name, details["candidates"][number])
            wanted = evaluate("lmse", one, {"model": model})["model"].columns
            for column in wanted:
                values = run[name].columns[column]
                assert values[row] == pytest.approx(wanted[column][0], rel=1e-3, abs=1e-7), (name, column)


def replace_rows(view, row: int):
    """Keep one row of a view."""
    kept = type(view)([view[row]], [view.groups[row]], "one", explains="image")
    return kept


def test_every_candidate_is_scored_and_the_others_choose(objects) -> None:
    view = objects()
    result = evaluate("methods", view, methods="GR-RET")["GR-RET"]
    table = np.array(result.details["lmse_of_candidates"])
    assert table.shape == (4, len(result.details["candidates"])) == (4, 15)
    for row in range(4):
        others = np.delete(table, row, 0).sum(0)
        assert others[result.details["chosen"][row]] == others.min()
        assert result.columns["lmse"][row] == pytest.approx(
            table[row, result.details["chosen"][row]], rel=1e-5
        )
    thresholds = result.details["candidates"][3]
    item = view[2]
    given = GrayRetinex(*thresholds)(item.image[None], item.mask[None])
    truth = item.reflectance[None], item.shading.expand(1, 3, -1, -1)
    assert table[2, 3] == pytest.approx(lmse_score(*given, *truth, item.mask[None]).item(), rel=1e-3)


def test_moving_shadows_and_smooth_shading_need_lights_and_a_threshold(objects) -> None:
    scores = {
        name: result.score
        for name, result in evaluate("methods", objects(), methods=",".join(GRADIENT)).items()
    }
    best = scores.pop("W+RET")
    assert best < 0.05 * min(scores.values())


def test_fixed_baselines_are_the_constant_models(objects) -> None:
    view = objects()
    results = evaluate("methods", view, methods="BAS")
    models = {
        "BAS shading": constant_reflectance,
        "BAS reflectance": constant_shading,
        "square root": lambda image: (image.mean(1, keepdim=True).sqrt().expand_as(image),) * 2,
    }
    for name, result in evaluate("lmse", view, models).items():
        for column in ("lmse", "lmse_reflectance", "lmse_shading"):
            assert results[name].columns[column] == pytest.approx(result.columns[column], rel=1e-3)
    pair = [results["BAS"].columns["lmse"][row] for row in range(4)]
    fixed = np.array([results[name].columns["lmse"] for name in list(models)[:2]])
    assert all(value in fixed[:, row] for row, value in enumerate(pair))


def test_absolute_errors_are_integrated_on_request(objects) -> None:
    results = evaluate("methods", objects(), methods="BAS,GR-RET,W", l1=True)
    assert list(results) == sorted(results, key=lambda name: results[name].score)
    assert {*results} == {"BAS", "GR-RET", "W", *FIXED_BASELINES, "GR-RET L1", "W L1"}
    assert max(results["GR-RET L1"].details["residual"]) < 1e-3
    assert results["GR-RET L1"].details["chosen"] == results["GR-RET"].details["chosen"]
    assert results["GR-RET L1"].columns != results["GR-RET"].columns


def test_results_can_be_compared_with_models(objects) -> None:
    view = objects(6)
    method = evaluate("methods", view, methods="W")["W"]
    model = evaluate("lmse", view, {"flat": constant_shading})["flat"]
    assert compare(method, model).winner == "first"
    for item in view.items:
        object.__setattr__(item, "lights", None)
    again = evaluate("lmse", view, {"flat": constant_shading})["flat"]
    assert compare(method, again).difference == compare(method, model).difference


def test_ranks_leave_out_the_fixed_choices_and_p_1(objects) -> None:
    results = evaluate("methods", objects(), methods="BAS,GR-RET,W", l1=True)
    ranked = [name for name, result in results.items() if not np.isnan(result.columns["rank"]).all()]
    assert sorted(ranked) == ["BAS", "GR-RET", "W"]
    assert np.sum([results[name].columns["rank"] for name in ranked], 0).tolist() == [6.0] * 4
    rows = summary_rows(list(results.values()))
    assert rows[0][-1] == "mean rank"
    assert {row[0] for row in rows if not row[-1]} == {*FIXED_BASELINES, "GR-RET L1", "W L1"}
    pairs = {(one.first, one.second) for one in neighbour_comparisons(list(results.values()))}
    assert pairs == {*pairwise(ranked), ("GR-RET L1", "GR-RET"), ("W L1", "W")}


def test_windows_larger_than_an_image_are_undefined(objects) -> None:
    windows = evaluate("methods", objects(), methods="BAS")["BAS"].details["windows"]
    assert [name for name, value in windows.items() if value is None] == ["40", "80"]
    assert 0 < windows["10"] < 1


@pytest.mark.slow
def test_an_interrupted_run_resumes_to_the_same_results(objects, tmp_path) -> None:
    view, methods = objects(3), ["BAS", "GR-RET", "W"]
    whole = evaluate("methods", view, methods=",".join(methods))
    steps = FinishedSteps(tmp_path / "steps")
    evaluate("methods", view, methods=",".join(methods[:2]), steps=steps)
    count, again = steps.count(), FinishedSteps(tmp_path / "steps")
    assert evaluate("methods", view, methods=",".join(methods), steps=again) == whole
    assert again.reused == count > 0


def test_the_number_of_threads_is_restored(objects) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        evaluate("methods", objects(2), methods="BAS")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_row_without_light_is_left_out(objects) -> None:
    view = objects()
    dark = view.items[1]
    view.items[1] = replace(dark, shading=torch.zeros_like(dark.shading))
    results = add_ranks(evaluate("methods", view, methods="BAS,GR-RET"))
    assert {result.undefined for result in results.values()} == {1}
    assert np.isnan(results["BAS"].columns["rank"][1])
    assert np.isfinite(results["BAS"].columns["rank"][0])
    assert results["BAS"].details["windows"]["10"] > 0


def test_a_model_may_have_a_name_that_ends_like_p_1(objects) -> None:
    view = objects()
    named = {"net L1": constant_shading, "net": constant_reflectance}
    results = add_ranks({**evaluate("methods", view, methods="W"), **evaluate("lmse", view, named)})
    assert np.isfinite(results["net L1"].columns["rank"]).all()
    pairs = {frozenset((one.first, one.second)) for one in neighbour_comparisons(list(results.values()))}
    assert pairs == {frozenset(("W", "net L1")), frozenset(("net L1", "net"))}


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["RETINEX"], "`methods`: expected all, or some of BAS, GR-RET, .*, got `RETINEX`"),
        ([], "`methods`: expected all, or some of BAS, .*, got none"),
        (["W", "GR-RET"], "^W: needs images under several lights, and the data have none"),
    ],
)
def test_methods_that_cannot_run(objects, methods, message) -> None:
    view = objects()
    view.items = [replace(item, lights=None) for item in view.items]
    with refused(message):
        evaluate("methods", view, methods=",".join(methods))


def test_one_object_is_refused(objects) -> None:
    with refused("candidates are chosen on other objects: expected two or more, got one"):
        evaluate("methods", objects(1), methods="GR-RET")


def test_results_are_json_with_details(objects) -> None:
    result = evaluate("methods", objects(), methods="COL-RET")["COL-RET"]
    assert json.loads(result.to_json())["details"]["thresholds"] == ["brightness", "chroma"]
    assert METHODS[0] == "BAS"
