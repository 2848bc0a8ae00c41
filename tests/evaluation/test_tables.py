"""The tables in accepted.md list which evaluation accepts which data and models; each pair is run.

With CANDLELIGHT_WRITE_DOCS=1 in the environment, the test writes the tables into the page.
"""

import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.models.network import IntrinsicNet, save_model
from candlelight.evaluation.views import LAYOUTS, open_data
from candlelight.loaders import pack_hdf5, pack_hub
from candlelight.loaders.public import grid_images
from tests.evaluation.noise_frames import load_builders, write_frames

DOCS = Path(__file__).with_name("accepted.md")
START, END = "<!-- made by tests/evaluation/test_tables.py -->", "<!-- end of the tables -->"
PROGRESS = re.compile(r"it/s|row/s|batch/s|\?it|: +[0-9]+%")
COMMANDS = ("lmse", "layer", "csm", "coverage", "codes")
VISION = "folder of transformers"
PUBLISHED = "METHOD:CHECKOUT:WEIGHTS"
MODELS = ("shipped", "weights", "module:callable", "file.py:callable", VISION, PUBLISHED, "files")
PREPROCESSING = {
    "image_processor_type": "ConvNextImageProcessor",
    "do_resize": False,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
CODE = """
import torch

def split(image):
    return image, torch.ones_like(image[:, :1])

def heatmaps(image):
    return image[:, :2] + torch.linspace(0, 0.1, image.shape[3])

def codes(image):
    return image.mean((2, 3))
"""


def write_data(root: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Write every kind of data; return DATA and further command-line options by kind."""
    frames = root / "frames"
    layers = ("image", "radiance", "albedo", "shading", "object")
    write_frames(frames, {"grid": {"varies": ("size",)}, "free": {}}, layers)
    pack_hdf5(frames, root / "hdf5")
    pack_hub(frames, root / "hub")
    rendered = {"--set": "grid", "--albedo": "grid", "--illumination": "none", "--negatives": "free"}
    data = {kind: (str(root / kind), rendered) for kind in ("frames", "hdf5", "hub")}
    data["hf:NAME"] = (f"hf:{root / 'hub'}", rendered)
    public = load_builders("loaders/public/copies.py")
    needed = load_builders("evaluation/views/conftest.py").NEEDED
    public.HEIGHT, public.WIDTH = 24, 32
    for layout in LAYOUTS:
        (root / layout).mkdir()
        public.WRITERS[layout](root / layout)
        text = f"{layout}:{root / layout}"
        named = {f"--{name.removesuffix('_name')}": value for name, value in needed.get(layout, {}).items()}
        split = f":{named['--split']}" if "--split" in named else ""
        own = {"--albedo": "none", "--illumination": text + split, "--negatives": f"{frames}:free"}
        data[f"{layout}:PATH"] = (text, {**own, **named})
    for number in (8, 9):  # so that two factors vary among the images
        entry = json.loads((root / "candle" / "7.json").read_text())
        entry["lights"] = ("left", "right")[number % 2]
        entry["objects"]["Cube_0"]["size"] = 2.5 if number == 8 else 2
        (root / "candle" / f"{number}.json").write_text(json.dumps(entry))
        (root / "candle" / f"{number}.png").write_bytes((root / "candle" / "7.png").read_bytes())
    return data


def write_models(root: Path) -> dict[str, dict[str, list[str]]]:
    """Write every kind of model except result files; return the options of each command by kind."""
    (root / "own_models.py").write_text(CODE)
    weights = save_model(IntrinsicNet(width=2, seed=0), root / "network.pt")
    published = write_published(root / "published")
    names = {"lmse": "split", "layer": "split", "csm": "split", "coverage": "heatmaps", "codes": "codes"}
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in MODELS[:-1]}
    for command in COMMANDS:
        hidden = command in ("coverage", "codes")
        layers = {"weights": "encoder.1", VISION: "resnet.encoder.stages.0"}
        layers[PUBLISHED] = "network.model.upconv_model_1"
        specs = {
            "shipped": "retinex",
            "weights": str(weights),
            "module:callable": f"own_models:{names[command]}",
            "file.py:callable": f"{root / 'own_models.py'}:{names[command]}",
            PUBLISHED: published,
        }
        if importlib.util.find_spec("transformers"):
            specs[VISION] = str(write_vision_model(root / "resnet"))
        for kind, spec in specs.items():
            layer = ["--layer", layers[kind]] if hidden and kind in layers else []
            found[kind][command] = ["--model", spec, *layer]
    return found


def write_published(folder: Path) -> str:
    """Write a stand-in for the checkout of a published method, and its weights with random values."""
    code = load_builders("evaluation/adapters/conftest.py").CGI_UNET
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "networks.py").write_text(code, encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(code, scope)
    torch.manual_seed(0)
    torch.save(scope["MultiUnetGenerator"](3, 3, 7).state_dict(), folder / "weights.pth")
    return f"cgintrinsics:{folder}:{folder / 'weights.pth'}"


def write_vision_model(folder: Path) -> Path:
    """Save a small network of transformers with random weights."""
    import transformers

    if not folder.exists():
        config = transformers.ResNetConfig(
            embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=3
        )
        transformers.ResNetForImageClassification(config).save_pretrained(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSING))
    return folder


def write_files(root: Path, frames: str) -> dict[str, list[str]]:
    """Write results of another program for the frames; return options of each command."""
    for name in ("grid", "free"):
        images = open_data("images", frames, set_name=name)
        for place, identifier in enumerate(images.ids):
            image = images[place].numpy()
            split = {"reflectance": image, "shading": 0.5 * image}
            kept = {"split": split}
            if name == "grid":
                kept |= {"split-grid": split, "maps": {"heatmaps": image[:2]}}
            for folder, arrays in kept.items():
                path = root / folder / f"{identifier}.npz"
                path.parent.mkdir(parents=True, exist_ok=True)
                np.savez(path, **arrays)
    grid = open_data("images", frames, set_name="grid")
    codes = np.stack([grid[place].numpy().mean((1, 2)) for place in range(len(grid))])
    np.savez(root / "codes.npz", ids=np.array(grid.ids), codes=codes)
    return {
        "lmse": ["--predictions", str(root / "split-grid")],
        "layer": ["--predictions", str(root / "split-grid")],
        "csm": ["--predictions", str(root / "split")],
        "coverage": ["--heatmaps", str(root / "maps")],
        "codes": ["--codes", str(root / "codes.npz")],
    }


def evaluate(command: str, data: tuple[str, dict[str, str]], model: list[str]) -> str:
    """Run a command with small settings; return "yes", or the error line for the pair."""
    text, options = data
    words = ["evaluate", command, text, "--device", "cpu", *model]
    known = {"--set", "--split", *(("--albedo", "--illumination", "--negatives") * (command == "csm"))}
    words += [word for name, value in options.items() if name in known for word in (name, value)]
    if command == "csm":
        words += ["--runs", "2", "--size", "16", "16"] * ("--predictions" not in model)
    words += ["--metric", "irs", "--no-controls"] * (command == "codes")
    result = CliRunner().invoke(main, words)
    if result.exit_code == 0:
        return "yes"
    assert result.exit_code == 2, (words, result.output, result.exc_info)
    lines = [line for line in result.output.splitlines() if line.strip() and not PROGRESS.search(line)]
    assert len(lines) == 1, (words, result.output)
    return lines[0]


def tables(root: Path) -> str:
    """Run every pair, and format the outcomes as two Markdown tables."""
    data, models = write_data(root), write_models(root)
    models["files"] = write_files(root, data["frames"][0])
    by_data = {
        kind: [evaluate(command, one, models["file.py:callable"][command]) for command in COMMANDS]
        for kind, one in data.items()
    }
    for kind in ("multi-illumination:PATH", "photometric-stereo:PATH"):
        lights = data[kind][1]["--illumination"]
        secondary = data["frames"][1] | {"--albedo": "none", "--illumination": lights}
        model = models["file.py:callable"]["csm"]
        assert evaluate("csm", (data["frames"][0], secondary), model) == "yes"
        by_data[kind][COMMANDS.index("csm")] = "beside DATA"
    by_model = {
        kind: [evaluate(command, data["frames"], options[command]) for command in COMMANDS]
        for kind, options in models.items()
    }
    return f"{_markdown('data', by_data)}\n\n{_markdown('model', by_model)}"


def _markdown(head: str, rows: dict[str, list[str]]) -> str:
    """Make a table in which kinds of the same entries share a row, without kinds that no command takes."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind, cells in rows.items():
        entries = tuple(cell if cell in ("yes", "beside DATA") else "" for cell in cells)
        kinds.setdefault(entries, []).append(f"`{kind}`")
    lines = [f"| {head} | {' | '.join(COMMANDS)} |", "|---" * (len(COMMANDS) + 1) + "|"]
    lines += [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in kinds.items() if any(cells)]
    return "\n".join(lines)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Use a cache folder of the test, make MPI3D small, and make a user's module importable."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    sizes = (2, 2, 1, 1, 1, 2, 2)
    early = {name: values[:n] for (name, values), n in zip(grid_images._EARLY.items(), sizes, strict=True)}
    monkeypatch.setattr(grid_images, "_EARLY", early)
    return tmp_path


@pytest.mark.slow
def test_tables_in_the_docs_are_up_to_date(own_folder, datasets):
    del datasets  # the fixture keeps the cache of datasets out of the user's folder
    pytest.importorskip("OpenEXR")
    pytest.importorskip("transformers")
    made = tables(own_folder)
    page = DOCS.read_text(encoding="utf-8")
    if os.environ.get("CANDLELIGHT_WRITE_DOCS"):
        before, after = page.partition(START)[0], page.partition(END)[2]
        DOCS.write_text(f"{before}{START}\n\n{made}\n\n{END}{after}", encoding="utf-8")
    else:
        assert _between(page).strip() == made


def _between(page: str) -> str:
    return page.partition(START)[2].partition(END)[0]
