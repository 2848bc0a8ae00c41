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
from candlelight.evaluation.training.train_causal import CausalTask
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo

FACTORS = tuple(
    FactorInfo(name=name, kind="categorical", values=values)
    for name, values in (
        ("colour", ("red", "green", "blue")),
        ("side", ("left", "right")),
        ("floor", ("flat",)),
    )
)
QUICK = {"codes": 3, "steps": 4, "batch_size": 4}
MODELS = get_args(CausalModel)


@pytest.fixture(autouse=True)
def small_discriminator(monkeypatch) -> None:
    """Make the discriminator of FactorVAE fast."""
    monkeypatch.setattr("candlelight.evaluation.models.autoencoders._WIDTH", 20)


def drawn_square(colour: int, side: int, shade: float) -> Tensor:
    image = torch.full((3, 32, 32), shade)
    image[:, 10:22, 16 * side + 2 : 16 * side + 14] = torch.eye(3)[colour][:, None, None]
    return image


@pytest.fixture
def squares(memory_view):
    """Make a view of squares of three colours at two sides, four of each."""

    def make():
        rng = np.random.default_rng(0)
        table = np.array([[row // 2 % 3, row % 2, 0] for row in range(24)], float)
        images = [drawn_square(int(one), int(two), rng.uniform(0.2, 0.4)) for one, two, _ in table]
        return memory_view(images, factors=FACTORS, table=table)

    return make


def quick_settings(model: CausalModel, **changed: object):
    labels = {"labelled": 6} if model.startswith("ss-") else {}
    return CausalTraining(model=model, **QUICK | labels | changed)


def train(view, model: CausalModel, *, seed: int = 0, settings: dict[str, object] | None = None, **options):
    chosen = asdict(quick_settings(model, **(settings or {})))
    return train_causal(view, seed=seed, factors=view, **chosen, **options)


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    states = one.state_dict(), other.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("model", MODELS)
def test_every_model_takes_steps(squares, model: CausalModel) -> None:
    view = squares()
    network, history = train(view, model, validation=[0, 5])
    assert history.steps == (1, 2, 3, 4)
    weights = quick_settings(model).term_weights()
    assert list(history.terms) == list(weights)
    totals = [sum(weights[name] * history.terms[name][place] for name in weights) for place in range(4)]
    assert history.training == pytest.approx(totals, rel=1e-5)
    assert not network.training
    images = torch.stack([view[0], view[5]])
    with torch.no_grad():
        error = (network.decode(network(images)) - images).square().mean()
    assert history.validation[-1] == pytest.approx(float(error), rel=1e-5)
    assert history.constant == pytest.approx(float((images - images.mean(0)).square().mean()))
    assert not same_weights(network, ConvVAE(codes=3, side=32, seed=0))


def test_learns_to_reconstruct_and_to_encode_labels(squares) -> None:
    view = squares()
    settings = {"steps": 200, "rate": 2e-3, "batch_size": 12, "beta": 1, "labelled": 24, "supervision": 50}
    network, history = train(view, "ss-beta-vae", settings=settings, validation=[])
    with torch.no_grad():
        images = torch.stack(view.items)
        means = network(images)
        error = float((network.decode(means) - images).square().mean())
    assert error < 0.2 * float((images - images.mean(0)).square().mean())
    assert history.terms["supervision"][-1] < 0.7 * history.terms["supervision"][0]
    sides = view.table[:, 1]
    assert ((means[:, 1] > 0).numpy() == sides).all()
    assert np.corrcoef(means[:, 0].numpy(), view.table[:, 0])[0, 1] > 0.9


def test_result_depends_on_the_seed_alone(squares) -> None:
    view = squares()
    before = torch.get_rng_state()
    one, history = train(view, "factor-vae", seed=1)
    torch.manual_seed(5)
    again, same_history = train(view, "factor-vae", seed=1)
    torch.set_rng_state(before)
    other, _ = train(view, "factor-vae", seed=2)
    assert same_weights(one, again)
    assert history == same_history
    assert not same_weights(one, other)


def test_held_out_rows_and_unread_factors_are_not_learned(squares) -> None:
    view = squares()
    plain, _ = train(view, "ss-beta-vae", validation=[1, 4])
    view.items[1], view.table[1] = 1 - view.items[1], 0
    changed, _ = train(view, "ss-beta-vae", validation=[1, 4])
    assert same_weights(plain, changed)
    without, _ = train_causal(view, seed=0, model="beta-vae", **QUICK)
    assert same_weights(without, train(view, "beta-vae")[0])


@pytest.mark.parametrize("model", ["ss-factor-vae", "ada-gvae"])
def test_an_interrupted_training_ends_with_the_same_bytes(
    squares, model: CausalModel, tmp_path: Path, interrupt
) -> None:
    view = squares()
    options = {"validation": [0, 1], "foreground": torch.rand(24, 32, 32)}
    whole, history = train(view, model, state=tmp_path / "whole", **options)
    interrupt(lambda: train(view, model, state=tmp_path / "state", **options))
    resumed, same_history = train(view, model, state=tmp_path / "state", **options)
    assert same_weights(whole, resumed)
    assert history == same_history
    assert (tmp_path / "state").read_bytes() == (tmp_path / "whole").read_bytes()
    for name, changed in (("rate", {"settings": {"rate": 1e-3}}), ("seed", {"seed": 1})):
        with pytest.raises(InputError, match=f"of a training with another {name}; continue"):
            train(view, model, state=tmp_path / "state", **options | changed)
    view.table[7, 0] = 2 - view.table[7, 0]
    with pytest.raises(InputError, match="of a training with another content of the data"):
        train(view, model, state=tmp_path / "state", **options)


def test_every_step_draws_other_rows_and_workers_read_the_same(squares) -> None:
    view = squares()
    settings = quick_settings("ss-beta-vae")
    batches = CausalBatches(view, range(24), settings, 0, view)
    first, second = batches[0], batches[1]
    assert not torch.equal(first["images"], second["images"])
    assert not torch.equal(first["labelled"], second["labelled"])
    again = CausalBatches(view, range(24), settings, 0, view)[1]
    assert all(torch.equal(again[name], second[name]) for name in second)
    alone, _ = train(view, "ss-beta-vae")
    helped, _ = train(view, "ss-beta-vae", workers=2)
    assert same_weights(alone, helped)


def test_only_labelled_images_are_supervised(squares) -> None:
    view = squares()
    batches = CausalBatches(view, range(4, 24), quick_settings("ss-beta-vae"), 0, view)
    assert len(batches.label_rows) == 6
    known = {tuple(view[row].flatten().tolist()): view.table[row] for row in batches.label_rows.tolist()}
    assert set(batches.label_rows.tolist()) <= set(range(4, 24))
    for step in range(5):
        batch = batches[step]
        for image, target in zip(batch["labelled"], batch["targets"], strict=True):
            colour, side, _ = known[tuple(image.flatten().tolist())]
            assert target.tolist() == [colour / 2, side]


def test_pairs_share_some_factors_and_differ_in_others(squares) -> None:
    view = squares()
    view.items = [image + 0 for image in view.items]
    batches = CausalBatches(view, range(24), quick_settings("ada-gvae"), 0, view)
    rows = {tuple(image.flatten().tolist()): row for row, image in enumerate(view.items)}
    found = set()
    for step in range(10):
        images = batches[step]["images"]
        assert len(images) == 8
        for one, other in zip(*images.chunk(2), strict=True):
            pair = (view.table[rows[tuple(image.flatten().tolist())]] for image in (one, other))
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
    view = squares()
    whole, half = (some_task(view, "factor-vae") for _ in range(2))
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
    view = squares()
    networks = []
    for weight in (0.0, 300.0):
        run = some_task(view, "ss-beta-vae")
        run.settings = replace(run.settings, supervision=weight)
        train_task(run, 0)
        networks.append(run.network)
    assert same_weights(networks[0].decoder, networks[1].decoder)
    assert not same_weights(networks[0].encoder, networks[1].encoder)
    assert same_weights(networks[0].log_variances, networks[1].log_variances)


def test_bfloat16_changes_little(squares, monkeypatch) -> None:
    """Mixed precision, which a GPU has, on the processor."""
    view = squares()
    whole, history = train(view, "factor-vae")
    autocast = torch.autocast
    monkeypatch.setattr(
        torch, "autocast", lambda device, dtype, enabled: autocast(device, dtype, enabled=True)
    )
    mixed, other = train(view, "factor-vae")
    assert not same_weights(whole, mixed)
    assert other.training == pytest.approx(history.training, rel=0.05)


@pytest.mark.parametrize(
    ("model", "settings", "options", "message"),
    [
        ("beta-vae", {"beta": -1}, {}, "`beta`: expected at least 0, got -1"),
        ("dip-vae-i", {"beta": 1}, {}, "dip-vae-i has no such weight; expected lambda_od, lambda_d"),
        ("beta-vae", {"supervision": 1}, {}, "`supervision`: beta-vae has no such weight; expected beta"),
        ("beta-vae", {"rate": np.inf}, {}, "`rate`: expected above 0, got inf"),
        ("beta-vae", {"batch_size": 1}, {}, "`batch_size`: expected at least 2, got 1"),
        ("ss-beta-vae", {"labelled": 25}, {}, "at least 25 training images to label, got 24; label fewer"),
        ("ss-beta-vae", {"codes": 1}, {}, "a code for each of the factors colour, side, got 1; give more"),
        ("ada-gvae", {}, {"rows": [0, 3]}, "share some factors and differ in others, found 0 in 256 draws"),
        ("beta-vae", {}, {"rows": [0, 1], "validation": [1]}, "must share no row, got 1 in both"),
        ("beta-vae", {}, {"foreground": torch.ones(24, 8, 8)}, r"a mask \[32, 32\] for each of the 24 rows"),
    ],
)
def test_bad_arguments(squares, model, settings, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(squares(), model, settings=settings, **options)


def test_bad_images_and_missing_factors(squares) -> None:
    view = squares()
    with pytest.raises(InputError, match="ada-gvae: expected `factors` of the same rows as the images"):
        train_causal(view, seed=0, model="ada-gvae", **QUICK)
    view.items = [torch.zeros(3, 40, 40)] * 24
    with pytest.raises(InputError, match="expected images of 32 or 64 pixels, got 40; resize them"):
        train(view, "beta-vae")
    view.items = [torch.zeros(3, 32, 64)] * 24
    with pytest.raises(InputError, match="expected square images, got 32 x 64; resize them"):
        train(view, "beta-vae")
