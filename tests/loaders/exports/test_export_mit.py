"""Export captures to the MIT layout: a scene in closed form, and a few tiny renders."""

import os
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest

from candlelight.loaders.exports.export_mit import HEADROOM, MIT_WHITE, CapturesRecord, export_mit
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.public import MITIntrinsic
from tests.loaders.exports.conftest import HEIGHT, ITEMS, LIGHTS, MASK, WIDTH, albedo, gloss, shading
from tests.refusals import refused

torch = pytest.importorskip("torch")

COLOUR = ("original", "diffuse", "specular", "reflectance", "light01", "light02")


@pytest.fixture(scope="module")
def exported(tmp_path_factory, capture_frames):
    """Export the captures by each method."""
    root = tmp_path_factory.mktemp("exported")
    for by in ("paper", "passes"):
        assert export_mit(capture_frames, root / by, by).written == len(ITEMS)
    return root


@pytest.fixture
def export(write_captures, tmp_path):
    """Return a function that writes captures with changes, exports them, and returns the folder."""

    def made(**changes):
        export_mit(write_captures(tmp_path / "frames", **changes), tmp_path / "out")
        return tmp_path / "out"

    return made


@pytest.fixture
def read(read_png16):
    return lambda out, item="cup": {p.stem: read_png16(p) for p in (out / "data" / item).iterdir()}


def record(out):
    return CapturesRecord.model_validate_json((out / "captures.json").read_text())


# ------------------------------------------------------------------------------------------------ the files


def test_file_names_and_formats_match_the_dataset(exported, read):
    assert {path.name for path in (exported / "paper" / "data").iterdir()} == set(ITEMS)
    images = read(exported / "paper")
    assert images.keys() == {*COLOUR, "shading", "mask"}
    for name, image in images.items():
        assert image.dtype == np.uint16
        assert image.shape == ((HEIGHT, WIDTH, 3) if name in COLOUR else (HEIGHT, WIDTH))
        assert not image[~MASK].any()  # the background is exactly 0
    np.testing.assert_array_equal(images["mask"], MIT_WHITE * MASK)


def test_the_dataset_reader_reads_an_export(exported, read):
    data = MITIntrinsic(exported / "paper")
    assert data.ids == ITEMS
    names = {"image": "original", "shading": "shading"} | {name: name for name in COLOUR[1:4]}
    for item in data:
        images = read(exported / "paper", item["id"])
        for key, name in names.items():
            image = np.moveaxis(images[name].reshape(HEIGHT, WIDTH, -1), 2, 0)
            np.testing.assert_array_equal(np.rint(item[key].double().numpy() * 65535), image)


@pytest.mark.parametrize("by", ["paper", "passes"])
def test_exported_values_match_the_closed_form(exported, read, by):
    made, images = record(exported / by).objects["cup"], read(exported / by)
    # The brightest diffuse value of any light is 0.5 (green, left); highlights may be twice as bright.
    assert made.units["radiance"] == pytest.approx(MIT_WHITE / (HEADROOM * 0.5))
    assert made.units["shading"] == pytest.approx(MIT_WHITE / (0.5 if by == "paper" else 1.0))
    assert made.units["reflectance"] == pytest.approx(MIT_WHITE / (1.0 if by == "paper" else 0.5))
    assert made.k == pytest.approx(made.units["reflectance"] * made.units["shading"] / made.units["radiance"])
    assert made.reconstruction < 1e-12
    true = albedo("cup", "own")[MASK]
    np.testing.assert_array_equal(
        images["reflectance"][MASK], np.rint(true * (2 if by == "paper" else 1) * made.units["reflectance"])
    )
    for name, light in (("diffuse", "main"), ("light01", "light01"), ("light02", "light02")):
        expected = np.rint(true * shading(light)[MASK] * made.units["radiance"])
        np.testing.assert_array_equal(images[name][MASK], expected)
    specular = np.rint(gloss("own")[MASK] * made.units["radiance"]).clip(max=65535)
    np.testing.assert_array_equal(images["specular"][MASK], specular)
    product = images["reflectance"] * images["shading"][..., None].astype(float) / made.k
    assert np.abs(product - images["diffuse"])[MASK].max() <= 2  # rounding of three 16-bit values


