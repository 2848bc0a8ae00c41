import json
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
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.views import DecomposedImage
from candlelight.loaders.errors import InputError


def score(model, view, **options):
    return evaluate("lmse", view, {"model": model}, **options)["model"]


@pytest.fixture
def view(decompositions):
    """Five images; in the first two the albedo is 0 in a corner, the fourth has no light."""
    rng = np.random.default_rng(0)
    albedo = rng.uniform(0.1, 1, (5, 3, 24, 30)).astype(np.float32)
    albedo[:2, :, :6, :9] = 0
    shading = rng.uniform(0.1, 1, (5, 3, 24, 30)).astype(np.float32)
    shading[3] = 0
    return decompositions(torch.from_numpy(albedo), torch.from_numpy(shading), groups=tuple("aabbc"))


class Oracle:
    """A model that returns the ground truth, which it looks up by the image."""

    def __init__(self, view) -> None:
        self.truth = stack_ground_truth([view[row] for row in range(len(view))])

    def __call__(self, image):
        rows = [int((self.truth.image == one).flatten(1).all(1).nonzero()[0]) for one in image]
        return 0.5 * self.truth.reflectance[rows], self.truth.shading[rows]


def test_ground_truth_scores_zero_in_any_scale(view) -> None:
    result = score(Oracle(view), view)
    assert result.score < 1e-6
    assert max(result.columns["si_mse_reflectance"]) < 1e-9
    assert min(result.columns["mse_reflectance"]) > 0.01
    assert max(result.columns["mse_shading"]) == 0


def test_unknown_channels_of_the_shading_are_left_out(view, decompositions) -> None:
    """A frame of a red ball, whose truth has the light in red alone, has the scores of a gray ball."""
    truth = Oracle(view).truth
    gray_light = truth.shading.mean(1, keepdim=True).expand_as(truth.shading).clone()
    known = torch.zeros_like(gray_light, dtype=torch.bool)
    known[:, 0] = True

    def scores(items, shading):
        given = stack_ground_truth(items)
        predicted = Decomposition(truth.reflectance, shading, torch.zeros(3, dtype=torch.bool))
        return decomposition_errors(predicted, given)

    plain = [replace(view[row], shading=gray_light[row]) for row in range(3)]
    red = [replace(item, shading_known=known[row]) for row, item in enumerate(plain)]
    right, wrong = gray_light[:3], torch.rand(3, 1, 24, 30).expand(3, 3, 24, 30)
    truth = stack_ground_truth(plain)
    for shading in (right, wrong):
        torch.testing.assert_close(scores(red, shading), scores(plain, shading))
    coloured = wrong.clone()
    coloured[:, 1:] = torch.nan  # of a model that says nothing of channels that nobody knows
    torch.testing.assert_close(scores(red, coloured), scores(plain, wrong))
    mixed = stack_ground_truth([plain[0], red[1]]).shading_known
    assert torch.equal(mixed, torch.stack([torch.ones_like(known[0]), known[1]]))


def test_errors_are_those_of_the_metrics(view) -> None:
    result = score(constant_shading, view, batch_size=2)
    truth = stack_ground_truth([view[row] for row in range(5)])
    reflectance, shading = constant_shading(truth.image)
    wanted = lmse_score(reflectance, shading, truth.reflectance, truth.shading, truth.mask)
    assert result.columns["lmse"] == pytest.approx(wanted.tolist(), nan_ok=True)
    assert result.columns["mse_reflectance"] == pytest.approx(
        mse(reflectance, truth.reflectance, truth.mask).tolist()
    )
    assert result.columns["si_mse_shading"] == pytest.approx(
        si_mse(shading, truth.shading, truth.mask).tolist()
    )
    assert result.ids == view.ids
    assert result.groups == tuple("aabbc")


