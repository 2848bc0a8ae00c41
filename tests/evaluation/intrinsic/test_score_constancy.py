import math

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.constancy import (
    chroma_drift,
    chroma_retention,
    material_variation,
)
from candlelight.evaluation.intrinsic.material_albedo import region_means
from candlelight.evaluation.models.retinex import constant_shading
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import RegionImage
from candlelight.loaders.errors import InputError

PALETTE = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.4, 0.9]])
COLUMNS = ("c_mat", "c_mat_unscaled", "chroma_drift", "chroma_loss")
LIGHTS = 3


def regions_of(scene: int) -> torch.Tensor:
    """Draw three bands; each scene has others."""
    regions = torch.zeros(12, 16, dtype=torch.int64)
    for number in range(1, 4):
        regions[1 + scene : 11, 5 * number - 4 : 5 * number - 1] = number
    return regions


def reflectance_of(regions: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.full((1, 3), 0.5), PALETTE])[regions].permute(2, 0, 1)


def make_items(colours=PALETTE):
    """Two scenes under three coloured lights with a gradient."""
    draws = torch.Generator().manual_seed(0)
    items = []
    for scene in range(2):
        regions = regions_of(scene)
        for _ in range(LIGHTS):
            light = 0.2 + torch.rand(3, 1, 1, generator=draws)
            shading = light * torch.linspace(0.5, 1, 16) ** (4 * torch.rand(1, generator=draws))
            items.append(RegionImage(reflectance_of(regions) * shading, regions, colours))
    return items


GROUPS = ("kitchen",) * LIGHTS + ("office",) * LIGHTS


@pytest.fixture
def view(memory_view):
    return memory_view(make_items(), GROUPS, synthetic=True)


class Oracle:
    """A model that returns the true reflectance times another scale in each row."""

    def __init__(self, view, drift: float = 1.0) -> None:
        self.items, self.drift = view.items, drift

    def __call__(self, image):
        rows = [next(i for i, item in enumerate(self.items) if torch.equal(item.image, one)) for one in image]
        reflectance = [self.drift**row * reflectance_of(self.items[row].regions) for row in rows]
        return torch.stack(reflectance), torch.ones_like(image)


def test_true_reflectance_is_perfect_up_to_a_scale_per_light(view) -> None:
    result = evaluate("constancy", view, {"oracle": Oracle(view, drift=2)})["oracle"]
    for column in ("c_mat", "chroma_drift", "chroma_loss"):
        assert max(result.columns[column]) < 1e-6
    # Scales 1, 2, 4 and 8, 16, 32: their deviation over their mean.
    expected = np.std([1, 2, 4]) / np.mean([1, 2, 4])
    assert result.columns["c_mat_unscaled"] == pytest.approx((expected, expected))
    assert (result.ids, result.groups) == (("kitchen", "office"), ("kitchen", "office"))


def test_scores_are_those_of_the_metrics(view) -> None:
    result = evaluate("constancy", view, {"image": constant_shading}, batch_size=4)["image"]
    for row, scene in enumerate((view.items[:LIGHTS], view.items[LIGHTS:])):
        means = [region_means(one.image[None], one.regions[None], 3).colours for one in scene]
        lights = torch.stack(means, 1)
        expected = (
            material_variation(lights).item(),
            material_variation(lights, align=False).item(),
            chroma_drift(lights).item(),
            max(0.0, 1 - chroma_retention(lights, PALETTE[None]).item()),
        )
        assert [result.columns[name][row] for name in COLUMNS] == pytest.approx(expected)


def test_controls_stand_in_every_table(view) -> None:
    results = evaluate("constancy", view, {"image": constant_shading})
    assert list(results) == ["image", "gray", "constant"]
    assert results["constant"].columns == {
        "c_mat": pytest.approx((0, 0), abs=1e-9),
        "c_mat_unscaled": pytest.approx((0, 0), abs=1e-9),
        "chroma_drift": pytest.approx((0, 0), abs=1e-9),
        "chroma_loss": pytest.approx((1, 1)),
    }
    assert max(results["gray"].columns["chroma_drift"]) < 1e-9
    assert results["gray"].columns["chroma_loss"] == pytest.approx((1, 1))
    assert min(results["gray"].columns["c_mat"]) > 0.01
    assert results["image"].scores["chroma_drift"].value > 0.01
    assert results["gray"].about.settings["controls"] == ["gray", "constant"]
    with pytest.raises(InputError, match="model `gray`: the name is that of a control; give another name"):
        evaluate("constancy", view, {"gray": constant_shading})


def test_rows_of_a_group_with_other_colours_are_another_scene(memory_view) -> None:
    items, repainted = make_items()[:LIGHTS], make_items(PALETTE.flip(1))[:LIGHTS]
    view = memory_view(items + repainted[:2] + make_items()[-1:], ("cup",) * 6, synthetic=True)
    result = evaluate("constancy", view, {"image": constant_shading})["image"]
    assert (result.ids, result.groups) == (("cup#1", "cup#2"), ("cup", "cup"))
    assert result.about.settings["rows_with_one_light"] == 1  # its regions are those of no other row
    alone = evaluate(
        "constancy", memory_view(items, ("cup",) * 3, synthetic=True), {"image": constant_shading}
    )
    assert result.columns["c_mat"][0] == alone["image"].columns["c_mat"][0]


