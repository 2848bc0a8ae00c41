"""Every command and example on the evaluation pages of the docs runs, and prints what the page shows.

The frames are noise instead of those of the demo, so of examples that read frames the words are compared, not
the numbers. Commands that need data not at hand are left out; they show no output.
"""

import re
import shlex
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.evaluation.causal import control_codes
from candlelight.evaluation.models.network import IntrinsicNet, save_model
from candlelight.evaluation.perception import open_distance, pair_distances
from candlelight.loaders.schema import FactorInfo
from tests.evaluation.noise_frames import write_frames

ROOT = Path(__file__).parents[2]
PAGES = (
    "evaluation",
    "intrinsic",
    "protocols",
    "leaks",
    "intervals",
    "concepts",
    "tcav",
    "concept-loss",
    "coverage",
    "removal",
    "causal",
    "counterfactual-images",
    "graphs",
    "effects",
    "perception",
    "distances",
)
SETS = ("tabletop", "tabletop_test", "albedo", "illumination", "negatives")
# The factors of the demo's set.
CANDLE = tuple(
    FactorInfo(name=name, kind="categorical", values=tuple(values.split()))
    for name, values in {
        "scene": "grassland garden",
        "lights": "left right",
        "object_type": "cube sphere cylinder cone torus",
        "color": "red blue yellow",
        "size": "2.5",
        "rotation": "0",
    }.items()
)
LAYERS = ("image", "radiance", "albedo", "shading", "depth", "normal", "object")
CODE = r"(?:^    (candlelight (?:[^\n]*\\\n)*[^\n]*)$|^```python\n(.*?)^```$)"
EXAMPLE = re.compile(CODE + r"(?:\s+^```\n(?!candlelight )(.*?)^```$)?", re.M | re.S)
# Packages of others whose networks the pages use: a network with mean and std, and one with channels last.
STAND_INS = {
    "DISTS_pytorch": """
import torch

class DISTS(torch.nn.Module):
    def forward(self, x, y):
        assert x.dtype == torch.float32 and 0 <= x.min() and x.max() <= 1
        one, other = ((images - 0.45) / 0.225 for images in (x, y))
        return 1 - torch.cosine_similarity(one.flatten(1), other.flatten(1)).squeeze()
""",
    "perceptual_quality": """
import numpy as np
from types import SimpleNamespace

def network(inputs):
    one, other = inputs
    assert one.dtype == np.float32 and one.shape[-1] == 3 and one.shape == other.shape
    weights = np.array([0.2, 0.7, 0.1], np.float32)
    return np.square((one - other) @ weights).mean((1, 2))

pim = SimpleNamespace(load_trained={"pim-1": network}.__getitem__)
""",
}
# Commands of data that are not at hand.
LARGE = re.compile(
    "render|rooms|causal-table|train causal candle|generativeness|CelebAMask-HQ|parts|creatures|recoloured"
    "|invariance|relit|paints-and-lights"
)
# Examples that read frames or files of results.
OTHER_NUMBERS = re.compile(r"demo/|photographs|raid/|\.json|^candlelight")
# A score that needs materials, and a table that needs detectors.
NOT_OF_NOISE = re.compile(r"^(?:maw-2023.*|tables/dissection.csv)\n", re.M)
FILE = re.compile(r"# (\w+\.py)\n")


def examples(page: str) -> list[tuple[str, str]]:
    """List the commands and Python blocks of a page in order, each with the output below it, or ""."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return [(command or code, shown) for command, code, shown in EXAMPLE.findall(text)]


def write_raid(root: Path) -> None:
    """Write two photographs of RAID, one distortion of which makes them brighter."""
    lines = ["Reference,Distorted,Curve_Value,Sigmas,Response,Estimated_MOS"]
    for image in ("img_01", "img_02"):
        for level in range(1, 11):
            name = f"{image}.png" if level == 1 else f"rot_{image}_level_{level:02d}.png"
            Image.new("RGB", (8, 8), (10 * level,) * 3).save(root / name)
            lines.append(f"{image}.png,rot_{image}_level_{level:02d}.png,0.5,0.2,{level / 5},5")
    (root / "responses.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_files(folder: Path, pages: Iterable[str]) -> None:
    """Write the files of Python that pages show, and stand-ins for the packages of others."""
    for text in (text for page in pages for text, _ in examples(page)):
        if named := FILE.match(text):
            (folder / named[1]).write_text(text, encoding="utf-8")
    for name, text in STAND_INS.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def write_photographs(folder: Path) -> None:
    for row in range(2):
        noise = np.random.default_rng(row).integers(0, 256, (300, 280, 3), np.uint8)
        Image.fromarray(noise).save(folder / f"{row}.png")


def change_metadata(name: str, index: int, metadata):
    """Make each frame a unit of its own, and each illumination another one."""
    metadata = metadata.model_copy(update={"unit": f"{name}/{index:06d}"})
    if name == "illumination":
        lights = (metadata.lights[0].model_copy(update={"power": 60.0 + index}),)
        metadata = metadata.model_copy(update={"lights": lights})
    return metadata


def write_noise(root: Path) -> None:
    """Write frames of noise with the sets of the demo."""
    sets = {name: {"varies": ("size",)} for name in SETS} | {"candle": {"factors": CANDLE}}
    # Supervised codes need this height.
    write_frames(root, sets, LAYERS, height=32, change=change_metadata)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write frames, weights and photographs."""
    folder = tmp_path_factory.mktemp("pages")
    write_noise(folder / "demo" / "frames")
    (folder / "demo" / "study").mkdir()
    save_model(IntrinsicNet(width=2, seed=0), folder / "demo" / "study" / "network.pt")
    for name in ("raid", "photographs"):
        (folder / name).mkdir()
    write_raid(folder / "raid")
    write_photographs(folder / "photographs")
    return folder


