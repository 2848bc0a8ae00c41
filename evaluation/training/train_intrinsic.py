"""Train an `IntrinsicNet` to decompose images under one of three regimes."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from candlelight.evaluation.intrinsic.score_intrinsic import COLUMNS, decomposition_errors
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.training.epoch_stream import epoch_stream
from candlelight.evaluation.training.optimisation import Optimisation
from candlelight.evaluation.training.regimes import Regime, regime_loss
from candlelight.evaluation.training.split_training import split_training
from candlelight.evaluation.training.training_rows import TrainingBatch, TrainingRows, draw_batches
from candlelight.evaluation.training.training_state import TrainingState, describe_rows
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bar import progress_bar
from candlelight.loaders.views import Decompositions


@dataclass(frozen=True)
class History:
    """Learning curves, one value per epoch, lower is better.

    Attributes:
        training: mean loss over the steps of the epoch, during which the weights change; the losses of
            different regimes are not comparable.
        validation: mean LMSE (`score_intrinsic`) on the held-out rows after each epoch; empty without them.
    """

    training: tuple[float, ...]
    validation: tuple[float, ...]


def train_intrinsic(
    data: Decompositions,
    *,
    regime: Regime = "supervised",
    seed: int,
    epochs: int = 20,
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    batch_size: int = 6,
    lights: int = 2,
    rate: float = 3e-3,
    width: int = 10,
    device: str | torch.device = "cpu",
    state: str | Path | None = None,
) -> tuple[IntrinsicNet, History]:
    """Train a network to predict reflectance and shading.

    Adam minimises `regime_loss`, with a one-cycle learning rate; the images of a scene, a group of ``data``,
    are mirrored left to right with probability one half. Pixels without albedo, or with a value that is not
    finite, are ignored. On a GPU the network runs in bfloat16 where that is safe, and its loss in float32.

    Args:
        data: images with their ground-truth decomposition, all of one size (`SmallRows` scales them).
        regime: "supervised"; "multi-illumination", which reads only images, of scenes under several lights;
            or "unsupervised", which reads the images, and reflectance and shading of other scenes.
        seed: seed of the initial weights, the order, the mirroring and the losses. Equal seeds give equal
            weights on the same processor with the same number of threads, and nearly equal ones on a GPU.
        epochs: passes over the training rows.
        rows: row numbers to train on; all rows except ``validation`` by default.
        validation: row numbers that are held out. Choose whole groups (`hold_out` does so): a held-out frame
            that differs from a training frame only in its light does not test generalisation.
        batch_size: images per step.
        lights: most images of one scene in a step.
        rate: largest learning rate; with twice the default the output may become constant.
        width: channels of the network at full resolution, see `IntrinsicNet`.
        device: torch device for training; the network stays there.
        state: file that keeps the state after each epoch. If it exists, training goes on from there, and ends
            with the weights of an uninterrupted run. The caller deletes it.

    Returns:
        The network in evaluation mode after the last epoch, and the learning curves.

    Raises:
        InputError: a row does not exist or is in both lists, ground truth is missing, no pixel is known,
            images have several sizes or are too small to be scored, a number is below 1, ``rate`` is not
            finite and above 0, scenes are too few or have one light each although the regime needs more,
            ``state`` is of another training or of other data, or the training diverges: a loss or a weight
            becomes nan or infinite, and ``state`` is deleted.

    Example:
        >>> from candlelight.loaders.views import DataIdentity, DecomposedImage
        >>> class Gray:
        ...     identity, explains = DataIdentity("gray", "memory"), "image"
        ...     ids, groups, known_ids = ("a",), ("a",), frozenset("a")
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         half = torch.full((3, 8, 8), 0.5)
        ...         return DecomposedImage(half * half, half, half, torch.ones(8, 8).bool())
        >>> network, history = train_intrinsic(Gray(), seed=0, epochs=10, width=2)
        >>> history.training[-1] < history.training[0]
        True
    """
    check_choice("regime", regime, Regime)
    _check_numbers(epochs=epochs, batch_size=batch_size, lights=lights)
    if not 0 < rate < math.inf:
        raise InputError(f"`rate` must be above 0 and finite, got {rate}")
    training, held_out = split_training(len(data), rows, validation)
    reader = TrainingRows(data)
    _check_scenes(regime, [reader.scenes[row] for row in training], batch_size, lights)
    reader.check_pixels(training, held_out)
    plan = [
        draw_batches(reader.scenes, training, batch_size, lights, epoch_stream(seed, "order", epoch))
        for epoch in range(epochs)
    ]
    run = _Run(regime, IntrinsicNet(width=width, seed=seed).to(device), rate, sum(map(len, plan)))
    used: dict[str, Any] = {"regime": regime, "seed": seed, "epochs": epochs, "batch_size": batch_size}
    used |= {"lights": lights, "rate": rate, "width": width}
    used |= describe_rows(data, training, held_out)
    used["content of the data"] = None if state is None else reader.sha256([*training, *held_out])
    kept = TrainingState(None if state is None else Path(state), used)
    losses, errors = run.restore(kept.read())
    bar = progress_bar(plan, desc="train", unit="epoch", initial=len(losses))
    for epoch in range(len(losses), epochs):
        batches = reader.mirrored(plan[epoch], epoch_stream(seed, "mirrors", epoch))
        if regime == "unsupervised":
            batches = reader.with_others(batches, training, epoch_stream(seed, "others", epoch))
        draws = epoch_stream(seed, "losses", epoch)
        losses.append(float(np.mean([run.step(batch, draws) for batch in batches])))
        run.optimisation.check_finite(losses[-1], f"epoch {epoch + 1}", kept)
        if held_out:
            errors.append(run.mean_lmse(reader, held_out, batch_size))
        kept.write(run.optimisation.state() | {"losses": losses, "errors": errors})
        bar.set_postfix(loss=losses[-1], refresh=False, **({"lmse": errors[-1]} if held_out else {}))
        bar.update()
    bar.close()
    return run.network.eval(), History(tuple(losses), tuple(errors))


class _Run:
    """A network and its optimisation under a regime."""

    def __init__(self, regime: Regime, network: IntrinsicNet, rate: float, steps: int) -> None:
        # In this order of memory a step takes about two thirds of the time on a CPU.
        self.regime, self.network = regime, network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.device = next(network.parameters()).device
        self.optimisation = Optimisation(self.network, rate, steps)

    def restore(self, state: dict[str, Any] | None) -> tuple[list[float], list[float]]:
        """Restore a state, and return its learning curves, which are empty without a state."""
        if state is None:
            return [], []
        self.optimisation.restore(state)
        return list(state["losses"]), list(state["errors"])

    def step(self, batch: TrainingBatch, draws: torch.Generator) -> float:
        """Take one step, and return its loss."""
        placed = batch.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            reflectance, shading = self.network(placed.truth.image)
        loss = regime_loss(self.regime, (reflectance.float(), shading.float()), placed, draws)
        self.optimisation.step(loss)
        return loss.item()

    @torch.no_grad()
    def mean_lmse(self, reader: TrainingRows, rows: list[int], batch_size: int) -> float:
        found = []
        for start in range(0, len(rows), batch_size):
            truth = reader.read(rows[start : start + batch_size])
            reflectance, shading = self.network(truth.image.to(self.device))
            errors = decomposition_errors(reflectance.cpu(), shading.cpu(), truth)
            found.append(errors[:, COLUMNS.index("lmse")])
        return float(torch.cat(found).nanmean())


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise InputError(f"`{name}` must be at least 1, got {value}")


def _check_scenes(regime: Regime, scenes: Sequence[int], batch_size: int, lights: int) -> None:
    """Refuse rows in which a regime finds nothing to learn from."""
    together = min(batch_size, lights, max(Counter(scenes).values()))
    if regime == "multi-illumination" and together < 2:
        raise InputError(
            "regime `multi-illumination`: expected scenes under several lights, and at least 2 of them in a "
            f"batch, got at most {together}; give other data, or larger `lights` and `batch_size`"
        )
