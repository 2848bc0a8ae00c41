"""The errors of decompositions: those of the metrics, of rows without light, and of failed predictions."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.ground_truth import stack_ground_truth
from candlelight.evaluation.intrinsic.image_errors import mse, si_mse
from candlelight.evaluation.intrinsic.intrinsic_records import decomposition_errors
from candlelight.evaluation.intrinsic.lmse import lmse_score
from candlelight.evaluation.models.retinex import constant_shading
from candlelight.evaluation.run.named_models import Decomposition
from candlelight.evaluation.views import DecomposedImage
from tests.refusals import refused


def score(model, view, **options):
    return evaluate("lmse", view, {"model": model}, **options)["model"]


@pytest.fixture
def truth(decomposed):
    return stack_ground_truth(decomposed.items)


def test_ground_truth_scores_zero_in_any_scale(decomposed, truth, looked_up) -> None:
    result = score(looked_up(truth.image, 0.5 * truth.reflectance, truth.shading), decomposed)
    assert result.score < 1e-6
    assert max(result.columns["si_mse_reflectance"]) < 1e-9
    assert min(result.columns["mse_reflectance"]) > 0.01
    assert max(result.columns["mse_shading"]) == 0


def test_unknown_channels_of_the_shading_are_left_out(decomposed, truth) -> None:
    """A frame of a red ball, whose truth has the light in red alone, has the scores of a gray ball."""
    gray_light = truth.shading.mean(1, keepdim=True).expand_as(truth.shading).clone()
    known = torch.zeros_like(gray_light, dtype=torch.bool)
    known[:, 0] = True
    plain = [replace(item, shading=gray_light[row]) for row, item in enumerate(decomposed.items[:3])]
    red = [replace(item, shading_known=known[row]) for row, item in enumerate(plain)]
    reflectance = stack_ground_truth(plain).reflectance

    def scores(items, shading):
        predicted = Decomposition(reflectance, shading, torch.zeros(3, dtype=torch.bool))
        return decomposition_errors(predicted, stack_ground_truth(items))

    right, wrong = gray_light[:3], torch.rand(3, 1, 24, 30).expand(3, 3, 24, 30)
    for shading in (right, wrong):
        torch.testing.assert_close(scores(red, shading), scores(plain, shading))
    coloured = wrong.clone()
    coloured[:, 1:] = torch.nan  # of a model that says nothing of channels that nobody knows
    torch.testing.assert_close(scores(red, coloured), scores(plain, wrong))
    mixed = stack_ground_truth([plain[0], red[1]]).shading_known
    assert torch.equal(mixed, torch.stack([torch.ones_like(known[0]), known[1]]))


def test_errors_are_those_of_the_metrics(decomposed, truth) -> None:
    result = score(constant_shading, decomposed, batch_size=2)
    reflectance, shading = constant_shading(truth.image)
    for column, wanted in {
        "lmse": lmse_score(reflectance, shading, truth.reflectance, truth.shading, truth.mask),
        "mse_reflectance": mse(reflectance, truth.reflectance, truth.mask),
        "si_mse_shading": si_mse(shading, truth.shading, truth.mask),
    }.items():
        assert result.columns[column] == pytest.approx(wanted.tolist(), nan_ok=True)
    assert (result.ids, result.groups) == (decomposed.ids, tuple("aabbc"))
    # The fourth image has no light: it is left out of the mean.
    assert math.isnan(result.columns["lmse"][3])
    assert (result.undefined, result.failed) == (1, ())
    assert result.score == pytest.approx(np.nanmean(result.columns["lmse"]))


def test_values_outside_the_mask_are_ignored(decomposed) -> None:
    def spoilt(image):
        reflectance, shading = image.clone(), torch.ones_like(image)
        outside = (image == 0).all(1, keepdim=True).expand_as(image)
        reflectance[outside], shading[outside] = 7, torch.nan
        return reflectance, shading

    one, other = (score(model, decomposed) for model in (constant_shading, spoilt))
    kept = [0, 1, 2, 4]  # the fourth is black, so all of it is spoilt
    for column, values in one.columns.items():
        assert [values[row] for row in kept] == [other.columns[column][row] for row in kept]


@pytest.mark.parametrize("branch", [0, 1])
def test_failed_prediction_never_improves_the_mean(decomposed, branch: int) -> None:
    def failing(image):
        output = [image.clone(), torch.ones_like(image)]
        output[branch][0, 0, -1, -1] = math.nan
        return output

    models = {"whole": constant_shading, "failing": failing}
    results = evaluate("lmse", decomposed, models, batch_size=5)
    whole, result = results["whole"], results["failing"]
    assert result.failed == ("row-0",)
    assert result.columns["lmse"][0] == result.columns["lmse_shading"][0] == 1
    truth = decomposed[0]
    of_zeros = mse(torch.zeros(1, 3, 24, 30), truth.reflectance[None], truth.mask[None]).item()
    worst = np.nanmax(whole.columns["mse_reflectance"])
    assert result.columns["mse_reflectance"][0] == pytest.approx(max(of_zeros, worst))
    for column in result.columns:
        assert result.scores[column].value >= whole.scores[column].value
    assert result.mean_of_rest["lmse"] == pytest.approx(np.nanmean(whole.columns["lmse"][1:]))


def test_gray_shading_is_repeated_and_gray_truth_compared_with_the_mean(decomposed, memory_view) -> None:
    gray = score(lambda image: (image, image[:, :1]), decomposed)
    assert gray.to_json() == score(lambda image: (image, image[:, :1].expand_as(image)), decomposed).to_json()
    item = decomposed.items[0]
    one = DecomposedImage(item.image, item.reflectance, item.shading[:1], item.mask)
    result = score(lambda image: (image, one.shading[None]), memory_view([one], explains="image"))
    assert result.columns["mse_shading"] == pytest.approx((0,), abs=1e-12)


def test_images_of_several_sizes_are_scored_alone_and_together_alike(decompositions, memory_view) -> None:
    views = [
        decompositions(torch.rand(2, 3, *size), torch.rand(2, 3, *size) + 0.1)
        for size in ((24, 30), (30, 24))
    ]
    mixed = memory_view([item for pair in zip(*views, strict=True) for item in pair], explains="image")
    together = score(constant_shading, mixed).columns["lmse"]
    alone = [score(constant_shading, view).columns["lmse"] for view in views]
    assert together == pytest.approx([value for pair in zip(*alone, strict=True) for value in pair])


def test_models_receive_the_mask_and_their_colour_space_and_a_copy_of_each(decomposed, truth) -> None:
    seen = []

    class Display:
        colour_space = "srgb"

        def __call__(self, image, mask):
            seen.append((image.clone(), mask.clone()))
            mask[:] = False
            return image.zero_(), torch.ones_like(image)

    alone = score(constant_shading, decomposed)
    after = evaluate("lmse", decomposed, {"in place": Display(), "model": constant_shading}, batch_size=5)
    assert after["model"].to_json() == alone.to_json()
    [(image, mask)] = seen
    assert torch.equal(mask, truth.mask)
    assert image.max() == pytest.approx(1.055 * float(truth.image.max()) ** (1 / 2.4) - 0.055, abs=1e-4)


def test_exception_of_a_model_is_one_line_with_its_place(decomposed) -> None:
    def broken(image):
        raise KeyError("gain")

    with refused(r"model `broken` raised KeyError: 'gain' \(test_score_intrinsic.py, line"):
        score(broken, decomposed)


def test_infinite_error_of_a_finite_prediction_is_a_failure(decomposed) -> None:
    result = score(lambda image: (1e30 * image, image), decomposed)
    assert len(result.failed) == 4  # the fourth is black, whatever it is multiplied by
    assert max(result.columns["mse_reflectance"]) < 10


def test_small_images_and_batches_are_refused(decompositions, decomposed) -> None:
    ones = torch.ones(1, 3, 19, 30)
    with refused("at least one window of 20x20 pixels, got 19x30"):
        score(constant_shading, decompositions(ones, ones))
    with refused("`batch_size` must be at least 1, got 0"):
        score(constant_shading, decomposed, batch_size=0)
