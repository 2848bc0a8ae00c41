"""Contracts of the scores of intrinsic images: files, finished steps, failures, settings, and refusals."""

import math

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.models.retinex import constant_shading
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import DecomposedImage, JudgedImage, RegionImage
from tests.refusals import refused

VIEWS = {"lmse": "decomposed", "whdr": "judged", "saw": "judged", "maw": "painted", "constancy": "lit"}
VARIANT = {"variant": "cgintrinsics2018"}


@pytest.fixture(params=VIEWS)
def name(request) -> str:
    return request.param


@pytest.fixture
def view(name, request):
    return request.getfixturevalue(VIEWS[name])


@pytest.fixture
def score(name):
    """Score one model."""

    def run(model, view, **options):
        return evaluate(name, view, {"m": model}, **(VARIANT if name == "saw" else {}), **options)["m"]

    return run


def half(image):
    return image * image.mean((1, 2, 3), keepdim=True), image.sqrt()


def numbers(result) -> dict:
    return {name: (score.value, score.low, score.high) for name, score in result.scores.items()}


def test_files_and_finished_steps_give_the_scores_of_their_model(name, view, score, tmp_path) -> None:
    plain = score(half, view)
    for identifier, item in zip(view.ids, view.items, strict=True):
        layers = (layer[0] for layer in half(item.image[None]))
        path = tmp_path / "files" / f"{identifier}.npz"
        path.parent.mkdir(exist_ok=True)
        np.savez(path, **dict(zip(("reflectance", "shading"), layers, strict=True)))
    files = open_predictions(path.parent)
    steps = [FinishedSteps(tmp_path / "steps") for _ in range(2)]
    first, second = (score(files, view, steps=one, batch_size=2) for one in steps)
    for column, wanted in numbers(plain).items():
        assert numbers(first)[column] == pytest.approx(wanted, rel=1e-5, nan_ok=True), column
    assert first.to_json() == second.to_json()
    assert (steps[0].reused, steps[1].computed) == (0, 0)
    (path.parent / "row-1.npz").unlink()
    with refused("1 is missing: `row-1`"):
        score(open_predictions(path.parent), view)
    failing = score(open_predictions(path.parent), view, missing="fail")
    assert failing.failed == ("kitchen" if name == "constancy" else "row-1",)
    path.rename(path.parent / "row-9.npz")
    with refused(r"1 of \d results belong to no image of the data: `row-9`"):
        score(open_predictions(path.parent), view, missing="fail")


SETTINGS = {
    "lmse": {"missing": "error"},
    "whdr": {"threshold": 0.1, "power": 1.0, "missing": "error", "judgements": "human"},
    "saw": {**VARIANT, "power": 1.0, "missing": "error", "judgements": "human"},
    "maw": {"longest": 1024, "missing": "error", "size": [240, 320], "synthetic": False},
    "constancy": {"missing": "error", "synthetic": True},
}


def test_results_record_settings_model_and_data(name, view, score) -> None:
    about = score(constant_shading, view).about
    assert about.better == ("higher" if name == "saw" else "lower")
    assert about.settings.items() >= SETTINGS[name].items()
    version = "candlelight.evaluation.models.retinex:constant_shading"
    assert about.model == {"name": "m", "source": "callable", "version": version}
    assert about.data["rows"] == len(view)
    view.items[0].image[0, 0, 0] = 0.25
    assert score(constant_shading, view).about.data["sha256"] != about.data["sha256"]


def test_no_models_and_no_rows_are_refused(name, view, score, memory_view) -> None:
    with refused("expected at least one model, got none"):
        evaluate(name, view, {}, **(VARIANT if name == "saw" else {}))
    members = {one: getattr(view, one) for one in ("explains", "origin", "synthetic") if hasattr(view, one)}
    with refused("no rows to read|expected rows of one scene"):
        score(constant_shading, memory_view([], **members))


