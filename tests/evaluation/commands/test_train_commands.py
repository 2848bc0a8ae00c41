"""``candlelight train``: weights, record, page, gate and messages of each command."""

import json

import numpy as np
import pytest
import torch

from candlelight.evaluation.models import load_model, open_model
from candlelight.evaluation.models.autoencoders import load_autoencoder
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, load_classifier
from candlelight.evaluation.models.model_spec import NETWORKS
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.training import causal_data as read_foreground
from candlelight.evaluation.training import hold_out, train_causal, train_on_data
from candlelight.evaluation.views import PartImage
from candlelight.evaluation.views.image_tensors import ResizedImages, decode
from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.verification.checksums import file_sha256
from tests.command_line import refusal, run
from tests.refusals import refused

COUNT = 24
FACTORS = (
    FactorInfo(name="side", kind="categorical", values=("left", "right", "none")),
    FactorInfo(name="level", kind="categorical", values=("dark", "gray", "light")),
    FactorInfo(name="angle", kind="continuous", low=0.0, high=1.0),
    FactorInfo(name="floor", kind="categorical", values=("plain", "textured")),
)
KINDS = {
    "intrinsic": ("--epochs", 2, "--width", 2, "--batch-size", 4),
    "classifier": ("--epochs", 3, "--batch-size", 6, "--label", "side"),
    "causal": ("--steps", 3, "--batch-size", 6, "--codes", 3, "--model", "beta-vae", "--size", 32),
}


def words_of(kind, *words):
    return ("train", kind, "data", *KINDS[kind], "--device", "cpu", *words)


