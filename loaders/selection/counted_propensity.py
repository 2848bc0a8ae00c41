"""Estimate inverse-propensity weights from counts of rows."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.schema import FactorValue
from candlelight.loaders.selection.conditional_tables import inverse_weights
from candlelight.loaders.selection.factor_index import FactorIndex


def counted_inverse_propensity(
    index: FactorIndex, factor: str, given: Iterable[str]
) -> Float64[ndarray, " n"]:
    """Return weights under which a factor does not depend on others, from counts of the rows.

    ``w = 1 / (K p(x | given))`` for a factor with K values, p by counting rows. Under these weights all
    values are equally frequent for every combination of the values of ``given``, and the frequencies of
    these combinations do not change (Horvitz and Thompson 1952). The mean weight is 1:
    ``rng.choice(n, m, p=weights / n)`` draws m of n rows by weight. If the probabilities are known, as in a
    `candlelight.loaders.selection.confounding.Selection`, its ``weights`` avoid the error of counting.

    Args:
        index: the rows.
        factor: the factor.
        given: its parents.

    Raises:
        InputError: a factor is unknown, or positivity fails: a value never occurs for some combination of the
            parents, so no weight can balance it.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
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
