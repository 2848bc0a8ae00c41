"""Find and draw rows by their factors: rows with given values, and rows that differ in given factors."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo, FactorValue, Metadata
from candlelight.loaders.selection.counterfactual_rows import ReadMetadata, choose_counterfactual_row
from candlelight.loaders.selection.factor_classes import FactorClasses, classes_of, factors_and_table
from candlelight.loaders.selection.factor_partners import MissingPartner, draw_partners
from candlelight.loaders.selection.factor_rows import FactorRows
from candlelight.loaders.selection.numbered_draws import NumberedDraws


class FactorIndex(FactorRows):
    """Finds and draws the rows of an image set by their factors.

    Row numbers are those of the data. The rows may be a full grid, a part of a grid, or repeat combinations
    like drawn sets. Two values of a continuous factor count as equal if they are in one bin of width
    ``tolerance``, centred on multiples of it; without a tolerance, if they are equal.

    Sorted groups of rows are kept for the next query with the same factors. A full grid in product order
    needs no sorting, only arithmetic.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1.5, 2, 2.5))))
        >>> index.rows(color="blue"), index.values(4), index.counterfactual(4, color="red")
        (array([3, 4, 5]), {'color': 'blue', 'size': 2}, 1)
    """

    def __init__(
        self,
        classes: tuple[FactorClasses, ...],
        codes: Int[ndarray, "n k"] | None,
        table: Float64[ndarray, "n k"] | None,
        metadata: ReadMetadata | None = None,
    ) -> None:
        """Store the rows; `of` and `from_table` make an index from data.

        Args:
            classes: the classes of each factor.
            codes: class numbers of each row; None for all combinations in product order.
            table: class numbers of categorical factors, values of continuous factors.
            metadata: reads the metadata of a row; None for data without metadata.
        """
        super().__init__(classes, codes, table)
        self._metadata = metadata

    @classmethod
    def from_table(
        cls,
        factors: Sequence[FactorInfo],
        table: Float64[ndarray, "n k"] | None,
        tolerance: Mapping[str, float] | None = None,
        metadata: ReadMetadata | None = None,
    ) -> "FactorIndex":
        """Index the rows of a table.

        Args:
            factors: one factor for each column.
            table: class numbers of categorical factors, values of continuous factors; None for all
                combinations.
            tolerance: width of the bins of continuous factors, in their units.
            metadata: reads the metadata of a row; None for data without metadata.

        Raises:
            InputError: the table does not fit the factors, or a tolerance fits no continuous factor.
        """
        classes = classes_of(factors, table, tolerance or {})
        if table is None:
            return cls(classes, None, None, metadata)
        codes = [c.codes(column) for c, column in zip(classes, table.T, strict=True)]
        return cls(classes, np.stack(codes, axis=1).astype(np.int32), table, metadata)

    @classmethod
    def of(cls, data: Any, tolerance: Mapping[str, float] | None = None) -> "FactorIndex":
        """Index the rows of an image set, of a public data set, or of a grid without images.

        Args:
            data: data with ``factor_table``, and with ``set_info.factors`` or ``factors``; or a
                `candlelight.loaders.factor_space.FactorSpace`.
            tolerance: width of the bins of continuous factors, in their units.

        Raises:
            InputError: the data have no factors, or a tolerance fits no continuous factor.
        """
        return cls.from_table(*factors_and_table(data), tolerance, getattr(data, "metadata", None))

    def select(self, rows: Int[ndarray, " m"]) -> "FactorIndex":
        """Index some of the rows, with the row numbers of `torch.utils.data.Subset`.

        Classes do not change; some may have no row.

        Raises:
            InputError: ``rows`` is empty, or a row does not exist.

        Example:
            >>> from candlelight.loaders.factor_space import FactorSpace
            >>> FactorIndex.of(FactorSpace(("x",), ((5, 6, 7),))).select(np.array([2, 0])).values(0)
            {'x': 7}
        """
        if not len(rows):
            raise InputError("expected at least one row to select, got none")
        metadata = self._metadata and partial(_metadata_at, self._metadata, np.array(rows))
        return FactorIndex(self.classes, self.positions(rows).astype(np.int32), self.numbers(rows), metadata)

    def rows(self, /, **values: FactorValue) -> Int[ndarray, " m"]:
        """List the rows that have these values, ascending; possibly none.

        Raises:
            InputError: a factor is unknown, or a categorical factor lacks the value.
        """
        return self.matching(self._anywhere(values), values)

    def sample(self, n: int, rng: np.random.Generator, /, **fixed: FactorValue) -> Int[ndarray, " n"]:
        """Draw rows that have these values, all with equal chances, with replacement.

        Args:
            n: number of draws.
            rng: generator of the seed of the draws.
            fixed: values by factor.

        Raises:
            InputError: no row has these values.
        """
        # Drawing from `rows` would list up to a million rows for one batch.
        groups, group = self.group_at(self._anywhere(fixed), fixed)
        if group < 0:
            raise InputError(f"no row has {_listed(fixed)}: this set leaves it out")
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
        """Redraw some factors of rows and keep the others; see `draw_partners`."""
        return draw_partners(self, rows, names, NumberedDraws.of(rng, len(rows)), distinct, missing)

    def partners(self, row: SupportsIndex, names: Iterable[str]) -> Int[ndarray, " m"]:
        """List the other rows that agree with a row in all factors but these, ascending; possibly none.

        Raises:
            InputError: the row or a factor does not exist.
        """
        rows = self.matching(self.positions(_one(row)), self.others(names))
        return rows[rows != int(row)]

    def traverse(self, row: SupportsIndex, name: str) -> Int[ndarray, " m"]:
        """List one row for each existing class of a factor, in order, with all other factors of a row.

        If a class has several rows, the lowest is listed; for the row's own class, the row itself.

        Raises:
            InputError: the row or the factor does not exist.

        Example:
            >>> from candlelight.loaders.factor_space import FactorSpace
            >>> FactorIndex.of(FactorSpace(("x", "y"), ((0, 1), (0, 1, 2)))).traverse(4, "y")
            array([3, 4, 5])
        """
        position, column = self.positions(_one(row)), self.column(name)
        rows = self.matching(position, self.others([name]))
        classes, first = np.unique(self.positions(rows)[:, column], return_index=True)
        return np.where(classes == position[0, column], int(row), rows[first])

    def counterfactual(self, row: SupportsIndex, /, **changes: FactorValue) -> int:
        """Find the counterfactual of a row: other values of some factors, the same values of all others.

        If the data have metadata, rows of the same unit, or rows linked by ``counterfactual_of``, are
        preferred to rows that only have the same factor values: metadata of the rows with that combination
        are read until such a row is found.

        Raises:
            InputError: the row, a factor or a value does not exist, or no row has that combination.
        """
        rows = self.matching(self.position(changes, self.positions(_one(row))), self.names)
        if not len(rows):
            raise InputError(
                f"row {row} has no counterfactual with {_listed(changes)}: this set leaves it out"
            )
        return int(row) if int(row) in rows else choose_counterfactual_row(self._metadata, int(row), rows)


def _one(row: SupportsIndex) -> Int[ndarray, " 1"]:
    return np.array([int(row)])


def _metadata_at(metadata: ReadMetadata, rows: Int[ndarray, " n"], row: SupportsIndex) -> Metadata:
    return metadata(int(rows[row]))


def _listed(values: Mapping[str, FactorValue]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
