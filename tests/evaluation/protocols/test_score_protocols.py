"""Scoring by protocols: kinds of results, failures, finished steps, files, and data that one does not fit."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.protocol_records import PROTOCOLS, ordinal_input
from candlelight.evaluation.intrinsic.score_protocols import PreparedRows, protocol_ranges
from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.models.retinex import BASELINES, constant_reflectance, constant_shading
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.run.result import MeanResult, StatisticResult
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import (
    Comparisons,
    DecomposedImage,
    Decompositions,
    JudgedImage,
    RegionImage,
)
from candlelight.loaders.errors import InputError
from tests.refusals import refused

DECOMPOSED = [name for name, record in PROTOCOLS.items() if record.reads == "decompositions"]
HIGHER = [name for name in DECOMPOSED if PROTOCOLS[name].better == "higher"]
MODEL = {"m": constant_shading}


def noise(seed: int, height: int = 24, width: int = 32) -> DecomposedImage:
    draws = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(seed))
    mask = torch.ones(height, width, dtype=torch.bool)
    mask[:3] = False
    return DecomposedImage(draws[0] * draws[1], draws[0], draws[1], mask)


def noise_of(*seeds: int) -> list[DecomposedImage]:
    return [noise(seed) for seed in seeds]


@pytest.fixture(scope="module")
def view(memory_view):
    """Eight images of noise in four groups of one, two and four rows."""
    return memory_view(noise_of(*range(8)), groups=tuple("abbccccd"), explains="image")


@pytest.fixture(scope="module")
def pair(memory_view):
    """Two images of noise."""
    return memory_view(noise_of(0, 1), explains="image")


@pytest.fixture(scope="module")
def views(pair, memory_view):
    """Views of everything that a protocol reads, of two images."""
    points = torch.tensor([[[0.1, 0.1], [0.9, 0.9]], [[0.5, 0.2], [0.2, 0.5]]]).double()
    made = Comparisons(points, torch.tensor([1, 0]), torch.ones(2).double())
    labels = torch.full((24, 32), 2)
    labels[:, 14:18] = 1
    regions = torch.ones(24, 32, dtype=torch.int64)
    judged = [JudgedImage(pair[row].image, made, labels) for row in range(2)]
    painted = [RegionImage(pair[row].image, regions, torch.full((1, 3), 0.4)) for row in range(2)]
    judgements = memory_view(judged, origin="synthetic")
    return {
        "decompositions": pair,
        "comparisons": judgements,
        "labels": judgements,
        "regions": memory_view(painted, synthetic=True),
    }


class Found(NamedTuple):
    results: dict
    left_out: dict


def every(views, models, names=(), **options):
    """Score by several protocols: results by protocol and model, and the reasons of those that do not fit."""
    results, left_out = {}, {}
    for key, result in evaluate("protocols", views, models, protocol=tuple(names), **options).items():
        protocol, _, model = key.partition(": ")
        results.setdefault(protocol, {})[model] = result
        for note in result.details.get("notes", ()):
            if note.startswith("left out: "):
                _, name, reason = note.split(": ", 2)
                left_out[name] = reason
    return Found(results, left_out)


@pytest.fixture(scope="module")
def together(views):
    """Scores of the baselines by all protocols in one call."""
    return every(views, BASELINES)


def test_results_name_protocol_and_version(together) -> None:
    assert list(together.results) == list(PROTOCOLS)
    assert together.left_out == {}
    for name, some in together.results.items():
        assert list(some) == list(BASELINES)
        statistic = name in ("mit-barron", "stanford-orb") or name.startswith("saw")
        for result in some.values():
            assert result.about.settings["protocol"] == name
            assert result.about.settings["protocol_version"] == PROTOCOLS[name].version
            assert result.about.better == PROTOCOLS[name].better
            assert tuple(result.scores) == PROTOCOLS[name].columns
            assert isinstance(result, StatisticResult if statistic else MeanResult)


def test_together_is_the_same_as_one_by_one(views, together) -> None:
    for name in ("mit-barron", "sintel", "hypersim-marigold", "interiorverse-linear", "saw-challenge"):
        alone = evaluate("protocols", views[PROTOCOLS[name].reads], BASELINES, protocol=(name,))
        for model, result in alone.items():
            assert together.results[name][model].scores == result.scores


def test_a_protocol_of_lmse_agrees_with_lmse(pair, together) -> None:
    for name, plain in evaluate("lmse", pair, BASELINES).items():
        found = together.results["mit-grosse"][name]
        assert found.columns["lmse"] == pytest.approx(plain.columns["lmse"], rel=1e-5)
    assert together.results["iiw-whdr"]["constant-shading"].about.metric == "whdr"


def test_models_see_the_prepared_images_and_are_run_once_for_all_protocols_of_one_input(views) -> None:
    seen = []

    def spy(image):
        seen.append(image.shape[2:])
        return image, torch.ones_like(image)

    names = ["mit-grosse", "sintel", "stanford-orb", "mit-barron", "arap-ordinal"]
    every(views, {"spy": spy}, names)
    assert sorted(seen) == [(24, 32), (24, 32), (384, 512)]  # stanford-orb reads reflectance alone


def test_groups_count_alike_and_groups_drawn_twice_count_twice(view) -> None:
    result = evaluate("protocols", view, MODEL, protocol=("stanford-orb",))["m"]
    values = np.array(result.details["columns"]["psnr_reflectance"])
    means = np.array([values[:1].mean(), values[1:3].mean(), values[3:7].mean(), values[7:].mean()])
    assert (result.groups, result.score) == (tuple("abcd"), pytest.approx(means.mean()))
    assert math.isnan(result.scores["psnr_reflectance"].low)  # four groups
    draws = np.random.default_rng(0).integers(4, size=(40, 4))
    assert result.replicates["psnr_reflectance"] == pytest.approx(means[draws].mean(1))


def test_intervals_stay_in_the_range_of_each_score_and_models_are_compared(memory_view) -> None:
    view = memory_view(noise_of(*range(8)), explains="image")
    for name in ("mit-grosse", "mit-barron", "sintel", "interiorverse-marigold", "stanford-orb"):
        results = evaluate("protocols", view, BASELINES, protocol=(name,))
        for column, score in results["constant-shading"].scores.items():
            least, largest = protocol_ranges(column)
            assert least <= score.low < score.value < score.high <= largest
        assert str(compare(results["constant-shading"], results["constant-reflectance"]))


@pytest.mark.parametrize("name", DECOMPOSED)
def test_failed_predictions_never_improve_a_score(pair, name: str) -> None:
    def failing(image):
        output = image.clone()
        output[0, 0, -1, -1] = math.nan
        return output, torch.ones_like(image)

    sources = {"whole": constant_shading, "failing": failing, "flat": constant_reflectance}
    results = evaluate("protocols", pair, sources, protocol=(name,))
    assert results["failing"].failed == (pair.ids[0],)
    assert results["failing"].about.settings["filled_among"] == sorted(sources)
    for column in PROTOCOLS[name].columns:
        given = {
            model: np.array(
                (result.columns if isinstance(result, MeanResult) else result.details["columns"])[column]
            )
            for model, result in results.items()
        }
        worst = max if PROTOCOLS[name].better == "lower" else min
        extreme = worst(*given["whole"], *given["flat"])
        # At least as bad as every model in every row.
        assert worst(given["failing"][0], extreme) == given["failing"][0]
        assert given["failing"][1:] == pytest.approx(given["whole"][1:])


# The images of Hypersim are tone-mapped.
@pytest.mark.parametrize("name", [name for name in HIGHER if name != "hypersim-marigold"])
def test_exact_predictions_are_the_best(pair, name: str) -> None:
    def truth(image):
        items = [next(item for item in pair.items if torch.equal(item.image, one)) for one in image]
        return tuple(
            torch.stack([getattr(item, layer) for item in items]) for layer in ("reflectance", "shading")
        )

    assert evaluate("protocols", pair, {"m": truth}, protocol=(name,))["m"].score == math.inf


@pytest.mark.parametrize("name", ["mit-grosse", "mit-barron", "sintel", *HIGHER])
def test_rows_without_truth_are_left_out_and_counted(memory_view, name: str) -> None:
    good, masked, black = noise_of(0, 1, 2)
    masked.mask[:] = False
    layer = "shading" if name == "hypersim-marigold" else "reflectance"
    getattr(black, layer)[:] = 0
    # Protocols of InteriorVerse read all pixels.
    bad = [black] if name.startswith("interiorverse") else [masked]
    bad = [masked, black] if name in ("stanford-orb", "hypersim-marigold") else bad
    one, more = (
        evaluate("protocols", memory_view(items, explains="image"), MODEL, protocol=(name,))["m"]
        for items in ([good], [good, *bad])
    )
    column = next(column for column in one.scores if column.endswith(layer) or column == "lmse")
    assert math.isfinite(one.scores[column].value)
    assert more.scores[column].value == pytest.approx(one.scores[column].value)
    # A black shading leaves the reflectance defined.
    undefined = len(bad) - (name == "hypersim-marigold")
    assert not isinstance(more, MeanResult) or more.undefined == undefined


def test_interrupted_run_resumes_with_the_same_result(pair, tmp_path) -> None:
    def run(name="mit-grosse", **options):
        models = {"m": open_model("constant-shading")}
        return evaluate("protocols", pair, models, protocol=(name,), batch_size=1, **options)["m"].to_json()

    steps = [FinishedSteps(tmp_path / "steps") for _ in range(3)]
    assert run() == run(steps=steps[0]) == run(steps=steps[1])
    run("mit-barron", steps=steps[2])
    assert [one.reused for one in steps] == [0, 2, 0]


def test_files_of_another_program(pair, together, tmp_path) -> None:
    for name, item in zip(pair.ids, pair.items, strict=True):
        np.savez(tmp_path / f"{name}.npz", reflectance=item.image, shading=torch.ones(3, 24, 32))
    files = {"files": open_predictions(tmp_path)}
    found = every({"decompositions": pair}, files, ["mit-grosse", "arap-ordinal"]).results
    expected = together.results["mit-grosse"]["constant-shading"].columns["lmse"]
    assert found["mit-grosse"]["files"].columns["lmse"] == pytest.approx(expected)
    notes = found["arap-ordinal"]["files"].details["notes"]
    assert notes == ["files: 2 of 2 predictions had another size than their image and were resized"]
    (tmp_path / f"{pair.ids[0]}.npz").rename(tmp_path / "elsewhere.npz")
    with refused("1 of 2 results belong to no image of the data: `elsewhere`"):
        every({"decompositions": pair}, {"files": open_predictions(tmp_path)}, ["mit-grosse"])
    (tmp_path / "elsewhere.npz").unlink()
    given = {"decompositions": pair}, {"files": open_predictions(tmp_path)}, ["mit-grosse", "sintel"]
    with refused("expected a result for each of 2 images, 1 is missing: .* count it as failed"):
        every(*given)
    assert every(*given, missing="fail").results["mit-grosse"]["files"].failed == (pair.ids[0],)


def test_files_of_another_size_may_be_unknown_outside_the_mask_alone(memory_view, tmp_path) -> None:
    """The mask ends between pixels of the files; a pixel in it that is no number fails the row."""
    left = (torch.arange(32) < 16).expand(24, 32)
    view = memory_view([replace(one, mask=left) for one in noise_of(0, 1)], explains="image")
    for name in view.ids:
        values = np.full((3, 12, 16), 0.5, np.float32)
        values[..., 8:] = np.nan
        values[..., 4, 2] = np.nan if name == view.ids[1] else 0.5
        np.savez(tmp_path / f"{name}.npz", reflectance=values, shading=values)
    found = evaluate("lmse", view, {"files": open_predictions(tmp_path)})["files"]
    assert found.failed == (view.ids[1],)
    flat = evaluate("lmse", view, {"flat": lambda image: (0 * image + 0.5, 0 * image + 0.5)})["flat"]
    assert found.columns["lmse"][0] == pytest.approx(flat.columns["lmse"][0], rel=1e-6)


def test_prepared_rows_are_a_view(view) -> None:
    rows = PreparedRows(view, ordinal_input)
    assert isinstance(rows, Decompositions)
    assert (rows.ids, rows.groups, len(rows), rows.explains) == (view.ids, view.groups, 8, "image")
    assert (rows.identity, rows.known_ids) == (view.identity, view.known_ids)


def test_input_of_arap_is_white_balanced_and_its_long_side_is_512() -> None:
    reflectance = torch.tensor([0.8, 0.4, 0.2])[:, None, None].expand(3, 30, 20)
    light = torch.tensor([1.2, 0.8, 0.4])[:, None, None].expand(3, 30, 20)
    made = ordinal_input(DecomposedImage(reflectance * light, reflectance, light, torch.ones(30, 20).bool()))
    gray = 0.3 * 1.2 + 0.59 * 0.8 + 0.11 * 0.4
    assert made.image.shape == (3, 512, 341)
    torch.testing.assert_close(made.image, gray * reflectance[:, :1, :1].expand(3, 512, 341))
    assert made.mask.all()


def test_input_of_arap_leaves_out_pixels_that_mix_known_and_unknown_ones() -> None:
    item = noise(0, 128, 256)
    item.mask[:, 100:] = False
    item.reflectance[:, :, 100:] = math.nan
    made = ordinal_input(item)
    assert made.mask[10:, :198].all()
    assert not made.mask[:, 200:].any()
    assert made.reflectance.isfinite().all()
    assert made.image.isfinite().all()


def test_hypersim_rows_of_its_own_reader_are_not_prepared_again(memory_view) -> None:
    view, seen = memory_view(noise_of(0, 1), explains="image"), []

    def spy(image):
        seen.append(image)
        return image, torch.ones_like(image)

    evaluate("protocols", view, {"spy": spy}, protocol=("hypersim-marigold",))
    view.identity = view.identity.__class__("hypersim", "hypersim")
    evaluate("protocols", view, {"spy": spy}, protocol=("hypersim-marigold",))
    images = torch.stack([item.image for item in view.items])
    assert [torch.equal(one, images) for one in seen] == [False, True]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("mit-gross", "decompositions", "protocol `mit-gross` is not known; .*did you mean `mit-grosse`?"),
        (
            "iiw-whdr",
            "decompositions",
            "protocol `iiw-whdr`: the data hold decompositions alone; give other data",
        ),
        ("maw-2023", "labels", "protocol `maw-2023`: the data hold comparisons and labels alone"),
        ("sintel", "regions", "protocol `sintel`: the data hold regions alone"),
    ],
)
def test_wrong_names_and_views_are_one_line(views, name, data, message) -> None:
    with refused(message):
        evaluate("protocols", views[data], MODEL, protocol=(name,))


def test_data_without_the_content_are_refused_or_left_out(views, memory_view) -> None:
    image = views["decompositions"][0].image
    poor = {
        "decompositions": memory_view([noise(0, 8, 9)], explains="image"),
        "comparisons": memory_view([JudgedImage(image, None, torch.full((24, 32), 2))], origin="human"),
        "labels": InputError("iiw: has no labels"),
        "regions": memory_view([RegionImage(image, torch.ones(24, 32).long())], synthetic=False),
    }
    made = every(poor, MODEL)
    assert list(made.results) == [
        name for name in DECOMPOSED if name not in ("mit-grosse", "sintel", "sintel-crefnet")
    ]
    for name, reason in {
        "mit-grosse": "images must be at least one window of 20x20",
        "sintel": "SSIM needs images of at least 11x11",
        "iiw-whdr": "the data have no comparisons",
        "saw": "iiw: has no labels",
        "maw-2023": "the regions of the data have no true colours",
    }.items():
        assert reason in made.left_out[name]
        with refused(rf"^protocol `{name}`: "):
            every(poor, MODEL, ["stanford-orb", name])
    with refused(r"^no protocol fits the data; nowhere is missing$"):
        every({content: InputError("nowhere is missing") for content in poor}, MODEL)


def test_photographs_without_any_region_are_left_out(views, memory_view) -> None:
    blank = RegionImage(views["regions"][0].image, torch.zeros(24, 32).long(), torch.ones(1, 3))
    some = {**views, "regions": memory_view([blank, views["regions"][0]], synthetic=True)}
    assert "maw-2023" in every(some, MODEL, ["maw-2023", "saw"]).results
    none = {"labels": views["labels"], "regions": memory_view([blank], synthetic=True)}
    assert every(none, MODEL).left_out["maw-2023"] == "the data have no regions of one material"


def test_a_model_of_several_lights_leaves_out_protocols_that_show_one_image(views, memory_view) -> None:
    def brightest(image, lights):
        return image, lights.amax(1)

    models = {"plain": constant_shading, "brightest": brightest}
    items = [replace(item, lights=torch.rand(4, 3, 24, 32)) for item in views["decompositions"]]
    views = {**views, "decompositions": memory_view(items, explains="image")}
    made = every(views, models)
    assert list(made.results) == ["mit-grosse", "mit-barron", "sintel", "sintel-crefnet", "stanford-orb"]
    message = "`brightest` takes images under several lights, and a model is shown one image here"
    assert set(made.left_out.values()) == {message}
    for name in ("arap-ordinal", "iiw-whdr", "saw", "maw-2023"):
        with refused(rf"^protocol `{name}`: {message}$"):
            evaluate("protocols", views[PROTOCOLS[name].reads], models, protocol=(name,))
