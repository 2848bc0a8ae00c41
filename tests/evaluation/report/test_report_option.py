"""The option --report of every command, on tiny rendered data with a model in a Python file."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.views import open_data
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import DatasetInfo, SetInfo

BUILDERS = Path(__file__).parents[2] / "loaders" / "conftest.py"
LAYERS = ("image", "radiance", "albedo", "shading", "object")
CODE = """
import torch

def split(image):
    return image, torch.ones_like(image[:, :1])

def heatmaps(image):
    return image[:, :2] + torch.linspace(0, 0.1, image.shape[3])

def codes(image):
    return image.mean((2, 3))
"""
SETS = ("--albedo", "grid", "--illumination", "none", "--negatives", "free", "--runs", "2")
COMMANDS = {
    "lmse": ("split", 3 * 3, "median LMSE of split", ()),
    "csm": (
        "split",
        2 * (3 + 2),  # images of two sets, and two images with their decompositions
        "3 of 3 images of a concept set: only albedo varies. Fixed: color",
        SETS,
    ),
    "coverage": ("heatmaps", 3 * 2 + 2 * 3, "outlined: ", ()),  # and the highest and lowest covered images
    "codes": ("codes", 6, "size 1.5", ("--metric", "mig", "--no-controls")),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Write six frames of set `grid`, in which the size varies within each color, and six of set `free`."""
    spec = importlib.util.spec_from_file_location("builders", BUILDERS)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    root = tmp_path_factory.mktemp("report_option")
    kept = [name for name in made.LAYERS if name in LAYERS]
    common = {"count": 6, "width": made.WIDTH, "height": made.HEIGHT, "layers": kept, "factors": made.GRID}
    sets = {"grid": SetInfo(**common, varies=("size",)), "free": SetInfo(**common)}
    record = {"name": "tiny", "sha256": "a" * 64}
    about = {"description": "Noise.", "licence": "CC-BY-4.0", "seed": 3, "candlelight": "0.1.0"}
    write_dataset_info(root / "frames", DatasetInfo(name="tiny", recipe=record, sets=sets, **about))
    for name in sets:
        for index in range(6):
            values = {"color": made.GRID[0].values[index // 3], "size": made.GRID[1].values[index % 3]}
            arrays = made._layers(np.random.default_rng([ord(name[0]), index]))
            layers = {layer: arrays[layer] for layer in kept}
            write_frame(root / "frames", Frame(made._metadata(name, index, values, layers), layers))
    (root / "own.py").write_text(CODE)
    return root


def run(root, command, page, *more):
    name, _, _, options = COMMANDS[command]
    model = () if more else ("--model", f"{name}={root / 'own.py'}:{name}")
    words = [command, root / "frames", "--set", "grid", "--device", "cpu", *model, *options, *more]
    return CliRunner().invoke(main, ["evaluate", *map(str, words), "--report", str(page)])


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_writes_a_page_with_pictures(root, tmp_path, command):
    pages = [tmp_path / "one.html", tmp_path / "other.html"]
    for page in pages[: 2 if command == "codes" else 1]:
        done = run(root, command, page)
        assert done.exit_code == 0, (done.output, done.exc_info)
        assert done.output.splitlines()[-1] == str(page)
    text = pages[0].read_text(encoding="utf-8")
    _, count, said, _ = COMMANDS[command]
    assert text.count("<img") == count
    assert said in text
    assert "<script" not in text
    assert not re.search(r"https?:", text)
    if command == "codes":
        assert pages[1].read_text(encoding="utf-8") == text


def test_predictions_that_are_missing_are_shown_as_failed(root, tmp_path):
    images = open_data("images", str(root / "frames"), set_name="grid")
    for row, name in list(enumerate(images.ids))[1:]:
        path = tmp_path / "mine" / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, reflectance=images[row].numpy(), shading=images[row].numpy())
    page = tmp_path / "page.html"
    done = run(root, "lmse", page, "--predictions", tmp_path / "mine", "--missing", "fail")
    assert done.exit_code == 0, (done.output, done.exc_info)
    assert f"{images.ids[0]}: largest LMSE of mine" in page.read_text()
    assert (
        page.read_text().count(
            "failed, LMSE reflectance\N{NO-BREAK SPACE}1.00, shading\N{NO-BREAK SPACE}1.00"
        )
        == 1
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.pdf", "expected a file name that ends in .html or .htm"),
        ("nowhere/a.html", "its folder does not exist"),
        (".", "expected a file name that ends in .html"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_scoring(root, tmp_path, command, name, message):
    done = run(root, command, tmp_path / name)
    assert done.exit_code == 2, (done.output, done.exc_info)
    assert message in done.output
    assert done.output.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())