@pytest.fixture
def inside(request, folder, tmp_path, monkeypatch):
    """Work in a folder with the data and the files of one page, or of all, and import from it."""
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    page = request.node.callspec.params.get("page") if hasattr(request.node, "callspec") else None
    write_files(tmp_path, [page] if page else PAGES)
    monkeypatch.chdir(tmp_path)
    short = partial(control_codes.supervised_codes, epochs=1)
    monkeypatch.setattr(control_codes, "supervised_codes", short)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)


def run(line: str) -> str:
    """Run a candlelight command, which must succeed, and return its output."""
    result = CliRunner().invoke(main, shlex.split(line)[1:])
    assert result.exit_code == 0, (line, result.output, result.exc_info)
    return result.stdout


SMALLER = {
    "runs=20, size=(60, 80)": "runs=2, size=(8, 8)",
    "--size 256 256": "--size 32 32",
    "--steps 500": "--steps 2",
    "evaluate protocols demo/frames": "evaluate protocols demo/frames --limit 2",
}


def smaller(text: str) -> str:
    """Make concept vectors of small images, and train less; the words are the same."""
    for long, short in SMALLER.items():
        text = text.replace(long, short)
    text = text.replace("\\\n", " ") if text.startswith("candlelight") else text
    if "evaluate tcav" in text:
        return f"{text} --runs 5"
    if "evaluate csm" in text:
        return f"{text} --runs 2" if "--predictions" in text else f"{text} --runs 2 --size 16 16"
    return text


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_examples_run_and_print_what_the_page_shows(page, inside, capsys, check_shown):
    del inside
    for text, shown in examples(page):
        absent = LARGE.search(text) if text.startswith("candlelight") else '"creatures"' in text
        if FILE.match(text) or absent:
            assert not shown, text
            continue
        if text.startswith("candlelight"):
            printed = run(smaller(text))
        else:
            capsys.readouterr()
            exec(compile(smaller(text), page, "exec"), {})
            printed = capsys.readouterr().out
        shown = NOT_OF_NOISE.sub("", shown)
        check_shown(shown, printed, same_data=not OTHER_NUMBERS.search(text) and bool(shown))


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("lmse demo/frames --set tabletop_test --model wrapped.py:Wrapped", ["Wrapped"]),
        ("coverage demo/frames --set candle --model explain.py:saliency", ["saliency"]),
    ],
)
def test_models_of_the_pages_are_scored(words, rows, inside):
    del inside
    printed = run(f"candlelight evaluate {words}")
    for name in rows:
        assert re.search(rf"^\w+\.py:{name} +\w+ [↓↑] +0\.\d+ ", printed, re.MULTILINE), printed


@pytest.mark.parametrize("spec", ["dists.py:DISTS", "pim.py:PIM"])
def test_metrics_of_the_pages_take_batches(spec, inside):
    del inside
    named = open_distance(spec)
    images = torch.rand(3, 3, 8, 9, generator=torch.Generator().manual_seed(0))
    first, same, last = pair_distances(named, images, images.flip(0))
    assert same == pytest.approx(0, abs=1e-6)
    assert min(first, last) > 0.01
    torch.testing.assert_close(pair_distances(named, images[:1], images[2:])[0], first)


def test_files_of_the_wrong_shape_are_one_line(inside):
    wrong = inside / "wrong"
    for row in range(60):
        for name, arrays in {
            "small": {"reflectance": np.ones((3, 20, 26)), "shading": np.ones((20, 26))},
            "last": {"heatmaps": np.random.default_rng(row).random((32, 32, 5))},
        }.items():
            path = wrong / name / f"candle-{row:06d}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **arrays)
    codes = np.ones((60, 2))
    codes[3] = np.nan
    np.savez(wrong / "codes.npz", ids=[f"candle-{row:06d}" for row in range(60)], codes=codes)
    intrinsic = "`candle-000000`: expected the proportions of its image, [32, 32], got [20, 26]; resize it"
    causal = "`codes`: codes must be finite, got nan or inf for `candle-000003`"
    for words, message in {
        "lmse demo/frames --set candle --predictions wrong/small": intrinsic,
        "coverage demo/frames --set candle --heatmaps wrong/last": "looks like channels last",
        "codes demo/frames --set candle --codes wrong/codes.npz": causal,
    }.items():
        result = CliRunner().invoke(main, ["evaluate", *words.split()])
        assert (result.exit_code, message in result.output) == (2, True), (words, result.output)


def test_a_folder_does_not_hide_a_set_of_the_data(inside):
    line = (
        "candlelight evaluate csm demo/frames --set tabletop_test --model same.py:same --runs 2 --size 16 16"
    )
    printed = run(line)
    (inside / "negatives").mkdir()
    assert run(line) == printed
