"""Scoring by protocols: kinds of results, failures, finished steps, files, and data that one does not fit."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic import geometric_mean
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

DECOMPOSED = [name for name, record in PROTOCOLS.items() if record.reads == "decompositions"]
HIGHER = [name for name in DECOMPOSED if PROTOCOLS[name].better == "higher"]


def noise(seed: int, height: int = 24, width: int = 32) -> DecomposedImage:
    draws = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(seed))
    mask = torch.ones(height, width, dtype=torch.bool)
    mask[:3] = False
    return DecomposedImage(draws[0] * draws[1], draws[0], draws[1], mask)


@pytest.fixture
def view(memory_view):
    """Eight images of noise in four groups of one, two and four rows."""
    return memory_view([noise(seed) for seed in range(8)], groups=tuple("abbccccd"), explains="image")


@pytest.fixture
def pair(memory_view):
    """Two images of noise."""
    return memory_view([noise(0), noise(1)], explains="image")


@pytest.fixture
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


def every(views, models, names=()):
    """Score by several protocols: results by protocol and model, and the reasons of those that do not fit."""
    results, left_out = {}, {}
    for key, result in evaluate("protocols", views, models, protocol=tuple(names)).items():
        protocol, _, model = key.partition(": ")
        results.setdefault(protocol, {})[model] = result
        for note in result.details.get("notes", ()):
            if note.startswith("left out: "):
                _, name, reason = note.split(": ", 2)
                left_out[name] = reason
    return Found(results, left_out)


def test_a_protocol_of_lmse_agrees_with_lmse(view, views) -> None:
    found = evaluate("protocols", view, BASELINES, protocol=("mit-grosse",))
    plain = evaluate("lmse", view, BASELINES)
    for name, result in found.items():
        assert result.columns["lmse"] == pytest.approx(plain[name].columns["lmse"], rel=1e-5)
    judged = evaluate("protocols", views["comparisons"], BASELINES, protocol=("iiw-whdr",))
    assert {result.about.metric for result in judged.values()} == {"whdr"}


def test_results_name_protocol_and_version(views) -> None:
    made = every(views, BASELINES)
    assert list(made.results) == list(PROTOCOLS)
    assert made.left_out == {}
    for name, some in made.results.items():
        assert list(some) == list(BASELINES)
        for result in some.values():
            assert result.about.settings["protocol"] == name
            assert result.about.settings["protocol_version"] == PROTOCOLS[name].version
            assert result.about.better == PROTOCOLS[name].better
            assert tuple(result.scores) == PROTOCOLS[name].columns
            assert isinstance(
                result, MeanResult if name not in ("mit-barron", "stanford-orb") else StatisticResult
            ) or (name.startswith("saw"))


def test_together_is_the_same_as_one_by_one(views) -> None:
    names = ("mit-barron", "sintel", "hypersim-marigold", "interiorverse-linear", "saw-challenge")
    made = every(views, BASELINES, names)
    for name in names:
        alone = evaluate("protocols", views[PROTOCOLS[name].reads], BASELINES, protocol=(name,))
        for model, result in alone.items():
            assert made.results[name][model].scores == result.scores


def test_models_see_the_prepared_images_and_are_run_once_for_all_protocols_of_one_input(views) -> None:
    seen = []

    def spy(image):
        seen.append(image.shape[2:])
        return image, torch.ones_like(image)

    names = ["mit-grosse", "sintel", "stanford-orb", "mit-barron", "arap-ordinal"]
    every(views, {"spy": spy}, names)
    assert sorted(seen) == [(24, 32), (24, 32), (384, 512)]  # stanford-orb reads reflectance alone


def test_geometric_mean_and_mean_over_groups(view) -> None:
    result = evaluate("protocols", view, BASELINES, protocol=("mit-barron",))["constant-shading"]
    rows = torch.tensor(result.details["columns"]["lmse"])
    assert result.score == pytest.approx(geometric_mean(rows).item())
    assert result.score != pytest.approx(rows.mean().item(), rel=1e-4)
    orb = evaluate("protocols", view, BASELINES, protocol=("stanford-orb",))["constant-shading"]
    values = np.array(orb.details["columns"]["psnr_reflectance"])
    groups = [values[:1], values[1:3], values[3:7], values[7:]]
    assert orb.score == pytest.approx(np.mean([group.mean() for group in groups]))
    assert orb.groups == tuple("abcd")
    assert math.isnan(orb.scores["psnr_reflectance"].low)  # four groups


def test_statistics_have_intervals_and_are_compared(memory_view) -> None:
    view = memory_view([noise(seed) for seed in range(8)], explains="image")
    for name in ("mit-barron", "stanford-orb"):
        results = evaluate("protocols", view, BASELINES, protocol=(name,))
        interval = next(iter(results["constant-shading"].scores.values()))
        assert interval.low < interval.value < interval.high
        assert str(compare(results["constant-shading"], results["constant-reflectance"]))


def test_groups_drawn_twice_count_twice(view) -> None:
    """The replicates are means of the means of drawn groups."""
    result = evaluate("protocols", view, BASELINES, protocol=("stanford-orb",))["constant-shading"]
    values = np.array(result.details["columns"]["psnr_reflectance"])
    means = np.array([values[:1].mean(), values[1:3].mean(), values[3:7].mean(), values[7:].mean()])
    draws = np.random.default_rng(0).integers(4, size=(40, 4))
    assert result.replicates["psnr_reflectance"] == pytest.approx(means[draws].mean(1))


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


@pytest.mark.parametrize("name", HIGHER)
def test_exact_predictions_are_the_best(view, name: str) -> None:
    lookup = {tuple(view[row].image.flatten()[:5].tolist()): view[row] for row in range(len(view))}

    def truth(image):
        items = [lookup[tuple(one.flatten()[:5].tolist())] for one in image]
        return torch.stack([item.reflectance for item in items]), torch.stack(
            [item.shading for item in items]
        )

    if name == "hypersim-marigold":  # its images are tone-mapped
        return
    assert evaluate("protocols", view, {"m": truth}, protocol=(name,))["m"].score == math.inf


def test_rows_without_truth_are_left_out_and_counted(memory_view) -> None:
    items = [noise(0), noise(1)]
    items[1].mask[:] = False
    view = memory_view(items, explains="image")
    for name in ("mit-grosse", "sintel", "hypersim-marigold"):
        result = evaluate("protocols", view, BASELINES, protocol=(name,))["constant-shading"]
        assert result.undefined == 1
    for name in ("mit-barron", "stanford-orb"):
        one = evaluate("protocols", memory_view(items[:1], explains="image"), BASELINES, protocol=(name,))[
            "constant-shading"
        ]
        two = evaluate("protocols", view, BASELINES, protocol=(name,))["constant-shading"]
        assert two.score == pytest.approx(one.score)


@pytest.mark.parametrize("name", HIGHER)
def test_rows_of_a_black_truth_are_left_out_and_counted(memory_view, name: str) -> None:
    black = noise(1)
    layer = "shading" if name == "hypersim-marigold" else "reflectance"
    getattr(black, layer)[:] = 0
    column = f"psnr_{layer}"
    views = [memory_view(items, explains="image") for items in ([noise(0)], [noise(0), black])]
    one, two = (
        evaluate("protocols", view, BASELINES, protocol=(name,))["constant-shading"].scores[column]
        for view in views
    )
    assert math.isfinite(two.value)
    assert two.value == pytest.approx(one.value)


def test_intervals_of_protocols_stay_in_the_range_of_each_score(memory_view) -> None:
    view = memory_view([noise(row) for row in range(3)], explains="image")
    for name in ("mit-grosse", "sintel", "interiorverse-marigold"):
        for column, score in evaluate("protocols", view, BASELINES, protocol=(name,))[
            "constant-shading"
        ].scores.items():
            least, largest = protocol_ranges(column)
            assert least <= score.low <= score.high <= largest


def test_interrupted_run_resumes_with_the_same_result(pair, tmp_path) -> None:
    models = {"m": open_model("constant-shading")}
    plain = evaluate("protocols", pair, models, protocol=("sintel",), batch_size=1)["m"]
    for reused in (0, 2):
        steps = FinishedSteps(tmp_path / "steps")
        found = evaluate("protocols", pair, models, protocol=("sintel",), batch_size=1, steps=steps)["m"]
        assert (found.to_json(), steps.reused) == (plain.to_json(), reused)
    steps = FinishedSteps(tmp_path / "steps")
    evaluate("protocols", pair, models, protocol=("mit-grosse",), batch_size=1, steps=steps)
    assert steps.reused == 0


def test_files_of_another_program(views, tmp_path) -> None:
    view = views["decompositions"]
    for row, name in enumerate(view.ids):
        np.savez(tmp_path / f"{name}.npz", reflectance=view[row].image, shading=torch.ones(3, 24, 32))
    files = {"files": open_predictions(tmp_path)}
    made = every({"decompositions": view}, files)
    same = evaluate("protocols", view, {"files": constant_shading}, protocol=("mit-grosse",))["files"]
    assert made.results["mit-grosse"]["files"].columns["lmse"] == pytest.approx(same.columns["lmse"])
    assert "arap-ordinal" in made.results
    notes = evaluate("protocols", view, files, protocol=("arap-ordinal",))["files"].details["notes"]
    assert notes == [
        f"files: {len(view)} of {len(view)} predictions had another size than their image and were resized"
    ]


def test_prepared_rows_are_a_view(view) -> None:
    rows = PreparedRows(view, ordinal_input)
    assert isinstance(rows, Decompositions)
    assert (rows.ids, rows.groups, len(rows), rows.explains) == (view.ids, view.groups, 8, "image")
    assert (rows.identity, rows.known_ids) == (view.identity, view.known_ids)


def test_input_of_arap_is_white_balanced_and_its_long_side_is_512() -> None:
    reflectance = torch.tensor([0.8, 0.4, 0.2])[:, None, None].expand(3, 30, 20)
    light = torch.tensor([1.2, 0.8, 0.4])[:, None, None]
    item = DecomposedImage(
        reflectance * light, reflectance, light.expand(3, 30, 20), torch.ones(30, 20).bool()
    )
    made = ordinal_input(item)
    assert made.image.shape == (3, 512, 341)
    gray = 0.3 * 1.2 + 0.59 * 0.8 + 0.11 * 0.4
    torch.testing.assert_close(
        made.image, torch.tensor([0.8, 0.4, 0.2])[:, None, None].expand_as(made.image) * gray
    )
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


def test_hypersim_rows_of_its_own_reader_are_not_prepared_again(view) -> None:
    seen = []

    def spy(image):
        seen.append(image)
        return image, torch.ones_like(image)

    evaluate("protocols", view, {"spy": spy}, protocol=("hypersim-marigold",))
    view.identity = view.identity.__class__("hypersim", "hypersim")
    evaluate("protocols", view, {"spy": spy}, protocol=("hypersim-marigold",))
    images = torch.stack([view[row].image for row in range(8)])
    assert not torch.equal(seen[0], images)
    assert torch.equal(seen[1], images)


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
    with pytest.raises(InputError, match=message) as caught:
        evaluate("protocols", views[data], BASELINES, protocol=(name,))
    assert "\n" not in str(caught.value)


def test_data_without_the_content_are_refused_or_left_out(views, memory_view) -> None:
    image = views["decompositions"][0].image
    small = memory_view([noise(0, 8, 9)], explains="image")
    poor = {
        "decompositions": small,
        "comparisons": memory_view([JudgedImage(image, None, torch.full((24, 32), 2))], origin="human"),
        "labels": InputError("iiw: has no labels"),
        "regions": memory_view([RegionImage(image, torch.ones(24, 32).long())], synthetic=False),
    }
    made = every(poor, BASELINES)
    assert list(made.results) == [
        *(n for n in DECOMPOSED if n not in ("mit-grosse", "sintel", "sintel-crefnet"))
    ]
    assert "images must be at least one window of 20x20" in made.left_out["mit-grosse"]
    assert "SSIM needs images of at least 11x11" in made.left_out["sintel"]
    assert made.left_out["iiw-whdr"] == "the data have no comparisons"
    assert made.left_out["saw"] == "iiw: has no labels"
    assert made.left_out["maw-2023"] == "the regions of the data have no true colours"
    for name in ("iiw-whdr", "saw", "maw-2023", "sintel"):
        with pytest.raises(InputError, match=rf"^protocol `{name}`: "):
            every(poor, BASELINES, ["stanford-orb", name])
    no_regions = RegionImage(image, torch.zeros(24, 32).long(), torch.ones(1, 3))
    made = every(poor | {"regions": memory_view([no_regions], synthetic=True)}, BASELINES)
    assert made.left_out["maw-2023"] == "the data have no regions of one material"
    nothing = {content: InputError("nowhere is missing") for content in poor}
    with pytest.raises(InputError, match=r"^no protocol fits the data; nowhere is missing$"):
        every(nothing, BASELINES)


def test_photographs_without_any_region_are_left_out(views, memory_view) -> None:
    none = torch.zeros(24, 32, dtype=torch.int64)
    blank = [RegionImage(image.image, none, torch.zeros(0, 3)) for image in views["regions"]]
    views["regions"] = memory_view([*blank, views["regions"][0]], synthetic=True)
    assert "maw-2023" in every(views, BASELINES).results
    views["regions"] = memory_view(blank, synthetic=True)
    assert every(views, BASELINES).left_out == {"maw-2023": "the data have no regions of one material"}


def test_a_model_of_several_lights_leaves_out_protocols_that_show_one_image(views, memory_view) -> None:
    def brightest(image, lights):
        return image, lights.amax(1)

    models = {"plain": constant_shading, "brightest": brightest}
    items = [replace(item, lights=torch.rand(4, 3, 24, 32)) for item in views["decompositions"]]
    views["decompositions"] = memory_view(items, explains="image")
    made = every(views, models)
    assert list(made.results) == ["mit-grosse", "mit-barron", "sintel", "sintel-crefnet", "stanford-orb"]
    message = "`brightest` takes images under several lights, and a model is shown one image here"
    assert set(made.left_out.values()) == {message}
    for name in ("arap-ordinal", "iiw-whdr", "saw", "maw-2023"):
        with pytest.raises(InputError, match=rf"^protocol `{name}`: {message}$"):
            evaluate("protocols", views[PROTOCOLS[name].reads], models, protocol=(name,))
