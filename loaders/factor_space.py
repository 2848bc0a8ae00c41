"""The grid of all combinations of categorical factor values, and the numbers of its points."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue


@dataclass(frozen=True, eq=False)
class FactorSpace:
    """Grid of all combinations of factor values, and the points of it that exist.

    A point has a *position* (one value number per factor), a *grid index* (its place in
    ``itertools.product`` of the values: mixed radix, last factor fastest) and, if it exists, a *row* (its
    place among the existing points, in order of grid index). `FactorIndex.of` a space finds rows.

    Attributes:
        names: factor names.
        values: values of each factor, in their order.
        rows: sorted grid indices of the points that exist; None if all exist.

    Example:
        >>> space = FactorSpace(("color", "size"), (("red", "blue"), (1.5, 2, 2.5)))
        >>> space.size, space.index({"size": 2.5, "color": "blue"}), space.values_at(3)
        (6, 5, {'color': 'blue', 'size': 1.5})
        >>> space.positions(np.array([0, 5]))
        array([[0, 0],
               [1, 2]])
    """

    names: tuple[str, ...]
    values: tuple[tuple[FactorValue, ...], ...]
    rows: Int[ndarray, " exists"] | None = None

    def __post_init__(self) -> None:
        """Refuse a grid whose points have no unique numbers."""
        if not self.names or len(self.names) != len(self.values):
            raise InputError(
                f"expected at least one factor, and a tuple of values for each, got {len(self.names)} names "
                f"and {len(self.values)} tuples"
            )
        if len(set(self.names)) != len(self.names):
            raise InputError(f"factor names must differ, got {', '.join(self.names)}")
        for name, values in zip(self.names, self.values, strict=True):
            if not values or len(set(values)) != len(values):
                raise InputError(f"factor `{name}` needs at least one value and no value twice, got {values}")
        if self.size > np.iinfo(np.int64).max:
            raise InputError(
                f"the grid of {', '.join(self.names)} has {self.size} points, more than 2**63 - 1"
            )
        if self.rows is not None:
            self._check_rows(self.rows)

    def _check_rows(self, rows: Int[ndarray, " exists"]) -> None:
        if np.any(np.diff(rows) <= 0):
            raise InputError("`rows` must be sorted grid indices without repeats")
        self._check_indices(rows)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each factor."""
        return tuple(len(values) for values in self.values)

    @property
    def size(self) -> int:
        """Number of points of the full grid."""
        return math.prod(self.sizes)

    def __len__(self) -> int:
        """Count the points that exist."""
        return self.size if self.rows is None else len(self.rows)

    @cached_property
    def _numbers(self) -> tuple[dict[FactorValue, int], ...]:
        return tuple({value: number for number, value in enumerate(values)} for values in self.values)

    def index(self, values: Mapping[str, FactorValue]) -> int:
        """Find the grid index of one combination of values.

        Args:
            values: one value for every factor, in any order.

        Raises:
            InputError: a factor is missing or unknown, or a value is not one of the factor's.
        """
        if set(values) != set(self.names):
            odd = sorted(set(values) ^ set(self.names))
            raise InputError(
                f"expected one value for each of {', '.join(self.names)}; wrong: {', '.join(odd)}"
            )
        index = 0
        for name, numbers in zip(self.names, self._numbers, strict=True):
            if values[name] not in numbers:
                known = ", ".join(map(repr, numbers))
                raise InputError(f"factor `{name}`: expected one of {known}, got {values[name]!r}")
            index = index * len(numbers) + numbers[values[name]]
        return index

    def values_at(self, index: int) -> dict[str, FactorValue]:
        """Return the factor values at a grid index.

        Raises:
            InputError: the index is outside the grid.
        """
        position = self.positions(np.array([index]))[0]
        return {n: v[p] for n, v, p in zip(self.names, self.values, position, strict=True)}

    def positions(self, indices: Int[ndarray, " n"]) -> Int[ndarray, "n k"]:
        """Turn grid indices into the value number of each factor.

        Raises:
            InputError: an index is outside the grid.
        """
        self._check_indices(indices)
        return np.stack(np.unravel_index(indices, self.sizes), axis=1)

    def indices(self, positions: Int[ndarray, "n k"]) -> Int[ndarray, " n"]:
        """Turn value numbers of each factor into grid indices: the inverse of `positions`.

        Raises:
            InputError: the number of columns is not the number of factors, or a value number is out of range.
        """
        if positions.shape[1] != len(self.names):
            raise InputError(f"expected {len(self.names)} columns, one per factor, got {positions.shape[1]}")
        wrong = np.any((positions < 0) | (positions >= self.sizes), axis=0)
        if np.any(wrong):
            names = ", ".join(np.array(self.names)[wrong])
            raise InputError(f"value numbers must lie in 0..count - 1; they do not for: {names}")
        return np.ravel_multi_index(tuple(positions.T), self.sizes)

    def _check_indices(self, indices: Int[ndarray, " n"]) -> None:
        outside = indices[(indices < 0) | (indices >= self.size)]
        if len(outside):
            raise InputError(f"grid indices must lie in 0..{self.size - 1}, got {outside[0]}")
