"""Files of weights: written atomically, read without running code, and refused in one line."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from candlelight.evaluation.models.autoencoders import ConvVAE, load_autoencoder, save_autoencoder
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import (
    TrainedOn,
    is_classifier,
    load_classifier,
    save_classifier,
)
from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.models.network import IntrinsicNet, load_model, save_model, weights_format
from candlelight.evaluation.views import DataIdentity
from tests.refusals import refused

TRAINING = TrainedOn(
    "species", DataIdentity("CUB-70", "cub70", split="train"), (224, 200), ("a/1", "a/3"), ("a/2",)
)
# A function that writes a network of seed n, and one that reads it.
KINDS: dict[str, tuple[Callable[[int, Path], Path], Callable[[Any], Any]]] = {
    "intrinsic": (lambda seed, path: save_model(IntrinsicNet(width=2, seed=seed), path), load_model),
    "classifier": (
        lambda seed, path: save_classifier(build_backbone("resnet_small", 2, seed=seed), ["a", "b"], path),
        lambda path: load_classifier(path).network,
    ),
    "autoencoder": (
        lambda seed, path: save_autoencoder(ConvVAE(codes=2, side=32, seed=seed), path, {"seed": seed}),
        lambda path: load_autoencoder(path).network,
    ),
}


@pytest.fixture(params=KINDS)
def kind(request) -> tuple[Callable[[int, Path], Path], Callable[[Any], Any]]:
    return KINDS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "network.pt"


# ------------------------------------------------------------------------------------------- all files


def test_a_file_is_replaced_and_read_as_the_network_that_was_written(kind, path: Path) -> None:
    write, read = kind
    write(0, path)
    found = read(str(write(1, path)))
    assert not found.training
    assert [file.name for file in path.parent.iterdir()] == ["network.pt"]
    again = torch.load(path, weights_only=True)["state"]
    assert all(torch.equal(values, again[name]) for name, values in found.state_dict().items())
    write(0, path)
    assert not all(torch.equal(values, again[name]) for name, values in read(path).state_dict().items())


def test_failure_keeps_the_old_file_and_leaves_nothing_behind(kind, path: Path, monkeypatch) -> None:
    write, _ = kind
    write(0, path)
    before = path.read_bytes()

    def fail(content: object, file) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with refused(r"cannot write .*No such file or directory; give a file in a folder"):
        write(0, path.parent / "none" / "network.pt")
    monkeypatch.setattr(torch, "save", fail)
    with refused(r"cannot write .*: No space left on device; give"):
        write(1, path)
    assert [file.name for file in path.parent.iterdir()] == ["network.pt"]
    assert path.read_bytes() == before


def test_missing_truncated_and_other_files(kind, path: Path) -> None:
    write, read = kind
    with refused("expected a file of weights, there is no"):
        read(path)
    whole = write(0, path).read_bytes()
    for size in (0, 100, 5000):
        path.write_bytes(whole[:size])
        assert weights_format(path) is None
        with refused(r"network.pt: cannot be read as weights: [^\n]+\Z"):
            read(path)
    path.write_text("not a network")
    with refused(r"network.pt: it is no file of weights, and loading more than"):
        read(path)
    torch.save({"object": path}, path)  # the message does not advise to run code in the file
    with refused(r"network.pt: (?!.*weights_only)it holds `pathlib[^\n]+\Z"):
        read(path)
    torch.save([1, 2], path)
    with refused(r"network.pt: expected a dictionary of[^\n]+\Z"):
        read(path)
    torch.save({"module.conv.weight": torch.ones(1)}, path)
    with refused(r"format is not `.*`; it holds module\.conv\.weight"):
        read(path)


def test_a_torchscript_archive_is_refused_in_one_line(path: Path, recwarn) -> None:
    torch.jit.save(torch.jit.trace(nn.ReLU(), torch.ones(1)), path)
    recwarn.clear()
    with refused(r"network.pt: it is a TorchScript archive, and loading"):
        load_model(path)
    assert weights_format(path) is None
    assert not recwarn.list


# ---------------------------------------------------------------------------------- intrinsic networks


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "candlelight intrinsic network 2"}, "format is not"),
        ({"architecture": {}}, "width"),
        ({"architecture": {"width": "2"}}, ""),
        ({"architecture": {"width": 3}}, "other shapes"),
        ({"architecture": {"width": 10**9}}, "`width` must lie in"),
        ({"state": {}}, "missing"),
        ({"state": 3}, ""),
        ({"state": {"conv.weight": torch.ones(1)}}, r"missing: .* and \d+ more; unexpected: conv\.weight"),
    ],
)
def test_damaged_intrinsic_networks(path: Path, changes: dict[str, object], message: str) -> None:
    content = torch.load(save_model(IntrinsicNet(width=2, seed=0), path), weights_only=True)
    torch.save(content | changes, path)
    with refused(rf"network.pt was not written by `save_model`, or is damaged: [^\n]*{message}[^\n]*\Z"):
        load_model(path)


def test_weights_that_their_type_cannot_hold_are_refused(path: Path) -> None:
    network = IntrinsicNet(width=2, seed=0)
    with torch.no_grad():
        network.reflectance.head.bias[0] = 1e6
    with refused(r"network\.pt: a weight is nan, infinite, or too large for float16; train"):
        save_model(network, path, torch.float16)
    assert not list(path.parent.iterdir())
    save_model(network, path)


# ------------------------------------------------------------------------------------------ classifiers


@pytest.mark.parametrize("training", [None, TRAINING, replace(TRAINING, size=None, held_out_ids=())])
def test_classes_and_training_of_a_classifier_are_recorded(training: TrainedOn | None, path: Path) -> None:
    save_classifier(build_backbone("vgg_small", 3, seed=5), ["a", "b", "c"], path, training)
    found = load_classifier(path)
    assert (found.network.name, found.classes, found.training) == ("vgg_small", ("a", "b", "c"), training)
    assert is_classifier(path)
    if training:
        assert isinstance(torch.load(path, weights_only=True)["training"]["training_ids"][0], str)


def test_each_class_has_a_name(path: Path) -> None:
    with refused("expected names of 3 classes, got 2 names"):
        save_classifier(build_backbone("resnet_small", 3, seed=5), ["a", "b"], path)


@pytest.fixture(scope="module")
def classifier() -> dict[str, object]:
    """Content of a file from before the training was recorded."""
    state = build_backbone("resnet_small", 2, seed=0).state_dict()
    content = {"format": "candlelight classifier 1", "backbone": "resnet_small", "classes": ["a", "b"]}
    return content | {"state": state}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "expected a file of `save_classifier`, its format is not"),
        ({"classes": 2}, "damaged: expected names of classes"),
        ({"classes": ["a"]}, "`classes` must be at least 2"),
        ({"classes": ["a", "b", "c"]}, r"other shapes: fc\.weight"),
        ({"backbone": "resnet"}, "`name` must be one of"),
        ({"backbone": None}, "`name` must be one of"),
        ({"backbone": "vgg_small"}, "expected the weights of VGG; missing"),
        ({"state": 3}, "expected tensors by name, got int"),
        ({"training": {"label": "a"}}, "damaged: expected label, data, size and ids of the training"),
        ({"training": {"data": {"name": "a", "set": "b"}}}, "damaged: expected label, data, size and ids"),
        ({"training": [1]}, "damaged: expected label, data, size and ids of the training; train"),
    ],
)
def test_damaged_classifiers(path: Path, classifier, changes: dict[str, object], message: str) -> None:
    torch.save(classifier | changes, path)
    with refused(message):
        load_classifier(path)


def test_a_classifier_from_before_the_training_was_recorded(path: Path, classifier) -> None:
    torch.save(classifier, path)
    assert load_classifier(path)[1:] == (("a", "b"), None)


def test_other_files_are_no_classifiers(path: Path) -> None:
    for content in ([1], {"format": "candlelight intrinsic network 1"}, {"object": path}):
        torch.save(content, path)
        assert not is_classifier(path)


# ----------------------------------------------------------------------------------------- autoencoders


def test_a_file_of_an_autoencoder_is_a_model(path: Path) -> None:
    network = ConvVAE(codes=3, side=32, seed=0)
    save_autoencoder(network, path, {"model": "beta-vae", "seed": 0})
    assert load_autoencoder(path).training == {"model": "beta-vae", "seed": 0}
    opened = open_model(str(path))
    assert (opened.identity.name, opened.identity.source, opened.colour_space) == (
        "network",
        "weights",
        "srgb",
    )
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(opened.model(images), network(images))
        assert torch.equal(opened.model.decode(network(images)), network.decode(network(images)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "expected a file of `save_autoencoder`, its format is not"),
        ({"architecture": {"codes": 2}}, "damaged: expected architecture and training of an autoencoder"),
        (
            {"architecture": {"codes": 3, "side": 32}},
            "network.pt: expected the weights of ConvVAE; other shape",
        ),
    ],
)
def test_damaged_autoencoders(path: Path, changes: dict[str, object], message: str) -> None:
    content = torch.load(KINDS["autoencoder"][0](0, path), weights_only=True)
    torch.save(content | changes, path)
    with refused(message):
        load_autoencoder(path)
