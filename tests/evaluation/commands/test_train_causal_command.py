"""``candlelight train causal``: weights, record, page, foreground and messages."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.models import open_model
from candlelight.evaluation.models.autoencoders import load_autoencoder
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.training import causal_data as read_foreground
from candlelight.evaluation.training import train_causal, train_on_data
from candlelight.evaluation.views import PartImage
from candlelight.evaluation.views.image_tensors import ResizedImages, decode
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo

COUNT = 24
FACTORS = (
    FactorInfo(name="side", kind="categorical", values=("left", "right")),
    FactorInfo(name="level", kind="categorical", values=("dark", "gray", "light")),
)


@pytest.fixture
def halves(memory_view, monkeypatch):
    """Make images with a bright half and its mask, and let the command open them whatever DATA is."""
    table = np.array([[row % 2, row // 2 % 3] for row in range(COUNT)], float)
    masks = torch.zeros(COUNT, 40, 40, dtype=torch.bool)
    for row in range(COUNT):
        masks[row, 4:30, 20 * (row % 2) :][:, :18] = True
        masks[row, 30, 20 * (row % 2)] = True  # a corner, which the box fills up
    images = [mask * (0.3 + 0.3 * level) for mask, level in zip(masks, table[:, 1], strict=True)]
    images = [image.expand(3, -1, -1).float() for image in images]
    view = memory_view(images, factors=FACTORS, table=table)
    items = [PartImage(image, {"half": mask}) for image, mask in zip(images, masks, strict=True)]
    parts = memory_view(items)
    opened = {"factors": view, "parts": parts}
    for module in (train_on_data, read_foreground):
        monkeypatch.setattr(module, "open_data", lambda kind, _data, **_choice: opened[kind])
    return view


def run(*words: object, code: int = 0) -> str:
    quick = ("--steps", "3", "--batch-size", "6", "--codes", "3", "--device", "cpu")
    result = CliRunner().invoke(main, ["train", "causal", "data", *quick, *map(str, words)])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def test_weights_record_and_page(halves, tmp_path: Path) -> None:
    out, page = tmp_path / "net.pt", tmp_path / "net.html"
    words = ("--model", "beta-tcvae", "--size", 32, "--validation", 0.25, "--beta", 3)
    text = run(*words, "--out", out, "--report", page)
    network, training = load_autoencoder(out)
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["settings"] == training["settings"]
    assert training["settings"]["weights"] == {"beta": 3}
    assert training["settings"]["rate"] == 1e-4
    assert record["data"]["image"] == "resized to 32 x 32 pixels"
    assert (network.side, network.codes) == (32, 3)
    assert len(training["held_out_ids"]) == 6
    assert sorted(training["held_out_ids"] + training["training_ids"]) == sorted(halves.ids)
    history = record["history"]
    assert text.splitlines()[-5:] == [
        f"loss {history['training'][-1]:.2f} after step 3 on 18 images",
        f"mean squared error {history['validation'][-1]:.5f} of reconstructed held-out images; "
        f"{history['constant']:.5f} of their mean",
        *(str(out), str(out.with_suffix(".json")), str(page)),
    ]
    html = page.read_text()
    for name in ("total correlation", "squared error of held-out images", "and its reconstruction"):
        assert name in html
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.html", "net.json", "net.pt"]


def test_the_file_is_an_encoder_to_score(halves, memory_view, tmp_path: Path) -> None:
    run("--model", "ada-gvae", "--size", 32, "--validation", 0, "--out", tmp_path / "net.pt")
    small = memory_view([image[:, :32, :32] for image in halves.items], factors=FACTORS, table=halves.table)
    models = {"net": open_model(str(tmp_path / "net.pt"))}
    result = evaluate("codes", small, models, metrics=["irs"], controls=False)["net"]
    assert 0 <= result.scores["irs"].value <= 1


@pytest.mark.parametrize("kind", ["mask", "box"])
def test_foreground_of_the_objects(halves, tmp_path: Path, kind: str) -> None:
    words = ("--model", "ss-beta-vae", "--labelled", 6, "--size", 32, "--foreground", kind)
    run(*words, "--foreground-weight", 5, "--validation", 0, "--out", tmp_path / "net.pt")
    found = read_foreground.read_foreground("data", kind)
    corner = slice(30, 31), slice(0, 18)
    assert found.shape == (COUNT, 40, 40)
    assert found[0, 4:30, :18].eq(1).all()
    assert found[0][corner].sum() == (1 if kind == "mask" else 18)
    assert found[0].sum() == 26 * 18 + found[0][corner].sum()
    small = read_foreground.read_foreground("data", kind, 32)
    assert small.shape == (COUNT, 32, 32)
    if kind == "mask":  # resized as the image is, which is gray inside and black outside
        linear = decode(ResizedImages(halves, (32, 32))[0][0])
        assert torch.allclose(small[0] * linear.max(), linear, atol=1e-4)
    # The command trains what the function trains.
    options = {"steps": 3, "batch_size": 6, "codes": 3, "labelled": 6, "foreground_weight": 5}
    images = ResizedImages(halves, (32, 32))
    network, _ = train_causal(
        images, seed=0, factors=halves, foreground=small, model="ss-beta-vae", **options
    )
    saved = load_autoencoder(tmp_path / "net.pt").network.state_dict()
    assert all(torch.equal(values, saved[name]) for name, values in network.state_dict().items())


def test_a_factor_with_one_labelled_value_is_named(halves, tmp_path: Path) -> None:
    halves.table[:, 1] = 0
    words = ("--model", "ss-beta-vae", "--labelled", 6, "--size", 32)
    text = run(*words, "--out", tmp_path / "net.pt", "--report", tmp_path / "net.html")
    first, second = (factor.name for factor in FACTORS)
    assert f"learned from labels, in the order of the codes: {first}\n" in text
    assert f"note: one value among the labelled images, so not learned: {second}\n" in text
    assert json.loads((tmp_path / "net.json").read_text())["history"]["targets"] == [first]
    assert f"The first codes learn {first} from labels." in (tmp_path / "net.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "beta-vae"), "expected images of 32 or 64 pixels, got 40; resize them (--size)"),
        (("--model", "beta-vae", "--gamma", 4), "`gamma`: beta-vae has no such weight; expected beta"),
        (("--model", "ss-beta-vae", "--size", 32), "at least 100 training images to label, got 22; label"),
        (("--model", "beta-vae", "--rate", "nan"), "--rate: expected above 0, got nan"),
        (("--model", "beta-vae", "--beta", "nan"), "--beta: expected at least 0, got nan"),
        (("--model", "beta-vae", "--device", "tpu"), "--device tpu: not usable here"),
        (("--model", "vae"), "Invalid value for '--model'"),
    ],
)
def test_errors_are_one_line(halves, tmp_path: Path, words: tuple[object, ...], message: str) -> None:
    text = run(*words, "--out", tmp_path / "net.pt", code=2)
    assert message in text
    assert text.splitlines()[-1].startswith("Error: ")
    assert list(tmp_path.iterdir()) == []


def test_candle_has_boxes_alone(monkeypatch) -> None:
    with pytest.raises(InputError, match="`candle` has no masks; take its boxes"):
        read_foreground.read_foreground("candle:folder", "mask")
