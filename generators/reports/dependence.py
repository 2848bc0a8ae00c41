"""Marginal distributions of the factors of planned samples, and their mutual information."""

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from candlelight.generators.random_streams import stream
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.schema import FactorValue

_BINS = 10  # number of ranges at most that many numbers are sorted into
SET_LEVEL = 0.01  # probability that chance shows any pair of independent factors of a set
FIRST_TABLES = 400  # random tables of every pair
_MOST_TABLES = 20_000  # random tables of a pair whose information few of them reach
_FEW_REACH = 10  # smallest number of random tables that reach it and need no more tables
_CELLS_AT_A_TIME = 2**20  # of the random tables in memory
_MOST_CELLS = 2**28  # of all further random tables of a pair; some seconds
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
        p: probability that independent factors have at least this information, by a permutation test.
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
    The p-value is ``(1 + reached) / (1 + tables)``, where ``reached`` of the random ``tables`` have at least
    the information of the tested samples. 400 tables are drawn; while fewer than 10 reach it, more are drawn,
    up to 20,000, or to 100 for each pair so that the smallest p-value is below 0.01 / pairs. Tables of more
    than 13,000 cells get fewer. Samples of one unit, such as counterfactuals, share draws; therefore one
    random sample of each unit is tested, and the random tables have as many.

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
    pairs = list(itertools.combinations(varying, 2))
    most = most_tables(len(pairs))
    found = [
        _dependence(*first, *second, every if {first[0], second[0]} <= set(listed) else once, most)
        for first, second in pairs
    ]
    return sorted(found, key=lambda pair: -round(pair.information, 9))


def most_tables(pairs: int) -> int:
    """Return the largest number of random tables of a pair: enough for a p-value below `SET_LEVEL` / pairs.

    Example:
        >>> most_tables(6), most_tables(300)
        (20000, 30000)
    """
    return max(_MOST_TABLES, math.ceil(pairs / SET_LEVEL))


def _columns(samples: Sequence[SamplePlan]) -> dict[str, list[FactorValue]]:
    columns: dict[str, list[FactorValue]] = defaultdict(list)
    for sample in samples:
        for name, value in (sample.factors | sample.exogenous).items():
            columns[name].append(value)
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
    first: str,
    a: Int[ndarray, " n"],
    second: str,
    b: Int[ndarray, " n"],
    apart: Int[ndarray, " units"],
    most: int,
) -> Dependence:
    """Measure the dependence of two columns; ``apart`` are indices of samples that share no draw."""
    from scipy.stats import entropy

    table, tested = _table(a, b), _table(a[apart], b[apart])
    information = float(_information(table[None])[0])
    chance, p = _by_chance(tested, most, (first, second))
    share = min(information / min(float(entropy(table.sum(axis))) for axis in (0, 1)), 1.0)
    return Dependence(first, second, information, share, chance, p)


def _table(a: Int[ndarray, " n"], b: Int[ndarray, " n"]) -> Int[ndarray, "a b"]:
    table = np.zeros((a.max() + 1, b.max() + 1), np.int64)
    np.add.at(table, (a, b), 1)
    return table


def _by_chance(tested: Int[ndarray, "a b"], most: int, names: tuple[str, str]) -> tuple[float, float]:
    """Return the mean information of random tables with the sums of a table, and the table's p-value.

    Every pair has `FIRST_TABLES`; only where few of them reach the information, up to ``most`` are drawn,
    twice as many each time.
    """
    from scipy.stats import random_table

    shuffled, draws = random_table(tested.sum(1), tested.sum(0)), stream(0, *names)
    information = float(_information(tested[None])[0])
    at_a_time = max(1, _CELLS_AT_A_TIME // tested.size)
    most = max(FIRST_TABLES, min(most, _MOST_CELLS // tested.size))

    def draw(count: int) -> Float[ndarray, " tables"]:
        sizes = [min(at_a_time, count - done) for done in range(0, count, at_a_time)]
        return np.concatenate([_information(shuffled.rvs(size, random_state=draws)) for size in sizes])

    chance = draw(FIRST_TABLES)
    mean = float(chance.mean())
    if chance.var() < 1e-18:  # the tables of one unit are all alike, and no evidence
        return mean, 1.0
    count, reached = 0, 0
    while True:
        count += len(chance)
        reached += int((chance > information - 1e-9).sum())
        if reached >= _FEW_REACH or count >= most:
            return mean, (1 + reached) / (1 + count)
        chance = draw(min(count, most - count))


def _information(tables: Int[ndarray, "tables a b"]) -> Float[ndarray, " tables"]:
    """Return the mutual information of tables of counts with the same sums of rows and columns, nats."""
    from scipy.special import xlogy

    rows, columns = tables[0].sum(1), tables[0].sum(0)
    total = int(rows.sum())
    counts = np.arange(total + 1)
    count_log = xlogy(counts, counts)  # looked up: much faster than a logarithm of each cell
    cells = count_log[tables].sum((1, 2))
    nats = (cells + count_log[total] - count_log[rows].sum() - count_log[columns].sum()) / total
    return np.maximum(0.0, nats)
