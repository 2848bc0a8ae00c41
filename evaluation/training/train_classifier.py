"""Train a backbone to tell classes of images apart."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.running.batches import weights_sha256
from candlelight.evaluation.training.labelled_rows import LabelledRows, count_batches
from candlelight.evaluation.training.optimisation import Optimisation
from candlelight.evaluation.training.split_training import split_training
from candlelight.evaluation.training.training_state import TrainingState, describe_rows
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bar import progress_bar
from candlelight.loaders.views import Images


@dataclass(frozen=True)
class ClassifierHistory:
    """Learning curves, one value per epoch.

    Attributes:
        training: mean cross-entropy over the training images, during which the weights change.
        accuracy: share of the held-out images whose class is predicted; empty without them.
    """

    training: tuple[float, ...]
    accuracy: tuple[float, ...]


def train_classifier(
    network: Backbone,
    data: Images,
    labels: Sequence[int],
    *,
    seed: int,
    epochs: int = 20,
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    required: float | None = None,
    batch_size: int = 32,
    rate: float = 3e-3,
    device: str | torch.device = "cpu",
    state: str | Path | None = None,
) -> tuple[Backbone, ClassifierHistory]:
    """Train a copy of a network to predict labels.

    Adam minimises the cross-entropy of the labels, with a one-cycle learning rate; images are mirrored left
    to right with probability one half. On a GPU the network runs in bfloat16, its loss in float32.

    Explanations of a classifier that has learned nothing explain nothing: ``required`` turns an accuracy
    below it into an error.

    Args:
        network: the network to start from, of `build_backbone` or `load_backbone`; it is not changed.
        data: images, all of one size.
        labels: class of each row of ``data``, from 0.
        seed: seed of the order, the mirroring and the dropout. Equal seeds give equal weights on the same
            processor with the same number of threads, and nearly equal ones on a GPU.
        epochs: passes over the training rows.
        rows: row numbers to train on; all rows except ``validation`` by default.
        validation: row numbers that are held out. Choose whole groups (`hold_out` does so).
        required: least accuracy of the held-out images after the last epoch, in [0, 1]; None for any.
        batch_size: most images of a step, at least 2.
        rate: largest learning rate. For public weights, and for VGG19 without batch normalisation, take about
            1e-4.
        device: torch device for training; the trained network stays there.
        state: file that keeps the state after each epoch. If it exists, training goes on from there, and ends
            with the weights of an uninterrupted run. The caller deletes it.

    Returns:
        The trained network in evaluation mode after the last epoch, and the learning curves.

    Raises:
        InputError: a row does not exist or is in both lists, a label is no class, a class has no training
            row, images are not sRGB-encoded in [0, 1] or have several sizes, a number is out of range,
            ``required`` is given without ``validation``, or is not reached (``state`` is kept); ``state`` is
            of another training or of other data; or the training diverges: a loss or a weight becomes nan or
            infinite, and ``state`` is deleted.

    Example:
        >>> from candlelight.evaluation.models.backbones import build_backbone
        >>> from candlelight.loaders.views import DataIdentity
        >>> class Grays:
        ...     identity, ids, groups = DataIdentity("grays", "memory"), ("dark", "light"), ("dark", "light")
        ...     known_ids = frozenset(ids)
        ...     def __len__(self): return 2
        ...     def __getitem__(self, row): return torch.full((3, 32, 32), (0.2, 0.8)[row])
        >>> start = build_backbone("resnet_small", 2, seed=0)
        >>> network, history = train_classifier(start, Grays(), [0, 1], seed=0, epochs=3)
        >>> history.training[-1] < history.training[0]
        True
    """
    _check_numbers(epochs, batch_size, rate, required)
    training, held_out = split_training(len(data), rows, validation)
    if required is not None and not held_out:
        raise InputError("`required` needs held-out images: give `validation` (--validation)")
    reader = LabelledRows(data, labels, network.classes)
    reader.check_classes(training)
    used: dict[str, Any] = {"backbone": network.name, "weights": weights_sha256(network), "seed": seed}
    used |= {"epochs": epochs, "batch_size": batch_size, "rate": rate}
    used |= describe_rows(data, training, held_out)
    used["content of the data"] = None if state is None else reader.sha256([*training, *held_out])
    kept = TrainingState(None if state is None else Path(state), used)
    steps = epochs * count_batches(len(training), batch_size)
    run = _Run(copy.deepcopy(network).to(device), rate, steps)
    losses, accuracies = run.restore(kept.read())
    bar = progress_bar(range(len(losses), epochs), desc="train", unit="epoch")
    for epoch in bar:
        losses.append(run.epoch(reader, training, batch_size, seed, epoch))
        run.optimisation.check_finite(losses[-1], f"epoch {epoch + 1}", kept)
        if held_out:
            accuracies.append(run.accuracy(reader, held_out, batch_size))
        kept.write(run.optimisation.state() | {"losses": losses, "accuracies": accuracies})
        bar.set_postfix(loss=losses[-1], **({"accuracy": accuracies[-1]} if held_out else {}))
    if required is not None and not accuracies[-1] >= required:
        raise InputError(
            f"{network.name}: accuracy {accuracies[-1]:.3f} of {len(held_out)} held-out images after epoch "
            f"{epochs}, expected at least {required:g}; train for more epochs or on more images, or require "
            "less"
        )
    return run.network.eval(), ClassifierHistory(tuple(losses), tuple(accuracies))


class _Run:
    """A network and its optimisation."""

    def __init__(self, network: Backbone, rate: float, steps: int) -> None:
        self.network: Backbone = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.device = network.head.weight.device
        self.optimisation = Optimisation(self.network, rate, steps)

    def restore(self, state: dict[str, Any] | None) -> tuple[list[float], list[float]]:
        """Restore a state, and return its learning curves, which are empty without a state."""
        if state is None:
            return [], []
        self.optimisation.restore(state)
        return list(state["losses"]), list(state["accuracies"])

    def epoch(self, reader: LabelledRows, rows: list[int], batch_size: int, seed: int, epoch: int) -> float:
        """Take the steps of an epoch, and return the mean loss of its images."""
        self.network.train()
        total = 0.0
        # Dropout draws from the global generator, whose state is restored afterwards.
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(_stream_seed(seed, "dropout", epoch))
            order = torch.Generator().manual_seed(_stream_seed(seed, "order", epoch))
            for images, labels in reader.shuffled(rows, batch_size, order):
                total += self._step(images.to(self.device), labels.to(self.device)) * len(labels)
        return total / len(rows)

    def _step(self, images: Tensor, labels: Tensor) -> float:
        loss = functional.cross_entropy(self._logits(images), labels)
        self.optimisation.step(loss)
        return loss.item()

    def _logits(self, images: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = self.network(images.contiguous(memory_format=torch.channels_last))
        return logits.float()

    @torch.no_grad()
    def accuracy(self, reader: LabelledRows, rows: list[int], batch_size: int) -> float:
        """Return the share of rows whose class is predicted."""
        self.network.eval()
        hits = 0
        for some in np.array_split(rows, count_batches(len(rows), batch_size)):
            images, labels = reader.read(some.tolist())
            hits += int((self._logits(images.to(self.device)).argmax(1).cpu() == labels).sum())
        return hits / len(rows)


def _check_numbers(epochs: int, batch_size: int, rate: float, required: float | None) -> None:
    for name, value, least in (("epochs", epochs, 1), ("batch_size", batch_size, 2)):
        if value < least:
            raise InputError(f"`{name}` must be at least {least}, got {value}")
    if not 0 < rate < math.inf:
        raise InputError(f"`rate` must be above 0 and finite, got {rate}")
    if required is not None and not 0 <= required <= 1:
        raise InputError(f"`required` must lie in [0, 1], got {required}")


def _stream_seed(seed: int, name: str, epoch: int) -> int:
    """Draw the seed of a stream of its own for each use and epoch, to resume anywhere."""
    return int(named_stream(seed, f"{name} {epoch}").integers(2**63))
