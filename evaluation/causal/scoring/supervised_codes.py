"""Codes that a small network learned from the factors: a control for tables of other encoders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal.scoring.factor_table import FactorTable
from candlelight.evaluation.causal.scoring.shrink_for_heads import shrink_for_heads
from candlelight.evaluation.models.backbones import BackboneName, FactorHeads
from candlelight.evaluation.results.split_intervals import split_groups
from candlelight.evaluation.training.train_factor_heads import train_factor_heads
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import DataIdentity, Factors

TRAINING_ROWS = 1500  # most images to train on, so that the time does not grow with the data
NETWORK: BackboneName = "resnet_small"  # of the small ones the best at equal time on frames of candle
WEIGHTS = "weights "  # before the names of weights that are kept with codes
_VALIDATION_ROWS = 64  # for the learning curve only


@dataclass(frozen=True)
class SupervisedCodes:
    """Predictions of the factors of all images, by networks that did not see them.

    Attributes:
        codes: predicted value of each factor: the mean under the predicted probabilities; of a factor without
            order the number of the likeliest class.
        heads: the network that was trained on the first half of the images.
        accuracy: share of right classes among all images, by name of the factor.
    """

    codes: Float[Tensor, "images factors"]
    heads: FactorHeads
    accuracy: dict[str, float]


@dataclass(frozen=True)
class _SomeRows:
    """Some rows of images."""

    data: Factors
    rows: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Tensor:
        return shrink_for_heads(self.data[self.rows[row]])

    @property
    def identity(self) -> DataIdentity:
        return self.data.identity

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.data.ids[row] for row in self.rows)

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.data.groups[row] for row in self.rows)

    @property
    def known_ids(self) -> frozenset[str]:
        return frozenset(self.ids)


def supervised_codes(
    data: Factors, table: FactorTable, *, seed: int = 0, epochs: int = 10, device: str = "cpu"
) -> SupervisedCodes:
    """Train a small network on each half of the images, and predict the factors of the other half.

    Args:
        data: images of one size; averaged to at most 64 pixels a side, at least 32 are needed.
        table: the factors; each factor with its classes is one softmax head.
        seed: seed of the halves and of the trainings.
        epochs: passes over the at most `TRAINING_ROWS` images of a training.
        device: torch device.

    Raises:
        InputError: a class has no image in one of the halves, or the images do not fit, see
            `train_factor_heads`.

    Example:
        >>> from candlelight.evaluation.causal.scoring.factor_table import tabulate_factors
        >>> from candlelight.loaders.views import open_factors
        >>> view = open_factors("demo/frames", set_name="candle")  # doctest: +SKIP
        >>> supervised_codes(view, tabulate_factors(view)).accuracy["lights"] > 0.5  # doctest: +SKIP
        True
    """
    first = split_groups(data.groups, 2, seed)[0]
    codes = torch.zeros(table.values.shape, dtype=torch.float64)
    hits = torch.zeros(len(table.names))
    networks = []
    for half in (first, ~first):
        heads = _train(data, table, np.flatnonzero(half), np.flatnonzero(~half), seed, epochs, device)
        networks.append(heads)
        for rows in torch.split(torch.from_numpy(np.flatnonzero(~half)), 64):
            images = torch.stack([shrink_for_heads(data[row]) for row in rows.tolist()]).to(device)
            with torch.no_grad():
                logits = [head.double().cpu() for head in heads(images)]
            codes[rows] = torch.stack(
                [_predict(head, table, column) for column, head in enumerate(logits)], dim=1
            )
            classes = torch.stack([head.argmax(1) for head in logits], dim=1)
            hits += (classes == table.classes[rows]).sum(0)
    accuracy = dict(zip(table.names, (hits / len(codes)).tolist(), strict=True))
    return SupervisedCodes(codes, networks[0], accuracy)


def restore_supervised_codes(
    step: Mapping[str, Tensor], table: FactorTable, device: str = "cpu"
) -> SupervisedCodes:
    """Make the codes and the network of tensors that an earlier run kept.

    Args:
        step: "codes", "accuracy", and the weights by name after "weights ".
        table: the factors.
        device: torch device of the network.
    """
    classes = {name: int(column.max()) + 1 for name, column in zip(table.names, table.classes.T, strict=True)}
    heads = FactorHeads(NETWORK, classes, seed=0)
    heads.load_state_dict(
        {name.removeprefix(WEIGHTS): value for name, value in step.items() if name.startswith(WEIGHTS)}
    )
    accuracy = dict(zip(table.names, step["accuracy"].tolist(), strict=True))
    return SupervisedCodes(step["codes"], heads.to(device).eval(), accuracy)


def _train(
    data: Factors,
    table: FactorTable,
    rows: np.ndarray,
    others: np.ndarray,
    seed: int,
    epochs: int,
    device: str,
) -> FactorHeads:
    draws = np.random.default_rng(seed)
    chosen = draws.permutation(rows)[:TRAINING_ROWS]
    held_out = draws.permutation(others)[:_VALIDATION_ROWS]
    if not len(held_out):
        raise InputError("expected at least two groups of images")
    for name, classes in zip(table.names, table.classes.T, strict=True):
        if len(classes[chosen].unique()) <= int(classes.max()):
            raise InputError(f"half of the images lacks a value, or bin, of `{name}`; give more images")
    kept = np.concatenate([chosen, held_out]).tolist()
    labels = {name: table.classes[kept, column].tolist() for column, name in enumerate(table.names)}
    validation = range(len(chosen), len(kept))
    return train_factor_heads(
        _SomeRows(data, kept),
        labels,
        seed=seed,
        validation=validation,
        network=NETWORK,
        epochs=epochs,
        device=device,
    )[0]


def _predict(
    logits: Float[Tensor, "batch classes"], table: FactorTable, column: int
) -> Float[Tensor, " batch"]:
    """Predict the value of a factor from the logits of its classes."""
    if column in table.unordered:
        return logits.argmax(1).double()
    values, classes = table.values[:, column], table.classes[:, column]
    means = torch.bincount(classes, values) / torch.bincount(classes)
    return logits.softmax(1) @ means