@pytest.mark.parametrize(("by", "times"), [("paper", 2), ("passes", 1)])
def test_the_original_has_the_gloss_twice_by_the_paper_and_once_as_published(exported, read, by, times):
    images = {name: image.astype(int) for name, image in read(exported / by).items()}
    expected = images["diffuse"] + times * images["specular"]
    whole = images["original"] < 65535
    assert np.abs(images["original"] - expected)[whole].max() <= times
    # Equation 4 returns the gloss at every pixel that is not clipped.
    if by == "paper":
        derived = (images["original"] - images["diffuse"]) / 2
        assert np.abs(derived - images["specular"])[whole].max() <= 1


def test_clipped_pixels_are_counted(exported):
    share = 1 / MASK.sum()  # the one pixel whose gloss is 4, where white is 1
    found = record(exported / "paper").objects["cup"].saturated
    assert found == pytest.approx({"original": share, "specular": share})


def test_dim_highlights_are_not_clipped(export, read):
    def dimmed(key, layers):
        return layers | {"residual": np.minimum(layers["residual"], np.float16(0.0625))}

    out = export(change=dimmed)
    assert record(out).objects["cup"].saturated == {}
    assert read(out)["original"].max() == MIT_WHITE


def test_methods_agree_without_bounced_light_and_gloss(exported):
    compared = record(exported / "paper").objects["deer"].comparison
    assert compared.model_dump() == pytest.approx(dict.fromkeys(type(compared).model_fields, 0.0), abs=1e-12)


def test_bounced_light_shows_in_the_comparison(export):
    def bounced(key, layers):
        extra = np.where(np.arange(WIDTH)[:, None] < 12, 0.25 if key[2] == "own" else 0.5, 0.0)
        return layers | {"shading": (layers["shading"] + extra).astype(np.float16)}

    compared = record(export(change=bounced)).objects["deer"].comparison
    assert compared.reflectance > 0.02
    assert compared.shading > 0.02
    assert compared.reflectance_direct == pytest.approx(0, abs=1e-12)
    assert compared.shading_direct == pytest.approx(0, abs=1e-12)
    # Inside the outline, columns 6 to 25: 6 of them with 0.25 more than the ramp of 1, 1/2, 1/4, 1/8.
    ramp = shading("main")[0, 6:-6, 0].sum()
    assert compared.bounced == pytest.approx(1.5 / (ramp + 1.5), abs=1e-3)


def test_frames_without_direct_light_have_no_direct_differences(export):
    compared = record(export(drop="shading_direct")).objects["cup"].comparison
    assert (compared.reflectance_direct, compared.shading_direct, compared.bounced) == (None, None, None)


def test_captures_json_holds_the_method_and_the_lights(exported):
    made = record(exported / "passes")
    assert (made.by, made.recipe.name, made.licence) == ("passes", "tiny", "CC-BY-4.0")
    places = {name: lights[0].location[0] for name, lights in made.lights.items()}
    assert places == {light: float(number) for number, light in enumerate(LIGHTS)}
    assert made.objects["cup"].size == (HEIGHT, WIDTH)


def test_a_pack_exports_the_same_files_if_it_is_not_damaged(capture_frames, exported, read, tmp_path):
    (pack,) = pack_hdf5(capture_frames, tmp_path / "h5", compression="none")
    export_mit(tmp_path / "h5", tmp_path / "out")
    packed = read(tmp_path / "out", "deer")
    for name, image in read(exported / "paper", "deer").items():
        np.testing.assert_array_equal(packed[name], image)
    with h5py.File(pack, "r+") as file:
        file["albedo"][3, 5, 5, 0] = 0.75
    with refused("layer `albedo` differs from its hash; render or pack it again"):
        export_mit(pack, tmp_path / "mit")


# ----------------------------------------------------------------------------------------------- refusals


def black(key, layers):
    return layers | {"albedo": layers["albedo"] * np.float16(0)}


def gone(key, layers):
    return layers | {"object": layers["object"] * np.uint8(0)}