@pytest.fixture
def halves(memory_view, monkeypatch):
    """Make images with a bright half and its mask, and let the commands open them whatever DATA is."""
    table = np.array([[row % 2, row // 2 % 3, row / COUNT, 0] for row in range(COUNT)], float)
    masks = torch.zeros(COUNT, 40, 40, dtype=torch.bool)
    for row in range(COUNT):
        masks[row, 4:30, 20 * (row % 2) :][:, :18] = True
        masks[row, 30, 20 * (row % 2)] = True  # a corner, which the box fills up
    images = [mask * (0.3 + 0.3 * level) for mask, level in zip(masks, table[:, 1], strict=True)]
    images = [image.expand(3, -1, -1).float() for image in images]
    view = memory_view(images, factors=FACTORS, table=table)
    items = [PartImage(image, {"half": mask}) for image, mask in zip(images, masks, strict=True)]
    opened = {"factors": view, "parts": memory_view(items)}
    for module in (train_on_data, read_foreground):
        monkeypatch.setattr(module, "open_data", lambda kind, _data, **_choice: opened[kind])
    return view


@pytest.fixture
def lit(scenes, monkeypatch):
    view = scenes(6, seed=0)
    monkeypatch.setattr(train_on_data, "open_data", lambda *_, **__: view)
    return view


def test_decomposition_is_trained_with_a_record_and_a_page(lit, tmp_path) -> None:
    out, page = tmp_path / "net.pt", tmp_path / "net.html"
    text = run(*words_of("intrinsic", "--out", out, "--report", page, "--validation", 0.34))
    record = json.loads(out.with_suffix(".json").read_text())
    history = record["history"]
    assert record["settings"]["regime"] == "supervised"
    assert [len(history[name]) for name in ("training", "validation")] == [2, 2]
    assert (len(record["held_out_ids"]), record["training_rows"]) == (2, 4)
    assert f"LMSE {history['validation'][-1]:.4f} on 2" in text
    assert text.splitlines()[-3:] == [str(out), str(out.with_suffix(".json")), str(page)]
    assert load_model(out).width == 2
    html = page.read_text()
    assert "LMSE of held-out" in html
    assert "constant-reflectance" in html
    assert {path.name for path in tmp_path.iterdir()} == {"net.pt", "net.json", "net.html"}


def test_half_weights_are_the_rounded_weights_and_no_scene_need_be_held_out(lit, tmp_path) -> None:
    run(*words_of("intrinsic", "--validation", 0, "--out", tmp_path / "whole.pt"))
    words = ("--validation", 0, "--out", tmp_path / "half.pt", "--half", "--report", tmp_path / "a.html")
    assert "held-out" not in run(*words_of("intrinsic", *words))
    assert "LMSE of held-out" not in (tmp_path / "a.html").read_text()
    whole, half = (load_model(tmp_path / f"{name}.pt").state_dict() for name in ("whole", "half"))
    assert all(torch.equal(values.half().float(), half[name]) for name, values in whole.items())


def test_classifier_is_trained_with_a_record(halves, tmp_path) -> None:
    out = tmp_path / "net.pt"
    words = ("--size", 32, "--validation", 0.25, "--require", 0.8, "--epochs", 6, "--out", out)
    text = run(*words_of("classifier", *words))
    network, classes, training = load_classifier(out)
    assert classes == ("left", "right")  # "none" does not occur
    record = json.loads(out.with_suffix(".json").read_text())
    chosen = {"label": "side", "backbone": "resnet_small", "size": [32, 32]}
    assert record["settings"].items() >= chosen.items()
    assert network.name == "resnet_small"
    assert record["data"]["image"] == "resized to 32 x 32 pixels"
    rows = [halves.ids.index(name) for name in record["held_out_ids"]]
    assert len(rows) == 6
    learned = tuple(name for name in halves.ids if name not in record["held_out_ids"])
    assert record["training_ids"] == list(learned)
    assert training == TrainedOn("side", halves.identity, (32, 32), learned, tuple(record["held_out_ids"]))
    small = ResizedImages(halves, (32, 32))
    with torch.no_grad():
        hits = [int(network(small[row][None]).argmax()) == row % 2 for row in rows]
    most = max(sum(row % 2 for row in rows), sum(1 - row % 2 for row in rows)) / 6
    assert text.splitlines()[-4:] == [
        f"loss {record['history']['training'][-1]:.4f} after epoch 6 on 18 images",
        f"accuracy {sum(hits) / 6:.4f} on 6 held-out images of 2 classes; {most:.4f} by always predicting "
        "their most frequent class",
        *(str(out), str(out.with_suffix(".json"))),
    ]


def test_accuracy_below_the_required_one_writes_no_weights(halves, tmp_path) -> None:
    halves.table[:, 0] = np.arange(COUNT) // 6 % 2  # labels that the images do not show
    words = words_of("classifier", "--validation", 0.5, "--out", tmp_path / "net.pt")
    assert "expected at least 1; train for more epochs" in refusal(*words, "--require", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt.partial"]
    run(*words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.json", "net.pt"]


def test_public_weights_are_the_start(halves, tmp_path) -> None:
    public = build_backbone("densenet_small", 10, seed=9)
    torch.save(public.state_dict(), tmp_path / "public.pth")
    words = ("--backbone", "densenet_small", "--weights", tmp_path / "public.pth", "--rate", 1e-9)
    run(*words_of("classifier", *words, "--validation", 0, "--out", tmp_path / "net.pt"))
    found, _, training = load_classifier(tmp_path / "net.pt")
    assert (training.size, training.training_ids, training.held_out_ids) == (None, halves.ids, ())
    assert torch.allclose(found.features.conv0.weight, public.features.conv0.weight, atol=1e-6)
    assert found.classes == 2
    record = json.loads((tmp_path / "net.json").read_text())
    assert record["settings"]["weights_sha256"] == file_sha256(tmp_path / "public.pth")


def test_autoencoder_is_trained_with_a_record_and_a_page_and_can_be_scored(
    halves, memory_view, tmp_path
) -> None:
    out, page = tmp_path / "net.pt", tmp_path / "net.html"
    words = ("--model", "beta-tcvae", "--validation", 0.25, "--beta", 3, "--out", out, "--report", page)
    text = run(*words_of("causal", *words))
    network, training = load_autoencoder(out)
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["settings"] == training["settings"]
    assert (training["settings"]["weights"], training["settings"]["rate"]) == ({"beta": 3}, 1e-4)
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
    images = [image[:, :32, :32] for image in halves.items]
    small = memory_view(images, factors=FACTORS[:2], table=halves.table[:, :2])
    given = {"net": open_model(str(out))}
    result = evaluate("codes", small, given, metrics=["irs"], controls=False)["net"]
    assert 0 <= result.scores["irs"].value <= 1


@pytest.mark.parametrize("kind", ["mask", "box"])
def test_foreground_of_the_objects(halves, tmp_path, kind: str) -> None:
    words = ("--model", "ss-beta-vae", "--labelled", 6, "--foreground", kind, "--foreground-weight", 5)
    run(*words_of("causal", *words, "--validation", 0, "--out", tmp_path / "net.pt"))
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


def test_a_factor_with_one_labelled_value_is_named(halves, tmp_path) -> None:
    halves.table[:, 1] = 0
    words = ("--model", "ss-beta-vae", "--labelled", 6, "--out", tmp_path / "net.pt")
    text = run(*words_of("causal", *words, "--report", tmp_path / "net.html"))
    assert "learned from labels, in the order of the codes: side, angle\n" in text
    assert "note: one value among the labelled images, so not learned: level, floor\n" in text
    assert json.loads((tmp_path / "net.json").read_text())["history"]["targets"] == ["side", "angle"]
    assert "The first codes learn side, angle from labels." in (tmp_path / "net.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--out net.txt", "net.txt: expected a file name that ends in .pt"),
        ("--out missing/net.pt", "its folder does not exist"),
        ("--out taken.pt", "taken.json: expected a file, but it is a folder"),
        ("--rate nan", "--rate: expected above 0, got nan"),
        ("--seed 18446744073709551616", "Invalid value for '--seed'"),
        ("--device tpu", "--device tpu: not usable here"),
        ("--validation nan", "--validation: expected at least 0 and at most 0.9, got nan"),
    ],
)
def test_faults_that_all_trainings_share_leave_nothing(halves, tmp_path, monkeypatch, kind, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.json").mkdir()
    assert message in refusal(*words_of(kind, "--out", "net.pt", *words.split()))
    assert [path.name for path in tmp_path.iterdir()] == ["taken.json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "classifier --label sides",
            "--label sides: expected one of the factors side, level, angle, floor; ",
        ),
        (
            "classifier --label angle",
            "--label angle: the factor is continuous; choose a categorical one: side, l",
        ),
        ("classifier --label floor", "--label floor: expected rows with several values, got plain alone"),
        ("causal --report net.pdf", "net.pdf: expected a file name that ends in .html"),
        ("causal --model vae", "Invalid value for '--model'"),
    ],
)
def test_faults_of_labels_images_and_weights_leave_nothing(halves, tmp_path, words, message) -> None:
    kind, *options = words.split()
    assert message in refusal(*words_of(kind, *options, "--out", tmp_path / "net.pt"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--regime multi-illumination", "expected scenes under several lights"),
    ],
)
def test_faults_of_scenes_leave_nothing(lit, tmp_path, words, message) -> None:
    assert message in refusal(*words_of("intrinsic", *words.split(), "--out", tmp_path / "net.pt"))
    assert list(tmp_path.iterdir()) == []


def test_candle_has_boxes_alone() -> None:
    with refused("`candle` has no masks; take its boxes"):
        read_foreground.read_foreground("candle:folder", "mask")


def test_held_out_scenes_are_whole_and_follow_the_seed() -> None:
    groups = [f"scene-{number // 3}" for number in range(30)]
    rows = hold_out(groups, 0.3, seed=0)
    assert len(rows) == 9
    assert all(row in rows for row in range(30) if groups[row] in {groups[one] for one in rows})
    assert rows == hold_out(groups, 0.3, seed=0) != hold_out(groups, 0.3, seed=1)
    assert hold_out(groups, 0, seed=0) == []
    with refused("leaves none for training"):
        hold_out(["a", "a"], 0.5, seed=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_shipped_networks_are_small_and_decompose(name: str) -> None:
    opened = open_model(name)
    assert NETWORKS[name].stat().st_size < 400_000
    assert opened.identity.source == "shipped"
    assert opened.identity.sha256 is not None
    image = torch.rand(1, 3, 20, 30, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        reflectance, shading = opened.model(image)
    error = (reflectance * shading - image).abs().mean()
    assert error < (image - image.mean()).abs().mean()
