"""Read conditional tables, and compute probabilities and inverse-propensity weights.

Rules have no shared formula: a recipe tests one sample, a selection tests all rows at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue

_HEAVIEST = 1e300  # larger weights may have an infinite sum


def table_rows(
    given: Sequence[str], table: object, field: str = "table"
) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield the rows of a conditional table, which has one level of nesting for each parent.

    Args:
        given: names of the parents.
        table: mapping from each value of the first parent, then of the second, and so on, to a row.
        field: name of the table in messages.

    Yields:
        The values of the parents, the name of the row in messages, and the row.

    Raises:
        InputError: the table has too few levels.

    Example:
        >>> list(table_rows(["shape", "size"], {"cube": {1: ["red"], 2: {"red": 3, "blue": 1}}}))
        [(('cube', 1), 'table.cube.1', ['red']), (('cube', 2), 'table.cube.2', {'red': 3, 'blue': 1})]
    """
    found: list[tuple[tuple[Any, ...], str, Any]] = [((), field, table)]
    for name in given:
        for _, where, node in found:
            if not isinstance(node, Mapping):
                raise InputError(f"{where}: expected a row for each value of `{name}`, got {node!r}")
        found = [
            ((*keys, key), f"{where}.{key}", below)
            for keys, where, node in found
            for key, below in node.items()
        ]
    yield from found


def row_weights(
    row: Any, where: str, spelled: Callable[[FactorValue], FactorValue] = lambda value: value
) -> dict[Any, float]:
    """Return the weight of each value of a row: the stated weight, or 1 for each value of a list.

    Args:
        row: a mapping from value to weight, a list of values, or one value.
        where: name of the row in messages.
        spelled: returns one spelling for equal values; a mapping must have this spelling already.

    Raises:
        InputError: values are repeated or not names or numbers, or the weights are not a distribution.

    Example:
        >>> row_weights(["red", "blue"], "row"), row_weights({"red": 3}, "row"), row_weights("red", "row")
        ({'red': 1.0, 'blue': 1.0}, {'red': 3.0}, {'red': 1.0})
    """
    if not isinstance(row, Mapping):
        values = tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,)
        if any(
            isinstance(value, bool) or not isinstance(value, str | int | float | np.number)
            for value in values
        ):
            raise InputError(f"{where}: expected names or numbers, got {list(values)}")
        row = dict.fromkeys(map(spelled, values), 1.0)
        if len(row) < len(values):
            raise InputError(
                f"{where}: expected distinct values, got {list(values)}; use weights to make a value likelier"
            )
    for weight in row.values():
        if (
            isinstance(weight, bool)
            or not isinstance(weight, int | float | np.number)
            or not 0 <= weight < _HEAVIEST
        ):
            raise InputError(f"{where}: expected finite weights of at least 0, got {weight!r}")
    if not any(row.values()):
        raise InputError(f"{where}: expected weights with a sum above 0, got {row}")
    return {value: float(weight) for value, weight in row.items()}


def conditional(
    weights: Float64[ndarray, " k"], strength: float, without: Float64[ndarray, " k"]
) -> Float64[ndarray, " k"]:
    """Return the probability of each value: ``strength x row + (1 - strength) x without``.

    Args:
        weights: weights of the table's row.
        strength: 0 for independence, 1 for the table.
        without: probabilities without the table.

    Example:
        >>> conditional(np.array([3.0, 1.0]), 0.5, np.array([0.5, 0.5]))
        array([0.625, 0.375])
    """
    return strength * (weights / weights.sum()) + (1 - strength) * without


def inverse_weights(
    factor: str,
    values: Sequence[FactorValue],
    probabilities: Float64[ndarray, "m k"],
    propensity: Float64[ndarray, " n"],
    given: Callable[[int], Mapping[str, FactorValue]],
) -> Float64[ndarray, " n"]:
    """Weight samples so that a factor no longer depends on others: ``w = 1 / (K p)`` for K values.

    The weights give each value, for every combination of the parents' values, the frequency of a uniform
    intervention on the factor (Horvitz and Thompson 1952). Their mean is 1 up to chance.

    Args:
        factor: name of the factor.
        values: values of the factor.
        probabilities: probability of each value (columns) given each combination of the parents (rows).
        propensity: probability of each sample's value.
        given: returns the parents' values of a combination by its number.

    Raises:
        InputError: positivity fails: a value never occurs for some combination, so no weight can balance it.

    Example:
        >>> inverse_weights("x", [1, 2], np.array([[0.8, 0.2]]), np.array([0.8, 0.2]), lambda row: {})
        array([0.625, 2.5  ])
    """
    never = np.argwhere(probabilities <= 0)
    if len(never):
        row, value = never[0].tolist()
        known = ", ".join(f"{name}={parent}" for name, parent in given(row).items())
        raise InputError(
            f"inverse propensity: `{factor}` is never {values[value]}{known and ' where ' + known}; without "
            "positivity no weight can balance that: lower the strength of the dependence"
        )
    return 1.0 / (len(values) * propensity)
