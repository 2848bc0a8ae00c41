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
from tests.evaluation.benchmark.conftest import painted_objects
from tests.refusals import refused

GRADIENT = ("BAS", *GRADIENT_METHODS)


@pytest.fixture(scope="module")
def view():
    return painted_objects()


@pytest.fixture(scope="module")
def results(view):
    """Results of all methods with squared and with absolute errors; the number of threads is restored."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = evaluate("methods", view, methods=",".join(GRADIENT), l1=True)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    return found


@pytest.mark.parametrize(
    ("name", "model"),
    [("W", Weiss), ("W+RET", Weiss), ("GR-RET", GrayRetinex), ("COL-RET", ColourRetinex)],
)
def test_scores_are_those_of_the_models_of_the_chosen_candidates(view, results, name, model) -> None:
    details = results[name].details
    for row in (0, 2):
        chosen = model(*details["candidates"][details["chosen"][row]])
        one = type(view)([view[row]], [view.groups[row]], "one", explains="image")
        for column, wanted in evaluate("lmse", one, {"model": chosen})["model"].columns.items():
            found = results[name].columns[column][row]
            assert found == pytest.approx(wanted[0], rel=1e-3, abs=1e-7), column


def test_every_candidate_is_scored_and_the_others_choose(view, results) -> None:
    result = results["GR-RET"]
    table, chosen = np.array(result.details["lmse_of_candidates"]), result.details["chosen"]
    assert table.shape == (3, len(result.details["candidates"])) == (3, 15)
    for row in range(3):
        others = np.delete(table, row, 0).sum(0)
        assert others[chosen[row]] == others.min()
        assert result.columns["lmse"][row] == pytest.approx(table[row, chosen[row]], rel=1e-5)
    item = view[2]
    given = GrayRetinex(*result.details["candidates"][3])(item.image[None], item.mask[None])
    truth = item.reflectance[None], item.shading.expand(1, 3, -1, -1)
    assert table[2, 3] == pytest.approx(lmse_score(*given, *truth, item.mask[None]).item(), rel=1e-3)


def test_moving_shadows_and_smooth_shading_need_lights_and_a_threshold(results) -> None:
    others = [results[name].score for name in GRADIENT if name != "W+RET"]
    assert results["W+RET"].score < 0.05 * min(others)


def test_fixed_baselines_are_the_constant_models(view, results) -> None:
    models = {
        "BAS shading": constant_reflectance,
        "BAS reflectance": constant_shading,
        "square root": lambda image: (image.mean(1, keepdim=True).sqrt().expand_as(image),) * 2,
    }
    for name, result in evaluate("lmse", view, models).items():
        for column in ("lmse", "lmse_reflectance", "lmse_shading"):
            assert results[name].columns[column] == pytest.approx(result.columns[column], rel=1e-3)
    fixed = np.array([results[name].columns["lmse"] for name in list(models)[:2]])
    assert all(value in fixed[:, row] for row, value in enumerate(results["BAS"].columns["lmse"]))


def test_absolute_errors_are_integrated_on_request(results) -> None:
    assert list(results) == sorted(results, key=lambda name: results[name].score)
    assert {*results} == {*GRADIENT, *FIXED_BASELINES, *(f"{name} L1" for name in GRADIENT_METHODS)}
    absolute, squared = results["GR-RET L1"], results["GR-RET"]
    assert max(absolute.details["residual"]) < 1e-3
    assert absolute.details["chosen"] == squared.details["chosen"]
    assert absolute.columns != squared.columns


def test_ranks_leave_out_the_fixed_choices_and_p_1(results) -> None:
    ranked = [name for name, result in results.items() if not np.isnan(result.columns["rank"]).all()]
    assert sorted(ranked) == sorted(GRADIENT)
    assert np.sum([results[name].columns["rank"] for name in ranked], 0).tolist() == [15.0] * 3
    rows = summary_rows(list(results.values()))
    assert rows[0][-1] == "mean rank"
    assert {row[0] for row in rows if not row[-1]} == {*results} - {*GRADIENT}
    pairs = {(one.first, one.second) for one in neighbour_comparisons(list(results.values()))}
    assert pairs == {*pairwise(ranked), *((f"{name} L1", name) for name in GRADIENT_METHODS)}


def test_details_of_windows_and_thresholds_are_json(results) -> None:
    windows = json.loads(results["BAS"].to_json())["details"]["windows"]
    assert [name for name, value in windows.items() if value is None] == ["40", "80"]  # larger than an image
    assert 0 < windows["10"] < 1
    assert json.loads(results["COL-RET"].to_json())["details"]["thresholds"] == ["brightness", "chroma"]
    assert METHODS[0] == "BAS"


def test_results_can_be_compared_with_models() -> None:
    view = painted_objects(6)
    method = evaluate("methods", view, methods="W")["W"]
    model = evaluate("lmse", view, {"flat": constant_shading})["flat"]
    assert compare(method, model).winner == "first"
    for item in view.items:
        object.__setattr__(item, "lights", None)
    again = evaluate("lmse", view, {"flat": constant_shading})["flat"]
    assert compare(method, again).difference == compare(method, model).difference


def test_an_interrupted_run_resumes_to_the_same_results(tmp_path) -> None:
    view, methods = painted_objects(2), ["BAS", "W"]
    whole = evaluate("methods", view, methods=",".join(methods))
    steps = FinishedSteps(tmp_path / "steps")
    evaluate("methods", view, methods=methods[0], steps=steps)
    count, again = steps.count(), FinishedSteps(tmp_path / "steps")
    assert evaluate("methods", view, methods=",".join(methods), steps=again) == whole
    assert again.reused == count > 0


def test_a_row_without_light_is_left_out() -> None:
    view = painted_objects()
    dark = view.items[1]
    view.items[1] = replace(dark, shading=torch.zeros_like(dark.shading))
    results = add_ranks(evaluate("methods", view, methods="BAS"))
    assert {result.undefined for result in results.values()} == {1}
    assert np.isnan(results["BAS"].columns["rank"][1])
    assert np.isfinite(results["BAS"].columns["rank"][0])
    assert results["BAS"].details["windows"]["10"] > 0


def test_a_model_may_have_a_name_that_ends_like_p_1(view, results) -> None:
    models = evaluate("lmse", view, {"net L1": constant_shading, "net": constant_reflectance})
    fixed = {name: results[name] for name in FIXED_BASELINES}
    results = add_ranks({"W": results["W"], **fixed, **models})
    assert np.isfinite(results["net L1"].columns["rank"]).all()
    pairs = {frozenset((one.first, one.second)) for one in neighbour_comparisons(list(results.values()))}
    assert pairs == {frozenset(("W", "net L1")), frozenset(("net L1", "net"))}


@pytest.mark.parametrize(
    ("count", "methods", "message"),
    [
        (2, "RETINEX", "`methods`: expected all, or some of BAS, GR-RET, .*, got `RETINEX`"),
        (2, "", "`methods`: expected all, or some of BAS, .*, got none"),
        (2, "W,GR-RET", "^W: needs images under several lights, and the data have none"),
        (1, "GR-RET", "candidates are chosen on other objects: expected two or more, got one"),
    ],
)
def test_methods_that_cannot_run(count, methods, message) -> None:
    view = painted_objects(count)
    view.items = [replace(item, lights=None) for item in view.items]
    with refused(message):
        evaluate("methods", view, methods=methods)
