"""Inverse propensities of any rows, counted: weights that make a factor independent of others."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from loaders.schema import FactorValue
from loaders.selection.conditional import inverse_weights
from loaders.selection.factor_index import FactorIndex


def counted_inverse_propensity(
    index: FactorIndex, factor: str, given: Iterable[str]
) -> Float64[ndarray, " n"]:
    """Weight rows so that a factor no longer depends on others.

    ``w = 1 / (K p(x | given))`` for a factor of K values, p by counting rows: under these weights each value
    is exactly as frequent as any other, also beside all values of ``given``, whose own frequencies stay as
    they are (Horvitz and Thompson 1952). Their mean is 1: ``rng.choice(n, m, p=weights / n)`` draws m of n
    rows by them. Where the probabilities are known, as those of a `loaders.selection.confounding.Selection`
    are, its ``weights`` do without the error of counting.

    Args:
        index: the rows.
        factor: the factor.
        given: what it depends on.

    Raises:
        InputError: there is no such factor, or no positivity: a value that never occurs beside some of the
            others, so that no weight makes up for it.

    Example:
        >>> from loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("shape", "color"), (("cube", "cone"), ("red", "blue"))))
        >>> counted_inverse_propensity(index.select(np.array([0, 0, 1, 2, 3])), "color", ["shape"])
        array([0.75, 0.75, 1.5 , 1.  , 1.  ])
    """
    others = [name for name in given if name != factor]
    positions = index.positions(np.arange(len(index)))
    column = index.column(factor)
    values = index.classes[column].values
    groups = index.groups(others).find(positions[:, index.columns(others)])
    cells = groups * len(values) + positions[:, column]
    counts = np.bincount(cells, minlength=(int(groups.max()) + 1) * len(values)).reshape(-1, len(values))
    probabilities = counts / counts.sum(axis=1, keepdims=True)

    def known(group: int) -> dict[str, FactorValue]:
        row = index.values(int((groups == group).argmax()))
        return {name: row[name] for name in others}

    return inverse_weights(factor, values, probabilities, probabilities.ravel()[cells], known)
