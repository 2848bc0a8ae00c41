"""Labels for a classifier: the values of a categorical factor."""

import numpy as np

from loaders.errors import InputError, did_you_mean
from loaders.views import Factors


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
        >>> from loaders.schema import FactorInfo
        >>> class Rows:
        ...     factors, table = (FactorInfo(name="kind", kind="categorical", values=("a", "b", "c")),), None
        >>> Rows.table = np.array([[2.0], [0.0], [2.0]])
        >>> factor_labels(Rows(), "kind")
        ([1, 0, 1], ('a', 'c'))
    """
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
    found, labels = np.unique(column.astype(int), return_inverse=True)
    values = tuple(str(info.values[number]) for number in found)
    if len(values) < 2:
        raise InputError(
            f"--label {factor}: expected rows with several values, got {', '.join(values)} alone"
        )
    return labels.tolist(), values