CHANGES = {
    DecomposedImage: [
        ({"mask": torch.ones(24, 30)}, "`mask`"),
        ({"mask": torch.ones(23, 30, dtype=torch.bool)}, "mask"),
        ({"reflectance": torch.ones(3, 24, 30, dtype=torch.uint8)}, "`reflectance` must be float32"),
        ({"shading": torch.ones(2, 24, 30)}, "`shading` must have 0, 1 or 3 channels"),
    ],
    RegionImage: [
        ({"regions": torch.ones(24, 32)}, "`regions` must be int64, >= 0 and not empty, got torch.float32"),
        ({"regions": torch.full((24, 32), -1)}, "`regions` must be int64, >= 0"),
        ({"regions": torch.ones(24, 31, dtype=torch.int64)}, r"expected `image` \[3, height, width\]"),
        ({"colours": torch.ones(2, 3)}, "`colours` must have a row for each region, got 2 for region 3"),
        ({"colours": torch.ones(3, 2)}, r"expected `colours` \[regions, 3\], got \[3, 2\]"),
        ({"image": torch.ones(3, 24, 32, dtype=torch.uint8)}, "`image` must be float32"),
        ({"mask": torch.ones(24, 32)}, "`mask` must be boolean"),
        ({"mask": torch.ones(23, 32, dtype=torch.bool)}, "`mask`"),
        ({"colours": None}, "the regions of the data have no true colours; expected maw:PATH or frames"),
    ],
    JudgedImage: [
        ({"comparisons": None}, "the data have no comparisons; expected iiw:PATH or frames"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "change", "message"), [(kind, *row) for kind, rows in CHANGES.items() for row in rows]
)
def test_items_of_the_caller_are_checked(kind, change, message, decomposed, judged, painted) -> None:
    name, view = {
        DecomposedImage: ("lmse", decomposed),
        RegionImage: ("maw", painted),
        JudgedImage: ("whdr", judged),
    }[kind]
    for place, value in change.items():
        for item in view.items:
            object.__setattr__(item, place, value)
    with refused(message):
        evaluate(name, view, {"m": constant_shading})


def test_photographs_without_labels_are_refused(judged) -> None:
    for item in judged.items:
        object.__setattr__(item, "labels", None)
    with refused(r"^the data have no labels; expected saw:PATH or frames$"):
        evaluate("saw", judged, {"m": constant_shading}, **VARIANT)


def test_reflectance_alone_has_the_scores_of_reflectance(judged, decomposed) -> None:
    whole = evaluate("whdr", judged, {"m": lambda image: (image, image)})["m"]
    for alone in (lambda image: image, lambda image: {"reflectance": image}):
        assert evaluate("whdr", judged, {"m": alone})["m"].columns == whole.columns
    for name, view, options in (("saw", judged, VARIANT), ("lmse", decomposed, {})):
        with refused("expected (reflectance .* and )?shading .*, got float32 .*; return"):
            evaluate(name, view, {"m": lambda image: image}, **options)
    found = evaluate("protocols", decomposed, {"m": lambda image: image})
    read = {"arap-ordinal", "stanford-orb", *(f"interiorverse-{end}" for end in ("marigold", "linear"))}
    assert read <= {key.partition(": ")[0] for key in found}
    assert any("left out: mit-grosse: " in note for one in found.values() for note in one.details["notes"])


def test_a_layer_that_is_not_read_cannot_fail(judged) -> None:
    for name, odd, options in (
        ("whdr", lambda image: (image, image * math.nan), {}),
        ("saw", lambda image: (image * math.nan, image), VARIANT),
    ):
        plain, found = (
            evaluate(name, judged, {"m": one}, **options)["m"] for one in (lambda image: (image, image), odd)
        )
        assert (numbers(found), found.failed) == (numbers(plain), ())


def test_predictions_of_another_size_are_resized_and_noted(decomposed, memory_view, tmp_path) -> None:
    item = decomposed.items[0]
    view = memory_view([item], explains="image")
    for size, name in (((48, 60), "large"), ((12, 15), "small"), ((24, 30), "same")):
        (tmp_path / name).mkdir()
        repeat, step = max(size[0] // 24, 1), max(24 // size[0], 1)
        layers = {
            layer: getattr(item, layer).numpy().repeat(repeat, 1).repeat(repeat, 2)[:, ::step, ::step]
            for layer in ("reflectance", "shading")
        }
        np.savez(tmp_path / name / "row-0.npz", **layers)
        found = evaluate("lmse", view, {"files": open_predictions(tmp_path / name)})["files"]
        text = "files: 1 of 1 predictions had another size than their image and were resized"
        assert found.details.get("notes", []) == ([] if name == "same" else [text])
        assert (found.failed, found.score == 0) == ((), name == "same")
