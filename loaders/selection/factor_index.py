"""Rows by their factors: which have these values, which differ in exactly that, and draws among them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from loaders.errors import InputError
from loaders.schema import FactorInfo, FactorValue, Metadata
from loaders.selection.counterfactual_rows import ReadMetadata, choose_counterfactual_row
from loaders.selection.factor_classes import classes_of, factors_and_table
from loaders.selection.factor_partners import MissingPartner, draw_partners
from loaders.selection.factor_rows import FactorRows
from loaders.selection.numbered_draws import NumberedDraws


class FactorIndex(FactorRows):
    """Finds and draws the rows of an image set by their factors.

    Rows are numbered as in the data. They may be a full grid, a part of one, or repeat combinations, as drawn
    sets do. Values of a continuous factor count as equal where they are in one bin, of the width that
    ``tolerance`` states, centred on its multiples; without a tolerance, where they are equal.

    What a query sorts is kept for the next one of the same factors. A full grid in product order needs no
    sorting: there, all is arithmetic.

    Example:
        >>> from loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1.5, 2, 2.5))))
        >>> index.rows(color="blue"), index.values(4), index.counterfactual(4, color="red")
        (array([3, 4, 5]), {'color': 'blue', 'size': 2}, 1)
    """

    def __init__(
        self,
        factors: Sequence[FactorInfo],
        table: Float64[ndarray, "n k"] | None,
        tolerance: Mapping[str, float] | None = None,
    ) -> None:
        """Index the rows of a table.

        Args:
            factors: one for each column.
            table: class numbers of categorical factors, values of continuous ones; None for all combinations.
            tolerance: width of the bins of continuous factors, in their units.

        Raises:
            InputError: the table does not fit the factors, or a tolerance fits no continuous factor.
        """
        classes = classes_of(factors, table, tolerance or {})
        if table is None:
            super().__init__(classes, None, None)
        else:
            codes = [c.codes(column) for c, column in zip(classes, table.T, strict=True)]
            super().__init__(classes, np.stack(codes, axis=1).astype(np.int32), table)
        self._metadata: ReadMetadata | None = None

    @classmethod
    def of(cls, data: Any, tolerance: Mapping[str, float] | None = None) -> "FactorIndex":
        """Index the rows of an image set, of a public data set, or of a grid without images.

        Args:
            data: anything that has a ``factor_table``, and ``set_info.factors`` or ``factors``; or a
                `loaders.factor_space.FactorSpace`.
            tolerance: width of the bins of continuous factors, in their units.

        Raises:
            InputError: the data have no factors, or a tolerance fits no continuous factor.
        """
        index = cls(*factors_and_table(data), tolerance)
        index._metadata = getattr(data, "metadata", None)
        return index

    def select(self, rows: Int[ndarray, " m"]) -> "FactorIndex":
        """Index some of the rows, numbered anew as `torch.utils.data.Subset` numbers them.

        Classes stay as they are, also those that none of the rows has.

        Raises:
            InputError: there are no rows, or no such row.

        Example:
            >>> from loaders.factor_space import FactorSpace
            >>> FactorIndex.of(FactorSpace(("x",), ((5, 6, 7),))).select(np.array([2, 0])).values(0)
            {'x': 7}
        """
        if not len(rows):
            raise InputError("expected at least one row to select, got none")
        index = FactorIndex.__new__(FactorIndex)
        FactorRows.__init__(index, self.classes, self.positions(rows).astype(np.int32), self.numbers(rows))
        index._metadata = self._metadata and partial(_metadata_at, self._metadata, np.array(rows))
        return index

    def rows(self, /, **values: FactorValue) -> Int[ndarray, " m"]:
        """List the rows that have these values, ascending; none may.

        Raises:
            InputError: there is no such factor, or a categorical factor has no such value.
        """
        return self.alike(self._anywhere(values), values)

    def sample(self, n: int, rng: np.random.Generator, /, **fixed: FactorValue) -> Int[ndarray, " n"]:
        """Draw rows that have these values, all with equal chances, with replacement.

        Args:
            n: how many.
            rng: gives the seed of the draws.
            fixed: values by factor.

        Raises:
            InputError: no row has them.
        """
        # Not from `rows`, which may be a million to draw a batch from.
        groups, group = self.group_at(self._anywhere(fixed), fixed)
        if group < 0:
            raise InputError(f"no row has {_listed(fixed)}: it was left out of this set")
        group_of_each = np.full(n, group)
        return groups.member(
            group_of_each, NumberedDraws.of(rng, n).below("row", groups.counts(group_of_each))
        )

    def _anywhere(self, values: Mapping[str, FactorValue]) -> Int[ndarray, "1 k"]:
        return self.position(values, np.zeros((1, len(self.sizes)), np.int64))

    def resample(
        self,
        rows: Int[ndarray, " n"],
        names: Iterable[str],
        rng: np.random.Generator,
        distinct: bool = False,
        missing: MissingPartner = "error",
    ) -> Int[ndarray, " n"]:
        """Draw some factors of rows anew and keep the others, as `draw_partners` does."""
        return draw_partners(self, rows, names, NumberedDraws.of(rng, len(rows)), distinct, missing)

    def partners(self, row: SupportsIndex, names: Iterable[str]) -> Int[ndarray, " m"]:
        """List the other rows that agree with a row in every factor but these, ascending; there may be none.

        Raises:
            InputError: there is no such row or factor.
        """
        rows = self.alike(self.positions(_one(row)), self.others(names))
        return rows[rows != int(row)]

    def traverse(self, row: SupportsIndex, name: str) -> Int[ndarray, " m"]:
        """List rows that differ from a row in one factor: of each of its classes that exists, in order.

        Of several rows of a class, it is the lowest; of the row's own class, the row itself.

        Raises:
            InputError: there is no such row or factor.

        Example:
            >>> from loaders.factor_space import FactorSpace
            >>> FactorIndex.of(FactorSpace(("x", "y"), ((0, 1), (0, 1, 2)))).traverse(4, "y")
            array([3, 4, 5])
        """
        position, column = self.positions(_one(row)), self.column(name)
        rows = self.alike(position, self.others([name]))
        classes, first = np.unique(self.positions(rows)[:, column], return_index=True)
        return np.where(classes == position[0, column], int(row), rows[first])

    def counterfactual(self, row: SupportsIndex, /, **changes: FactorValue) -> int:
        """Find the row that a row would be with other values of some factors, the others kept.

        Where the data have metadata, a row of the same unit, or one that names the other in
        ``counterfactual_of``, comes before others, which are only alike in their factors: of the rows with
        that combination, metadata are read until one is found.

        Raises:
            InputError: there is no such row, factor or value, or no row has that combination.
        """
        rows = self.alike(self.position(changes, self.positions(_one(row))), self.names)
        if not len(rows):
            raise InputError(f"row {row} has no counterfactual with {_listed(changes)}: it was left out")
        return int(row) if int(row) in rows else choose_counterfactual_row(self._metadata, int(row), rows)


def _one(row: SupportsIndex) -> Int[ndarray, " 1"]:
    return np.array([int(row)])


def _metadata_at(metadata: ReadMetadata, rows: Int[ndarray, " n"], row: SupportsIndex) -> Metadata:
    return metadata(int(rows[row]))


def _listed(values: Mapping[str, FactorValue]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
