"""The errors of mean colours of regions in photographs."""

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
from candlelight.evaluation.views import RegionImage, Regions
from tests.refusals import refused


def score(model, view, **options):
    return evaluate("maw", view, {"model": model}, **options)["model"]


def test_true_colours_are_nearly_perfect_in_any_scale(painted, looked_up) -> None:
    assert isinstance(painted, Regions)
    images = [item.image for item in painted.items]
    colours = torch.cat([torch.full((1, 3), 0.5), painted.items[0].colours])
    for scale in (1.0, 0.6):
        truth = [scale * colours[item.regions].permute(2, 0, 1) for item in painted.items]
        result = score(looked_up(images, truth), painted)
        assert result.score < 1e-4  # 8 bits, and edges of regions in the resized image
        assert result.scores["maw_chromaticity"].value < 1.5


def test_errors_are_those_of_the_metrics(painted) -> None:
    result = score(constant_shading, painted, batch_size=2)
    for row, item in enumerate(painted.items[:3]):
        means = region_means(*resize_for_maw(item.image[None], item.regions[None]), len(item.colours))
        given = means.colours, item.colours[None], means.pixels
        assert result.columns["maw_intensity"][row] == pytest.approx(maw_intensity(*given).item())
        assert result.columns["maw_chromaticity"][row] == pytest.approx(maw_chromaticity(*given).item())
    assert (result.ids, result.groups) == (painted.ids, painted.groups)
    # The fourth image has no regions: it is left out of the mean.
    assert math.isnan(result.columns["maw_intensity"][3])
    assert (result.undefined, result.failed) == (1, ())
    assert result.score == pytest.approx(np.nanmean(result.columns["maw_intensity"]))


def test_values_outside_the_regions_do_not_count_in_large_images(painted, memory_view) -> None:
    regions = torch.zeros(480, 640, dtype=torch.int64)
    regions[100:300, 100:300] = 1
    item = RegionImage(torch.rand(3, 480, 640), regions, painted.items[0].colours[:1])
    view = memory_view([item], synthetic=False)

    def noise(image):
        reflectance = torch.rand_like(image)
        reflectance[:, :, 96:304, 96:304] = 0.5
        return reflectance, image

    for column, values in score(noise, view).columns.items():
        assert values == pytest.approx(score(constant_reflectance, view).columns[column], rel=1e-9)


def test_failed_predictions_count_as_the_worst(painted) -> None:
    def failing(image):
        output = image.clone()
        output[0, 0, -1, -1] = math.nan
        return output, torch.ones_like(image)

    results = evaluate("maw", painted, {"whole": constant_shading, "failing": failing}, batch_size=4)
    assert results["failing"].failed == ("row-0",)
    assert results["failing"].about.settings["filled_among"] == ["failing", "whole"]
    for column, values in results["failing"].columns.items():
        assert values[0] >= np.nanmax(results["whole"].columns[column])
        assert values[1:] == pytest.approx(results["whole"].columns[column][1:], nan_ok=True)


def test_the_mask_goes_to_the_model_and_the_regions_do_not(painted, memory_view) -> None:
    seen = []

    def masked(image, mask=None):
        seen.append(mask)
        return image, torch.ones_like(image)

    score(masked, painted)
    assert seen == [None]
    masks = [torch.rand(24, 32) > 0.1 for _ in painted.items]
    items = [replace(item, mask=mask) for item, mask in zip(painted.items, masks, strict=True)]
    score(masked, memory_view(items, synthetic=True))
    assert torch.equal(seen[1], torch.stack(masks))


def test_rows_without_any_region_are_refused(painted, memory_view) -> None:
    with refused(r"^`row`: expected rows with regions of one material, got none$"):
        score(constant_shading, memory_view(painted.items[3:], synthetic=False))
