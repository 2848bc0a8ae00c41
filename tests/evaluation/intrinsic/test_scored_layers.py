"""Only the layers that a score reads can be asked for, or fail; predictions of another size are resized."""

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.views import Comparisons, DecomposedImage, JudgedImage
from candlelight.loaders.errors import InputError


@pytest.fixture
def judged(memory_view):
    points = torch.rand(9, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made = Comparisons(points, torch.arange(9) % 3, torch.ones(9, dtype=torch.float64))
    image = torch.rand(3, 24, 32, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(24 * 32).reshape(24, 32) // 200 % 3
    return memory_view([JudgedImage(image, made, labels)], origin="human")


@pytest.fixture
def decomposed(memory_view):
    draws = 0.1 + torch.rand(2, 3, 24, 32, generator=torch.Generator().manual_seed(2))
    return memory_view(
        [DecomposedImage(draws[0] * draws[1], *draws, torch.ones(24, 32, dtype=torch.bool))], explains="image"
    )


def test_reflectance_alone_has_the_scores_of_reflectance(judged, decomposed) -> None:
    whole = evaluate("whdr", judged, {"m": lambda image: (image, image)})["m"]
    for alone in (lambda image: image, lambda image: {"reflectance": image}):
        assert evaluate("whdr", judged, {"m": alone})["m"].columns == whole.columns
    message = "expected reflectance .* and shading .*, got float32 .*; return"
    for name, view in (("saw", judged), ("lmse", decomposed)):
        with pytest.raises(InputError, match=message):
            evaluate(name, view, {"m": lambda image: image})
    found = evaluate("protocols", decomposed, {"m": lambda image: image})
    read = {"arap-ordinal", "stanford-orb", *(f"interiorverse-{end}" for end in ("marigold", "linear"))}
    assert read <= {key.partition(": ")[0] for key in found}
    assert any("left out: mit-grosse: " in note for one in found.values() for note in one.details["notes"])


def test_a_layer_that_is_not_read_cannot_fail(judged) -> None:
    plain = evaluate("whdr", judged, {"m": lambda image: (image, image)})["m"]
    odd = evaluate("whdr", judged, {"m": lambda image: (image, image * torch.nan)})["m"]
    assert (odd.columns, odd.failed) == (plain.columns, ())
    shading = evaluate("saw", judged, {"m": lambda image: (image * torch.nan, image)})["m"]
    assert shading.failed == ()
    assert shading.score == evaluate("saw", judged, {"m": lambda image: (image, image)})["m"].score


def test_predictions_of_another_size_are_resized_and_noted(decomposed, tmp_path) -> None:
    item = decomposed.items[0]
    for size, name in (((48, 64), "large"), ((12, 16), "small"), ((24, 32), "same")):
        (tmp_path / name).mkdir()
        repeat, step = max(size[0] // 24, 1), max(24 // size[0], 1)
        layers = {
            layer: getattr(item, layer).numpy().repeat(repeat, 1).repeat(repeat, 2)[:, ::step, ::step]
            for layer in ("reflectance", "shading")
        }
        np.savez(tmp_path / name / f"{decomposed.ids[0]}.npz", **layers)
        found = evaluate("lmse", decomposed, {"files": open_predictions(tmp_path / name)})["files"]
        text = "files: 1 of 1 predictions had another size than their image and were resized"
        assert found.details.get("notes", []) == ([] if name == "same" else [text])
        assert found.failed == ()
        assert (found.score == 0) == (name == "same")
    (tmp_path / "wide").mkdir()
    wide = np.ones((3, 24, 48), np.float32)
    np.savez(tmp_path / "wide" / f"{decomposed.ids[0]}.npz", reflectance=wide, shading=wide)
    with pytest.raises(
        InputError, match=r"expected the proportions of its image, \[24, 32\], got \[24, 48\]"
    ):
        evaluate("lmse", decomposed, {"files": open_predictions(tmp_path / "wide")})
