"""Train classifiers and heads of factors on labelled images."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.build_backbone import BackboneName
from candlelight.evaluation.models.classifiers import FactorHeads
from candlelight.evaluation.models.poisson import named_stream
from candlelight.evaluation.run.batches import weights_sha256
from candlelight.evaluation.training.labelled_rows import LabelledRows, count_batches
from candlelight.evaluation.training.loop import (
    Optimisation,
    TrainingState,
    describe_rows,
    epoch_stream,
    split_training,
)
from candlelight.evaluation.views import Images
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar


@dataclass(frozen=True)
class FactorHistory:
    """Learning curves, one entry per epoch.

    Attributes:
        training: cross-entropy, mean over images and sum over factors, during which the weights change.
        accuracy: share of the held-out images whose class is predicted, by name of the factor.
    """

    training: tuple[float, ...]
    accuracy: tuple[dict[str, float], ...]


def train_factor_heads(
    data: Images,
    labels: Mapping[str, Sequence[int]],
    *,
    seed: int,
    validation: Sequence[int],
    network: BackboneName = "vgg_small",
    epochs: int = 20,
    batch_size: int = 32,
    rate: float = 3e-3,
    device: str | torch.device = "cpu",
) -> tuple[FactorHeads, FactorHistory]:
    """Train a network with one softmax head for each factor, for `counterfactual_generativeness`.

    Adam minimises the sum over the factors of the cross-entropy, with a one-cycle learning rate. Images are
    not mirrored, because that would change factors such as the side of the light. The default network keeps
    four coarse places up to its linear layers, which position needs.

    Args:
        data: images, all of one size of at least 32 x 32 pixels.
        labels: class of each row, from 0, by name of the factor; of a categorical factor from
            `factor_labels`. Every class needs a training row.
        seed: seed of the weights, the order and the dropout. Equal seeds give equal weights on the same
            processor with the same number of threads, and nearly equal ones on a GPU.
        validation: row numbers that are held out. Choose whole groups (`hold_out` does so); on a full grid of
            factors, rows at random hold out combinations.
        network: name of the architecture.
        epochs: passes over the training rows.
        batch_size: most images of a step, at least 2.
        rate: largest learning rate.
        device: torch device for training; the trained network stays there.

    Returns:
        The trained network in evaluation mode, and the learning curves; ``history.accuracy[-1]`` is the
        held-out accuracy of the network.

    Raises:
        InputError: there is no factor, or one with a single class, no row is held out, a row does not exist,
            labels do not fit the rows, a class has no training row, images are not sRGB-encoded in [0, 1] or
            have several sizes, a number is out of range, or the training diverges.

    Example:
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Grays:
        ...     identity, ids, groups = DataIdentity("grays", "memory"), tuple("abcd"), tuple("abcd")
        ...     known_ids = frozenset(ids)
        ...     def __len__(self): return 4
        ...     def __getitem__(self, row): return torch.full((3, 32, 32), (0.2, 0.8)[row % 2])
        >>> heads, history = train_factor_heads(
        ...     Grays(), {"level": [0, 1, 0, 1]}, seed=0, validation=[2, 3], epochs=2
        ... )
        >>> heads.classes, len(history.training), list(history.accuracy[-1])
        ({'level': 2}, 2, ['level'])
    """
    _check_settings(epochs, batch_size, rate)
    training, held_out = split_training(len(data), None, validation)
    if not held_out:
        raise InputError("expected held-out rows for the accuracy of each factor, got an empty `validation`")
    table = _label_table(labels, len(data))
    heads = FactorHeads(
        network,
        {name: int(table[:, column].max()) + 1 for column, name in enumerate(labels)},
        seed=seed,
    ).to(device)
    for column, (name, classes) in enumerate(heads.classes.items()):
        if lacking := set(range(classes)).difference(table[training, column].tolist()):
            raise InputError(
                f"factor `{name}`: expected training rows of all {classes} classes, got none of class "
                f"{min(lacking)}; hold out fewer rows, or number the classes without gaps"
            )
    run = _HeadsRun(heads, data, table, rate, epochs * count_batches(len(training), batch_size))
    losses, accuracies = [], []
    for epoch in progress_bar(range(epochs), desc="train", unit="epoch"):
        losses.append(run.epoch(training, batch_size, seed, epoch))
        run.optimisation.check_finite(losses[-1], f"epoch {epoch + 1}")
        accuracies.append(run.accuracy(held_out, batch_size))
    return heads.eval(), FactorHistory(tuple(losses), tuple(accuracies))


class _HeadsRun:
    """A network, its images and their classes, and its optimisation."""

    def __init__(
        self, heads: FactorHeads, data: Images, table: Int[Tensor, "rows factors"], rate: float, steps: int
    ) -> None:
        self.heads, self.table = heads, table
        self.device = heads.network.head.weight.device
        # Rows are their own labels here, by which the classes of all factors are found.
        self.reader = LabelledRows(data, range(len(data)), len(data))
        self.optimisation = Optimisation(heads, rate, steps)

    def epoch(self, rows: Sequence[int], batch_size: int, seed: int, epoch: int) -> float:
        """Take the steps of an epoch, and return the mean loss of its images."""
        self.heads.train()
        order = torch.randperm(len(rows), generator=epoch_stream(seed, "order", epoch))
        total = 0.0
        # Dropout draws from the global generator, whose state is restored afterwards.
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(epoch_stream(seed, "dropout", epoch).initial_seed())
            for some in np.array_split(np.array(rows)[order.numpy()], count_batches(len(rows), batch_size)):
                total += self._step(some.tolist()) * len(some)
        return total / len(rows)

    def _step(self, rows: Sequence[int]) -> float:
        images, places = self.reader.read(rows)
        classes = self.table[places].to(self.device)
        logits = self.heads(images.to(self.device))
        losses = [functional.cross_entropy(one, classes[:, column]) for column, one in enumerate(logits)]
        loss = torch.stack(losses).sum()
        self.optimisation.step(loss)
        return loss.item()

    @torch.no_grad()
    def accuracy(self, rows: Sequence[int], batch_size: int) -> dict[str, float]:
        """Return the share of rows whose class is predicted, by name of the factor."""
        self.heads.eval()
        hits = torch.zeros(len(self.heads.classes), dtype=torch.int64)
        for some in np.array_split(rows, count_batches(len(rows), batch_size)):
            images, places = self.reader.read(some.tolist())
            predicted = [logits.argmax(1) for logits in self.heads(images.to(self.device))]
            hits += (torch.stack(predicted, dim=1).cpu() == self.table[places]).sum(0)
        return dict(zip(self.heads.classes, (hits.double() / len(rows)).tolist(), strict=True))


def _check_settings(epochs: int, batch_size: int, rate: float) -> None:
    for name, value, least in (("epochs", epochs, 1), ("batch_size", batch_size, 2)):
        if value < least:
            raise InputError(f"`{name}` must be at least {least}, got {value}")
    if not 0 < rate < math.inf:
        raise InputError(f"`rate` must be above 0 and finite, got {rate}")


def _label_table(labels: Mapping[str, Sequence[int]], rows: int) -> Int[Tensor, "rows factors"]:
    """Return the classes of all factors as columns."""
    if not labels:
        raise InputError("expected the labels of at least one factor, got none")
    for name, classes in labels.items():
        if len(classes) != rows:
            raise InputError(
                f"factor `{name}`: expected a label for each of the {rows} rows, got {len(classes)} labels"
            )
        if min(classes) < 0:
            raise InputError(f"factor `{name}`: labels must be at least 0, got {min(classes)}")
    return torch.tensor([[int(label) for label in classes] for classes in labels.values()]).T


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
        >>> from candlelight.evaluation.models.build_backbone import build_backbone
        >>> from candlelight.evaluation.views import DataIdentity
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
        raise InputError(f"{argument('required')} needs held-out images: give {argument('validation')}")
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
