"""Codes for comparison: of a supervised network, and planted ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Generator, Tensor

from candlelight.evaluation.catalogue.training_options import BackboneName
from candlelight.evaluation.causal.code_inputs import standardise
from candlelight.evaluation.causal.factor_table import Encoded, FactorTable, shrink_for_heads
from candlelight.evaluation.models.classifiers import FactorHeads
from candlelight.evaluation.run.intervals import split_groups
from candlelight.evaluation.training.train_classifier import train_factor_heads
from candlelight.evaluation.views import DataIdentity, Factors
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

TRAINING_ROWS = 1500  # most images to train on, so that the time does not grow with the data
NETWORK: BackboneName = "resnet_small"  # of the small ones the best at equal time on frames of candle
_WEIGHTS = "weights "  # before the names of weights that are kept with codes
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
        >>> from candlelight.evaluation.causal.factor_table import tabulate_factors
        >>> from candlelight.evaluation.views import open_data
        >>> view = open_data("factors", "demo/frames", set_name="candle")  # doctest: +SKIP
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


def supervise(encoded: Encoded, notes: list[str]) -> SupervisedCodes | None:
    """Train the networks of `supervised_codes`, or take them from finished steps.

    Args:
        encoded: the images and factors of an evaluation.
        notes: gets a line that tells why there are no supervised codes, if the images do not fit.
    """
    run, table = encoded.run, encoded.table
    key = {"step": "supervised codes", "data": run.fingerprint.describe(run.data), "device": run.device}
    key |= {"factors": table.names, "bins": run.options.bins, "seed": run.options.seed}

    def train() -> dict[str, Tensor]:
        found = supervised_codes(run.data, table, seed=run.options.seed, device=run.device)
        weights = {f"{_WEIGHTS}{name}": value for name, value in found.heads.state_dict().items()}
        return {"codes": found.codes, "accuracy": torch.tensor(list(found.accuracy.values())), **weights}

    try:
        step = run.steps.get_or_compute(key, train)
    except InputError as error:
        notes.append(f"supervised codes are left out: {error}")
        return None
    classes = {name: int(column.max()) + 1 for name, column in zip(table.names, table.classes.T, strict=True)}
    heads = FactorHeads(NETWORK, classes, seed=0)
    heads.load_state_dict(
        {name.removeprefix(_WEIGHTS): value for name, value in step.items() if name.startswith(_WEIGHTS)}
    )
    accuracy = dict(zip(table.names, step["accuracy"].tolist(), strict=True))
    return SupervisedCodes(step["codes"], heads.to(run.device).eval(), accuracy)


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


PlantedName = Literal[
    "identity",
    "permuted",
    "monotone",
    "wrapped",
    "circular",
    "redundant",
    "rotated",
    "mixed",
    "entangled",
    "missing",
    "noisy",
    "supervised",
    "random",
    "constant",
]

_STEEPNESS = 3.0  # of the exponential in "monotone", for a factor of variance 1
_COUPLING = 1.5  # of the neighbours in "mixed", for factors of variance 1


@dataclass(frozen=True)
class PlantedTruth:
    """Facts about planted codes that follow from their map, whatever the distribution of the factors.

    True and false are exact; None stands for a matter of degree, such as noise, which decides nothing.

    Attributes:
        disentangled: each code depends on one factor, apart from noise of its own.
        complete: each factor is represented by one code, apart from its noise.
        informative: the codes determine all factors.
        sufficient: for each factor there is one code that determines it.
        robust: each code changes only if its factor does: disentangled without noise.
        meaning: the map in words.
    """

    disentangled: bool
    complete: bool
    informative: bool | None
    sufficient: bool | None
    robust: bool | None
    meaning: str


PLANTED_CODES: dict[PlantedName, PlantedTruth] = {
    "identity": PlantedTruth(True, True, True, True, True, "the standardised factors"),
    "permuted": PlantedTruth(True, True, True, True, True, "in another order, with other signs and scales"),
    "monotone": PlantedTruth(True, True, True, True, True, "an exponential of each factor"),
    "wrapped": PlantedTruth(True, True, True, True, True, "each factor as a phase that starts in the middle"),
    "circular": PlantedTruth(True, False, True, False, True, "sine and cosine of each factor as a phase"),
    "redundant": PlantedTruth(True, False, True, True, True, "each factor twice"),
    "rotated": PlantedTruth(False, False, True, False, False, "pairs of factors rotated by 30 degrees"),
    "mixed": PlantedTruth(
        False, False, True, False, False, "pairs of factors, each plus a function of the other"
    ),
    "entangled": PlantedTruth(
        False, False, True, False, False, "the first factor plus the second; all others alone"
    ),
    "missing": PlantedTruth(True, False, False, False, True, "all factors but the last"),
    "noisy": PlantedTruth(True, True, None, None, None, "each factor plus noise of its variance"),
    "supervised": PlantedTruth(True, True, None, None, None, "predictions of each factor, some wrong"),
    "random": PlantedTruth(False, False, False, False, False, "noise, independent of all factors"),
    "constant": PlantedTruth(False, False, False, False, False, "zero"),
}


def planted_codes(
    name: PlantedName,
    factors: Real[Tensor, "samples factors"],
    seed: int,
    *,
    degrees: float = 30,
    signal_to_noise: float = 1,
    errors: float = 0.1,
) -> Float[Tensor, "samples codes"]:
    """Make codes from factors by a known map.

    With standardised factors g (mean 0, variance 1; a constant factor is 0):

    - "identity": g.
    - "permuted": g in random order, each code times a random sign and a factor 10^u, u in (-1, 1).
    - "monotone": ``exp(3 g)``, invertible but far from a line.
    - "wrapped": ``(p + 1/2) mod 1``, where the phase p in [0, 1) is the share of the different values of
      the factor below the sample's: an angle with another origin, or classes in another order. Invertible,
      not monotone.
    - "circular": ``sin 2 pi p`` of all factors, then ``cos 2 pi p``: two codes for each factor.
    - "redundant": g, then g again.
    - "rotated": factors 0 and 1 rotated in their plane by ``degrees``, then 2 and 3, and so on; the last of
      an odd number is rotated with factor 0 afterwards.
    - "mixed": for the same pairs ``a' = a + 1.5 sin 2b``, then ``b' = b + 1.5 sin 2a'``; invertible by
      subtracting in reverse order.
    - "entangled": g, with factor 1 added to the code of factor 0.
    - "missing": g without the last factor.
    - "noisy": ``g + n``, n normal of variance ``1 / signal_to_noise``.
    - "supervised": g of another sample in a share ``errors`` of the samples, drawn for each factor: a
      classifier or regression with gross errors.
    - "random": normal numbers, as many codes as factors.
    - "constant": 0, as many codes as factors.

    `PLANTED_CODES` tells for each name which properties the codes have. These hold for the map. If factors
    determine each other in the data, no metric of codes and factors can tell some of the maps apart.

    Args:
        name: the map.
        factors: one row of factors per sample; classes by number. At least two for "rotated", "mixed",
            "entangled" and "missing".
        seed: decides all random numbers.
        degrees: angle of "rotated"; a multiple of 90 mixes nothing.
        signal_to_noise: ratio of the variances of "noisy", above 0.
        errors: share of wrong predictions of "supervised", 0 to 1.

    Returns:
        Codes in float64.

    Raises:
        InputError: a dimension is missing, factors are not finite or too few, ``name`` is misspelt, or
            ``signal_to_noise`` or ``errors`` is out of range.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(2))
        >>> planted_codes("rotated", factors, 0, degrees=90)[:2].round(decimals=6)
        tensor([[-1.,  1.],
                [ 1.,  1.]], dtype=torch.float64)
        >>> PLANTED_CODES["rotated"].disentangled, PLANTED_CODES["rotated"].informative
        (False, True)
    """
    check_choice("name", name, PlantedName)
    check_shapes(factors=(factors, "samples factors"))
    if not bool(factors.isfinite().all()):
        raise InputError("`factors` must be finite, got nan or inf; leave out samples without a value")
    number = factors.shape[1]
    if name in ("rotated", "mixed", "entangled", "missing") and number < 2:
        raise InputError(f"`{name}` codes need at least 2 factors, got {number}")
    if not 0 < signal_to_noise:
        raise InputError(f"`signal_to_noise` must be above 0, got {signal_to_noise}")
    if not 0 <= errors <= 1:
        raise InputError(f"`errors` must lie in [0, 1], got {errors}")
    scaled = standardise(factors)
    draws = Generator().manual_seed(seed)
    match name:
        case "identity":
            codes = scaled
        case "permuted":
            codes = _permuted(scaled, draws)
        case "monotone":
            codes = torch.exp(_STEEPNESS * scaled)
        case "wrapped":
            codes = (_phases(factors) + 0.5) % 1
        case "circular":
            turns = 2 * math.pi * _phases(factors)
            codes = torch.cat([turns.sin(), turns.cos()], dim=1)
        case "redundant":
            codes = torch.cat([scaled, scaled], dim=1)
        case "rotated":
            codes = _rotated(scaled, degrees)
        case "mixed":
            codes = _mixed(scaled)
        case "entangled":
            codes = scaled.clone()
            codes[:, 0] += codes[:, 1]
        case "missing":
            codes = scaled[:, :-1]
        case "noisy":
            codes = scaled + _normal(scaled, draws) / signal_to_noise**0.5
        case "supervised":
            codes = _with_errors(scaled, errors, draws)
        case "random":
            codes = _normal(scaled, draws)
        case "constant":
            codes = torch.zeros_like(scaled)
    return codes


def _pairs(number: int) -> list[tuple[int, int]]:
    """Pair neighbouring columns; the last of an odd number goes with the first."""
    pairs = [(first, first + 1) for first in range(0, number - 1, 2)]
    return [*pairs, (number - 1, 0)] if number % 2 else pairs


def _rotated(scaled: Tensor, degrees: float) -> Tensor:
    codes, angle = scaled.clone(), math.radians(degrees)
    for one, other in _pairs(scaled.shape[1]):
        first, second = codes[:, one].clone(), codes[:, other].clone()
        codes[:, one] = math.cos(angle) * first + math.sin(angle) * second
        codes[:, other] = math.cos(angle) * second - math.sin(angle) * first
    return codes


def _mixed(scaled: Tensor) -> Tensor:
    codes = scaled.clone()
    for one, other in _pairs(scaled.shape[1]):
        codes[:, one] += _COUPLING * torch.sin(2 * codes[:, other])
        codes[:, other] += _COUPLING * torch.sin(2 * codes[:, one])
    return codes


def _permuted(scaled: Tensor, draws: Generator) -> Tensor:
    number = scaled.shape[1]
    order = torch.randperm(number, generator=draws)
    signs = 2 * torch.randint(2, (number,), generator=draws) - 1
    scales = 10 ** (2 * torch.rand(number, generator=draws, dtype=torch.float64) - 1)
    return scaled[:, order.to(scaled.device)] * (signs * scales).to(scaled.device)


def _with_errors(scaled: Tensor, errors: float, draws: Generator) -> Tensor:
    wrong = torch.rand(scaled.shape, generator=draws) < errors
    other: Int[Tensor, "samples factors"] = torch.randint(len(scaled), scaled.shape, generator=draws)
    return torch.where(wrong.to(scaled.device), scaled.gather(0, other.to(scaled.device)), scaled)


def _phases(factors: Tensor) -> Float[Tensor, "samples factors"]:
    """Return for each sample the share of the different values of each factor that are smaller."""
    columns = []
    for column in factors.unbind(1):
        values, place = torch.unique(column, return_inverse=True)
        columns.append(place.double() / len(values))
    return torch.stack(columns, dim=1)


def _normal(like: Tensor, draws: Generator) -> Tensor:
    return torch.randn(like.shape, generator=draws, dtype=torch.float64).to(like.device)
