"""The methods of 2009 against a restatement of their authors' program that shares no code with ours."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.trials.grosse import Capture, chosen, decompose, local_error, score
from candlelight.evaluation import evaluate
from candlelight.evaluation.models import ColourRetinex, GrayRetinex, Weiss
from candlelight.evaluation.views import DecomposedImage
from tests.evaluation.benchmark.conftest import painted_objects

WHITE = 257.0  # of the authors' images


@pytest.fixture(scope="module")
def dark_light() -> torch.Tensor:
    """Light that leaves black pixels, pixels below 3 of 257, and pixels with one such channel."""
    light = torch.ones(3, 30, 34)
    light[:, 12:20, 14:24] = 0.01
    light[:, 22:26, 4:8] = 0.0
    light[1, 4:10, 20:30] = 0.02
    return light


@pytest.fixture
def dark_objects(dark_light):
    """Make a view of objects whose image, but not every lit image, has dark pixels."""
    view = painted_objects()
    for row, item in enumerate(view.items):
        lights = torch.where(torch.arange(5)[:, None, None, None] < 3, item.lights * dark_light, item.lights)
        view.items[row] = replace(item, image=item.image * dark_light, lights=lights)
    return view


def captured(item: DecomposedImage) -> Capture:
    """Give the arrays of an object the form and the range of the authors' program."""
    images = [item.image, item.reflectance, *item.lights]
    diffuse, reflectance, *lights = (WHITE * image.double().permute(1, 2, 0).numpy() for image in images)
    shading = WHITE * item.shading[0].double().numpy()
    return Capture(diffuse, reflectance, shading, item.mask.numpy(), lights)


def test_scores_of_all_candidates_equal_the_restatement(dark_objects) -> None:
    results = evaluate("methods", dark_objects, methods=",".join(["BAS", "GR-RET", "COL-RET", "W", "W+RET"]))
    results.pop("square root")
    for result in results.values():
        for row, item in enumerate(dark_objects.items):
            method, candidate, absolute = chosen(result.about.model["name"], result.details, row)
            wanted = score(captured(item), method, candidate, absolute)
            assert result.columns["lmse"][row] == pytest.approx(wanted, rel=1e-6), (method, row)
            if method != "BAS":
                for number, other in enumerate(result.details["candidates"]):
                    found = result.details["lmse_of_candidates"][row][number]
                    assert found == pytest.approx(score(captured(item), method, other), rel=1e-6)


@pytest.mark.parametrize(
    ("method", "model", "candidate"),
    [
        ("W", Weiss(), []),
        ("W+RET", Weiss(0.3), [0.3]),
        ("GR-RET", GrayRetinex(0.3), [0.3]),
        ("COL-RET", ColourRetinex(0.5, 0.1), [0.5, 0.1]),
    ],
)
def test_models_equal_the_restatement(dark_objects, method: str, model, candidate: list[float]) -> None:
    columns = evaluate("lmse", dark_objects, {"model": model})["model"].columns
    for row, item in enumerate(dark_objects.items):
        given = captured(item)
        shading, reflectance = decompose(given, method, candidate)
        errors = [
            local_error(given.reflectance.mean(2), reflectance, given.mask),
            local_error(given.shading, shading, given.mask),
        ]
        found = columns["lmse_reflectance"][row], columns["lmse_shading"][row]
        assert found == pytest.approx(errors, rel=1e-5)


def test_weiss_keeps_the_black_of_the_image(dark_objects) -> None:
    item = dark_objects.items[0]
    reflectance, shading = Weiss()(item.image[None], item.lights[None], item.mask[None])
    torch.testing.assert_close((reflectance * shading).mean(1)[0], item.image.mean(0) * item.mask)
    assert (reflectance[0][:, item.mask] > 0).all()


def test_absolute_errors_come_close_to_the_reweighted_squares_of_the_authors(dark_objects) -> None:
    results = evaluate("methods", dark_objects, methods=",".join(["COL-RET", "W"]), l1=True)
    for name in ("COL-RET L1", "W L1"):
        for row, item in enumerate(dark_objects.items):
            wanted = score(captured(item), *chosen(name, results[name].details, row))
            squared = results[name.removesuffix(" L1")].columns["lmse"][row]
            assert abs(results[name].columns["lmse"][row] - wanted) < 0.1 * max(wanted, squared), (name, row)


def test_regions_without_a_common_edge_are_solved_one_by_one() -> None:
    mask = np.array([[True, True, False, True]])
    given = Capture(np.full((1, 4, 3), 9.0), np.ones((1, 4, 3)), np.ones((1, 4)), mask, [])
    shading, reflectance = decompose(given, "GR-RET", [0.1])
    assert reflectance.tolist() == [[1, 1, 0, 1]]
    assert shading.tolist() == [[9, 9, 0, 9]]
