"""Rows and their factors: the class numbers of each row, and its group by any of the factors."""

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.selection.factor_classes import FactorClasses
from candlelight.loaders.selection.factor_groups import RowGroups

_CACHE = 2**30  # bytes of groups to keep


class FactorRows:
    """Numbered rows with a class for each factor.

    Groups of rows are kept for the next query with the same factors, up to 1 GiB.

    Attributes:
        classes: the classes of each factor.
        sizes: number of classes of each factor.
        is_grid: whether the rows are all combinations, each once, in product order.
    """

    def __init__(
        self,
        classes: tuple[FactorClasses, ...],
        codes: Int[ndarray, "n k"] | None,
        table: Float64[ndarray, "n k"] | None,
    ) -> None:
        """Store the rows.

        Args:
            classes: the classes of each factor.
            codes: class numbers of each row; None for all combinations in product order.
            table: class numbers of categorical factors, values of continuous factors.
        """
        self.classes = classes
        self.sizes = tuple(len(c) for c in classes)
        self._count = math.prod(self.sizes) if codes is None else len(codes)
        self.is_grid = codes is None or _in_product_order(codes, self.sizes)
        # Values that follow from arithmetic or codes are not stored: a million rows take 100 MB per worker.
        self._codes = None if self.is_grid else codes
        self._table = table if any(c.is_continuous for c in classes) else None
        self._cache: OrderedDict[tuple[int, ...], RowGroups] = OrderedDict()

    def __len__(self) -> int:
        """Count the rows."""
        return self._count

    @property
    def is_complete(self) -> bool:
        """Whether the rows are all combinations, each once, in any order."""
        everything = np.arange(len(self))
        return len(self) == math.prod(self.sizes) and bool(
            (self.find(self.positions(everything)) == everything).all()
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the groups, which a worker can sort again."""
        return {**self.__dict__, "_cache": OrderedDict()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the factors."""
        return tuple(c.name for c in self.classes)

    def column(self, name: str) -> int:
        """Return the column of a factor.

        Raises:
            InputError: the factor is unknown.
        """
        if name not in self.names:
            raise InputError(f"factor `{name}` is not in this set; expected one of: {', '.join(self.names)}")
        return self.names.index(name)

    def columns(self, names: Iterable[str]) -> list[int]:
        """Return the columns of several factors, ascending.

        Raises:
            InputError: a factor is unknown.
        """
        return sorted({self.column(name) for name in names})

    def positions(self, rows: Int[ndarray, " n"]) -> Int[ndarray, "n k"]:
        """Convert row numbers to the class numbers of each factor; `find` is the inverse.

        Raises:
            InputError: a row does not exist.
        """
        self._check(rows)
        if self._codes is None:
            return np.stack(np.unravel_index(rows, self.sizes), axis=1)
        return self._codes[rows].astype(np.int64)

    def numbers(self, rows: Int[ndarray, " n"]) -> Float64[ndarray, "n k"]:
        """Convert row numbers to class numbers of categorical factors and values of continuous factors.

        Raises:
            InputError: a row does not exist.
        """
        self._check(rows)
        return self.positions(rows).astype(np.float64) if self._table is None else self._table[rows]

    def values(self, row: SupportsIndex) -> dict[str, FactorValue]:
        """Return the factor values of a row.

        Raises:
            InputError: a row does not exist.
        """
        rows = np.array([int(row)])
        position, numbers = self.positions(rows)[0], self.numbers(rows)[0]
        return {
            c.name: float(number) if c.is_continuous else c.values[place]
            for c, place, number in zip(self.classes, position, numbers, strict=True)
        }

    def find(self, positions: Int[ndarray, "n k"]) -> Int[ndarray, " n"]:
        """Convert class numbers of all factors to row numbers: the lowest such row, or -1 without any.

        Raises:
            InputError: there is not one column per factor, or a number is not a class of its factor.
        """
        wrong = positions.shape[1:] != (len(self.sizes),)
        if wrong or np.any((positions < 0) | (positions >= np.array(self.sizes))):
            raise InputError(f"positions: expected one class number for each factor, below {self.sizes}")
        groups = self.groups(self.names)
        found = groups.find(positions)
        rows = groups.member(np.maximum(found, 0), np.zeros(len(found), np.int64))
        return np.where(found >= 0, rows, -1)

    def groups(self, names: Iterable[str]) -> RowGroups:
        """Group the rows by the classes of some factors.

        Raises:
            InputError: a factor is unknown.
        """
        columns = self.columns(names)
        key = tuple(columns)
        if key not in self._cache:
            self._cache[key] = RowGroups(self._codes, self.sizes, columns)
            while len(self._cache) > 1 and sum(g.nbytes for g in self._cache.values()) > _CACHE:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]

    def others(self, names: Iterable[str]) -> list[str]:
        """Name the other factors.

        Raises:
            InputError: a factor is unknown.
        """
        columns = self.columns(names)
        return [name for j, name in enumerate(self.names) if j not in columns]

    def position(
        self, values: Mapping[str, FactorValue], position: Int[ndarray, "1 k"]
    ) -> Int[ndarray, "1 k"]:
        """Set the class numbers of some values in a combination: -1 for a value that no row is near.

        Raises:
            InputError: a factor is unknown, or a categorical factor lacks the value.
        """
        position = position.copy()
        for name, value in values.items():
            position[0, self.column(name)] = self.classes[self.column(name)].find(value)
        return position

    def matching(self, position: Int[ndarray, "1 k"], names: Iterable[str]) -> Int[ndarray, " m"]:
        """List the rows that share a combination's class numbers of some factors, ascending."""
        groups, group = self.group_at(position, names)
        return groups.members(group) if group >= 0 else np.zeros(0, np.int64)

    def group_at(self, position: Int[ndarray, "1 k"], names: Iterable[str]) -> tuple[RowGroups, int]:
        """Group the rows by some factors, and return the group of a combination: -1 if no row has it."""
        columns = self.columns(names)
        groups, position = self.groups(self.names[j] for j in columns), position[:, columns]
        return groups, -1 if (position < 0).any() else int(groups.find(position)[0])

    def _check(self, rows: Int[ndarray, " n"]) -> None:
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise InputError(f"row numbers must lie in 0..{len(self) - 1}, got {rows.min()} to {rows.max()}")


def _in_product_order(codes: Int[ndarray, "n k"], sizes: tuple[int, ...]) -> bool:
    """Say whether rows are all combinations of classes, each once, last factor fastest."""
    if len(codes) != math.prod(sizes):
        return False
    return not sizes or bool((np.ravel_multi_index(tuple(codes.T), sizes) == np.arange(len(codes))).all())
