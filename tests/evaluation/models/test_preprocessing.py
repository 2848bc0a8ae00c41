import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.models.vision import Preprocessing, read_preprocessing
from tests.refusals import refused

HALF = [0.5, 0.5, 0.5]
CROP = {"crop_size": {"height": 4, "width": 5}}
CONVNEXT = {"feature_extractor_type": "ConvNextFeatureExtractor", "crop_pct": 0.875}
VIT = {
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 8, "width": 6},
    "resample": 2,
    "image_mean": HALF,
    "image_std": HALF,
}


def read(folder: Path, **changes: Any) -> Preprocessing:
    config = {name: value for name, value in (VIT | changes).items() if value != "absent"}
    (folder / "preprocessor_config.json").write_text(json.dumps(config), encoding="utf-8")
    return read_preprocessing(folder / "preprocessor_config.json")


def test_defaults_rescale_and_normalise(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found == Preprocessing((8, 6), None, "bilinear", 1.0, (0.5,) * 3, (0.5,) * 3)
    assert found(torch.full((1, 3, 4, 4), 0.75)).unique().tolist() == [0.5]
    assert found(torch.zeros(2, 3, 4, 4)).shape == (2, 3, 8, 6)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"do_resize": False}, (None, None)),
        ({"size": 8}, ((8, 8), None)),
        ({"size": [8, 6]}, ((8, 6), None)),
        ({"size": {"shortest_edge": 8}}, (8, None)),
        ({"image_processor_type": "CLIPImageProcessor", "size": 8}, (8, None)),
        ({"crop_size": 4}, ((8, 6), (4, 4))),
        ({"crop_size": 4, "do_center_crop": False}, ((8, 6), None)),
        ({"image_processor_type": "BitImageProcessorFast", "size": {"shortest_edge": 8}} | CROP, (8, (4, 5))),
        # ConvNext crops below 384 pixels.
        ({"image_processor_type": "absent", "size": 224} | CONVNEXT, (256, (224, 224))),
        (
            {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}},
            ((384, 384), None),
        ),
    ],
)
def test_sizes(tmp_path: Path, changes: dict[str, Any], expected: tuple[Any, Any]) -> None:
    found = read(tmp_path, **changes)
    assert (found.size, found.crop) == expected


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"do_normalize": False}, 0.75),
        ({"do_normalize": False, "rescale_factor": 2 / 255}, 1.5),
        ({"do_normalize": False, "do_rescale": False}, 191.25),
        ({"image_mean": 0.25, "image_std": [1, 1, 1]}, 0.5),
    ],
)
def test_values(tmp_path: Path, changes: dict[str, Any], value: float) -> None:
    found = read(tmp_path, **changes)(torch.full((1, 3, 4, 4), 0.75))
    assert found.flatten().tolist() == pytest.approx([value] * found.numel())


def test_the_shorter_edge_keeps_the_proportions_and_the_middle_is_cut() -> None:
    images = torch.arange(16.0).expand(1, 3, 4, 16) / 16
    wide = Preprocessing(2, None, "bilinear", 1.0, (0.0,) * 3, (1.0,) * 3)
    assert wide(images).shape == (1, 3, 2, 8)
    assert wide(images.transpose(2, 3)).shape == (1, 3, 8, 2)
    middle = Preprocessing(None, (2, 4), "bilinear", 1.0, (0.0,) * 3, (1.0,) * 3)
    assert (16 * middle(images))[0, 0, 0].tolist() == [6, 7, 8, 9]
    with refused("expected at least 2 x 4 pixels to crop, got 1 x 4"):
        middle(torch.zeros(1, 3, 1, 4))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest-exact"])
@pytest.mark.parametrize("size", [(7, 5), (40, 50)])
def test_interpolation_is_that_of_pillow(mode: Any, size: tuple[int, int]) -> None:
    resample = Image.Resampling[mode.removesuffix("-exact").upper()]
    pixels = np.random.default_rng(0).integers(0, 256, (24, 30, 3), np.uint8)
    expected = np.asarray(Image.fromarray(pixels).resize(size[::-1], resample)).astype(float)
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    found = Preprocessing(size, None, mode, 255.0, (0.0,) * 3, (1.0,) * 3)(images)
    assert np.abs(found[0].permute(1, 2, 0).numpy() - expected).max() < 1.1  # which rounds after either axis


def test_gradients_pass(tmp_path: Path) -> None:
    images = torch.full((1, 3, 4, 4), 0.5, requires_grad=True)
    torch.autograd.backward(read(tmp_path)(images).sum())
    assert images.grad is not None
    assert images.grad.abs().min() > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_processor_type": "LevitImageProcessor"}, "one of .*ViT.*, got LevitImageProcessor; write"),
        ({"image_processor_type": "absent"}, "got None; write the preprocessing in Python"),
        ({"size": "absent"}, "`size` is missing"),
        ({"resample": "absent"}, "`resample` is missing"),
        ({"resample": 1}, r"expected `resample` to be one of \[0, 2, 3\], got 1"),
        ({"size": {"longest_edge": 9}}, "expected a size of height and width, or of the shortest edge, got"),
        ({"size": None}, "`size` is missing"),
        ({"image_mean": [0.5]}, "expected three channels, got 1"),
        ({"image_std": "absent"}, "`image_std` is missing"),
        ({"do_center_crop": True}, "`crop_size` is missing"),
    ],
)
def test_other_processors_give_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with refused(message):
        read(tmp_path, **changes)


def test_invalid_processor_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "preprocessor_config.json"
    with refused("is missing: expected a vision model with its preprocessing"):
        read_preprocessing(path)
    path.write_text("{", encoding="utf-8")
    with refused("cannot be read as JSON"):
        read_preprocessing(path)
    path.write_text("[]", encoding="utf-8")
    with refused("expected a JSON object, got list"):
        read_preprocessing(path)
