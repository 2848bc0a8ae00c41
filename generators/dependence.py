"""How the factors of planned samples are distributed, and how much each tells of another."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from generators.scene import SamplePlan
from generators.streams import stream
from loaders.schema import FactorValue

BINS = 10  # ranges, of a factor or variable of many numbers
FULL_CELLS = 5  # samples to a cell of two columns, on the average, from which chance follows a formula
SHUFFLES = 40  # of one of them, by which it is counted where there are fewer
MOST_LISTED = 60  # distinct whole numbers up to which a column is taken as it is; of others, BINS


@dataclass(frozen=True)
class Marginal:
    """How often each value, or range of values, occurs."""

    name: str
    counts: dict[str, int]


@dataclass(frozen=True)
class Dependence:
    """How much one factor tells of another.

    Attributes:
        first: name of one.
        second: name of the other.
        information: mutual information of the empirical distribution, nats.
        share: of the smaller of the two entropies, 0 to 1; 0 where one does not vary.
        chance: what independent ones would give on the average with so few samples, nats.
        limit: what independent ones seldom exceed: four deviations above ``chance``.
    """

    first: str
    second: str
    information: float
    share: float
    chance: float
    limit: float


def marginals(samples: Sequence[SamplePlan]) -> list[Marginal]:
    """Count the values of every factor and variable of samples of one set.

    Args:
        samples: of one set, at least one.

    Returns:
        Factors, then variables, as they are written; of those with many numbers, ranges of equal width.
    """
    found = []
    for name, column in _columns(samples).items():
        labels, codes = _coded(column, equal_count=False)
        counts = np.bincount(codes, minlength=len(labels)).tolist()
        found.append(Marginal(name, dict(zip(labels, counts, strict=True))))
    return found


def dependences(samples: Sequence[SamplePlan]) -> list[Dependence]:
    """Measure the mutual information of every pair of factors and variables of samples of one set.

    ``I(X; Y) = sum p(x, y) log(p(x, y) / (p(x) p(y)))`` of the counts, in nats. Independent columns of r
    and s values give about ``(r - 1)(s - 1) / 2n`` by chance (Miller 1955); where there are fewer than
    `FULL_CELLS` samples to a cell, shuffled columns say what chance gives.

    Args:
        samples: of one set, at least one.

    Returns:
        One for each pair of columns that vary, largest information first.
    """
    coded = {name: _coded(column) for name, column in _columns(samples).items()}
    varying = {name: (len(labels), codes) for name, (labels, codes) in coded.items() if len(labels) > 1}
    found = [
        _dependence(first, second, *varying[first], *varying[second])
        for first, second in itertools.combinations(varying, 2)
    ]
    return sorted(found, key=lambda pair: -pair.information)


def _columns(samples: Sequence[SamplePlan]) -> Mapping[str, list[FactorValue]]:
    first = samples[0]
    names = [
        *((name, "factors") for name in first.factors),
        *((name, "exogenous") for name in first.exogenous),
    ]
    return {name: [getattr(sample, kind)[name] for sample in samples] for name, kind in names}


def _coded(column: list[FactorValue], equal_count: bool = True) -> tuple[list[str], Int[ndarray, " n"]]:
    """Number the values of a column, in order of value; ranges, of equal count or width, of too many."""
    distinct = sorted(set(column), key=lambda value: (isinstance(value, str), value))
    most = BINS if any(isinstance(value, float) and value % 1 for value in distinct) else MOST_LISTED
    if len(distinct) <= most or any(isinstance(value, str) for value in distinct):
        place = {value: i for i, value in enumerate(distinct)}
        labels = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in distinct]
        return labels, np.array([place[value] for value in column])
    numbers = np.array(column, float)
    shares = np.linspace(0, 1, BINS + 1)
    edges = (
        np.unique(np.quantile(numbers, shares))
        if equal_count
        else numbers.min() + shares * (numbers.max() - numbers.min())
    )
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    return _ranges(edges.tolist()), codes


def _ranges(edges: list[float]) -> list[str]:
    """Write ranges between numbers, with as few digits as tell the numbers apart, three at least."""
    written = next(
        (
            texts
            for digits in range(3, 17)
            if len(set(texts := [f"{e:.{digits}g}" for e in edges])) == len(edges)
        ),
        list(map(repr, edges)),
    )
    return [f"{low} to {high}" for low, high in itertools.pairwise(written)]


def _dependence(
    first: str, second: str, r: int, a: Int[ndarray, " n"], s: int, b: Int[ndarray, " n"]
) -> Dependence:
    information = _information(r, a, s, b)
    smaller = min(_entropy(np.bincount(codes) / len(a)) for codes in (a, b))
    share = information / smaller if smaller > 0 else 0.0
    if len(a) >= FULL_CELLS * r * s:
        degrees = (r - 1) * (s - 1)
        chance, deviation = (number / (2 * len(a)) for number in (degrees, math.sqrt(2 * degrees)))
    else:
        # With so few samples in a cell, the chi-square distribution is none of the information's.
        rng = stream(0, first, second)
        shuffled = [_information(r, a, s, rng.permutation(b)) for _ in range(SHUFFLES)]
        chance, deviation = float(np.mean(shuffled)), float(np.std(shuffled, ddof=1))
    return Dependence(first, second, information, min(share, 1.0), chance, chance + 4 * deviation)


def _information(r: int, a: Int[ndarray, " n"], s: int, b: Int[ndarray, " n"]) -> float:
    joint = np.bincount(a * s + b, minlength=r * s).reshape(r, s) / len(a)
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    there = joint > 0
    return max(0.0, float((joint[there] * np.log(joint[there] / product[there])).sum()))


def _entropy(p: ndarray) -> float:
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())
