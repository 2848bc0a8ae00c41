"""Inverse propensities of any rows, counted: weights that make a factor independent of others, and draws."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from loaders.errors import InputError
from loaders.selection.draws import Draws
from loaders.selection.factor_index import FactorIndex


def inverse_propensity(index: FactorIndex, factor: str, given: Iterable[str]) -> Float64[ndarray, " n"]:
    """Weight rows so that a factor no longer depends on others.

    ``w = 1 / (K p(x | given))`` for a factor of K values, p by counting rows: under these weights each value
    is exactly as frequent as any other, also beside all values of ``given``, whose own frequencies stay as
    they are (Horvitz and Thompson 1952). Their mean is 1. Where the probabilities are known, as those of a
    `loaders.selection.confounding.Selection` are, its ``weights`` do without the error of counting.

    Args:
        index: the rows.
        factor: the factor.
        given: what it depends on.

    Raises:
        InputError: there is no such factor, or no positivity: a value that never occurs beside some of the
            others, so that no weight makes up for it.

    Example:
        >>> from loaders.factors import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("shape", "color"), (("cube", "cone"), ("red", "blue"))))
        >>> inverse_propensity(index.select(np.array([0, 0, 1, 2, 3])), "color", ["shape"])
        array([0.75, 0.75, 1.5 , 1.  , 1.  ])
    """
    others = [name for name in given if name != factor]
    positions = index.positions(np.arange(len(index)))
    beside, both = index.groups(others), index.groups([*others, factor])
    outer = beside.find(positions[:, index.columns(others)])
    inner = both.find(positions[:, index.columns([*others, factor])])
    size = index.sizes[index.column(factor)]
    _, first = np.unique(inner, return_index=True)
    found, kinds = np.unique(outer[first], return_counts=True)
    if (kinds < size).any():
        row = int((outer == found[kinds < size][0]).argmax())
        values = index.values(row)
        where = " where " + ", ".join(f"{name}={values[name]}" for name in others) if others else ""
        raise InputError(
            f"inverse propensity: `{factor}` does not take all of its {size} values{where}; without "
            "positivity no weight makes up for that"
        )
    return beside.counts(outer) / (size * both.counts(inner))


def draw_weighted(weights: Float64[ndarray, " rows"], n: int, rng: np.random.Generator) -> Int[ndarray, " n"]:
    """Draw rows with chances in proportion to their weights, with replacement.

    Args:
        weights: 0 or more, one for each row.
        n: how many rows to draw.
        rng: gives the seed of the draws.

    Raises:
        InputError: a weight is negative or not finite, or all are 0.

    Example:
        >>> draw_weighted(np.array([0.0, 2.0, 0.0]), 3, np.random.default_rng(0))
        array([1, 1, 1])
    """
    ends = np.cumsum(weights) if len(weights) else np.zeros(1)
    if not (weights >= 0).all() or not 0 < ends[-1] < np.inf:
        raise InputError("weights: expected finite numbers of 0 or more, some above 0")
    drawn = np.searchsorted(ends, Draws.of(rng, n).uniform("row") * ends[-1], side="right")
    # A product that is rounded up to the last end belongs to the last row that has a weight.
    return np.minimum(drawn, np.flatnonzero(weights)[-1])
