import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.material_albedo import (
    maw_chromaticity,
    maw_intensity,
    region_means,
    resize_for_maw,
)
from candlelight.evaluation.models.retinex import constant_reflectance, constant_shading
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import RegionImage, Regions
from candlelight.loaders.errors import InputError

PALETTE = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.4, 0.4, 0.4]])


def score(model, view, **options):
    return evaluate("maw", view, {"model": model}, **options)["model"]


@pytest.fixture
def view(memory_view):
    """Four images of noise; the first has three regions, the fourth none."""
    draws = torch.Generator().manual_seed(0)
    items = []
    for row in range(4):
        regions = torch.zeros(24, 32, dtype=torch.int64)
        count = (3, 2, 1, 0)[row]
        for number in range(1, count + 1):
            regions[2 : 22 - number, 8 * number : 8 * number + 6] = number
        items.append(RegionImage(torch.rand(3, 24, 32, generator=draws), regions, PALETTE[:count]))
    return memory_view(items, groups=tuple("aabb"), synthetic=False)


def painted(item: RegionImage) -> torch.Tensor:
    """Paint the true colours over gray."""
    padded = torch.cat([torch.full((1, 3), 0.5), PALETTE])
    return padded[item.regions].permute(2, 0, 1)


class Painter:
    """A model that returns the true colours, which it looks up by the image."""

    def __init__(self, view, change=lambda one: one) -> None:
        self.items, self.change = view.items, change

    def __call__(self, image):
        rows = [next(item for item in self.items if torch.equal(item.image, one)) for one in image]
        reflectance = torch.stack([self.change(painted(item)) for item in rows])
        return reflectance, torch.ones_like(image)


def test_views_follow_the_protocol(view) -> None:
    assert isinstance(view, Regions)


def test_true_colours_are_nearly_perfect_in_any_scale(view) -> None:
    for scale in (1.0, 0.6):
        result = score(Painter(view, lambda one, scale=scale: scale * one), view)
        assert result.score < 1e-4  # 8 bits, and edges of regions in the resized image
        assert result.scores["maw_chromaticity"].value < 1.5


def test_errors_are_those_of_the_metrics(view) -> None:
    result = score(constant_shading, view, batch_size=2)
    for row, item in enumerate(view.items[:3]):
        means = region_means(*resize_for_maw(item.image[None], item.regions[None]), len(item.colours))
        given = means.colours, item.colours[None], means.pixels
        assert result.columns["maw_intensity"][row] == pytest.approx(maw_intensity(*given).item())
        assert result.columns["maw_chromaticity"][row] == pytest.approx(maw_chromaticity(*given).item())
    assert (result.ids, result.groups) == (view.ids, view.groups)


def test_rows_without_regions_are_left_out_and_counted(view) -> None:
    result = score(constant_reflectance, view)
    assert math.isnan(result.columns["maw_intensity"][3])
    assert (result.undefined, result.failed) == (1, ())
    assert result.score == pytest.approx(np.nanmean(result.columns["maw_intensity"]))


