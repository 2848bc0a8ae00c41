"""The constancy of materials under several lights."""

import math

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.constancy import chroma_drift, chroma_retention, material_variation
from candlelight.evaluation.intrinsic.material_albedo import region_means
from candlelight.evaluation.models.retinex import constant_shading
from candlelight.evaluation.views import RegionImage
from tests.refusals import refused

COLUMNS = ("c_mat", "c_mat_unscaled", "chroma_drift", "chroma_loss")
LIGHTS = 3


def score(view, model=constant_shading, **options):
    return evaluate("constancy", view, {"image": model}, **options)["image"]


def test_true_reflectance_is_perfect_up_to_a_scale_per_light(lit, looked_up) -> None:
    colours = torch.cat([torch.full((1, 3), 0.5), lit.items[0].colours])
    truth = [2.0**row * colours[item.regions].permute(2, 0, 1) for row, item in enumerate(lit.items)]
    result = score(lit, looked_up([item.image for item in lit.items], truth))
    for column in ("c_mat", "chroma_drift", "chroma_loss"):
        assert max(result.columns[column]) < 1e-6
    # Scales 1, 2, 4 and 8, 16, 32: their deviation over their mean.
    expected = np.std([1, 2, 4]) / np.mean([1, 2, 4])
    assert result.columns["c_mat_unscaled"] == pytest.approx((expected, expected))
    assert (result.ids, result.groups) == (("kitchen", "office"), ("kitchen", "office"))


def test_scores_are_those_of_the_metrics_beside_controls(lit) -> None:
    results = evaluate("constancy", lit, {"image": constant_shading}, batch_size=4)
    assert list(results) == ["image", "gray", "constant"]
    for row, scene in enumerate((lit.items[:LIGHTS], lit.items[LIGHTS:])):
        means = [region_means(one.image[None], one.regions[None], 3).colours for one in scene]
        lights = torch.stack(means, 1)
        expected = (
            material_variation(lights).item(),
            material_variation(lights, align=False).item(),
            chroma_drift(lights).item(),
            max(0.0, 1 - chroma_retention(lights, scene[0].colours[None]).item()),
        )
        assert [results["image"].columns[name][row] for name in COLUMNS] == pytest.approx(expected)
        constant = [results["constant"].columns[name][row] for name in COLUMNS]
        assert constant == pytest.approx((0, 0, 0, 1), abs=1e-9)
        gray = [results["gray"].columns[name][row] for name in ("chroma_drift", "chroma_loss")]
        assert gray == pytest.approx((0, 1), abs=1e-9)
    assert min(results["gray"].columns["c_mat"]) > 0.01
    assert results["gray"].about.settings["controls"] == ["gray", "constant"]


def test_rows_of_a_group_with_other_colours_are_another_scene(lit, scene_items, memory_view) -> None:
    repainted = scene_items(lit.items[0].colours.flip(1))
    items = lit.items[:LIGHTS] + repainted[:2] + lit.items[-1:]
    result = score(memory_view(items, ("cup",) * 6, synthetic=True))
    assert (result.ids, result.groups) == (("cup#1", "cup#2"), ("cup", "cup"))
    assert result.about.settings["rows_with_one_light"] == 1  # its regions are those of no other row
    assert result.columns["c_mat"][0] == score(lit).columns["c_mat"][0]


def test_interleaved_rows_and_batches_of_any_size_give_the_same(lit, memory_view) -> None:
    order = [3, 0, 4, 1, 5, 2]
    items, groups = ([some[row] for row in order] for some in (lit.items, lit.groups))
    expected = score(lit)
    found = score(memory_view(items, groups, synthetic=True), batch_size=1)
    assert found.ids == ("office", "kitchen")
    for column in COLUMNS:
        assert found.columns[column] == pytest.approx(expected.columns[column][::-1])


def test_without_true_colours_the_loss_of_chroma_is_undefined(lit, scene_items, memory_view) -> None:
    result = score(memory_view(scene_items(None), lit.groups, synthetic=False))
    assert all(map(math.isnan, result.columns["chroma_loss"]))
    assert result.undefined == 0
    assert result.about.settings["synthetic"] is False


def test_scenes_without_regions_or_light_are_left_out_and_counted(lit) -> None:
    for item in lit.items[:LIGHTS]:
        item.regions[:] = 0
    lit.items[LIGHTS + 1].image[:] = 0
    result = score(lit, lambda image: (image + 1, image))
    assert all(math.isnan(value) for column in COLUMNS for value in result.columns[column])
    assert (result.undefined, result.failed) == (2, ())


def test_a_scene_of_one_region_has_no_scaled_variation(lit) -> None:
    for item in lit.items:
        item.regions[item.regions > 1] = 0
    result = score(lit)
    assert math.isnan(result.columns["c_mat"][0])
    assert result.columns["c_mat_unscaled"][0] > 0
    assert math.isnan(result.columns["chroma_loss"][0])


@pytest.mark.parametrize("bad", [math.nan, 0.0])
def test_failed_scenes_count_as_the_worst(lit, bad) -> None:
    def failing(image):
        output = torch.ones_like(image)
        output[1] = bad
        return output, image

    result = score(lit, failing, batch_size=6)
    assert result.failed == ("kitchen",)
    drift = score(lit).columns["chroma_drift"][0]
    expected = (math.sqrt(LIGHTS - 1), math.sqrt(LIGHTS - 1), drift, 1)
    assert [result.columns[name][0] for name in COLUMNS] == pytest.approx(expected)
    assert [result.columns[name][1] for name in COLUMNS] == pytest.approx((0, 0, 0, 1), abs=1e-9)


def test_data_without_a_second_light_or_regions_are_refused(lit, memory_view) -> None:
    single = memory_view(lit.items[::LIGHTS], ("a", "b"), synthetic=True)
    bare = [RegionImage(item.image, torch.zeros_like(item.regions), item.colours) for item in lit.items]
    for view in (single, memory_view(bare, lit.groups, synthetic=True)):
        with refused("`row`: expected rows of one scene with equal regions under several lights, got none"):
            score(view)
