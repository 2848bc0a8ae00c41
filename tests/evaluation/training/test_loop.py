"""The loop of every training, with a task that fits a line."""

from pathlib import Path

import pytest
import torch
from torch import nn

from candlelight.evaluation.training.loop import (
    Losses,
    Optimisation,
    Task,
    TrainingState,
    epoch_stream,
    one_cycle,
    train_task,
)
from tests.refusals import refused


class Line(Task[torch.Tensor]):
    """Fit y = 2 x + 1 on points that each epoch draws anew, through a layer of dropout."""

    def __init__(self, epochs: int = 3, rate: float = 0.1) -> None:
        self.network = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.3))
        nn.init.zeros_(self.network[0].weight)
        nn.init.zeros_(self.network[0].bias)
        self.ends = range(1, epochs + 1)
        self.optimisations = {"line": one_cycle(self.network, rate, 2 * epochs)}

    def batches(self, part: int):
        self.network.train()
        draws = epoch_stream(0, "points", part)
        return [torch.rand(count, 1, generator=draws) for count in (6, 2)]

    def losses(self, batch: torch.Tensor) -> Losses:
        loss = (self.network(batch) - 2 * batch - 1).square().mean()
        return Losses({"line": loss}, {"loss": loss, "size": torch.tensor(float(len(batch)))}, len(batch))

    def validate(self) -> dict[str, float]:
        return {"slope": self.network[0].weight.item()}


def kept(folder: Path, **settings: object) -> TrainingState:
    return TrainingState(folder / "state", {"seed": 0, **settings})


def weights(task: Line) -> torch.Tensor:
    return torch.cat([values.flatten() for values in task.network.parameters()])


def test_curves_have_a_value_for_each_part_weighted_by_the_batches() -> None:
    task = Line(40)
    before = torch.get_rng_state()
    curves = train_task(task, 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert {name: len(values) for name, values in curves.items()} == {"loss": 40, "size": 40, "slope": 40}
    assert curves["size"] == [(6 * 6 + 2 * 2) / 8] * 40
    assert curves["loss"][-1] < 0.5 * curves["loss"][0]
    assert curves["slope"][-1] == task.network[0].weight.item()
    assert not task.network.training


def test_an_interrupted_training_ends_with_the_same_bytes(tmp_path: Path, interrupt) -> None:
    (tmp_path / "other").mkdir()
    whole, resumed = Line(), Line()
    curves = train_task(whole, 0, kept(tmp_path / "other"))
    interrupt(lambda: train_task(Line(), 0, kept(tmp_path)))
    assert train_task(resumed, 0, kept(tmp_path)) == curves
    assert torch.equal(weights(whole), weights(resumed))
    assert (tmp_path / "state").read_bytes() == (tmp_path / "other" / "state").read_bytes()
    # A finished training is not trained again.
    finished = Line()
    finished.losses = None
    assert train_task(finished, 0, kept(tmp_path)) == curves
    with refused("of a training with another rate, width; continue"):
        train_task(Line(), 0, kept(tmp_path, rate=1, width=2))
    (tmp_path / "state").write_bytes(b"PK\x03\x04 nothing")
    with refused("state: damaged, or no state of an interrupted training; continue"):
        train_task(Line(), 0, kept(tmp_path))


def test_a_state_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with refused(r"cannot write .*state: .*; free some room there"):
        kept(tmp_path / "missing").write({})


@pytest.mark.parametrize("spoilt", ["loss", "weight"])
def test_a_diverging_training_is_one_line_and_leaves_nothing(tmp_path: Path, spoilt: str) -> None:
    task = Line(4, rate=0.2)
    losses, task.ends = task.losses, range(1, 4)

    def infinite(batch: torch.Tensor) -> Losses:
        found = losses(batch)
        if spoilt == "loss":
            found.curves["loss"] = torch.tensor(torch.inf)
        else:
            task.network[0].weight.data.fill_(torch.inf)
        return found

    train_task(task, 0, kept(tmp_path))
    task.losses, task.ends = infinite, range(1, 5)
    message = r"the training diverged in epoch 4: a loss or a weight is nan or infinite; give a smaller"
    with refused(message + r" learning rate \(`rate`\) than 0.2$"):
        train_task(task, 0, kept(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_optimisation_changes_its_own_weights_alone() -> None:
    network, other = nn.Linear(2, 1), nn.Linear(1, 1)
    bias = network.bias.detach().clone()
    one = Optimisation(network, 0.5, groups=[{"params": [network.weight]}])
    before = [values.detach().clone() for values in (network.weight, *other.parameters())]
    one.step(other(network(torch.ones(3, 2))).sum())
    assert torch.equal(network.bias, bias)
    torch.testing.assert_close((network.weight - before[0]).detach().abs(), torch.full((1, 2), 0.5))
    assert all(map(torch.equal, before[1:], other.parameters()))
    assert other.weight.grad is None
