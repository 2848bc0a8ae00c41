"""Marginal distributions of the factors of planned samples, and their mutual information."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from candlelight.generators.random_streams import stream
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.schema import FactorValue

_BINS = 10  # number of ranges at most that many numbers are sorted into
_SHUFFLES = 400  # number of random tables that estimate the information by chance
_FEW_ABOVE = 10  # smallest number of random tables whose share is a p-value
_TABLE_CELLS = 2**22  # cells of the random tables in memory at a time
_MOST_LISTED = 60  # largest number of distinct whole numbers that are not sorted into ranges


@dataclass(frozen=True)
class Marginal:
    """The number of samples for each value, or range of values, of a factor or variable."""

    name: str
    counts: dict[str, int]


@dataclass(frozen=True)
class Dependence:
    """The dependence of two factors or variables.

    Attributes:
        first: name of the first.
        second: name of the second.
        information: mutual information of the empirical distribution, nats.
        share: information divided by the smaller of the two entropies, 0 to 1.
        chance: mean information of independent factors with the same number of units, nats.
        p: probability that independent factors have at least this information, by the random tables.
    """

    first: str
    second: str
    information: float
    share: float
    chance: float
    p: float


def marginals(
    samples: Sequence[SamplePlan], listed: Mapping[str, Sequence[FactorValue]] | None = None
) -> list[Marginal]:
    """Count the values of every factor and variable of samples of one set.

    Args:
        samples: of one set, at least one.
        listed: values by name that are counted even if no sample has them.

    Returns:
        One marginal for each factor, then for each variable, in the recipe's order. Many numbers are sorted
        into ranges of equal width.
    """
    found = []
    for name, column in _columns(samples).items():
        labels, codes = _coded([*column, *(listed or {}).get(name, ())], equal_count=False)
        counts = np.bincount(codes[: len(column)], minlength=len(labels)).tolist()
        found.append(Marginal(name, dict(zip(labels, counts, strict=True))))
    return found


def dependences(samples: Sequence[SamplePlan], listed: Collection[str] = ()) -> list[Dependence]:
    """Measure the mutual information of every pair of factors and variables of samples of one set.

    ``I(X; Y) = H(X) + H(Y) - H(X, Y)`` of the counts of all samples, in nats. The information by chance is
    that of random tables with the same sums of rows and columns, which shuffling one of the columns gives.
    The p-value is their share with at least this information, or, where these are few, the tail of a gamma
    distribution with their mean and variance (after Knijnenburg et al., Fewer permutations, more accurate
    P-values, 2009). Samples of one unit, such as counterfactuals, share draws; therefore these tables count
    one random sample of each unit.

    Args:
        samples: of one set, at least one.
        listed: factors that a grid lists. They are not drawn, so the random tables of two of them count all
            samples.

    Returns:
        One dependence for each pair of factors or variables that vary, largest information first.
    """
    coded = {name: _coded(column)[1] for name, column in _columns(samples).items()}
    varying = [(name, codes) for name, codes in coded.items() if codes.max() > 0]
    every, once = np.arange(len(samples)), _one_sample_of_each_unit([sample.unit for sample in samples])
    found = [
        _dependence(*first, *second, every if {first[0], second[0]} <= set(listed) else once)
        for first, second in itertools.combinations(varying, 2)
    ]
    return sorted(found, key=lambda pair: -round(pair.information, 9))


def _columns(samples: Sequence[SamplePlan]) -> Mapping[str, list[FactorValue]]:
    first = samples[0]
    names = [
        *((name, "factors") for name in first.factors),
        *((name, "exogenous") for name in first.exogenous),
    ]
    columns: dict[str, list[FactorValue]] = {name: [] for name, _ in names}
    for sample in samples:
        for name, kind in names:
            columns[name].append(getattr(sample, kind)[name])
    return columns


def _one_sample_of_each_unit(units: Sequence[str]) -> Int[ndarray, " units"]:
    """Choose the index of one sample of each unit, at random but always the same."""
    order = stream(0, "dependence", "units").permutation(len(units))
    return order[np.unique(np.array(units)[order], return_index=True)[1]]


def _coded(column: list[FactorValue], equal_count: bool = True) -> tuple[list[str], Int[ndarray, " n"]]:
    """Number the values of a column in ascending order.

    Many numbers are sorted into ranges, of equal width or of equal count, and the ranges are numbered. Few
    samples are sorted into fewer ranges of equal count, so that tables of two columns are not almost empty.
    """
    numbers = np.array(column)
    distinct, codes = np.unique(numbers, return_inverse=True)
    named = distinct.dtype.kind == "U"
    if named or len(distinct) <= (_MOST_LISTED if (distinct % 1 == 0).all() else _BINS):
        return [
            f"{value:.6g}" if isinstance(value, float) else str(value) for value in distinct.tolist()
        ], codes
    edges = (
        np.unique(np.quantile(numbers, np.linspace(0, 1, min(_BINS, math.isqrt(len(numbers))) + 1)))
        if equal_count
        else np.histogram_bin_edges(numbers, _BINS)
    )
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    return _ranges(edges.tolist()), codes


def _ranges(edges: list[float]) -> list[str]:
    """Write the ranges between numbers with at least three digits, and more to distinguish the numbers."""
    texts: list[str] = []
    for digits in range(3, 18):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(edges):
            break
    return [f"{low} to {high}" for low, high in itertools.pairwise(texts)]


def _dependence(
    first: str, a: Int[ndarray, " n"], second: str, b: Int[ndarray, " n"], apart: Int[ndarray, " units"]
) -> Dependence:
    """Measure the dependence of two columns; ``apart`` are indices of samples that share no draw."""
    from scipy.stats import entropy, gamma, random_table

    table = np.zeros((a.max() + 1, b.max() + 1), np.int64)
    np.add.at(table, (a, b), 1)
    information = float(_information(table[None])[0])
    shuffled = random_table(np.bincount(a[apart]), np.bincount(b[apart]))
    draws, most = stream(0, first, second), max(1, _TABLE_CELLS // table.size)
    chance = np.concatenate(
        [
            _information(shuffled.rvs(min(most, _SHUFFLES - done), random_state=draws))
            for done in range(0, _SHUFFLES, most)
        ]
    )
    mean, variance = float(chance.mean()), float(chance.var(ddof=1))
    above = int((chance > information - 1e-9).sum())
    p = above / _SHUFFLES
    if variance < 1e-18:  # the tables of one unit are all alike, and no evidence
        p = 1.0
    elif above < _FEW_ABOVE:
        p = float(gamma.sf(information, mean**2 / variance, scale=variance / mean))
    share = min(information / min(float(entropy(table.sum(axis))) for axis in (0, 1)), 1.0)
    return Dependence(first, second, information, share, mean, p)


def _information(tables: Int[ndarray, "tables a b"]) -> Float[ndarray, " tables"]:
    """Return the mutual information of each table of counts, nats."""
    from scipy.stats import entropy

    rows, columns = entropy(tables.sum(2), axis=1), entropy(tables.sum(1), axis=1)
    return np.maximum(0.0, rows + columns - entropy(tables.reshape(len(tables), -1), axis=1))
