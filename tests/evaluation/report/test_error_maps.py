"""Pictures of chosen rows: which rows, and the errors, colours and one scale of their maps, by hand."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.catalogue.intrinsic_options import DepthOptions, NormalsOptions, OneLayerOptions
from candlelight.evaluation.intrinsic.intrinsic_report import intrinsic_pictures
from candlelight.evaluation.intrinsic.layer_report import layer_pictures
from candlelight.evaluation.run.evaluate import find_evaluation, score, start
from candlelight.evaluation.views import LayerImage
from candlelight.loaders.looking.sheet_tiles import BACKGROUND

DARK, YELLOW = (68, 1, 84), (253, 231, 37)  # ends of viridis
SIDE = 128  # of a tile: images of 16 pixels are repeated 8 times


def pixels(picture) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(base64.b64decode(picture.uri.partition(",")[2]))))


def run_of(name: str, options, view, models):
    run = start(find_evaluation(name), options, {"data": view}, models, "cpu")
    return run, score(run)


@pytest.fixture
def view(memory_view):
    """Make images of 16 pixels; the truth is 0.5, normals face up, and the last column is not scored."""

    def make(layer: str, count: int = 3):
        truth = torch.full((3 if layer in ("albedo", "normal") else 1, 16, 16), 0.5)
        if layer == "normal":
            truth = torch.tensor([0.0, -1.0, 0.0])[:, None, None].expand(3, 16, 16)
        mask = (torch.arange(16) < 15).expand(16, 16)
        images = (torch.full((3, 16, 16), 0.1 * (row + 1)) for row in range(count))
        return memory_view([LayerImage(image, truth, mask, layer) for image in images])

    return make


def test_maps_have_one_scale_over_models_and_gray_pixels_outside_the_mask(view) -> None:
    def half_wrong(image):
        albedo = torch.full_like(image, 0.5)
        albedo[..., :8] = 0.75
        return {"albedo": albedo}

    def all_wrong(image):
        return {"albedo": torch.full_like(image, 1.0)}

    run, results = run_of("layer", OneLayerOptions(), view("albedo"), {"a": half_wrong, "b": all_wrong})
    _, block = layer_pictures(replace(run, shown=("row-1",)), results)
    assert block.caption == "row-1: mae_albedo of a 0.133"  # 8 of 15 columns are 0.25 off
    _, truth, a, a_map, b, b_map = block.pictures
    assert [one.caption for one in (a_map, b_map)] == ["errors, 0\xa0to\xa00.500"] * 2
    assert (a.caption, b.caption) == ("a: mae_albedo 0.133", "b: mae_albedo 0.500")
    shown = pixels(a_map)
    assert shown.shape == (SIDE + 12, SIDE, 3)  # with the bar
    assert tuple(shown[0, 8 * 8]) == DARK
    assert tuple(shown[0, 0]) == (33, 145, 140)  # the middle of the scale
    assert tuple(shown[0, -1]) == (BACKGROUND,) * 3
    assert [tuple(shown[-1, place]) for place in (0, -1)] == [DARK, YELLOW]
    assert tuple(pixels(b_map)[0, 0]) == YELLOW
    assert tuple(pixels(truth)[0, 0]) == (188,) * 3


def test_errors_of_normals_are_angles_and_of_depth_relative(view) -> None:
    def normals(image):
        normal = torch.zeros_like(image)
        normal[:, 0] = 3
        normal[:, 1] = -3  # 45 degrees
        return {"normal": normal}

    def none(image):
        return {"normal": torch.zeros_like(image)}

    run, results = run_of("normals", NormalsOptions(), view("normal"), {"a": normals, "none": none})
    how, *blocks = layer_pictures(replace(run, shown=("best",)), results)
    assert "angle in degrees" in how.text
    assert len(blocks) == 1
    assert blocks[0].pictures[3].caption == "errors, 0\xa0to\xa090.0"
    assert tuple(pixels(blocks[0].pictures[3])[0, 0]) == (33, 145, 140)

    def depth(image):
        return {"depth": torch.full_like(image[:, :1], 0.6)}

    run, results = run_of("depth", DepthOptions(), view("depth"), {"a": depth})
    how, block, *_ = layer_pictures(run, results)
    assert "|p - t| / t" in how.text
    assert block.pictures[3].caption == "errors, 0\xa0to\xa00.200"


def test_rows_are_the_worst_median_and_best_of_the_first_model_and_each_is_shown_once(view) -> None:
    def model(image):  # the first image is best: its prediction is 0.6, then 0.7, ...
        return {"albedo": 0.5 + image}

    run, results = run_of("layer", OneLayerOptions(), view("albedo", 5), {"a": model})
    captions = [block.caption for block in layer_pictures(run, results)[1:]]
    assert captions == [
        *("row-4: worst mae_albedo of a", "row-2: median mae_albedo of a", "row-0: best mae_albedo of a")
    ]
    shown = ("best", "row-0", "median", "best")
    assert [block.caption[:5] for block in layer_pictures(replace(run, shown=shown), results)[1:]] == [
        *("row-0", "row-2")
    ]


def test_the_control_and_a_failed_prediction(view) -> None:
    def broken(image):
        return {"albedo": torch.full_like(image, torch.nan)}

    run, results = run_of("layer", OneLayerOptions(), view("albedo", 1), {"broken": broken})
    assert "constant" in results
    _, block = layer_pictures(run, results)
    assert [one.caption.partition(":")[0] for one in block.pictures[2::2]] == ["broken"]
    assert "failed, mae_albedo" in block.pictures[2].caption


def test_decompositions_have_maps_of_both_images(scenes) -> None:
    def perfect_shading(image):
        return torch.ones_like(image), image

    run, results = run_of("lmse", find_evaluation("lmse").options(), scenes(3, 0), {"a": perfect_shading})
    _, *blocks = intrinsic_pictures(run, results)
    assert len(blocks) == 3
    tile, maps = (pixels(one) for one in blocks[0].pictures[2:4])
    assert tile.shape[1] == maps.shape[1] == 2 * 128 + 4
    assert maps.shape[0] == tile.shape[0] + 12


@pytest.mark.parametrize("layer", ["shading", "residual", "roughness", "metallic", "reconstruction"])
def test_every_layer_is_drawn(memory_view, layer) -> None:
    draws = torch.Generator().manual_seed(0)
    channels = 1 if layer in ("roughness", "metallic") else 3
    image, truth = torch.rand(3, 16, 16, generator=draws), torch.rand(channels, 16, 16, generator=draws)
    mask = torch.ones(16, 16, dtype=torch.bool)
    view = memory_view([LayerImage(image, image if layer == "reconstruction" else truth, mask, layer)])

    def model(image):
        gray = image[:, :1]
        return {"albedo": image, "shading": image, "residual": image, "roughness": 3 * gray, "metallic": gray}

    run, results = run_of("layer", OneLayerOptions(layer=layer, resize="12"), view, {"a": model})
    _, block = layer_pictures(run, results)
    assert pixels(block.pictures[1]).shape == pixels(block.pictures[2]).shape == (132, 132, 3)
