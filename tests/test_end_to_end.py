"""The demo at the smallest size: render, pack, load, train and evaluate."""

import os
import shlex
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from candlelight.evaluation.run.result_files import read_results
from candlelight.generators.commands import demo_command
from candlelight.loaders import FrameFolder
from tests.command_line import run

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
    "sets.albedo.factors.material.count=4",
    "sets.illumination.factors.scene.values=[suzanne]",
    "sets.illumination.factors.texturing.values=[rgb]",
    "sets.illumination.factors.temperature.values=[4500]",
    "sets.illumination.factors.light_azimuth.values=[-20, -4, 4, 20]",
    "sets.negatives.draws=8",
    "sets.tabletop.draws=8",
    "sets.tabletop_test.draws=4",
)
OVERRIDES = [word for override in SMALLER for word in ("--set", override)]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory, datasets):
    """Render and pack the demo's sets at the smallest size, by the command line."""
    del datasets  # the fixture keeps opened data out of the user's cache
    root = tmp_path_factory.mktemp("demo")
    run("render", "demo", *OVERRIDES, "--out", root / "frames", "--workers", "1")
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


def test_the_demo_trains_and_scores_and_a_second_run_repeats_nothing(rendered, monkeypatch):
    commands = demo_command.STUDY_COMMANDS
    shorter = commands["network.pt"].replace("--epochs 14", "--epochs 1")
    monkeypatch.setitem(commands, "network.pt", shorter)
    monkeypatch.setitem(commands, "csm.json", commands["csm.json"] + " --runs 2")
    monkeypatch.setattr(import_module("candlelight.evaluation.causal.measure_codes"), "MOST_RESAMPLES", 40)
    monkeypatch.setattr(
        demo_command, "FRAME_COMMANDS", ("info {out}/frames --set tabletop --sheet {out}/sheet.png",)
    )
    study = rendered / "study"
    printed = run("demo", "--out", rendered)
    shown = [line for line in printed.splitlines() if line.startswith("$ candlelight ")]
    assert [line.split()[2] for line in shown] == ["info", "train", *["evaluate"] * 5]
    for name, metric in {"lmse": "lmse", "csm": "csm", "coverage": "waiou", "codes": "codes"}.items():
        assert {result.about.metric for result in read_results(study / f"{name}.json")} == {metric}
        assert (study / f"{name}.html").exists()
    page = (study / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Contact sheet of set tabletop" in page
    # Commands can be typed as they are printed.
    before = (study / "lmse.json").read_bytes()
    run(*shlex.split(shown[2])[2:])
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


def test_the_hash_of_the_data_does_not_depend_on_the_form(rendered):
    found = []
    for form in ("frames", "hdf5", "hub"):
        printed = run("info", rendered / form)
        for name in ("candle", "albedo", "illumination", "negatives", "tabletop", "tabletop_test"):
            assert f"set {name}: " in printed
        out = rendered / f"{form}.json"
        words = ("--set", "tabletop_test", "--model", "retinex", "--out", out)
        run("evaluate", "lmse", rendered / form, *words)
        (result,) = read_results(out)
        found.append((len(result.ids), result.columns, result.about.data["sha256"]))
    assert found[0] == found[1] == found[2]
    assert found[0][0] == 4


def test_rendering_again_writes_nothing(rendered):
    text = run("render", "demo", *OVERRIDES, "--out", rendered / "frames")
    assert ": 0 frames written, 40 were there" in text


def test_leaks_over_a_rendered_grid(tmp_path):
    small = ("image={width: 32, height: 24}", "render.preset=draft", "render.bounces=0")
    small += ("sets.grid.factors.scene.count=1", "sets.grid.factors.paint.count=2")
    small += ("sets.grid.factors.light.values=[left, sunset]",)
    words = [word for override in small for word in ("--set", override)]
    run("render", "paints-and-lights", *words, "--out", tmp_path / "grid", "--workers", "1")
    page, file = tmp_path / "leaks.html", tmp_path / "leaks.json"
    printed = run(
        "evaluate", "leaks", tmp_path / "grid", "--model", "retinex", "--out", file, "--report", page
    )
    assert printed.splitlines()[0].startswith("model       light in reflectance ↓  above noise  interaction")
    found = {one.about.model["name"]: one.scores for one in read_results(file)}
    for column in ("light_in_reflectance", "paint_in_shading"):
        order = [found[name][column].value for name in ("truth", "leak 10 %", "leak 50 %", "leak 100 %")]
        assert order == sorted(order)
        assert order[0] < 0.01 < 0.1 < order[-1]
    assert page.read_text(encoding="utf-8").count("data:image/png") == 2 * (1 + len(found))
