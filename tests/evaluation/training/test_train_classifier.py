from pathlib import Path

import numpy as np
import pytest
import torch

from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.training import train_classifier
from candlelight.evaluation.training.train_classifier import Classification
from tests.evaluation.training.conftest import SHAPES
from tests.refusals import refused

QUICK = {"epochs": 2, "batch_size": 4}


@pytest.fixture
def start():
    return build_backbone("resnet_small", SHAPES, seed=0)


@pytest.mark.parametrize("name", ["vgg_small", "resnet_small"])
def test_learns_what_transfers_to_new_images(shapes, name: str) -> None:
    view, labels = shapes(72)
    start = build_backbone(name, SHAPES, seed=0)
    settings = {"seed": 0, "epochs": 8, "batch_size": 12, "rate": 1e-2, "validation": range(24)}
    _, history = train_classifier(start, view, labels, required=0.6, **settings)
    assert history.training[-1] < 0.5 * history.training[0]
    assert history.accuracy[-1] >= 0.6
    assert len(history.training) == len(history.accuracy) == 8


def test_labels_that_say_nothing_do_not_pass_the_gate(shapes, start, tmp_path: Path) -> None:
    view, labels = shapes(24)
    mixed = [labels[place] for place in np.random.default_rng(0).permutation(24)]
    settings = {"seed": 0, **QUICK, "validation": range(12), "state": tmp_path / "state"}
    message = (
        r"resnet_small: accuracy 0\.\d{3} of 12 held-out images after epoch 2, expected at least 0\.95; train"
    )
    with refused(message):
        train_classifier(start, view, mixed, required=0.95, **settings)
    # The finished training is kept: a lower requirement costs no second one.
    network, history = train_classifier(start, view, mixed, required=0, **settings)
    assert len(history.training) == 2
    assert not network.training


def test_accuracy_is_the_share_of_hits(shapes, start) -> None:
    view, labels = shapes(21)
    network, history = train_classifier(start, view, labels, seed=0, validation=range(8), **QUICK)
    with torch.no_grad():
        hits = [int(network(view[row][None]).argmax()) == labels[row] for row in range(8)]
    assert history.accuracy[-1] == sum(hits) / 8


def test_batches_hold_every_row_once_and_have_nearly_one_size(shapes, start, monkeypatch) -> None:
    view, labels = shapes(13)
    batches = []
    losses = Classification.losses
    monkeypatch.setattr(Classification, "losses", lambda self, one: batches.append(one) or losses(self, one))
    train_classifier(start, view, labels, seed=0, epochs=1, batch_size=4)
    assert sorted(len(some) for some, _ in batches) == [3, 3, 3, 4]
    found, mirrored = [], 0
    for images, truth in batches:
        for image, label in zip(images, truth[:, 0].tolist(), strict=True):
            (row,) = [
                n
                for n, one in enumerate(view.items)
                if torch.equal(one, image) or torch.equal(one.flip(2), image)
            ]
            mirrored += not torch.equal(view[row], image)
            assert labels[row] == label
            found.append(row)
    assert sorted(found) == list(range(13))
    assert 0 < mirrored < 13


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": [0, 1, 3]}, "training rows of all 3 classes, got none of class 2; give"),
        ({"epochs": 0}, "`epochs`: expected at least 1, got 0"),
        ({"required": 0.5}, "`required` needs held-out images"),
        ({"required": 1.5, "validation": [0]}, "`required`: expected at least 0 and at most 1, got 1.5"),
    ],
)
def test_bad_options(shapes, start, options: dict[str, object], message: str) -> None:
    with refused(message):
        train_classifier(start, *shapes(12), seed=0, **QUICK | options)


def test_bad_labels_and_images_and_another_start(shapes, start, tmp_path: Path) -> None:
    view, labels = shapes(12)
    train_classifier(start, view, labels, seed=0, state=tmp_path / "state", **QUICK)
    other = build_backbone("resnet_small", SHAPES, seed=1)
    with refused("of a training with another weights"):
        train_classifier(other, view, labels, seed=0, state=tmp_path / "state", **QUICK)
    with refused("`labels`: expected a label for each of the 12 rows, got 11 labels"):
        train_classifier(start, view, labels[1:], seed=0)
    with refused(r"`labels`: expected labels in 0\.\.2, got 3"):
        train_classifier(start, view, [3, *labels[1:]], seed=0)
    view.items[5] = torch.zeros(3, 40, 32)
    with refused(r"images of one size, got 32 x 32 and 40 x 32 \(height x width\)"):
        train_classifier(start, view, labels, seed=0)
    view.items[5] = torch.full((3, 32, 32), torch.nan)
    with refused(r"sRGB-encoded in \[0, 1\], got float32"):
        train_classifier(start, view, labels, seed=0)
