import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from candlelight.evaluation.models.classifiers import FactorHeads
from candlelight.evaluation.training import train_factor_heads
from tests.refusals import refused

QUICK = {"seed": 0, "validation": [0, 5], "epochs": 1, "batch_size": 6}


@pytest.fixture
def sides(memory_view):
    """Bright bars at the left or the right, in three colours; labels that say nothing are a third factor."""

    def make(copies=4, seed=0):
        rng = np.random.default_rng(seed)
        table = np.array(list(itertools.product(range(2), range(3))) * copies)
        images = rng.uniform(0, 0.2, (len(table), 3, 32, 32)).astype(np.float32)
        for image, (side, colour) in zip(images, table, strict=True):
            image[colour, :, 4 + 18 * side : 12 + 18 * side] += 0.7
        labels = {"side": table[:, 0], "colour": table[:, 1], "chance": rng.permutation(table[:, 0])}
        view = memory_view(list(torch.from_numpy(images)))
        return view, {name: column.tolist() for name, column in labels.items()}

    return make


def test_learns_what_can_be_seen_and_tells_what_cannot(sides):
    view, labels = sides(10)
    heads, history = train_factor_heads(
        view, labels, seed=0, validation=range(18), epochs=6, batch_size=14, rate=5e-3
    )
    accuracy = history.accuracy[-1]
    assert list(accuracy) == ["side", "colour", "chance"]
    # Mirrored images would make the side impossible to learn.
    assert accuracy["side"] == accuracy["colour"] == 1
    assert accuracy["chance"] < 0.95
    assert history.training[-1] < history.training[0]
    assert len(history.training) == len(history.accuracy) == 6
    images = torch.stack([view[row] for row in range(18)])
    with torch.no_grad():
        logits = heads(images)
    for name, found in zip(labels, logits, strict=True):
        assert accuracy[name] == pytest.approx(
            (found.argmax(1) == torch.tensor(labels[name][:18])).float().mean().item()
        )
    assert not heads.training


def test_loss_is_the_sum_over_factors(sides):
    view, labels = sides(1)
    images = torch.stack([view[row] for row in range(1, 6)])
    heads = FactorHeads("resnet_small", {"side": 2, "colour": 3}, seed=3).train()
    labels = {name: labels[name] for name in heads.classes}
    with torch.no_grad():
        logits = heads(images)
    expected = sum(
        functional.cross_entropy(one, torch.tensor(labels[name][1:])).item()
        for one, name in zip(logits, labels, strict=True)
    )
    settings = {"validation": [0], "epochs": 1, "batch_size": 5, "network": "resnet_small"}
    _, history = train_factor_heads(view, labels, seed=3, **settings)
    assert history.training[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        ({}, {}, "expected the labels of at least one factor, got none"),
        ({"a": [-1, 1] * 6}, {}, "factor `a`: expected labels in 0..1, got -1"),
        ({"a": [0] * 12}, {}, "factor `a`: expected at least 2 classes, got 1; leave it out"),
        ({"a": [1] + [0] * 11}, {}, "got none of class 1; give other rows, hold out fewer, or number the"),
        ({"a": [0, 1] * 6}, {"validation": []}, "got an empty `validation`"),
    ],
)
def test_invalid_arguments_are_refused(sides, labels, settings, message):
    with refused(message):
        train_factor_heads(sides(2)[0], labels, **QUICK | settings)


def test_a_network_needs_factors():
    with refused("expected at least one factor, got none"):
        FactorHeads("vgg_small", {}, seed=0)
