"""``candlelight train classifier``: weights, record, gate and messages."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, load_classifier
from candlelight.evaluation.training import factor_labels, train_on_data
from candlelight.evaluation.views.image_tensors import ResizedImages
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.verification.checksums import file_sha256

COUNT = 24
FACTORS = (
    FactorInfo(name="side", kind="categorical", values=("none", "left", "right")),
    FactorInfo(name="angle", kind="continuous", low=0.0, high=1.0),
    FactorInfo(name="floor", kind="categorical", values=("plain", "textured")),
)


@pytest.fixture
def sides(memory_view, monkeypatch):
    """Make images that are bright above or below, and let the command open them whatever DATA is."""
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 0.3, (COUNT, 3, 40, 40)).astype(np.float32)
    for row in range(COUNT):
        images[row, :, 20 * (row % 2) :][:, :20] += 0.6
    table = np.stack([1 + np.arange(COUNT) % 2, rng.uniform(0, 1, COUNT), np.zeros(COUNT)], 1)
    view = memory_view([torch.from_numpy(image) for image in images], factors=FACTORS, table=table)
    monkeypatch.setattr(train_on_data, "open_data", lambda _kind, _data, **_choice: view)
    return view


def run(*words: object, code: int = 0) -> str:
    quick = ("--epochs", "3", "--batch-size", "6", "--device", "cpu")
    result = CliRunner().invoke(main, ["train", "classifier", "data", *quick, *map(str, words)])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def test_weights_and_record(sides, tmp_path: Path) -> None:
    out = tmp_path / "net.pt"
    words = ("--label", "side", "--size", 32, "--validation", 0.25, "--require", 0.8, "--epochs", 6)
    text = run(*words, "--out", out)
    network, classes, training = load_classifier(out)
    assert classes == ("left", "right")  # "none" does not occur
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["settings"]["label"] == "side"
    assert record["settings"]["backbone"] == network.name == "resnet_small"
    assert record["data"]["image"] == "resized to 32 x 32 pixels"
    assert record["settings"]["size"] == [32, 32]
    rows = [sides.ids.index(name) for name in record["held_out_ids"]]
    assert len(rows) == 6
    learned = tuple(name for name in sides.ids if name not in record["held_out_ids"])
    assert record["training_ids"] == list(learned)
    assert training == TrainedOn("side", sides.identity, (32, 32), learned, tuple(record["held_out_ids"]))
    small = ResizedImages(sides, (32, 32))
    with torch.no_grad():
        hits = [int(network(small[row][None]).argmax()) == row % 2 for row in rows]
    most = max(sum(row % 2 for row in rows), sum(1 - row % 2 for row in rows)) / 6
    assert text.splitlines()[-4:] == [
        f"loss {record['history']['training'][-1]:.4f} after epoch 6 on 18 images",
        f"accuracy {sum(hits) / 6:.4f} on 6 held-out images of 2 classes; {most:.4f} by always predicting "
        "their most frequent class",
        *(str(out), str(out.with_suffix(".json"))),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.json", "net.pt"]


def test_accuracy_below_the_required_one_writes_no_weights(sides, tmp_path: Path) -> None:
    sides.table[:, 0] = 1 + np.arange(COUNT) // 2 % 2  # labels that the images do not show
    words = ("--label", "side", "--validation", 0.5, "--out", tmp_path / "net.pt")
    text = run(*words, "--require", 1, code=2)
    assert "expected at least 1; train for more epochs" in text
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt.partial"]
    run(*words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.json", "net.pt"]


def test_public_weights_are_the_start(sides, tmp_path: Path) -> None:
    public = build_backbone("densenet_small", 10, seed=9)
    torch.save(public.state_dict(), tmp_path / "public.pth")
    words = ("--label", "side", "--backbone", "densenet_small", "--weights", tmp_path / "public.pth")
    run(*words, "--rate", 1e-9, "--validation", 0, "--out", tmp_path / "net.pt")
    found, _, training = load_classifier(tmp_path / "net.pt")
    assert (training.size, training.training_ids, training.held_out_ids) == (None, sides.ids, ())
    assert torch.allclose(found.features.conv0.weight, public.features.conv0.weight, atol=1e-6)
    assert found.classes == 2
    record = json.loads((tmp_path / "net.json").read_text())
    assert record["settings"]["weights_sha256"] == file_sha256(tmp_path / "public.pth")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("sides", "--label sides: expected one of the factors side, angle, floor; did you mean `side`?"),
        ("angle", "--label angle: the factor is continuous; choose a categorical one: side, floor"),
        ("floor", "--label floor: expected rows with several values, got plain alone"),
    ],
)
def test_factors_that_are_no_labels(sides, tmp_path: Path, label: str, message: str) -> None:
    assert message in run("--label", label, "--out", tmp_path / "net.pt", code=2)
    with pytest.raises(InputError):
        factor_labels(sides, label)
    assert list(tmp_path.iterdir()) == []
