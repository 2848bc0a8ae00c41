"""README lists every recipe and only measured figures; its command and its Python example run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from candlelight.generators.language.recipe_files import shipped_recipes
from candlelight.loaders import frame_path, read_frame
from tests.command_line import run

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\b\d+(?:[ ,.]\d+)*")


def section(title: str) -> str:
    """Text below a heading of the second level."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_recipe_is_listed():
    names = re.findall(r"^\| .*? \| (.*?): ", section("Recipes"), re.MULTILINE)
    listed = [name for row in names for name in re.findall(r"`([a-z-]+)`", row)]
    assert sorted([*listed, "demo"]) == sorted(shipped_recipes())


def test_every_figure_is_on_the_page_of_benchmarks():
    measured = set(NUMBER.findall((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")))
    figures = NUMBER.findall(section("Why candlelight"))
    assert len(figures) > 10
    assert set(figures) <= measured


def test_pictures_are_small_and_of_the_gallery():
    gallery = yaml.safe_load((ROOT / "docs" / "gallery.yaml").read_text(encoding="utf-8"))
    assert f"\n    {gallery['readme']['command']}\n" in TEXT
    pictures = re.findall(r"docs/[\w/-]+\.jpg", TEXT)
    assert {Path(picture).stem for picture in pictures} <= set(gallery)
    assert sum((ROOT / picture).stat().st_size for picture in pictures) < 400_000


@pytest.mark.blender
@pytest.mark.slow
def test_the_command_of_the_picture_changes_the_colour_alone(tmp_path):
    (line,) = re.findall(r"^    candlelight (counterfactual .*)$", TEXT, re.MULTILINE)
    words = shlex.split(line)
    small = ["--set", "image.width=48", "--set", "image.height=36", "--set", "render.samples=2"]
    run(*words[:-1], tmp_path / words[-1], *small)
    index = int(words[words.index("--sample") + 1].rpartition("-")[2])
    sets = ("candle", "candle_counterfactual")
    first, second = (read_frame(frame_path(tmp_path / words[-1], name, index)) for name in sets)
    assert second.metadata.factors == {**first.metadata.factors, "color": "blue"}
    for record in ("lights", "camera"):
        assert getattr(second.metadata, record) == getattr(first.metadata, record)
    for layer in ("depth", "normal", "object"):
        assert np.array_equal(first.layers[layer], second.layers[layer], equal_nan=True), layer
    assert not np.array_equal(first.layers["albedo"], second.layers["albedo"])


@pytest.mark.blender
@pytest.mark.slow
def test_python_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(example.splitlines()) <= 25
    overrides = '["image.width=96", "image.height=72"]'
    assert overrides in example
    # Few samples per pixel: their number changes nothing that is looked at here.
    example = example.replace(overrides, '["image.width=96", "image.height=72", "render.samples=2"]')
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    printed, *result = done.stdout.splitlines()
    assert "'color': 'blue'" in printed
    assert printed.endswith("torch.Size([3, 72, 96]) torch.Size([72, 96])")
    assert result[0] == "lmse (version 2) on candle, candle"
    assert re.match(r"retinex +lmse ↓ +0\.\d+ ", result[2])