def test_interleaved_rows_and_batches_of_any_size_give_the_same(view, memory_view) -> None:
    order = [3, 0, 4, 1, 5, 2]
    mixed = memory_view([view.items[row] for row in order], [GROUPS[row] for row in order], synthetic=True)
    expected = evaluate("constancy", view, {"image": constant_shading})["image"]
    found = evaluate("constancy", mixed, {"image": constant_shading}, batch_size=1)["image"]
    assert found.ids == ("office", "kitchen")
    for column in COLUMNS:
        assert found.columns[column] == pytest.approx(expected.columns[column][::-1])


def test_without_true_colours_the_loss_of_chroma_is_undefined(memory_view) -> None:
    view = memory_view(make_items(colours=None), GROUPS, synthetic=False)
    result = evaluate("constancy", view, {"image": constant_shading})["image"]
    assert all(map(math.isnan, result.columns["chroma_loss"]))
    assert result.undefined == 0
    assert result.about.settings["synthetic"] is False


def test_scenes_without_regions_or_light_are_left_out_and_counted(memory_view) -> None:
    items = make_items()
    for item in items[:LIGHTS]:
        item.regions[:] = 0
    items[LIGHTS + 1].image[:] = 0
    result = evaluate(
        "constancy", memory_view(items, GROUPS, synthetic=True), {"one": lambda image: (image + 1, image)}
    )
    assert all(math.isnan(value) for column in COLUMNS for value in result["one"].columns[column])
    assert (result["one"].undefined, result["one"].failed) == (2, ())


def test_a_scene_of_one_region_has_no_scaled_variation(memory_view) -> None:
    items = make_items()[:LIGHTS]
    for item in items:
        item.regions[item.regions > 1] = 0
    result = evaluate(
        "constancy", memory_view(items, ("a",) * 3, synthetic=True), {"image": constant_shading}
    )["image"]
    assert math.isnan(result.columns["c_mat"][0])
    assert result.columns["c_mat_unscaled"][0] > 0
    assert math.isnan(result.columns["chroma_loss"][0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0])
def test_failed_scenes_count_as_the_worst(view, bad) -> None:
    def failing(image):
        output = torch.ones_like(image)
        output[1] = bad
        return output, image

    alone = evaluate("constancy", view, {"failing": failing}, batch_size=6)["failing"]
    assert alone.failed == ("kitchen",)
    drift = evaluate("constancy", view, {"image": constant_shading})["image"].columns["chroma_drift"][0]
    expected = (math.sqrt(LIGHTS - 1), math.sqrt(LIGHTS - 1), drift, 1)
    assert [alone.columns[name][0] for name in COLUMNS] == pytest.approx(expected)
    assert [alone.columns[name][1] for name in COLUMNS] == pytest.approx((0, 0, 0, 1), abs=1e-9)


def test_predictions_and_finished_steps_give_the_same(view, tmp_path) -> None:
    (tmp_path / "files").mkdir()
    for name, item in zip(view.ids, view.items, strict=True):
        np.savez(tmp_path / "files" / f"{name}.npz", reflectance=item.image, shading=torch.ones(3, 12, 16))
    predictions = open_predictions(tmp_path / "files")
    steps = [FinishedSteps(tmp_path / "steps") for _ in range(2)]
    found = [
        evaluate("constancy", view, {"files": predictions}, steps=one, batch_size=3)["files"] for one in steps
    ]
    expected = evaluate("constancy", view, {"image": constant_shading})["image"]
    assert found[0].columns == {name: pytest.approx(values) for name, values in expected.columns.items()}
    assert found[0].to_json() == found[1].to_json()
    assert [one.reused for one in steps] == [0, 6]  # two batches of the files and both controls
    (tmp_path / "files" / "row-1.npz").unlink()
    failing = evaluate("constancy", view, {"files": open_predictions(tmp_path / "files")}, missing="fail")[
        "files"
    ]
    assert failing.failed == ("kitchen",)


def test_data_without_a_second_light_or_regions_and_no_models_are_refused(view, memory_view) -> None:
    single = memory_view(view.items[::LIGHTS], ("a", "b"), synthetic=True)
    bare = [RegionImage(item.image, torch.zeros_like(item.regions), PALETTE) for item in view.items]
    for refused in (single, memory_view(bare, GROUPS, synthetic=True)):
        with pytest.raises(
            InputError,
            match="`row`: expected rows of one scene with equal regions under several lights, got none",
        ):
            evaluate("constancy", refused, {"image": constant_shading})
    with pytest.raises(InputError, match="expected at least one model, got none"):
        evaluate("constancy", view, {})
