"""Choose the samples that a contact sheet shows: different ones, or some of each value of a factor."""

from typing import Protocol, SupportsIndex, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import FactorInfo, FactorValue, SetInfo

FACTOR_PARTS = 4  # intervals that a continuous factor is cut into


@runtime_checkable
class SheetRows(Protocol):
    """The part of `candlelight.loaders.samples.Frames` that a contact sheet needs."""

    @property
    def set_info(self) -> SetInfo:
        """Description of the image set."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are read."""

    @property
    def factor_table(self) -> Float[ndarray, "n k"]:
        """Factors of every row."""

    def __len__(self) -> int:
        """Count the rows."""

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as numpy arrays."""


def choose_sheet_rows(
    frames: SheetRows, by: str | None, count: int, seed: int = 0
) -> tuple[list[int], dict[int, str]]:
    """Choose rows for a sheet: by `rows_by_factor` if a factor is given, by `pick_rows` otherwise.

    Args:
        frames: the image set.
        by: the factor, or None.
        count: number of rows, with ``by`` per value.
        seed: seed of the choice between equally suitable rows.

    Returns:
        Row numbers, and headings by position, for `contact_sheet`.

    Raises:
        InputError: no such factor, or a count below 1.
    """
    if by is None:
        return pick_rows(frames, count, seed), {}
    chosen: list[int] = []
    headings: dict[int, str] = {}
    for text, members in rows_by_factor(frames, by, count, seed).items():
        headings[len(chosen)] = text
        chosen += members
    return chosen, headings


def pick_rows(frames: SheetRows, count: int, seed: int = 0) -> list[int]:
    """Choose rows that differ: each row shows the factor values that were shown least before it.

    Continuous factors are cut into ``count`` intervals of equal width.

    Args:
        frames: the image set.
        count: number of rows; all if there are fewer.
        seed: seed of the choice between equally suitable rows.

    Returns:
        Sorted row numbers.

    Raises:
        InputError: a count below 1.
    """
    if count < 1:
        raise InputError(f"`count` must be at least 1, got {count}")
    order = np.random.default_rng(seed).permutation(len(frames))
    classes = [
        _classes(factor, column, count)[order]
        for factor, column in zip(frames.set_info.factors, frames.factor_table.T, strict=True)
    ]
    used = [np.zeros(int(column.max(initial=0)) + 1) for column in classes]
    free = np.zeros(len(order))
    chosen = []
    for _ in range(min(count, len(order))):
        familiar = sum((times[column] for times, column in zip(used, classes, strict=True)), start=free)
        best = int(familiar.argmin())
        chosen.append(int(order[best]))
        free[best] = np.inf
        for times, column in zip(used, classes, strict=True):
            times[column[best]] += 1
    return sorted(chosen)


def rows_by_factor(frames: SheetRows, name: str, count: int, seed: int = 0) -> dict[str, list[int]]:
    """Choose rows for each value of a factor, so that other factors differ little between values.

    `pick_rows` chooses ``count`` rows first. For each of these rows and each value, the row that agrees with
    it in most other factors is taken. Every continuous factor is cut into `FACTOR_PARTS` intervals of equal
    width.

    Args:
        frames: the image set.
        name: the factor.
        count: number of rows per value; fewer if fewer exist.
        seed: seed of the choice between equally suitable rows.

    Returns:
        Rows by name, value and unit of the factor; values without a row are left out.

    Raises:
        InputError: no such factor, or a count below 1.
    """
    factor = frames.set_info.factor(name)
    place = frames.set_info.factors.index(factor)
    columns = [
        _classes(other, column, FACTOR_PARTS)
        for other, column in zip(frames.set_info.factors, frames.factor_table.T, strict=True)
    ]
    order = np.random.default_rng(seed).permutation(len(frames))
    chosen: dict[str, list[int]] = {}
    for start in pick_rows(frames, count, seed):
        others = [column for number, column in enumerate(columns) if number != place]
        agree = sum((column == column[start] for column in others), start=np.zeros(len(frames), np.int64))
        for value in np.unique(columns[place]):
            rows = chosen.setdefault(_value_name(factor, frames.factor_table[:, place], int(value)), [])
            free = order[(columns[place][order] == value) & ~np.isin(order, rows)]
            if len(free):
                rows.append(int(free[agree[free].argmax()]))
    return chosen


def _value_name(factor: FactorInfo, column: Float[ndarray, " n"], value: int) -> str:
    """Name a value of a categorical factor, or an interval of a continuous factor."""
    if factor.kind == "categorical":
        return f"{factor.name} {value_text((factor.values or ())[value])} {factor.unit}".rstrip()
    low, width = float(column.min()), float(np.ptp(column)) / FACTOR_PARTS
    ends = (value_text(low + part * width) for part in (value, value + 1))
    return f"{factor.name} {' to '.join(ends)} {factor.unit}".rstrip()


def value_text(value: FactorValue) -> str:
    """Write a factor's value, fractions with five digits at most.

    Example:
        >>> value_text("red"), value_text(2), value_text(0.123456)
        ('red', '2', '0.12346')
    """
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _classes(factor: FactorInfo, column: Float[ndarray, " n"], bins: int) -> Int[ndarray, " n"]:
    """Return the class index of each value of a factor; continuous factors are cut into equal bins."""
    if factor.kind == "categorical" or not len(column):
        return column.astype(np.int64)
    low, span = column.min(), np.ptp(column)
    return np.minimum((column - low) / (span or 1) * bins, bins - 1).astype(np.int64)
