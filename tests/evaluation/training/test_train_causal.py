import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from candlelight.evaluation.models.autoencoders import ConvVAE
from candlelight.evaluation.training import CausalModel, CausalTraining, train_causal
from candlelight.evaluation.training.causal_data import CausalBatches
from candlelight.evaluation.training.loop import Optimisation, train_task
from candlelight.evaluation.training.losses import dip_penalty
from candlelight.evaluation.training.train_causal import CausalTask
from tests.evaluation.training.conftest import same_weights
from tests.refusals import refused

QUICK = {"codes": 3, "steps": 4, "batch_size": 4}
MODELS = get_args(CausalModel)


def quick_settings(model: CausalModel, **changed: object):
    labels = {"labelled": 6} if model.startswith("ss-") else {}
    return CausalTraining(model=model, **QUICK | labels | changed)


def train(view, model: CausalModel, *, seed: int = 0, settings: dict[str, object] | None = None, **options):
    chosen = asdict(quick_settings(model, **(settings or {})))
    return train_causal(view, seed=seed, factors=view, **chosen, **options)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_takes_steps(squares, model: CausalModel) -> None:
    network, history = train(squares, model, validation=[0, 5])
    assert history.steps == (1, 2, 3, 4)
    weights = quick_settings(model).term_weights()
    assert list(history.terms) == list(weights)
    totals = [sum(weights[name] * history.terms[name][place] for name in weights) for place in range(4)]
    assert history.training == pytest.approx(totals, rel=1e-5)
    assert not network.training
    images = torch.stack([squares[0], squares[5]])
    with torch.no_grad():
        error = (network.decode(network(images)) - images).square().mean()
    assert history.validation[-1] == pytest.approx(float(error), rel=1e-5)
    assert history.constant == pytest.approx(float((images - images.mean(0)).square().mean()))
    assert not same_weights(network, ConvVAE(codes=3, side=32, seed=0))


@pytest.mark.parametrize("kind", ["i", "ii"])
def test_each_kind_of_dip_vae_has_the_penalty_of_its_kind(squares, monkeypatch, kind: str) -> None:
    asked = set()

    def penalty(posterior, kind, **weights):
        asked.add(kind)
        return dip_penalty(posterior, kind, **weights)

    # The package has a function of the module's name.
    monkeypatch.setattr(sys.modules["candlelight.evaluation.training.train_causal"], "dip_penalty", penalty)
    train(squares, f"dip-vae-{kind}")
    assert asked == {kind}


def test_learns_to_reconstruct_and_to_encode_labels(squares) -> None:
    settings = {"steps": 200, "rate": 2e-3, "batch_size": 6, "beta": 1, "labelled": 24, "supervision": 50}
    network, history = train(squares, "ss-beta-vae", settings=settings, validation=[])
    with torch.no_grad():
        images = torch.stack(squares.items)
        means = network(images)
        error = float((network.decode(means) - images).square().mean())
    assert error < 0.2 * float((images - images.mean(0)).square().mean())
    assert history.terms["supervision"][-1] < 0.7 * history.terms["supervision"][0]
    sides = squares.table[:, 1]
    assert ((means[:, 1] > 0).numpy() == sides).all()
    assert np.corrcoef(means[:, 0].numpy(), squares.table[:, 0])[0, 1] > 0.9


def test_every_step_draws_other_rows_and_workers_read_the_same(squares) -> None:
    settings = quick_settings("ss-beta-vae")
    batches = CausalBatches(squares, range(24), settings, 0, squares)
    first, second = batches[0], batches[1]
    assert not torch.equal(first["images"], second["images"])
    assert not torch.equal(first["labelled"], second["labelled"])
    again = CausalBatches(squares, range(24), settings, 0, squares)[1]
    assert all(torch.equal(again[name], second[name]) for name in second)
    alone, _ = train(squares, "ss-beta-vae")
    helped, _ = train(squares, "ss-beta-vae", workers=2)
    assert same_weights(alone, helped)


def test_only_labelled_images_are_supervised(squares) -> None:
    batches = CausalBatches(squares, range(4, 24), quick_settings("ss-beta-vae"), 0, squares)
    assert len(batches.label_rows) == 6
    known = {
        tuple(squares[row].flatten().tolist()): squares.table[row] for row in batches.label_rows.tolist()
    }
    assert set(batches.label_rows.tolist()) <= set(range(4, 24))
    for step in range(5):
        batch = batches[step]
        for image, target in zip(batch["labelled"], batch["targets"], strict=True):
            colour, side, _ = known[tuple(image.flatten().tolist())]
            assert target.tolist() == [colour / 2, side]


