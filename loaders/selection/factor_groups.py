"""Group rows by the classes of some factors: row numbers sorted by group, and the start of each group."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray

_ROOM = 2**62  # number of keys that stays within int64


class RowGroups:
    """Rows in groups.

    Example:
        >>> groups = RowGroups(np.array([[0, 1], [1, 1], [0, 1], [0, 2]]), (2, 3), [0, 1])
        >>> groups.find(np.array([[0, 1], [1, 0]])), groups.members(0)
        (array([ 0, -1]), array([0, 2]))
    """

    def __init__(
        self, codes: Int[ndarray, "n k"] | None, sizes: Sequence[int], columns: Sequence[int]
    ) -> None:
        """Group by the factors in ``columns``.

        Args:
            codes: class numbers of each row; None for all combinations in product order, which need no
                sorting.
            sizes: number of classes of each factor.
            columns: numbers of the factors, ascending.
        """
        self._sizes = [sizes[j] for j in columns]
        # Ranks replace keys before the keys become too large for int64.
        self._ranks: dict[int, Int[ndarray, " u"]] = {}
        if codes is None:
            grid = np.arange(math.prod(sizes), dtype=np.int32 if math.prod(sizes) < 2**31 else np.int64)
            others = [j for j in range(len(sizes)) if j not in columns]
            self._order = grid.reshape(sizes).transpose(*columns, *others).ravel()
            self._keys = np.arange(math.prod(self._sizes))
            self._starts = np.arange(len(self._keys) + 1) * math.prod(sizes[j] for j in others)
            return
        keys = np.zeros(len(codes), np.int64)
        room = 1
        for j, (column, size) in enumerate(zip(codes[:, columns].T, self._sizes, strict=True)):
            if room * size > _ROOM:
                self._ranks[j], keys = np.unique(keys, return_inverse=True)
                room = len(self._ranks[j])
            keys, room = keys * size + column, room * size
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._keys = keys[first]
        self._starts = np.append(first, len(keys))
        self._order = order.astype(np.int32 if len(keys) < 2**31 else np.int64)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        arrays = (self._keys, self._starts, self._order, *self._ranks.values())
        return sum(array.nbytes for array in arrays)

    def find(self, positions: Int[ndarray, "n g"]) -> Int[ndarray, " n"]:
        """Return the group number of each combination of classes; -1 if no row has it."""
        keys = np.zeros(len(positions), np.int64)
        known = np.ones(len(positions), bool)
        for j, (column, size) in enumerate(zip(positions.T, self._sizes, strict=True)):
            if j in self._ranks:
                keys, found = _ranked(keys, self._ranks[j])
                known &= found
            keys = keys * size + column
        groups, found = _ranked(keys, self._keys)
        return np.where(known & found, groups, -1)

    def counts(self, groups: Int[ndarray, " n"]) -> Int[ndarray, " n"]:
        """Count the rows of each group."""
        return self._starts[groups + 1] - self._starts[groups]

    def member(self, groups: Int[ndarray, " n"], numbers: Int[ndarray, " n"]) -> Int[ndarray, " n"]:
        """Return a row of each group by its number in the group, 0..count - 1 in ascending order of rows."""
        return self._order[self._starts[groups] + numbers].astype(np.int64)

    def members(self, group: int) -> Int[ndarray, " m"]:
        """List the rows of a group, ascending."""
        return self._order[self._starts[group] : self._starts[group + 1]].astype(np.int64)


def _ranked(keys: Int[ndarray, " n"], known: Int[ndarray, " u"]) -> tuple[Int[ndarray, " n"], ndarray]:
    ranks = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return ranks, known[ranks] == keys
