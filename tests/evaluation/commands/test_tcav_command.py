"""The command ``evaluate tcav``, on folders of pictures, and its page."""

import re

import numpy as np
import pytest
from PIL import Image

from candlelight.evaluation.catalogue.record import split_pairs
from candlelight.evaluation.run.result_files import read_results
from tests.command_line import refusal, run
from tests.refusals import refused

CODE = """
import torch
from torch import nn

class Red(nn.Module):
    def __init__(self):
        super().__init__()
        self.means = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.dead = nn.Threshold(2.0, 0.0)

    def forward(self, image):
        means = self.means(image)
        return torch.stack([means[:, 0], -means[:, 0]], 1) + self.dead(means).sum(1, keepdim=True)

def red(output):
    return output[:, 0]

def split(image):
    return image, image
"""
COUNTS = {"photographs": 6, "red": 20, "gray": 22, "negatives": 40}


def write_pictures(root):
    """Write folders of pictures, one of them with a red cast, and a file with a network and a target."""
    rng = np.random.default_rng(0)
    for name, count in COUNTS.items():
        (root / name).mkdir()
        for row in range(count):
            pixels = rng.integers(60, 160, (8, 10 if name != "negatives" else 12, 3), np.uint8)
            pixels[..., 0] += 90 if name == "red" else 0
            Image.fromarray(pixels).save(root / name / f"{row:02d}.png")
    (root / "own.py").write_text(CODE)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("tcav")
    write_pictures(root)
    return root


@pytest.fixture(autouse=True)
def inside(root, monkeypatch):
    monkeypatch.chdir(root)
    return root


TCAV = ("evaluate", "tcav", "photographs", "--model", "own.py:Red", "--device", "cpu")
ASKED = "--negatives negatives --runs 3 --classifier mean"
RED = f"--concept red=red --layer means {ASKED}"
NORM = f"{RED} --target norm"


@pytest.mark.parametrize("target", ["logit:0", "own.py:red"])
def test_pictures_are_scored_without_ground_truth(tmp_path, target):
    out, page = tmp_path / "tcav.json", tmp_path / "tcav.html"
    more = ("--layer", "dead", "--concept", "<gray>=gray", "--out", out, "--report", page)
    text = run(*TCAV, *RED.split(), *more, "--target", target)
    assert re.search(r"^own.py:Red +red at means +1 +1 to 1 +6 +6 +0 +0$", text, re.MULTILINE)
    assert re.search(r"^own.py:Red +means +red +1 ± 0 +[01](\.\d+)? ± 0(\.\d+)? +1 +", text, re.MULTILINE)
    assert re.search(r"^own.py:Red +dead +red +undefined ± undefined", text, re.MULTILINE)
    (result,) = read_results(out)
    assert result.about.settings["target"] == target
    assert (result.about.settings["target_sha256"] is None) == (target == "logit:0")
    assert result.ids == tuple(f"{row:02d}.png" for row in range(6))
    assert result.about.data["concepts"] == {"red": "red", "<gray>": "gray"}
    assert len(result.details["scores"]) == 4
    html = page.read_text(encoding="utf-8")
    assert html.count("<img") == 2 * 6
    assert "6 of 20 images of the concept red." in html
    assert not list(tmp_path.glob("*.partial"))


def write_groups(path, groups):
    """Write the table of the groups of the pictures in each folder."""
    rows = [
        f"{folder}/{row:02d}.png,{name}" for folder, names in groups.items() for row, name in enumerate(names)
    ]
    path.write_text("\n".join(["picture,group", *rows]))
    return path


def test_groups_of_a_control_are_exchanged_as_a_whole(inside, tmp_path):
    out = tmp_path / "tcav.json"
    words = (*TCAV, *NORM.split(), "--control", "red=gray", "--permutations", 199, "--out", out)

    def control(*more):
        out.unlink(missing_ok=True)
        assert ("no scenes are known" in run(*words, *more)) == (not more)
        return read_results(out)[0].details["scores"][0]["control"]

    assert control()["adjusted_p"] == 1 / 200
    groups = {"red": [row % 4 for row in range(20)], "gray": [4 + row % 4 for row in range(22)]}
    found = control("--groups", write_groups(inside / "groups.csv", groups))
    assert found["scenes"] == [4, 4]
    assert found["adjusted_p"] > 1 / 200  # some exchanges of four scenes repeat the truth


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--target norm --concept red=red --layer means",
            "--negatives is needed, as DATA has no set `negatives`",
        ),
        (
            f"{NORM} --control red=gray --groups none.csv",
            "none.csv: cannot be read as a table of groups: No such",
        ),
        (f"{NORM} --concept red=gray", "--concept: two sources are named `red`"),
        (f"{NORM} --concept gray=", "--concept gray=: expected NAME=SOURCE"),
        (f"{NORM} --concept gray=no", "--concept gray=no: photographs: a folder of pictures has no sets"),
        (f"{RED} --target own.py:rid", "a function `rid` in the file; did you mean `red`?"),
        (f"{NORM} --groups pairs.csv", "--groups: neither a --control nor its concept"),
    ],
)
def test_bad_use_is_one_line(inside, words, message):
    write_groups(inside / "pairs.csv", {"red": range(20)})
    assert message in refusal(*TCAV, *words.split())


def test_names_of_concepts():
    assert split_pairs(["a=b=c", "d=mit:e:f"], "--concept") == {"a": "b=c", "d": "mit:e:f"}
    with refused(r"--concept =b: expected NAME=SOURCE"):
        split_pairs(["=b"], "--concept")
