"""All trainings: the seed decides, held-out rows are not learned, an interrupted training ends the same."""

from dataclasses import astuple

import numpy as np
import pytest
import torch

from candlelight.evaluation.training import train_causal
from tests.evaluation.training.conftest import same_weights, spoil
from tests.refusals import refused

NAMES = (
    *("supervised", "multi-illumination", "unsupervised"),
    *("vgg_small", "resnet_small", "ss-factor-vae"),
)


@pytest.fixture(params=NAMES)
def training(request, training_of):
    return training_of(request.param)


@pytest.mark.parametrize(
    "training", ["supervised", "vgg_small", "ss-factor-vae", "factor heads"], indirect=True
)
def test_result_depends_on_the_seed_alone(training) -> None:
    _, train = training
    before = torch.get_rng_state()
    one, history = train(seed=1)
    torch.manual_seed(5)
    again, same_history = train(seed=1)
    torch.set_rng_state(before)
    other, _ = train(seed=2)
    assert same_weights(one, again)
    assert history == same_history
    assert not same_weights(one, other)
    assert not one.training
    if train.func is not train_causal:  # whose loader draws its own seed from the global generator
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("training", ["supervised", "resnet_small", "ss-factor-vae"], indirect=True)
def test_held_out_rows_are_measured_but_not_learned(training) -> None:
    view, train = training
    plain, history = train(seed=0, validation=[0, 1])
    rest, without = train(seed=0, rows=range(2, len(view)))
    assert same_weights(plain, rest)
    assert without.training == history.training
    spoil(view, 1)
    changed, other = train(seed=0, validation=[0, 1])
    assert same_weights(plain, changed)
    assert other.training == history.training
    assert astuple(other) != astuple(without)


def test_an_interrupted_training_ends_with_the_same_bytes(training, tmp_path, interrupt) -> None:
    view, train = training
    whole, history = train(seed=0, validation=[0, 1], state=tmp_path / "whole")
    interrupt(lambda: train(seed=0, validation=[0, 1], state=tmp_path / "state"))
    resumed, same_history = train(seed=0, validation=[0, 1], state=tmp_path / "state")
    assert same_weights(whole, resumed)
    assert history == same_history
    assert (tmp_path / "state").read_bytes() == (tmp_path / "whole").read_bytes()
    for name, value in {"seed": 1, "rate": 1e-3}.items():
        with refused(f"of a training with another {name}; continue with"):
            train(**{"seed": 0, "validation": [0, 1], "state": tmp_path / "state", name: value})
    spoil(view, 7)
    with refused("of a training with another content of the data; continue with"):
        train(seed=0, validation=[0, 1], state=tmp_path / "state")


@pytest.mark.parametrize("training", ["supervised", "resnet_small", "ss-factor-vae"], indirect=True)
def test_bfloat16_changes_little(training, monkeypatch) -> None:
    """Mixed precision, which a GPU has, on the processor."""
    _, train = training
    whole, history = train(seed=0)
    autocast = torch.autocast
    monkeypatch.setattr(
        torch, "autocast", lambda device, dtype, enabled: autocast(device, dtype, enabled=True)
    )
    mixed, other = train(seed=0)
    assert not same_weights(whole, mixed)
    assert other.training == pytest.approx(history.training, rel=0.05)


@pytest.mark.parametrize("training", ["supervised", "resnet_small", "ss-factor-vae"], indirect=True)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": [0, 1], "validation": [1]}, "must share no row, got 1 in both"),
        ({"validation": [99]}, r"`validation` must lie in 0\.\.\d+, got 99"),
        ({"rows": [-1]}, r"`rows` must lie in 0\.\.\d+, got -1"),
        ({"validation": range(24), "rows": []}, "`rows` must name at least one row|must lie in"),
        ({"batch_size": 0}, "`batch_size`: expected at least [12], got 0"),
        ({"rate": np.nan}, "`rate`: expected above 0, got nan"),
        ({"rate": np.inf}, "`rate`: expected above 0, got inf"),
        ({"rate": 0}, "`rate`: expected above 0, got 0"),
    ],
)
def test_refusals(training, options, message) -> None:
    with refused(message):
        training[1](seed=0, **options)
