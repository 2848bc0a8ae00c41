"""Weights of the values of a factor: read from a mapping or a list, alone or in a conditional table."""

from collections.abc import Mapping, Sequence
from typing import Any

from candlelight.generators.language.field_types import key_of, with_keys
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.selection.conditional_tables import row_weights

Weights = dict[str, float] | tuple[float, ...]


def read_conditional_table(table: Any) -> Any:
    """Return a conditional table with all keys spelled by `key_of`; any other value stays."""
    if not isinstance(table, dict):
        return table
    return {key: read_conditional_table(value) for key, value in with_keys(table).items()}


def check_row(row: Any, where: str) -> Any:
    """Check weights: a mapping from value to weight, or a list of weights.

    Args:
        row: the weights, keys spelled by `key_of`.
        where: path of the weights, for messages.

    Raises:
        InputError: another form, or weights that are negative, not finite, or all 0.
    """
    listed = isinstance(row, list | tuple) and not any(isinstance(weight, str) for weight in row)
    if not listed and not isinstance(row, Mapping):
        raise InputError(
            f"{where}: expected a mapping from value to weight such as {{red: 3, blue: 1}}, or a list of "
            f"weights in the order of the values, got {row!r}"
        )
    weights = row_weights(dict(enumerate(row)) if listed else row, where)
    return tuple(weights.values()) if listed else weights


def read_weights(value: Any) -> Any:
    """Return the weights of a factor, checked; None stays."""
    return None if value is None else check_row(with_keys(value), "weights")


def weights_of(row: Weights, values: Sequence[FactorValue]) -> list[float]:
    """Return the weight of each value, in order; a mapping gives 0 to the values that it leaves out.

    Args:
        row: weights by `key_of` the value, or in the order of the values.
        values: the values.

    Raises:
        InputError: the number of weights is not that of the values, or a weight has no value.

    Example:
        >>> weights_of({"blue": 3.0}, ("red", "blue")), weights_of((1.0, 2.0), ("red", "blue"))
        ([0.0, 3.0], [1.0, 2.0])
    """
    if isinstance(row, tuple):
        if len(row) != len(values):
            known = ", ".join(map(str, values))
            raise InputError(f"expected {len(values)} weights, one for each of {known}, got {len(row)}")
        return list(row)
    keys = [key_of(value) for value in values]
    if unknown := sorted(row.keys() - set(keys)):
        raise InputError(f"expected weights of values among {list(values)}, got {unknown}")
    return [row.get(key, 0.0) for key in keys]
