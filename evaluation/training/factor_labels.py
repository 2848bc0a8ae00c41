"""Labels for a classifier: the values of a categorical factor."""

import numpy as np

from candlelight.evaluation.views import Factors
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.schema import FactorInfo


def label_values(data: Factors, factor: str) -> list[str]:
    """Return the value of a categorical factor for each row.

    Args:
        data: images with known factors.
        factor: name of the factor.

    Raises:
        InputError: there is no such factor, or it is continuous.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> class Rows:
        ...     factors, table = (FactorInfo(name="kind", kind="categorical", values=("a", "b", "c")),), None
        >>> Rows.table = np.array([[2.0], [0.0], [2.0]])
        >>> label_values(Rows(), "kind")
        ['c', 'a', 'c']
    """
    info, column = _column(data, factor)
    assert info.values is not None
    return [str(info.values[number]) for number in column]


def factor_labels(data: Factors, factor: str) -> tuple[list[int], tuple[str, ...]]:
    """Number the values of a categorical factor that occur in the rows.

    Args:
        data: images with known factors.
        factor: name of the factor.

    Returns:
        Class of each row, from 0; and the value of each class, in the order of the factor.

    Raises:
        InputError: there is no such factor, it is continuous, or all rows have one value.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> class Rows:
        ...     factors, table = (FactorInfo(name="kind", kind="categorical", values=("a", "b", "c")),), None
        >>> Rows.table = np.array([[2.0], [0.0], [2.0]])
        >>> factor_labels(Rows(), "kind")
        ([1, 0, 1], ('a', 'c'))
    """
    info, column = _column(data, factor)
    assert info.values is not None
    found, labels = np.unique(column, return_inverse=True)
    values = tuple(str(info.values[number]) for number in found)
    if len(values) < 2:
        raise InputError(
            f"--label {factor}: expected rows with several values, got {', '.join(values)} alone"
        )
    return labels.tolist(), values


def _column(data: Factors, factor: str) -> tuple[FactorInfo, list[int]]:
    """Look up a categorical factor, and the number of its value in each row."""
    names = [info.name for info in data.factors]
    if factor not in names:
        raise InputError(
            f"--label {factor}: expected one of the factors {', '.join(names)}{did_you_mean(factor, names)}"
        )
    info, column = data.factors[names.index(factor)], data.table[:, names.index(factor)]
    if info.values is None:
        fit = [one.name for one in data.factors if one.values is not None]
        raise InputError(
            f"--label {factor}: the factor is continuous; choose a categorical one: "
            f"{', '.join(fit) or 'there is none'}"
        )
    return info, column.astype(int).tolist()
