"""The demo at the smallest size: render, pack, load, train and evaluate."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.run.result_files import read_results
from candlelight.loaders import FrameFolder, HDF5Frames, HubFrames

pytestmark = [
    pytest.mark.blender,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("bpy") is None, reason="rendering needs bpy"),
]

SMALLER = (
    "image={width: 32, height: 24}",
    "render.samples=4",
    "sets.candle.factors.scene.values=[garden]",
    "sets.candle.factors.object_type.values=[cube, cone]",
    "sets.albedo.factors.scene.values=[suzanne]",
    "sets.albedo.factors.texturing.values=[rgb]",
    "sets.albedo.factors.temperature.values=[4500]",
    "sets.albedo.factors.material.count=6",
    "sets.illumination.factors.scene.values=[suzanne]",
    "sets.illumination.factors.texturing.values=[rgb]",
    "sets.illumination.factors.temperature.values=[4500]",
    "sets.illumination.factors.light_azimuth.values=[-40, -20, -4, 4, 20, 40]",
    "sets.negatives.draws=12",
    "sets.tabletop.draws=8",
    "sets.tabletop_test.draws=4",
)


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, (result.output, result.exc_info)
    return result.output


@pytest.fixture(scope="module")
def rendered(tmp_path_factory, datasets):
    """Render and pack the demo's sets at the smallest size, by the command line."""
    del datasets  # the fixture keeps opened data out of the user's cache
    root = tmp_path_factory.mktemp("demo")
    overrides = [word for override in SMALLER for word in ("--set", override)]
    run("render", "demo", *overrides, "--out", root / "frames", "--workers", "2")
    run("pack", root / "frames", "--to", "hdf5", "--out", root / "hdf5")
    run("pack", root / "frames", "--to", "hub", "--out", root / "hub")
    return root


def test_load_dataset_gives_what_was_rendered(rendered, datasets):
    rows = datasets.load_dataset(str(rendered / "hub"), "candle", split="train")
    frames = FrameFolder(rendered / "frames", "candle")
    assert len(rows) == len(frames) == 12
    color = rows.features["color"]
    assert isinstance(color, datasets.ClassLabel)
    assert color.names == ["red", "blue", "yellow"]
    for row, number in zip(rows.with_format("numpy"), range(len(frames)), strict=True):
        frame = frames.frame(number)
        assert row["id"] == frame.metadata.id
        assert color.int2str(int(row["color"])) == frame.metadata.factors["color"]
        np.testing.assert_array_equal(row["image"], frame.layers["image"])
        np.testing.assert_array_equal(row["depth"], frame.layers["depth"])
        for name in ("radiance", "albedo", "shading", "residual", "normal"):
            np.testing.assert_array_equal(np.moveaxis(row[name], 0, 2).astype(np.float16), frame.layers[name])
    box = frames.metadata(0).objects[0].bbox
    assert tuple(rows[0]["objects"][0]["bbox"]) == box
    assert 0 <= box[0] < box[2] <= 32
    assert 0 <= box[1] < box[3] <= 24


def test_the_readers_of_frames_and_packs_agree(rendered):
    folder = FrameFolder(rendered / "frames", "albedo")
    others = [HDF5Frames(rendered / "hdf5" / "albedo.h5"), HubFrames(rendered / "hub", "albedo")]
    for other in others:
        for row in range(len(folder)):
            for name, value in folder[row].items():
                if isinstance(value, torch.Tensor):
                    assert torch.equal(value, other[row][name]), name
                else:
                    assert value == other[row][name], name


def test_a_network_is_trained_and_scored_on_a_loaded_pack(rendered):
    from candlelight.evaluation.demo.study import run_study

    study = run_study(rendered / "hub", rendered / "study", epochs=1)
    assert len(study.summary()) == 4
    assert study.report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert 0 < study.intrinsic["network"].score < 2
    assert {result.about.data["rows"] for result in study.concepts.values()} == {4}
    for name in ("intrinsic", "concepts", "coverage", "causal"):
        read = read_results(rendered / "study" / f"{name}.json")
        assert [result.to_json() for result in read] == [
            result.to_json() for result in getattr(study, name).values()
        ]
    lines = []
    again = run_study(rendered / "hub", rendered / "study", epochs=1, tell=lines.append)
    assert again.summary() == study.summary()
    assert [line.partition(":")[0] for line in lines] == ["network is up to date", "scores are up to date"]


def test_evaluations_on_the_command_line(rendered):
    frames, weights = rendered / "frames", rendered / "study" / "network.pt"
    out = rendered / "lmse.json"
    printed = run("evaluate", "lmse", frames, "--set", "tabletop_test", "--model", "retinex", "--out", out)
    assert printed.splitlines()[1].startswith("retinex")
    (result,) = read_results(out)
    assert len(result.ids) == 4
    # The hash of the data does not depend on the form of the pack.
    for form in ("hdf5", "hub"):
        words = (rendered / form, "--set", "tabletop_test", "--model", "retinex", "--out", out)
        run("evaluate", "lmse", *words)
        (other,) = read_results(out)
        assert other.columns == result.columns
        assert other.about.data["sha256"] == result.about.data["sha256"]
    printed = run("evaluate", "csm", frames, "--model", "retinex", "--set", "tabletop_test", "--runs", "5")
    assert printed.count("csm_s ") == 6
    words = ("--set", "candle", "--model", weights, "--layer", "encoder.2")
    assert "waiou ↑" in run("evaluate", "coverage", rendered / "hdf5", *words)
    page = rendered / "page.html"
    saved = rendered / "irs.json"
    words += ("--metric", "mig", "--out", saved)
    printed = run("evaluate", "codes", rendered / "hdf5" / "candle.h5", *words)
    assert "random codes" in printed
    run("evaluate", "report", saved, out, "--out", page)
    assert "Codes and factors: " in page.read_text(encoding="utf-8")


def test_info_names_every_set_of_every_form(rendered):
    for path in ("frames", "hdf5", "hub"):
        printed = run("info", rendered / path)
        for name in ("candle", "albedo", "illumination", "negatives", "tabletop", "tabletop_test"):
            assert f"set {name}: " in printed


def test_rendering_again_writes_nothing(rendered):
    overrides = [word for override in SMALLER for word in ("--set", override)]
    assert ": 0 frames written, 48 were there" in run(
        "render", "demo", *overrides, "--out", rendered / "frames"
    )