def test_pairs_share_some_factors_and_differ_in_others(squares) -> None:
    squares.items = [image + 0 for image in squares.items]
    batches = CausalBatches(squares, range(24), quick_settings("ada-gvae"), 0, squares)
    rows = {tuple(image.flatten().tolist()): row for row, image in enumerate(squares.items)}
    found = set()
    for step in range(10):
        images = batches[step]["images"]
        assert len(images) == 8
        for one, other in zip(*images.chunk(2), strict=True):
            pair = (squares.table[rows[tuple(image.flatten().tolist())]] for image in (one, other))
            found.add(tuple(np.not_equal(*pair).tolist()))
    assert found == {(True, False, False), (False, True, False)}


def some_task(view, model: CausalModel) -> CausalTask:
    settings = quick_settings(model, steps=1)
    return CausalTask(
        settings, ConvVAE(codes=3, side=32, seed=0), CausalBatches(view, range(24), settings, 0, view), 0
    )


def state_of(network: torch.nn.Module) -> list[Tensor]:
    return [values.clone() for values in network.parameters()]


@pytest.mark.parametrize("frozen", ["autoencoder", "discriminator"])
def test_no_step_moves_the_other_network(squares, monkeypatch, frozen: str) -> None:
    """Without the step of one network, it stays as it is, and the other one moves as with it."""
    whole, half = (some_task(squares, "factor-vae") for _ in range(2))
    networks = [{"autoencoder": run.network, "discriminator": run.discriminator} for run in (whole, half)]
    before = state_of(networks[1][frozen])
    train_task(whole, 0)
    step = Optimisation.step
    monkeypatch.setattr(
        Optimisation,
        "step",
        lambda self, loss: None if self.network is networks[1][frozen] else step(self, loss),
    )
    train_task(half, 0)
    assert all(map(torch.equal, before, state_of(networks[1][frozen])))
    assert not same_weights(networks[0][frozen], networks[1][frozen])
    (other,) = {*networks[0]} - {frozen}
    assert same_weights(networks[0][other], networks[1][other])
    assert all(values.grad is None for values in networks[1][frozen].parameters())


def test_labels_move_the_encoder_alone(squares) -> None:
    """With the weight of the labels raised, the decoder's step stays the same."""
    networks = []
    for weight in (0.0, 300.0):
        run = some_task(squares, "ss-beta-vae")
        run.settings = replace(run.settings, supervision=weight)
        train_task(run, 0)
        networks.append(run.network)
    assert same_weights(networks[0].decoder, networks[1].decoder)
    assert not same_weights(networks[0].encoder, networks[1].encoder)
    assert same_weights(networks[0].log_variances, networks[1].log_variances)


@pytest.mark.parametrize(
    ("model", "settings", "options", "message"),
    [
        ("beta-vae", {"beta": -1}, {}, "`beta`: expected at least 0, got -1"),
        ("dip-vae-i", {"beta": 1}, {}, "dip-vae-i has no such weight; expected lambda_od, lambda_d"),
        ("beta-vae", {"supervision": 1}, {}, "`supervision`: beta-vae has no such weight; expected beta"),
        ("ss-beta-vae", {"labelled": 25}, {}, "at least 25 training images to label, got 24; label fewer"),
        ("ss-beta-vae", {"codes": 1}, {}, "a code for each of the factors colour, side, got 1; give more"),
        ("ada-gvae", {}, {"rows": [0, 3]}, "share some factors and differ in others, found 0 in 256 draws"),
        ("beta-vae", {}, {"foreground": torch.ones(24, 8, 8)}, r"a mask \[32, 32\] for each of the 24 rows"),
    ],
)
def test_bad_arguments(squares, model, settings, options, message: str) -> None:
    with refused(message):
        train(squares, model, settings=settings, **options)


def test_factors_that_are_not_needed_are_not_read(squares) -> None:
    without, _ = train_causal(squares, seed=0, model="beta-vae", **QUICK)
    assert same_weights(without, train(squares, "beta-vae")[0])
    with refused("ada-gvae: expected `factors` of the same rows as the images"):
        train_causal(squares, seed=0, model="ada-gvae", **QUICK)


def test_changed_factors_are_other_data(squares, tmp_path: Path) -> None:
    train(squares, "ss-beta-vae", state=tmp_path / "state")
    squares.table[7, 0] = 2 - squares.table[7, 0]
    with refused("of a training with another content of the data"):
        train(squares, "ss-beta-vae", state=tmp_path / "state")


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((40, 40), "expected images of 32 or 64 pixels, got 40; resize them"),
        ((32, 64), "expected square images, got 32 x 64; resize them"),
    ],
)
def test_images_of_another_size(squares, size, message) -> None:
    squares.items = [torch.zeros(3, *size)] * 24
    with refused(message):
        train(squares, "beta-vae")