def test_values_outside_the_mask_are_ignored(view) -> None:
    def spoilt(image):
        reflectance, shading = image.clone(), torch.ones_like(image)
        outside = (image == 0).all(1, keepdim=True).expand_as(image)
        reflectance[outside], shading[outside] = 7, torch.nan
        return reflectance, shading

    one, other = (score(model, view) for model in (constant_shading, spoilt))
    kept = [0, 1, 2, 4]  # the fourth is black, so all of it is spoilt
    for column, values in one.columns.items():
        assert [values[row] for row in kept] == [other.columns[column][row] for row in kept]


def test_row_without_light_is_left_out_of_the_mean_and_counted(view) -> None:
    result = score(constant_shading, view)
    values = result.columns["lmse"]
    assert [math.isnan(value) for value in values] == [False, False, False, True, False]
    assert result.score == pytest.approx(np.nanmean(values))
    assert result.undefined == 1
    assert not result.failed


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("branch", [0, 1])
def test_failed_prediction_never_improves_the_mean(view, bad: float, branch: int) -> None:
    def failing(image):
        output = [image.clone(), torch.ones_like(image)]
        output[branch][0, 0, -1, -1] = bad
        return output

    models = {"whole": constant_shading, "failing": failing}
    results = evaluate("lmse", view, models, batch_size=5)
    whole, result = results["whole"], results["failing"]
    assert result.failed == (view.ids[0],)
    assert result.columns["lmse"][0] == result.columns["lmse_shading"][0] == 1
    truth = view[0]
    of_zeros = mse(torch.zeros(1, 3, 24, 30), truth.reflectance[None], truth.mask[None]).item()
    worst = np.nanmax(whole.columns["mse_reflectance"])
    assert result.columns["mse_reflectance"][0] == pytest.approx(max(of_zeros, worst))
    for column in result.columns:
        assert result.scores[column].value >= whole.scores[column].value
    assert result.mean_of_rest["lmse"] == pytest.approx(np.nanmean(whole.columns["lmse"][1:]))


def test_gray_shading_is_repeated_and_gray_truth_compared_with_the_mean(view, memory_view) -> None:
    gray = score(lambda image: (image, image[:, :1]), view)
    assert gray.to_json() == score(lambda image: (image, image[:, :1].expand_as(image)), view).to_json()
    items = [
        DecomposedImage(item.image, item.reflectance, item.shading[:1], item.mask) for item in view.items[:1]
    ]
    one_channel = memory_view(items, explains="image")
    result = score(lambda image: (image, items[0].shading[None].expand_as(image)), one_channel)
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


def test_model_with_a_mask_parameter_receives_the_mask(view) -> None:
    seen = []

    def masked(image, mask):
        seen.append(mask)
        return image, torch.ones_like(image)

    assert score(masked, view).score == score(constant_shading, view).score
    assert torch.equal(torch.cat(seen), stack_ground_truth(view.items).mask)


def test_model_with_srgb_colour_space_receives_srgb(view) -> None:
    class Display:
        colour_space = "srgb"

        def __call__(self, image):
            self.brightest = image.max()
            return image, torch.ones_like(image)

    model = Display()
    score(model, view)
    brightest = max(float(item.image.max()) for item in view.items)
    assert float(model.brightest) == pytest.approx(1.055 * brightest ** (1 / 2.4) - 0.055, abs=1e-4)


def test_predictions_score_like_their_model(view, tmp_path) -> None:
    model = score(constant_shading, view)
    for name, item in zip(view.ids, view.items, strict=True):
        reflectance, shading = constant_shading(item.image[None])
        np.savez(tmp_path / f"{name}.npz", reflectance=reflectance[0], shading=shading[0])
    result = score(open_predictions(tmp_path), view)
    one, other = (json.loads(one.to_json()) for one in (model, result))
    assert one["about"].pop("model") != other["about"].pop("model")
    assert one == other


