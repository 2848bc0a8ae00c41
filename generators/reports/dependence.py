"""How the factors of planned samples are distributed, and how much each tells of another."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from generators.random_streams import stream
from generators.scenes.scene import SamplePlan
from loaders.schema import FactorValue

_BINS = 10  # ranges, of a factor or variable of many numbers
_SHUFFLES = 400  # tables by which chance is counted
_TABLE_CELLS = 2**22  # of random tables that are held at a time
_MOST_LISTED = 60  # distinct whole numbers up to which a column is taken as it is; of others, _BINS


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
        chance: what independent ones would give on the average with so few units, nats.
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


def dependences(samples: Sequence[SamplePlan], listed: Collection[str] = ()) -> list[Dependence]:
    """Measure the mutual information of every pair of factors and variables of samples of one set.

    ``I(X; Y) = H(X) + H(Y) - H(X, Y)`` of the counts of all samples, in nats. What chance gives is counted on
    random tables with the same sums of rows and columns, as shuffling one of the columns makes them. Samples
    of a unit, as counterfactuals are, share draws: those tables are of one sample of each unit, at random.

    Args:
        samples: of one set, at least one.
        listed: factors of a grid, which are not drawn: tables of two of these are of all samples.

    Returns:
        One for each pair of columns that vary, largest information first.
    """
    coded = {name: _coded(column)[1] for name, column in _columns(samples).items()}
    varying = [(name, codes) for name, codes in coded.items() if codes.max() > 0]
    every, once = np.arange(len(samples)), _one_of_each([sample.unit for sample in samples])
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


def _one_of_each(units: Sequence[str]) -> Int[ndarray, " units"]:
    """Choose one row of each unit, at random but always the same."""
    order = stream(0, "dependence", "units").permutation(len(units))
    return order[np.unique(np.array(units)[order], return_index=True)[1]]


def _coded(column: list[FactorValue], equal_count: bool = True) -> tuple[list[str], Int[ndarray, " n"]]:
    """Number the values of a column, in order of value; ranges, of equal count or width, of too many."""
    numbers = np.array(column)
    distinct, codes = np.unique(numbers, return_inverse=True)
    named = distinct.dtype.kind == "U"
    if named or len(distinct) <= (_MOST_LISTED if (distinct % 1 == 0).all() else _BINS):
        return [
            f"{value:.6g}" if isinstance(value, float) else str(value) for value in distinct.tolist()
        ], codes
    edges = (
        np.unique(np.quantile(numbers, np.linspace(0, 1, _BINS + 1)))
        if equal_count
        else np.histogram_bin_edges(numbers, _BINS)
    )
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    return _ranges(edges.tolist()), codes


def _ranges(edges: list[float]) -> list[str]:
    """Write ranges between numbers, with as few digits as tell the numbers apart, three at least."""
    texts: list[str] = []
    for digits in range(3, 18):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(edges):
            break
    return [f"{low} to {high}" for low, high in itertools.pairwise(texts)]


def _dependence(
    first: str, a: Int[ndarray, " n"], second: str, b: Int[ndarray, " n"], apart: Int[ndarray, " units"]
) -> Dependence:
    """Compare two columns; ``apart`` are rows that share no draw."""
    from scipy.stats import entropy, random_table

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
    mean = float(chance.mean())
    share = min(information / min(float(entropy(table.sum(axis))) for axis in (0, 1)), 1.0)
    return Dependence(first, second, information, share, mean, mean + 4 * float(chance.std(ddof=1)))


def _information(tables: Int[ndarray, "tables a b"]) -> Float[ndarray, " tables"]:
    """Mutual information of each table of counts, nats."""
    from scipy.stats import entropy

    rows, columns = entropy(tables.sum(2), axis=1), entropy(tables.sum(1), axis=1)
    return np.maximum(0.0, rows + columns - entropy(tables.reshape(len(tables), -1), axis=1))