def moved(key, layers):
    return layers | {"object": np.roll(layers["object"], 1, 1)} if key[2] == "uniform" else layers


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"without": ("deer", "second", "uniform")}, "`deer` has no complete frame with light `second` and"),
        ({"drop": "material"}, "categorical factors item, light, material, got no material; export"),
        ({"drop": "residual"}, "has no layer residual; name it in `layers` and render"),
        ({"lights": ("main", "second", "window")}, "`window`: expected main, second or light01, light02"),
        ({"items": ("../cup",)}, r"item `../cup`: expected letters, digits, `_`, `-` and `.`"),
        ({"change": black}, "`cup` has no radiance anywhere; light it, or move it into the image"),
        ({"change": gone}, "`cup` has no radiance anywhere"),
        (
            {"change": moved},
            "`cup` has another outline with light `main` and material `uniform`; name `item`",
        ),
    ],
    ids=["frame", "factor", "layer", "light", "item", "black", "gone", "moved"],
)
def test_refusals_name_the_problem(export, tmp_path, changes, message):
    with refused(message):
        export(**changes)
    assert not (tmp_path / "cup").exists()


# ------------------------------------------------------------------------------- code written for the dataset


def benchmark_image(read_png16, folder, item, name):
    """Read an image like the benchmark of 2009: 16-bit values over 255, the mean of the channels."""
    image = read_png16(folder / "data" / item / f"{name}.png").astype(float) / 255
    return image.mean(axis=2) if image.ndim == 3 else image