def test_values_outside_the_regions_do_not_count_in_large_images(memory_view) -> None:
    regions = torch.zeros(480, 640, dtype=torch.int64)
    regions[100:300, 100:300] = 1
    item = RegionImage(torch.rand(3, 480, 640), regions, PALETTE[:1])
    view = memory_view([item], synthetic=False)

    def noise(image):
        reflectance = torch.rand_like(image)
        reflectance[:, :, 96:304, 96:304] = 0.5
        return reflectance, image

    for column, values in score(noise, view).columns.items():
        assert values == pytest.approx(score(constant_reflectance, view).columns[column], rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_failed_predictions_count_as_the_worst(view, bad) -> None:
    def failing(image):
        output = image.clone()
        output[0, 0, -1, -1] = bad
        return output, torch.ones_like(image)

    results = evaluate("maw", view, {"whole": constant_shading, "failing": failing}, batch_size=4)
    assert results["failing"].failed == (view.ids[0],)
    assert results["failing"].about.settings["filled_among"] == ["failing", "whole"]
    for column, values in results["failing"].columns.items():
        worst = np.nanmax(results["whole"].columns[column])
        assert values[0] >= worst
        assert values[1:] == pytest.approx(results["whole"].columns[column][1:], nan_ok=True)


def test_the_mask_goes_to_the_model_and_the_regions_do_not(view, memory_view) -> None:
    seen = []

    def masked(image, mask=None):
        seen.append(mask)
        return image, torch.ones_like(image)

    score(masked, view)
    assert seen == [None]
    masks = [torch.rand(24, 32) > 0.1 for _ in view.items]
    items = [replace(item, mask=mask) for item, mask in zip(view.items, masks, strict=True)]
    score(masked, memory_view(items, synthetic=True))
    assert torch.equal(seen[1], torch.stack(masks))


def test_predictions_and_finished_steps_give_the_same(view, tmp_path) -> None:
    (tmp_path / "files").mkdir()
    for name, item in zip(view.ids, view.items, strict=True):
        np.savez(tmp_path / "files" / f"{name}.npz", reflectance=item.image, shading=torch.ones(3, 24, 32))
    predictions = open_predictions(tmp_path / "files")
    steps = [FinishedSteps(tmp_path / "steps") for _ in range(2)]
    found = [score(predictions, view, steps=one) for one in steps]
    for column, values in score(constant_shading, view).columns.items():
        assert found[0].columns[column] == pytest.approx(values, nan_ok=True)
    assert found[0].to_json() == found[1].to_json()
    assert [(one.computed, one.reused) for one in steps] == [(1, 0), (0, 1)]
    (tmp_path / "files" / "row-1.npz").unlink()
    failing = score(open_predictions(tmp_path / "files"), view, missing="fail")
    assert failing.failed == ("row-1",)


def test_results_record_the_size_and_whether_the_images_are_rendered(view, memory_view) -> None:
    about = score(constant_shading, view).about
    assert (about.metric, about.better) == ("maw", "lower")
    assert about.settings == {
        "longest": 1024,
        "missing": "error",
        "size": [240, 320],
        "synthetic": False,
    }
    rendered = memory_view(view.items, synthetic=True)
    assert score(constant_shading, rendered).about.settings["synthetic"] is True


def test_regions_without_colours_are_refused(view, memory_view) -> None:
    items = [RegionImage(item.image, item.regions) for item in view.items]
    with pytest.raises(
        InputError, match="the regions of the data have no true colours; expected maw:PATH or frames"
    ):
        score(constant_shading, memory_view(items, synthetic=False))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"regions": torch.ones(24, 32)}, "`regions` must be int64, >= 0 and not empty, got torch.float32"),
        ({"regions": torch.full((24, 32), -1)}, "`regions` must be int64, >= 0"),
        ({"regions": torch.ones(24, 31, dtype=torch.int64)}, r"expected `image` \[3, height, width\]"),
        ({"colours": PALETTE[:2]}, "`colours` must have a row for each region, got 2 for region 3"),
        ({"colours": PALETTE[:, :2]}, r"expected `colours` \[regions, 3\], got \[3, 2\]"),
        ({"image": torch.ones(3, 24, 32, dtype=torch.uint8)}, "`image` must be float32"),
        ({"mask": torch.ones(24, 32)}, "`mask` must be boolean"),
        ({"mask": torch.ones(23, 32, dtype=torch.bool)}, "`mask`"),
    ],
)
def test_views_of_the_caller_are_checked(view, change, message) -> None:
    for name, value in change.items():
        object.__setattr__(view.items[0], name, value)
    with pytest.raises(InputError, match=message):
        score(constant_shading, view)


def test_rows_without_any_region_are_refused(view, memory_view) -> None:
    with pytest.raises(InputError, match=r"^`row`: expected rows with regions of one material, got none$"):
        score(constant_shading, memory_view(view.items[3:], synthetic=False))


def test_no_models_and_no_rows_are_refused(view, memory_view) -> None:
    with pytest.raises(InputError, match="expected at least one model, got none"):
        evaluate("maw", view, {})
    with pytest.raises(InputError, match="no rows to read"):
        score(constant_shading, memory_view([], synthetic=False))
