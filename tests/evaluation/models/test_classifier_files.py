from dataclasses import replace
from pathlib import Path

import pytest
import torch

from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import (
    TrainedOn,
    is_classifier,
    load_classifier,
    save_classifier,
)
from candlelight.evaluation.views import DataIdentity
from candlelight.loaders.errors import InputError

TRAINING = TrainedOn(
    "species", DataIdentity("CUB-70", "cub70", split="train"), (224, 200), ("a/1", "a/3"), ("a/2",)
)


@pytest.mark.parametrize("name", ["vgg_small", "densenet_small", "resnet_small"])
def test_round_trip(name: str, tmp_path: Path) -> None:
    network = build_backbone(name, 3, seed=5)
    path = save_classifier(network, ["a", "b", "c"], tmp_path / "network.pt")
    found, classes, training = load_classifier(str(path))
    images = torch.rand(2, 3, 40, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(found(images), network(images))
    assert classes == ("a", "b", "c")
    assert training is None
    assert is_classifier(path)
    assert found.name == name
    assert not found.training
    assert [file.name for file in tmp_path.iterdir()] == ["network.pt"]


@pytest.mark.parametrize("training", [TRAINING, replace(TRAINING, size=None, held_out_ids=())])
def test_the_training_is_recorded(training: TrainedOn, tmp_path: Path) -> None:
    network = build_backbone("resnet_small", 2, seed=5)
    path = save_classifier(network, ["a", "b"], tmp_path / "network.pt", training)
    assert load_classifier(path).training == training
    assert isinstance(torch.load(path, weights_only=True)["training"]["training_ids"][0], str)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    network = build_backbone("resnet_small", 3, seed=5)
    with pytest.raises(InputError, match="expected names of 3 classes, got 2 names"):
        save_classifier(network, ["a", "b"], tmp_path / "network.pt")
    with pytest.raises(InputError, match=r"cannot write .*No such file or directory; give a file"):
        save_classifier(network, ["a", "b", "c"], tmp_path / "none" / "network.pt")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "network.pt"
    with pytest.raises(InputError, match="there is no"):
        load_classifier(path)
    state = build_backbone("resnet_small", 2, seed=0).state_dict()
    good = {"format": "candlelight classifier 1", "backbone": "resnet_small", "classes": ["a", "b"]}
    good["state"] = state
    for changes, message in (
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
    ):
        torch.save(good | changes, path)
        with pytest.raises(InputError, match=message):
            load_classifier(path)
    torch.save(good, path)
    assert load_classifier(path)[1:] == (("a", "b"), None)  # a file from before the training was recorded


def test_other_files_are_no_classifiers(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    assert not is_classifier(path)
    for content in ([1], {"format": "candlelight intrinsic network 1"}, {"object": path}):
        torch.save(content, path)
        assert not is_classifier(path)
