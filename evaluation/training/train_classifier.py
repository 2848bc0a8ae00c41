"""Train classifiers, and heads of factors, on labelled images."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.catalogue.training_options import BackboneName, ClassifierTraining, LabelTraining
from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.classifiers import FactorHeads
from candlelight.evaluation.run.batches import Fingerprint, weights_sha256
from candlelight.evaluation.run.record import make_options
from candlelight.evaluation.training.loop import (
    Losses,
    Task,
    epoch_stream,
    mixed_precision,
    one_cycle,
    train_task,
    training_state,
)
from candlelight.evaluation.training.training_rows import ImageRows, split_training
from candlelight.evaluation.views import Images
from candlelight.loaders.errors import InputError, argument

_Batch = tuple[Float[Tensor, "batch 3 height width"], Int[Tensor, "batch factors"]]


class Classification(Task[_Batch]):
    """Predict the classes of factors, each by its logits.

    Args:
        network: the network, on its device.
        logits: maps images on that device to the logits of each factor.
        images: all images.
        table: class of each factor in each row.
        rows: training rows and held-out rows.
        mirrored: whether a random half of the images is flipped left to right.
        how: epochs, batch size and learning rate.
        seed: seed of the order and the mirroring.
    """

    def __init__(
        self,
        network: nn.Module,
        logits: Callable[[Tensor], Sequence[Tensor]],
        images: ImageRows,
        table: Int[Tensor, "rows factors"],
        rows: tuple[list[int], list[int]],
        mirrored: bool,
        how: LabelTraining,
        seed: int,
    ) -> None:
        self.network, self._logits, self._mirrored = network, logits, mirrored
        self._images, self._table, (self._training, self._held_out) = images, table, rows
        self._seed, self._batch_size = seed, how.batch_size
        self.ends = range(1, how.epochs + 1)
        steps = len(self.ends) * self._count(len(self._training))
        self.optimisations = {"network": one_cycle(network, how.rate, steps)}

    def _count(self, rows: int) -> int:
        return -(-rows // self._batch_size)

    def _read(self, order: Int[np.ndarray, " rows"]) -> Iterator[_Batch]:
        """Read batches of nearly one size; batch normalisation learns badly from a small last batch."""
        for some in np.array_split(order, self._count(len(order))):
            yield self._images.read(some.tolist()), self._table[some]

    def batches(self, part: int) -> Iterator[_Batch]:
        """Read all training images in random order."""
        self.network.train()
        draws = epoch_stream(self._seed, "order", part)
        order = torch.randperm(len(self._training), generator=draws).numpy()
        for images, classes in self._read(np.array(self._training)[order]):
            if self._mirrored:
                flipped = torch.rand(len(images), generator=draws) < 0.5
                images = torch.where(flipped[:, None, None, None], images.flip(3), images)
            yield images, classes

    def losses(self, batch: _Batch) -> Losses:
        """Compute the sum over factors of the cross-entropy."""
        images, classes = (values.to(self.device) for values in batch)
        logits = self._logits(images)
        losses = [functional.cross_entropy(one, classes[:, column]) for column, one in enumerate(logits)]
        loss = torch.stack(losses).sum()
        return Losses({"network": loss}, {"loss": loss}, weight=len(images))

    @torch.no_grad()
    def validate(self) -> dict[str, list[float]]:
        """Return the share of held-out images whose class is predicted, for each factor."""
        if not self._held_out:
            return {}
        self.network.eval()
        hits = torch.zeros(self._table.shape[1], dtype=torch.int64, device=self.device)
        for images, classes in self._read(np.array(self._held_out)):
            logits = self._logits(images.to(self.device))
            predicted = torch.stack([one.argmax(1) for one in logits], dim=1)
            hits += (predicted == classes.to(self.device)).sum(0)
        return {"accuracy": (hits.double() / len(self._held_out)).tolist()}


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
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    device: str | torch.device = "cpu",
    state: str | Path | None = None,
    **options: Any,
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
        rows: row numbers to train on; all rows except ``validation`` by default.
        validation: row numbers that are held out. Choose whole groups (`hold_out` does so).
        device: torch device for training; the trained network stays there.
        state: file that keeps the state after each epoch. If it exists, training goes on from there, and ends
            with the weights of an uninterrupted run. The caller deletes it.
        options: epochs, batch size, learning rate and required accuracy, see `ClassifierTraining`.

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
    how = make_options(ClassifierTraining, options)
    required = how.required
    split = training, held_out = split_training(len(data), rows, validation)
    if required is not None and not held_out:
        raise InputError(f"{argument('required')} needs held-out images: give {argument('validation')}")
    table = _class_table({"`labels`": labels}, [network.classes], len(data), training)
    images = ImageRows(data)
    trained: Backbone = copy.deepcopy(network).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def logits(some: Tensor) -> list[Tensor]:
        with mixed_precision(some.device):
            found = trained(some.contiguous(memory_format=torch.channels_last))
        return [found.float()]

    def content() -> str:
        fingerprint = Fingerprint()
        fingerprint.add(images.sha256([*training, *held_out]), table)
        return fingerprint.hexdigest()

    settings = {"backbone": network.name, "weights": weights_sha256(network), "seed": seed}
    settings |= {name: getattr(how, name) for name in ("epochs", "batch_size", "rate")}
    kept = training_state(state, settings, data, split, content)
    curves = train_task(Classification(trained, logits, images, table, split, True, how, seed), seed, kept)
    history = ClassifierHistory(tuple(curves["loss"]), tuple(one for (one,) in curves["accuracy"]))
    if required is not None and not history.accuracy[-1] >= required:
        raise InputError(
            f"{network.name}: accuracy {history.accuracy[-1]:.3f} of {len(held_out)} held-out images after "
            f"epoch {how.epochs}, expected at least {required:g}; train for more epochs or on more images, "
            "or require less"
        )
    return trained, history


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
    device: str | torch.device = "cpu",
    **options: Any,
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
        device: torch device for training; the trained network stays there.
        options: epochs, batch size and learning rate, see `LabelTraining`.

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
    how = make_options(LabelTraining, options)
    training, held_out = split_training(len(data), None, validation)
    if not held_out:
        raise InputError("expected held-out rows for the accuracy of each factor, got an empty `validation`")
    if not labels:
        raise InputError("expected the labels of at least one factor, got none")
    classes = {name: max(map(int, some), default=-1) + 1 for name, some in labels.items()}
    named = {f"factor `{name}`": some for name, some in labels.items()}
    table = _class_table(named, list(classes.values()), len(data), training)
    heads = FactorHeads(network, classes, seed=seed).to(device)
    task = Classification(heads, heads, ImageRows(data), table, (training, held_out), False, how, seed)
    curves = train_task(task, seed)
    accuracies = tuple(dict(zip(labels, some, strict=True)) for some in curves["accuracy"])
    return heads, FactorHistory(tuple(curves["loss"]), accuracies)


def _class_table(
    labels: Mapping[str, Sequence[int]], classes: Sequence[int], rows: int, training: Sequence[int]
) -> Int[Tensor, "rows factors"]:
    """Return the class of each row as a column for each name, and check that all classes are learned."""
    for (name, some), count in zip(labels.items(), classes, strict=True):
        if len(some) != rows:
            raise InputError(f"{name}: expected a label for each of the {rows} rows, got {len(some)} labels")
        for label in some:
            if not 0 <= label < count:
                raise InputError(f"{name}: expected labels in 0..{count - 1}, got {label}")
        if lacking := set(range(count)).difference(some[row] for row in training):
            raise InputError(
                f"{name}: expected training rows of all {count} classes, got none of class {min(lacking)}; "
                "give other rows, hold out fewer, or number the classes without gaps"
            )
    return torch.tensor([[int(label) for label in some] for some in labels.values()]).T
