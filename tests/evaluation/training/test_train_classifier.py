from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.training import train_classifier
from candlelight.evaluation.training.train_classifier import Classification
from candlelight.loaders.errors import InputError

SHAPES = 3
QUICK = {"epochs": 2, "batch_size": 4}


def drawn_shape(rng: np.random.Generator, shape: int, size: int = 32) -> Tensor:
    """Draw a disc, a ring or a bar of random colours, place and size."""
    rows, columns = np.mgrid[:size, :size]
    y, x = rng.uniform(0.4, 0.6, 2) * size
    distance = np.hypot(rows - y, columns - x)
    radius = rng.uniform(0.25, 0.35) * size
    inside = (distance < radius, abs(distance - radius) < 2.5, abs(rows - y) < 2.5)[shape]
    colours = rng.uniform(0, 0.4, 3), rng.uniform(0.6, 1, 3)
    return torch.from_numpy(np.where(inside[None], *(c[:, None, None] for c in colours)).astype(np.float32))


@pytest.fixture
def shapes(memory_view):
    """Make a view of drawn shapes and their labels: count, seed."""

    def make(count: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        labels = [number % SHAPES for number in range(count)]
        return memory_view([drawn_shape(rng, label) for label in labels]), labels

    return make


@pytest.fixture
def start() -> Backbone:
    return build_backbone("resnet_small", SHAPES, seed=0)


def same_weights(one: Backbone, other: Backbone) -> bool:
    states = one.state_dict(), other.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("name", ["vgg_small", "densenet_small", "resnet_small"])
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
    with pytest.raises(InputError, match=message):
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


def test_result_depends_on_the_seed_alone(shapes) -> None:
    view, labels = shapes(12)
    start = build_backbone("vgg_small", SHAPES, seed=0)  # has dropout
    untouched = {name: values.clone() for name, values in start.state_dict().items()}
    before = torch.get_rng_state()
    one, history = train_classifier(start, view, labels, seed=1, **QUICK)
    torch.manual_seed(5)
    again, same_history = train_classifier(start, view, labels, seed=1, **QUICK)
    torch.set_rng_state(before)
    other, _ = train_classifier(start, view, labels, seed=2, **QUICK)
    assert same_weights(one, again)
    assert history == same_history
    assert not same_weights(one, other)
    assert not one.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(values, untouched[name]) for name, values in start.state_dict().items())


def test_held_out_rows_are_not_learned(shapes, start) -> None:
    view, labels = shapes(12)
    plain, history = train_classifier(start, view, labels, seed=0, validation=[1, 4], **QUICK)
    some, without = train_classifier(start, view, labels, seed=0, rows=[0, 2, 3, *range(5, 12)], **QUICK)
    assert same_weights(plain, some)
    assert without.training == history.training
    assert without.accuracy == ()
    view.items[1] = 1 - view.items[1]
    changed, _ = train_classifier(start, view, labels, seed=0, validation=[1, 4], **QUICK)
    assert same_weights(plain, changed)


@pytest.mark.parametrize("name", ["vgg_small", "resnet_small"])
def test_an_interrupted_training_ends_with_the_same_bytes(
    shapes, name: str, tmp_path: Path, interrupt
) -> None:
    view, labels = shapes(12)
    start = build_backbone(name, SHAPES, seed=0)
    settings = {"seed": 0, "epochs": 3, "batch_size": 4, "validation": [0, 1]}
    whole, history = train_classifier(start, view, labels, state=tmp_path / "whole", **settings)
    interrupt(lambda: train_classifier(start, view, labels, state=tmp_path / "state", **settings))
    resumed, same_history = train_classifier(start, view, labels, state=tmp_path / "state", **settings)
    assert same_weights(whole, resumed)
    assert history == same_history
    assert (tmp_path / "state").read_bytes() == (tmp_path / "whole").read_bytes()
    for changed in ({"seed": 1}, {"rate": 1e-4}):
        with pytest.raises(InputError, match=f"of a training with another {next(iter(changed))}; continue"):
            train_classifier(start, view, labels, state=tmp_path / "state", **settings | changed)
    other = build_backbone(name, SHAPES, seed=1)
    with pytest.raises(InputError, match="of a training with another weights"):
        train_classifier(other, view, labels, state=tmp_path / "state", **settings)
    with pytest.raises(InputError, match="of a training with another content of the data"):
        train_classifier(start, view, labels[::-1], state=tmp_path / "state", **settings)


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


def test_bfloat16_changes_little(shapes, start, monkeypatch) -> None:
    """Mixed precision, which a GPU has, on the processor."""
    view, labels = shapes(12)
    whole, history = train_classifier(start, view, labels, seed=0, **QUICK)
    autocast = torch.autocast
    monkeypatch.setattr(
        torch, "autocast", lambda device, dtype, enabled: autocast(device, dtype, enabled=True)
    )
    mixed, other = train_classifier(start, view, labels, seed=0, **QUICK)
    assert not same_weights(whole, mixed)
    assert other.training == pytest.approx(history.training, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": [0, 1, 2], "validation": [1]}, "must share no row, got 1 in both"),
        ({"validation": [12]}, r"`validation` must lie in 0\.\.11, got 12"),
        ({"rows": [0, 1, 3]}, "training rows of all 3 classes, got none of class 2; give"),
        ({"epochs": 0}, "`epochs`: expected at least 1, got 0"),
        ({"batch_size": 1}, "`batch_size`: expected at least 2, got 1"),
        ({"rate": np.nan}, "`rate`: expected above 0, got nan"),
        ({"required": 0.5}, "`required` needs held-out images"),
        ({"required": 1.5, "validation": [0]}, "`required`: expected at least 0 and at most 1, got 1.5"),
    ],
)
def test_bad_arguments(shapes, start, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_classifier(start, *shapes(12), seed=0, **QUICK | arguments)


def test_bad_labels_and_images(shapes, start) -> None:
    view, labels = shapes(12)
    with pytest.raises(InputError, match="`labels`: expected a label for each of the 12 rows, got 11 labels"):
        train_classifier(start, view, labels[1:], seed=0)
    with pytest.raises(InputError, match=r"`labels`: expected labels in 0\.\.2, got 3"):
        train_classifier(start, view, [3, *labels[1:]], seed=0)
    view.items[5] = torch.zeros(3, 40, 32)
    with pytest.raises(InputError, match=r"images of one size, got 32 x 32 and 40 x 32 \(height x width\)"):
        train_classifier(start, view, labels, seed=0)
    view.items[5] = torch.full((3, 32, 32), torch.nan)
    with pytest.raises(InputError, match=r"sRGB-encoded in \[0, 1\], got float32"):
        train_classifier(start, view, labels, seed=0)