def test_missing_prediction_is_an_error_or_a_failure(view, tmp_path) -> None:
    for name, item in list(zip(view.ids, view.items, strict=True))[1:]:
        np.savez(tmp_path / f"{name}.npz", reflectance=item.reflectance.numpy(), shading=item.shading.numpy())
    predictions = open_predictions(tmp_path)
    with pytest.raises(InputError, match="1 is missing: `row-0`"):
        score(predictions, view)
    result = score(predictions, view, missing="fail")
    assert result.failed == ("row-0",)
    assert result.columns["lmse"][0] == 1
    np.savez(tmp_path / "row-9.npz", reflectance=np.ones((3, 2, 2)), shading=np.ones((3, 2, 2)))
    with pytest.raises(InputError, match="1 of 5 results belong to no image of the data: `row-9`"):
        score(open_predictions(tmp_path), view, missing="fail")


def test_model_that_works_in_place_does_not_affect_others(view) -> None:
    def in_place(image, mask):
        mask[:] = False
        return image.zero_(), torch.ones_like(image)

    alone = score(constant_shading, view)
    after = evaluate("lmse", view, {"in place": in_place, "model": constant_shading})["model"]
    assert after.to_json() == alone.to_json()


def test_exception_of_a_model_is_one_line_with_its_place(view) -> None:
    def broken(image):
        raise KeyError("gain")

    with pytest.raises(
        InputError, match=r"model `broken` raised KeyError: 'gain' \(test_score_intrinsic.py, line"
    ):
        score(broken, view)


def test_infinite_error_of_a_finite_prediction_is_a_failure(view) -> None:
    result = score(lambda image: (1e30 * image, image), view)
    assert len(result.failed) == 4  # the fourth is black, whatever it is multiplied by
    assert max(result.columns["mse_reflectance"]) < 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mask": torch.ones(24, 30)}, "mask"),
        ({"mask": torch.ones(23, 30, dtype=torch.bool)}, "mask"),
        ({"reflectance": torch.ones(3, 24, 30, dtype=torch.uint8)}, "`reflectance` must be float32"),
        ({"shading": torch.ones(2, 24, 30)}, "`shading` must have 1 channel, or 3"),
    ],
)
def test_views_of_the_caller_are_checked(view, change, message: str) -> None:
    item = replace(view.items[0])
    for name, value in change.items():
        object.__setattr__(item, name, value)
    view.items[0] = item
    with pytest.raises(InputError, match=message):
        score(constant_shading, view)


def test_network_runs_in_evaluation_mode_and_its_mode_is_restored(view) -> None:
    class Dropping(torch.nn.Module):
        def forward(self, image):
            assert not torch.is_grad_enabled()
            return torch.nn.functional.dropout(image, training=self.training), torch.ones_like(image)

    model = Dropping()
    assert score(model, view).columns == score(constant_shading, view).columns
    assert model.training


def test_result_records_its_provenance(view) -> None:
    about = score(constant_shading, view).about
    assert about.metric == "lmse"
    assert about.better == "lower"
    assert about.model == {
        "name": "model",
        "source": "callable",
        "version": "candlelight.evaluation.models.retinex:constant_shading",
    }
    assert about.data["rows"] == 5
    view.items[0].image[0, 0, 0] = 0.25
    assert score(constant_shading, view).about.data["sha256"] != about.data["sha256"]


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ({}, {}, "expected at least one model, got none"),
        ({"a": lambda image: image}, {}, r"expected reflectance \[5, 3, 24, 30\]"),
        ({"a": constant_shading}, {"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
    ],
    ids=["none", "one output", "batch"],
)
def test_bad_arguments(view, models, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate("lmse", view, models, **options)


def test_no_rows_and_small_images_are_refused(decompositions) -> None:
    ones = torch.ones(1, 3, 19, 30)
    with pytest.raises(InputError, match="at least one window of 20x20 pixels, got 19x30"):
        score(constant_shading, decompositions(ones, ones))
    with pytest.raises(InputError, match="no rows to read"):
        score(constant_shading, decompositions(ones[:0], ones[:0]))
