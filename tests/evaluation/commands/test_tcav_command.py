"""The command ``evaluate tcav``, on folders of pictures, and its page."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.evaluation.catalogue.record import split_pairs
from candlelight.evaluation.concepts import tcav_report as tcav_section
from candlelight.evaluation.concepts.permutation import exchanged_members
from candlelight.evaluation.run.result_files import read_results
from candlelight.loaders.errors import InputError

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


@pytest.fixture
def inside(root, monkeypatch):
    monkeypatch.chdir(root)
    return root


def run(*words, model="own.py:Red"):
    common = ["evaluate", "tcav", "photographs", "--model", model, "--device", "cpu"]
    return CliRunner().invoke(main, [*common, *map(str, words)])


ASKED = ("--negatives", "negatives", "--runs", "3", "--classifier", "mean")
RED = ("--concept", "red=red", "--layer", "means", *ASKED)


@pytest.mark.parametrize("target", ["logit:0", "own.py:red"])
def test_pictures_are_scored_without_ground_truth(inside, tmp_path, target):
    out, page = tmp_path / "tcav.json", tmp_path / "tcav.html"
    more = ("--layer", "dead", "--concept", "<gray>=gray", "--out", out, "--report", page)
    done = run(*RED, *more, "--target", target)
    assert done.exit_code == 0, (done.output, done.exc_info)
    assert re.search(r"^own.py:Red +red at means +1 +1 to 1 +6 +6 +0 +0$", done.output, re.MULTILINE)
    assert re.search(
        r"^own.py:Red +means +red +1 ± 0 +[01](\.\d+)? ± 0(\.\d+)? +1 +", done.output, re.MULTILINE
    )
    assert re.search(r"^own.py:Red +dead +red +undefined ± undefined", done.output, re.MULTILINE)
    (result,) = read_results(out)
    assert result.about.settings["target"] == target
    assert (result.about.settings["target_sha256"] is None) == (target == "logit:0")
    assert result.ids == tuple(f"{row:02d}.png" for row in range(6))
    assert result.about.data["concepts"] == {"red": "red", "<gray>": "gray"}
    assert len(result.details["scores"]) == 4
    text = page.read_text(encoding="utf-8")
    assert text.count("<img") == 2 * 6
    assert "6 of 20 images of the concept red." in text
    assert "<gray>" not in text
    assert "red at dead: not defined, because all images have the same activations" in text
    assert "No direction is better" in text
    assert not list(tmp_path.glob("*.partial"))


def test_a_loss_turns_the_scores(inside, tmp_path):
    out = [tmp_path / "logit.json", tmp_path / "loss.json"]
    for target, path in zip(("logit:0", "loss:own.py:red"), out, strict=True):
        assert run(*RED, "--target", target, "--out", path).exit_code == 0
    logit, loss = (read_results(path)[0] for path in out)
    assert set(logit.columns["red at means"]) == {1.0}
    assert set(loss.columns["red at means"]) == {0.0}
    assert loss.columns["red at means, derivative"] == tuple(
        -value for value in logit.columns["red at means, derivative"]
    )


def test_a_control_adds_the_permutation_test(inside):
    done = run(*RED, "--target", "norm", "--control", "red=gray", "--permutations", "19")
    assert done.exit_code == 0, (done.output, done.exc_info)
    assert re.search(r"^own.py:Red +means +red .* 0\.05$", done.output, re.MULTILINE), done.output


def write_groups(path, groups):
    """Write the table of the groups of the pictures in each folder."""
    rows = [
        f"{folder}/{row:02d}.png,{name}" for folder, names in groups.items() for row, name in enumerate(names)
    ]
    path.write_text("\n".join(["picture,group", *rows]))
    return path


def test_groups_are_exchanged_as_a_whole_or_within(inside, tmp_path):
    """Red is the extreme of all exchanges, so its p-value counts the exchanges that repeat or mirror it."""
    out = tmp_path / "tcav.json"
    words = (*RED, "--target", "norm", "--control", "red=gray", "--permutations", "199", "--out", out)

    def p_value(*more):
        out.unlink(missing_ok=True)
        done = run(*words, *more)
        assert done.exit_code == 0, (done.output, done.exc_info)
        assert ("no scenes are known" in done.output) == (not more)
        return read_results(out)[0].details["scores"][0]["control"]

    assert p_value()["adjusted_p"] == 1 / 200
    reds, grays = [f"{row % 4}" for row in range(20)], [f"{4 + row % 4}" for row in range(22)]
    own = write_groups(inside / "own.csv", {"red": reds, "gray": grays})
    members = exchanged_members(20, 22, 199, 0, (reds, grays))
    repeated, mirrored = ((members[1:] == truth).all(1).sum().item() for truth in (members[0], ~members[0]))
    assert min(repeated, mirrored) > 0
    found = p_value("--groups", own)
    assert found["scenes"] == [4, 4]
    assert found["adjusted_p"] in ((1 + repeated) / 200, (1 + repeated + mirrored) / 200)
    pairs = write_groups(inside / "pairs.csv", {"red": range(20), "gray": [*range(20), 0, 1]})
    found = p_value("--groups", pairs)
    assert found["scenes"] == [20, 20]
    assert found["adjusted_p"] == 1 / 200


def test_few_images_are_a_line(inside):
    few = inside / "few"
    few.mkdir()
    for row in range(5):
        (few / f"{row}.png").write_bytes((inside / "red" / f"{row:02d}.png").read_bytes())
    done = run("--concept", "few=few", "--layer", "means", *ASKED, "--target", "norm")
    assert done.exit_code == 0, (done.output, done.exc_info)
    assert "note: concept `few`: at least 20 images are advised, got 5\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (*ASKED, "--target", "norm", "--layer", "means"),
            "--concept: expected at least one concept, got none",
        ),
        (
            ("--target", "norm", "--concept", "red=red", "--layer", "means"),
            "--negatives is needed, as DATA has no set `negatives` (photographs: a folder of pictures",
        ),
        (
            (*RED, "--target", "norm", "--negatives", "red"),
            "concept `red`: 20 of 20 images, such as `00.png`, are negatives too; give other --negatives",
        ),
        (
            (*RED, "--target", "norm", "--negatives", "nothing"),
            "--negatives nothing: photographs: a folder of pictures has no sets",
        ),
        (
            (*RED, "--target", "norm", "--control", "red=gray", "--groups", "groups.csv"),
            "groups.csv: cannot be read as a table of groups: No such file or directory",
        ),
        ((*RED, "--target", "norm", "--concept", "red=gray"), "--concept: two sources are named `red`"),
        (
            (*RED, "--target", "norm", "--control", "blue=gray"),
            "control `blue`: expected one of the concepts",
        ),
        ((*RED, "--target", "norm", "--concept", "gray"), "--concept gray: expected NAME=SOURCE"),
        ((*RED, "--target", "norm", "--concept", "gray="), "--concept gray=: expected NAME=SOURCE"),
        (
            (*RED, "--target", "norm", "--concept", "gray=nothing"),
            "--concept gray=nothing: photographs: a folder of pictures has no sets",
        ),
        ((*RED, "--target", "logit"), "target `logit`: expected logit:K with the number K of a class"),
        ((*RED, "--target", "logit:2"), "target logit:2: expected an output [batch, classes] with a class 2"),
        ((*RED, "--target", "none.py:red"), "target: expected a file of Python, there is no none.py"),
        ((*RED, "--target", "own.py:rid"), "a function `rid` in the file; did you mean `red`?"),
        (
            (*RED, "--target", "norm", "--layer", "mean"),
            "layer `mean` is not in the model; expected one of: ",
        ),
        (
            (*RED, "--target", "norm", "--groups", "pairs.csv"),
            "--groups: neither a --control nor its concept",
        ),
        ((*RED, "--target", "norm", "--model", "retinex"), "`retinex` has no hidden layers"),
    ],
)
def test_bad_use_is_one_line(inside, words, message):
    done = run(*words)
    assert done.exit_code == 2, (done.output, done.exc_info)
    assert message in done.output
    assert done.output.strip().count("\n") == 0


def test_names_of_concepts():
    assert split_pairs(["a=b=c", "d=mit:e:f"], "--concept") == {"a": "b=c", "d": "mit:e:f"}
    with pytest.raises(InputError, match=r"--concept =b: expected NAME=SOURCE"):
        split_pairs(["=b"], "--concept")


def test_results_without_details_are_refused_on_a_page(inside, tmp_path):
    out = tmp_path / "tcav.json"
    assert run(*RED, "--target", "norm", "--out", out).exit_code == 0
    content = json.loads(out.read_text())
    for name in tcav_section.NEEDS:
        broken = json.loads(out.read_text())
        del broken["results"][0]["about"]["settings"][name]
        (tmp_path / "broken.json").write_text(json.dumps(broken))
        words = ["evaluate", "report", str(tmp_path / "broken.json"), "--out", str(tmp_path / "a.html")]
        done = CliRunner().invoke(main, words)
        assert (done.exit_code, f"lack `{name}`" in done.output) == (2, True), done.output
    content["results"][0]["details"] = {}
    (tmp_path / "broken.json").write_text(json.dumps(content))
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, "a field is missing or damaged" in done.output) == (2, True), done.output