def benchmark_lmse(correct, estimate, mask, window=20):
    """Sum the errors of all whole windows, half a window apart, and divide by the error of zeros."""
    errors = total = 0.0
    for top in range(0, correct.shape[0] - window + 1, window // 2):
        for left in range(0, correct.shape[1] - window + 1, window // 2):
            here = np.s_[top : top + window, left : left + window]
            c, e, m = correct[here], estimate[here], mask[here]
            energy = (m * e * e).sum()
            scale = (m * c * e).sum() / energy if energy > 1e-5 else 0.0
            errors += (m * (c - scale * e) ** 2).sum()
            total += (m * c * c).sum()
    return errors / total


def check_benchmark(read_png16, folder, item):
    """Score the two simplest estimates by the benchmark and by this package; both must agree."""
    from candlelight.evaluation.intrinsic import lmse  # needs torch

    mask = benchmark_image(read_png16, folder, item, "mask") > 0
    truth = {name: benchmark_image(read_png16, folder, item, name) for name in ("shading", "reflectance")}
    image = np.clip(benchmark_image(read_png16, folder, item, "diffuse"), 3, np.inf)
    for name, true in truth.items():
        assert benchmark_lmse(true, true, mask) == pytest.approx(0, abs=1e-12)
        assert benchmark_lmse(true, 0 * true, mask) == 1
        score = benchmark_lmse(true, mask * image, mask)
        assert 0 < score < 1
        mine, its = (torch.from_numpy(array / 257)[None] for array in (mask * image, true))
        assert lmse(mine, its, torch.from_numpy(mask)[None]).item() == pytest.approx(score, rel=1e-6), name


def test_the_benchmark_runs_on_an_export(exported, read_png16):
    check_benchmark(read_png16, exported / "paper", "cup")


@pytest.mark.oracle
@pytest.mark.skipif("MIT_INTRINSIC" not in os.environ, reason="MIT_INTRINSIC names no folder of the dataset")
def test_the_benchmark_runs_on_the_real_dataset(read_png16):
    check_benchmark(read_png16, Path(os.environ["MIT_INTRINSIC"]), "cup1")


# ------------------------------------------------------------------------------------------------- renders


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Render three objects of the recipe: convex without gloss, concave without gloss, and glossy."""
    if not all(find_spec(name) for name in ("bpy", "OpenEXR", "pyoidn", "distributed")):
        pytest.skip("rendering is not installed here")
    from candlelight.generators import load_recipe, make_plan, render

    fields = {
        "image": "{width: 48, height: 36}",
        "render.samples": "8",
        "sets.captures.factors.item.values": "[hat, gear, ball]",
        "sets.captures.factors.light.values": "[main, second]",
        "sets.captures.rules": "[]",
    }
    plan = make_plan(load_recipe("captures", [f"{field}={value}" for field, value in fields.items()]))
    root = tmp_path_factory.mktemp("captures") / "frames"
    assert render(plan, root, workers=1).written == 12
    return root


@pytest.fixture(scope="module")
def developed(rendered, tmp_path_factory):
    out = tmp_path_factory.mktemp("mit") / "out"
    export_mit(rendered, out)
    return out


@pytest.fixture(scope="module")
def frames(rendered):
    opened = FrameFolder(rendered, "captures")
    rows = {tuple(opened.metadata(row).factors.values()): row for row in range(len(opened))}
    return lambda item, paint, light: opened.frame(rows[item, paint, light]).layers


@pytest.mark.blender
def test_the_uniform_paint_changes_only_the_reflectance(frames):
    for item in ("hat", "gear", "ball"):
        own, uniform = frames(item, "own", "main"), frames(item, "uniform", "main")
        for layer in ("depth", "normal", "object"):
            np.testing.assert_array_equal(own[layer], uniform[layer], err_msg=f"{item} {layer}")
        inside = own["object"] == 1
        assert (
            len(np.unique(uniform["albedo"][inside].reshape(-1, 3), axis=0)) < inside.sum() / 2
        )  # except edges
        assert (uniform["albedo"] == np.float16(0.5)).all(axis=-1).sum() > inside.sum() / 2
        # A coat of gloss reduces diffuse light; the uniform paint has none.
        assert np.abs(uniform["residual"]).max() < 1e-3


@pytest.mark.blender
def test_rendered_files_are_the_layers_at_their_scale(frames, developed, read_png16):
    made = record(developed)
    for item, capture in made.objects.items():
        own = {name: layer.astype(float) for name, layer in frames(item, "own", "main").items()}
        mask = own["object"] > 0
        images = {p.stem: read_png16(p).astype(float) for p in (developed / "data" / item).iterdir()}
        np.testing.assert_array_equal(images["mask"], 65025 * mask)
        expected = {"specular": own["residual"].clip(min=0), "diffuse": own["albedo"] * own["shading"]}
        for name, array in expected.items():
            stored = np.rint(array * capture.units["radiance"]).clip(max=65535) * mask[..., None]
            np.testing.assert_array_equal(images[name], stored, err_msg=f"{item} {name}")
        product = images["reflectance"] * images["shading"][..., None] / capture.k
        error = np.linalg.norm(product - images["diffuse"]) / np.linalg.norm(images["diffuse"])
        assert error == pytest.approx(capture.reconstruction, abs=1e-3)
        assert error < 0.083  # the largest error of the published objects
        assert sum(capture.saturated.values()) < 0.03


@pytest.mark.blender
def test_methods_differ_by_bounced_light_and_by_gloss(developed):
    compared = {item: capture.comparison for item, capture in record(developed).objects.items()}
    assert compared["hat"].reflectance < 0.01  # convex and without gloss: only noise
    assert compared["hat"].shading < 0.01
    gear, ball = compared["gear"], compared["ball"]
    assert gear.bounced > 3 * compared["hat"].bounced
    assert gear.reflectance > gear.reflectance_direct + 0.01  # its teeth colour each other
    assert abs(ball.reflectance - ball.reflectance_direct) < 0.005
    assert ball.shading > 0.01  # at grazing angles the coat of gloss passes less light
    assert ball.shading == pytest.approx(ball.shading_direct, rel=0.1)


@pytest.mark.blender
def test_lights_illuminate_the_sides_that_face_them(frames):
    left, right = (frames("ball", "uniform", light)["shading"].mean(axis=-1) for light in ("main", "second"))
    half = left.shape[1] // 2
    assert left[:, :half].sum() > left[:, half:].sum()
    assert right[:, :half].sum() < right[:, half:].sum()


@pytest.mark.blender
def test_the_benchmark_runs_on_renders(developed, read_png16):
    check_benchmark(read_png16, developed, "gear")
