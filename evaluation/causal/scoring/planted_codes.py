"""Codes made from factors by known maps: test cases for metrics of representations."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Generator, Tensor

from candlelight.evaluation.causal.estimation.code_inputs import standardise
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

PlantedName = Literal[
    "identity",
    "permuted",
    "monotone",
    "wrapped",
    "circular",
    "redundant",
    "rotated",
    "mixed",
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
        factors: one row of factors per sample; classes by number. At least two for "rotated", "mixed" and
            "missing".
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
    if name in ("rotated", "mixed", "missing") and number < 2:
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
