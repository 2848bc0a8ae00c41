"""Scores of one layer: those of other libraries, perfect and failed predictions, options, parts and files."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.alignment import align, in_space, resize
from candlelight.evaluation.intrinsic.layer_records import constant_layers
from candlelight.evaluation.intrinsic.lpips import FEATURE_STACKS, open_lpips
from candlelight.evaluation.report.plain_section import score_bars
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.model_outputs import LAYER_CHANNELS, MissingLayer
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.run.result_files import read_results, write_results
from candlelight.evaluation.run.score_tables import score_markdown
from candlelight.evaluation.views import DecomposedImage, LayerImage
from tests.refusals import refused

RNG = np.random.default_rng(0)
LAYERS = ("albedo", "shading", "residual", "normal", "depth", "roughness", "metallic")


def draw(layer: str) -> Tensor:
    values = RNG.uniform(0.1, 1, (LAYER_CHANNELS.get(layer, (3,))[0], 24, 30)).astype(np.float32)
    return torch.from_numpy(values - 0.5 if layer == "normal" else values)


TRUTH = [{layer: draw(layer) for layer in LAYERS} for _ in range(3)]
MASKS = [torch.from_numpy(RNG.random((24, 30)) > 0.2) for _ in TRUTH]
IMAGES = [one["albedo"] * one["shading"] + one["residual"] for one in TRUTH]
ALIGNED = {
    **{"none": "srgb", "scale": "linear", "per-channel": "gamma2.2"},
    **{"scale-shift": "srgb", "median": "linear"},
}
LEFT = (torch.arange(30) < 12).expand(24, 30)


@pytest.fixture
def rows(memory_view):
    """Make the view of a layer, whose truth is not a number outside the mask; the third image has no ball."""

    def make(layer: str, parts: bool = False):
        items = []
        for number, (image, truth, mask) in enumerate(zip(IMAGES, TRUTH, MASKS, strict=True)):
            true = image if layer == "reconstruction" else truth[layer].masked_fill(~mask, torch.nan)
            ball = LEFT if number < 2 else LEFT & False
            items.append(LayerImage(image, true, mask, layer, {"ball": ball, "wall": ~ball} if parts else {}))
        return memory_view(items)

    return make


def looked_up(**changes):
    """Make a model that answers the truth after a change of layers; a layer that is None is left out."""

    def model(image: Tensor) -> dict[str, Tensor]:
        found = [next(n for n, one in enumerate(IMAGES) if torch.equal(one, each)) for each in image]
        given = {layer: torch.stack([TRUTH[n][layer] for n in found]) for layer in LAYERS}
        given |= {layer: change and change(given[layer]) for layer, change in changes.items()}
        return {layer: values for layer, values in given.items() if values is not None}

    return model


def score(name: str, view, model, **options):
    return evaluate(name, view, {"mine": model}, device="cpu", **options)["mine"]


@pytest.mark.parametrize("layer", [*LAYERS, "reconstruction"])
def test_the_perfect_prediction_is_perfect_in_every_space_size_and_alignment(rows, layer) -> None:
    for place, (fit, space) in enumerate(ALIGNED.items(), len(layer)):  # any two of the three meet
        size, how = (("none", "area"), ("17", "bilinear"), ("53", "area"))[place % 3]
        space = space if layer in ("albedo", "reconstruction") else "linear"
        options = {"layer": layer, "align": fit, "space": space, "resize": size, "filter": how}
        result = score("layer", rows(layer), looked_up(), **options)
        assert max(result.columns[f"mae_{layer}"]) < 1e-6
        assert min(result.columns[f"psnr_{layer}"]) > 110
        assert min(result.columns[f"ssim_{layer}"]) > 1 - 1e-9
        assert {name: result.about.settings[name] for name in options} == options


@pytest.mark.parametrize("size", ["none", "17"])
def test_perfect_normals_and_depth_are_perfect_and_the_control_is_not(rows, size) -> None:
    normals = evaluate("normals", rows("normal"), {"mine": looked_up()}, resize=size, filter="area")
    assert max(normals["mine"].columns["mean_angle"]) < 1e-5
    assert normals["mine"].columns["within_11_25"] == (1, 1, 1)
    assert normals["constant"].score > 30
    for fit in ("none", "scale-shift", "median"):
        change = (lambda d: 0.3 * d - 0.01) if fit == "scale-shift" else (lambda d: d)
        found = evaluate("depth", rows("depth"), {"mine": looked_up(depth=change)}, align=fit, resize=size)
        assert max(found["mine"].columns["abs_rel"]) < 1e-6
        assert found["mine"].columns["delta_1_25"] == (1, 1, 1)
        assert found["constant"].score > 0.1
    flipped = looked_up(normal=lambda n: n * torch.tensor([1.0, -1, -1])[:, None, None])
    assert score("normals", rows("normal"), flipped).score > 30
    assert score("normals", rows("normal"), flipped, axes="opengl").score < 1e-5
    turned = evaluate("normals", rows("normal"), {"mine": flipped}, resize=size, filter="area", axes="opengl")
    assert turned["constant"].columns == normals["constant"].columns  # it is in the axes of the truth


def test_image_scores_are_those_of_scikit_image(rows) -> None:
    metrics = pytest.importorskip("skimage.metrics", reason="the extra `oracles` is not installed")
    wrong = looked_up(albedo=lambda values: 0.4 * values + 0.3 * values.roll(3, 3))
    result = score("layer", rows("albedo"), wrong, align="scale", space="srgb", resize="53", filter="area")
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "channel_axis": -1}
    for row, (truth, mask) in enumerate(zip(TRUTH, MASKS, strict=True)):
        weights = resize(mask[None, None].double(), (42, 53), "area").clamp(max=1)
        pair = [
            resize((values * mask)[None], (42, 53), "area")
            / weights.where(weights > 0, torch.ones(()).double())
            for values in (wrong(IMAGES[row][None])["albedo"][0], truth["albedo"])
        ]
        pair[0] = align(*pair, weights[:, 0], "scale")
        one, other = (
            (in_space(values, "srgb") * (weights > 0))[0].permute(1, 2, 0).numpy() for values in pair
        )
        shares = np.broadcast_to(weights[0].permute(1, 2, 0).numpy(), one.shape)
        square = np.average((one - other) ** 2, weights=shares)
        assert result.columns["mae_albedo"][row] == pytest.approx(
            np.average(abs(one - other), weights=shares), rel=1e-6
        )
        assert result.columns["rmse_albedo"][row] == pytest.approx(math.sqrt(square), rel=1e-6)
        assert result.columns["psnr_albedo"][row] == pytest.approx(-10 * math.log10(square), rel=1e-6)
        _, windows = metrics.structural_similarity(one, other, data_range=1, full=True, **settings)
        assert result.columns["ssim_albedo"][row] == pytest.approx(windows[5:-5, 5:-5].mean(), rel=1e-6)


def test_reconstruction_is_albedo_times_shading_plus_residual_where_a_model_has_one(rows) -> None:
    whole, part = (
        score("layer", rows("reconstruction"), model, layer="reconstruction")
        for model in (looked_up(), looked_up(residual=None))
    )
    assert max(whole.columns["mae_reconstruction"]) < 1e-6
    lost = [float(one["residual"][:, mask].mean()) for one, mask in zip(TRUTH, MASKS, strict=True)]
    assert part.columns["mae_reconstruction"] == pytest.approx(lost, rel=1e-5)


def test_parts_are_scored_apart_after_the_alignment_of_the_whole(rows) -> None:
    wrong = looked_up(albedo=lambda values: values.where(LEFT, 2 * values))
    result = score("layer", rows("albedo", parts=True), wrong)
    values = [one["albedo"] for one in TRUTH]
    ball = [float(one[:, LEFT & mask].mean()) for one, mask in zip(values, MASKS, strict=True)]
    wall = [float(one[:, mask & ~LEFT].mean()) for one, mask in zip(values, MASKS, strict=True)]
    assert result.columns["mae_albedo of ball"] == pytest.approx([0, 0, math.nan], nan_ok=True)
    assert result.columns["mae_albedo of wall"][:2] == pytest.approx(wall[:2], rel=1e-5)
    assert result.about.arrow("psnr_albedo of ball") == " ↑"
    assert result.about.arrow("mae_albedo of ball") == " ↓"
    aligned = score("layer", rows("albedo", parts=True), wrong, align="scale")
    assert 0 < aligned.columns["mae_albedo of ball"][0] < ball[0]
    resized = score("normals", rows("normal", parts=True), looked_up(), resize="17")
    assert max(resized.columns["mean_angle of wall"]) < 1e-5


@pytest.mark.parametrize(("size", "how"), [("prediction", "bilinear"), ("17", "bilinear"), ("19", "area")])
def test_scores_of_a_part_do_not_depend_on_the_pixels_of_other_parts(rows, size, how) -> None:
    noise = torch.rand(3, 24, 30, generator=torch.Generator().manual_seed(0))
    found = [
        score(name, rows(layer, parts=True), looked_up(**{layer: change}), resize=size, filter=how)
        for name, layer in (("layer", "albedo"), ("normals", "normal"), ("depth", "depth"))
        for change in (
            lambda v: 0.8 * v.where(LEFT, v + 0.01),
            lambda v: 0.8 * v.where(LEFT, noise[: v.shape[1]]),
        )
    ]
    for one, other in zip(found[::2], found[1::2], strict=True):
        for column in one.columns:
            equal = one.columns[column][:2] == pytest.approx(other.columns[column][:2], rel=1e-9)
            assert equal == column.endswith("of ball")


def test_what_is_outside_a_mask_does_not_leak_into_predictions_of_another_size(rows) -> None:
    def small(depth):
        flat = torch.full_like(depth[..., ::2, ::2], 0.7)
        flat[..., 6:] = 1e4  # a sky that is finite
        return flat

    view = rows("depth")
    view.items = [replace(one, mask=LEFT, truth=torch.full((1, 24, 30), 0.7)) for one in view.items]
    assert max(score("depth", view, looked_up(depth=small)).columns["abs_rel"]) < 1e-6


def test_an_alignment_beyond_all_numbers_is_a_bad_score_and_no_error(rows) -> None:
    def steep(values):
        return torch.full_like(values, 1e-40).where(LEFT | (torch.arange(24) < 20)[:, None], 1)

    found = evaluate("layer", rows("albedo"), {"mine": looked_up(albedo=steep)}, align="median")
    assert found["mine"].score > 1e30


def test_a_layer_that_is_not_read_cannot_fail_and_one_that_is_missing_is_not_scored(
    rows, memory_view
) -> None:
    spoilt = looked_up(depth=lambda d: d * math.nan, normal=lambda n: n[..., :3], shading=None)
    assert score("layer", rows("albedo"), spoilt).failed == ()
    assert len(score("depth", rows("depth"), spoilt).failed) == 3
    with refused(r"model: expected normal \[3, 3, height, width\], .*return", MissingLayer):
        score("normals", rows("normal"), looked_up(normal=None))
    both = {"albedo alone": lambda image: image, "all": looked_up()}
    found = evaluate("normals", rows("normal"), both)
    assert list(found) == ["all", "constant"]
    assert "left out: albedo alone: expected normal [3, 3, height" in found["all"].details["notes"][0]
    items = [
        DecomposedImage(image, truth["albedo"], truth["shading"], mask)
        for image, truth, mask in zip(IMAGES, TRUTH, MASKS, strict=True)
    ]
    pairs = memory_view(items, explains="image")
    assert list(evaluate("protocols", pairs, both, protocol=("mit-grosse",))) == ["all"]


def test_a_sky_of_another_size_is_no_failure_and_does_not_leak_in(rows) -> None:
    def small(depth):
        flat = torch.full_like(depth[..., ::2, ::2], 0.7)
        flat[:, :, :, 6:] = math.inf  # outside the mask
        return flat

    left = (torch.arange(30) < 13).expand(24, 30)
    view = rows("depth", parts=True)
    view.items = [replace(one, mask=left, truth=torch.full((1, 24, 30), 0.7)) for one in view.items]
    result = score("depth", view, looked_up(depth=small))
    assert result.failed == ()
    assert max(result.columns["abs_rel"]) < 1e-6
    view.items = [replace(one, mask=left | True) for one in view.items]
    found = evaluate("depth", view, {"mine": looked_up(depth=small)})
    assert len(found["mine"].failed) == 3
    assert math.isnan(found["mine"].columns["abs_rel of ball"][2])  # of no pixels, for the failed one too


def test_a_failed_prediction_is_the_worst(rows) -> None:
    def fails(values):
        values = values.clone()
        values[1, 0, :, :] = math.inf
        return values

    found = evaluate("layer", rows("roughness"), {"mine": looked_up(roughness=fails)}, layer="roughness")
    mine, control = found["mine"], found["constant"]
    assert mine.failed == ("row-1",)
    assert mine.columns["mae_roughness"][1] >= max(control.columns["mae_roughness"])
    assert mine.columns["psnr_roughness"][1] <= min(control.columns["psnr_roughness"])


def test_results_have_a_direction_for_each_column(rows, tmp_path) -> None:
    found = evaluate("depth", rows("depth"), {"mine": looked_up(depth=lambda d: 1.1 * d)})
    write_results(tmp_path / "a.json", list(found.values()))
    assert [one.about for one in read_results(tmp_path / "a.json")] == [one.about for one in found.values()]
    for column in found["mine"].columns:
        assert compare(found["mine"], found["constant"], column).better == found["mine"].about.better[column]
    other = evaluate("depth", rows("depth"), {"other": looked_up(depth=lambda d: 1.3 * d)})["other"]
    head, _, mine, control, rival, *_ = score_markdown([*found.values(), other]).splitlines()
    assert head == "| model | abs_rel ↓ | delta_1_25 ↑ | si_log ↓ |"
    assert [one.count("**") for one in (mine, control, rival)] == [6, 0, 0]  # a control does not compete


def test_lpips_is_that_of_the_weights_in_the_folder(rows, tmp_path) -> None:
    stack = FEATURE_STACKS["squeeze"]
    torch.manual_seed(0)
    torch.save({f"features.{k}": v for k, v in stack.build().state_dict().items()}, tmp_path / stack.file)
    heads = {f"lin{n}.model.1.weight": torch.rand(1, width, 1, 1) for n, width in enumerate(stack.channels)}
    torch.save(heads, tmp_path / "squeeze.pth")
    place = f"squeeze:{tmp_path}"
    distance, _ = open_lpips(place)
    for layer in ("albedo", "roughness"):
        wrong = looked_up(**{layer: lambda values: 0.5 * values})
        result = score("layer", rows(layer), wrong, layer=layer, lpips=place)
        for row, (truth, mask) in enumerate(zip(TRUTH, MASKS, strict=True)):
            true = truth[layer].expand(3, -1, -1)[None]
            expected = float(distance(0.5 * true, true, mask[None]))
            assert result.columns[f"lpips_{layer}"][row] == pytest.approx(expected, rel=1e-5)
        perfect = score("layer", rows(layer), looked_up(), layer=layer, lpips=place)
        assert max(perfect.columns[f"lpips_{layer}"]) < 1e-6


@pytest.mark.parametrize("layer", ["normal", "depth", "roughness"])
def test_files_have_the_scores_of_the_model_and_other_sizes_are_resized(rows, layer, tmp_path: Path) -> None:
    wrong = looked_up(**{layer: lambda values: 0.6 * values + 0.1})
    view = rows(layer)
    for row, name in enumerate(view.ids):
        given = wrong(IMAGES[row][None])[layer][0].numpy()
        (tmp_path / "whole").mkdir(exist_ok=True)
        np.savez(tmp_path / "whole" / f"{name}.npz", **{layer: given}, albedo=np.full((3, 24, 30), np.nan))
        (tmp_path / "small" / layer).mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "small" / layer / f"{name}.npy", given[:, ::2, ::2])
    name = {"roughness": "layer", "normal": "normals"}.get(layer, layer)
    options = {"layer": layer} if name == "layer" else {}
    files = score(name, view, open_predictions(tmp_path / "whole"), **options)
    assert files.columns == score(name, view, wrong, **options).columns
    small = score(name, view, open_predictions(tmp_path / "small"), **options)
    assert (
        "3 of 3 predictions had another size than their image and were resized" in small.details["notes"][0]
    )
    small_model = looked_up(**{layer: lambda values: (0.6 * values + 0.1)[..., ::2, ::2]})
    assert small.columns == score(name, view, small_model, **options).columns
    with refused("expected predictions of 24x30 pixels, as the truth, got 12x15; give `resize` prediction"):
        score(name, view, small_model, **options, resize="none")
    with refused("expected reflectance, the files of `row-0` have none of them; add the layer", MissingLayer):
        score("layer", rows("albedo"), open_predictions(tmp_path / "small"))


def test_an_id_without_a_file_of_the_layer_fails_if_the_caller_says_so(rows, tmp_path: Path) -> None:
    view = rows("depth")
    for row, name in enumerate(view.ids):
        for layer in ("depth", "roughness")[: 1 if name == "row-1" else 2]:
            (tmp_path / layer).mkdir(exist_ok=True)
            np.save(tmp_path / layer / f"{name}.npy", TRUTH[row][layer].numpy())
    files = open_predictions(tmp_path)
    assert score("depth", view, files, missing="fail").failed == ()
    with refused(r"`row-1`: roughness: expected a file for each id, there is none; .* \(`missing` fail\)"):
        score("layer", rows("roughness"), files, layer="roughness")
    assert score("layer", rows("roughness"), files, layer="roughness", missing="fail").failed == ("row-1",)


def test_bars_of_infinite_and_of_negative_scores(rows) -> None:
    wrong = looked_up(albedo=lambda values: 20 * values)
    found = evaluate("layer", rows("albedo"), {"perfect": looked_up(), "wrong": wrong})
    plot = score_bars(list(found.values()), "psnr_albedo")
    assert "perfect ∞, wrong -" in plot.alt


def test_images_smaller_than_a_window_have_no_ssim(rows) -> None:
    for size in ("1", "8"):
        result = score("layer", rows("albedo"), looked_up(), resize=size)
        assert max(result.columns["mae_albedo"]) < 1e-6
        assert np.isnan(result.columns["ssim_albedo"]).all()


def test_faults_are_one_line(rows) -> None:
    tall = looked_up(albedo=lambda values: values[..., :10])
    for message, call in {
        "`resize`: expected none, prediction or pixels, got half": lambda: score(
            "layer", rows("albedo"), looked_up(), resize="half"
        ),
        "`space`: `depth` is no colour; leave it out": lambda: score(
            "layer", rows("depth"), looked_up(), layer="depth", space="srgb"
        ),
        "expected rows of the layer albedo, got depth": lambda: score("layer", rows("depth"), looked_up()),
        r"albedo: expected the proportions of its image, \[24, 30\], got \[24, 10\]": lambda: score(
            "layer", rows("albedo"), tall
        ),
        "expected albedo, shading and residual of an image in one size": lambda: score(
            "layer", rows("reconstruction"), tall, layer="reconstruction"
        ),
    }.items():
        with refused(message):
            call()


def test_the_control_is_constant() -> None:
    given = constant_layers(torch.rand(2, 3, 4, 5))
    assert {layer: values.shape[1] for layer, values in given.items()} == {
        "albedo": 3, "shading": 3, "residual": 3, "normal": 3, "depth": 1, "roughness": 1, "metallic": 1,
    }  # fmt: skip
    assert all(torch.equal(values, values[:1, :, :1, :1].expand_as(values)) for values in given.values())
