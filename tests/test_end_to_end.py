"""The demo at the smallest size: render, pack, load, train and evaluate."""

import os
import shlex
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.run.result_files import read_results
from candlelight.generators.commands import demo_command
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


def test_the_demo_trains_and_scores_and_a_second_run_repeats_nothing(rendered, monkeypatch):
    shortened = demo_command.STUDY_COMMANDS["network.pt"].replace("--epochs 14", "--epochs 1")
    monkeypatch.setitem(demo_command.STUDY_COMMANDS, "network.pt", shortened)
    monkeypatch.setattr(
        demo_command, "FRAME_COMMANDS", ("info {out}/frames --set tabletop --sheet {out}/sheet.png",)
    )
    study = rendered / "study"
    printed = run("demo", "--out", rendered)
    commands = [line for line in printed.splitlines() if line.startswith("$ candlelight ")]
    assert [line.split()[2] for line in commands] == ["info", "train", *["evaluate"] * 5]
    for name, metric in {"lmse": "lmse", "csm": "csm", "coverage": "waiou", "codes": "codes"}.items():
        assert {result.about.metric for result in read_results(study / f"{name}.json")} == {metric}
        assert (study / f"{name}.html").exists()
    page = (study / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Contact sheet of set tabletop" in page
    # Commands can be typed as they are printed.
    before = (study / "lmse.json").read_bytes()
    run(*shlex.split(commands[2])[2:])
    assert (study / "lmse.json").read_bytes() == before
    os.utime(study / "codes.json", (0, 0))
    again = [line for line in run("demo", "--out", rendered).splitlines() if line.startswith("$")]
    assert [line.split()[3] for line in again[1:]] == ["codes", "report"]


@pytest.mark.parametrize("found", [None, "/usr/bin/candlelight"])
def test_the_demo_says_how_to_put_the_command_on_the_path(rendered, monkeypatch, tmp_path, found):
    monkeypatch.setattr("shutil.which", lambda _: found)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(demo_command, "FRAME_COMMANDS", ())
    monkeypatch.setattr(demo_command, "STUDY_COMMANDS", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    printed = run("demo", "--out", rendered)
    assert ("\n  . .venv/bin/activate " in printed) == (found is None)


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
