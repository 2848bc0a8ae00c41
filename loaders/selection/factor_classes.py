"""Classes of factors: the values of a categorical factor, the bins of a continuous factor."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.schema import FactorInfo, FactorValue


class FactorClasses:
    """The classes of one factor.

    Each value of a categorical factor is a class. The classes of a continuous factor are bins of width
    ``tolerance``, centred on multiples of it, that contain a row; the value of a class is the smallest value
    of its rows. With tolerance 0, only equal values share a class.

    Attributes:
        name: name of the factor.
        values: one value for each class, in order.
        numbers: the same as numbers: class numbers of a categorical factor, values of a continuous factor.

    Example:
        >>> angle = FactorInfo(name="angle", kind="continuous", low=0, high=90)
        >>> classes = FactorClasses(angle, np.array([30.001, 0.0, 29.999]), tolerance=0.1)
        >>> classes.values, classes.find(30), classes.find(45)
        ((0.0, 29.999), 1, -1)
    """

    def __init__(self, factor: FactorInfo, numbers: Float64[ndarray, " n"], tolerance: float = 0.0) -> None:
        """Find the classes of a factor.

        Args:
            factor: the factor.
            numbers: class number or value of each row; not read for a categorical factor.
            tolerance: width of the bins of a continuous factor, in its unit.
        """
        self.name, self.tolerance = factor.name, tolerance
        self._numbers: dict[Any, int] | None = None
        if factor.kind == "categorical":
            self.values: tuple[FactorValue, ...] = factor.values or ()
            self.numbers = np.arange(len(self.values), dtype=np.float64)
            self._numbers = {value: number for number, value in enumerate(self.values)}
        else:
            self.bins, first = np.unique(self._binned(np.sort(numbers)), return_index=True)
            self.numbers = np.sort(numbers)[first]
            self.values = tuple(self.numbers.tolist())

    @property
    def is_continuous(self) -> bool:
        """Whether the classes are bins."""
        return self._numbers is None

    def __len__(self) -> int:
        """Count the classes."""
        return len(self.values)

    def codes(self, numbers: Float64[ndarray, " n"]) -> Int[ndarray, " n"]:
        """Turn class numbers or values of rows into class numbers.

        Raises:
            InputError: a number is not a class of the categorical factor.
        """
        if self._numbers is None:
            return np.searchsorted(self.bins, self._binned(numbers))
        codes = numbers.astype(np.int64)
        wrong = (codes != numbers) | (codes < 0) | (codes >= len(self))
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(
                f"factor `{self.name}`, row {row}: expected a class number in 0..{len(self) - 1}, "
                f"got {numbers[row]:g}"
            )
        return codes

    def find(self, value: Any) -> int:
        """Return the class number of a value; -1 if no row of a continuous factor is in its bin.

        Raises:
            InputError: a categorical factor lacks the value, or the value of a continuous factor is not a
                number.
        """
        if self._numbers is not None:
            known: Mapping[Any, int] = self._numbers
            if not isinstance(value, str | int | float | np.generic) or value not in known:
                raise InputError(
                    f"factor `{self.name}`: expected one of {', '.join(map(repr, known))}, got {value!r}"
                )
            return known[value]
        if not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise InputError(f"factor `{self.name}`: expected a number, got {value!r}")
        wanted = self._binned(np.array([float(value)]))[0]
        place = int(np.searchsorted(self.bins, wanted))
        return place if place < len(self.bins) and self.bins[place] == wanted else -1

    def _binned(self, numbers: Float64[ndarray, " n"]) -> Float64[ndarray, " n"]:
        return np.floor(numbers / self.tolerance + 0.5) if self.tolerance else numbers


def factors_and_table(
    data: Any,
) -> tuple[tuple[FactorInfo, ...], Float64[ndarray, "n k"] | None]:
    """Return the factors of data and the table of their rows; None for a full grid without images.

    Raises:
        InputError: the data have no factors.
    """
    if isinstance(data, FactorSpace):
        pairs = zip(data.names, data.values, strict=True)
        factors = tuple(FactorInfo(name=name, kind="categorical", values=values) for name, values in pairs)
        return factors, None if data.rows is None else data.positions(data.rows).astype(np.float64)
    found = getattr(getattr(data, "set_info", data), "factors", None)
    if found is None or not hasattr(data, "factor_table"):
        raise InputError(
            "expected an image set, data with `factors` and `factor_table`, or a FactorSpace, "
            f"got {type(data).__name__}"
        )
    return tuple(found), np.asarray(data.factor_table, np.float64)


def classes_of(
    factors: Sequence[FactorInfo], table: Float64[ndarray, "n k"] | None, tolerance: Mapping[str, float]
) -> tuple[FactorClasses, ...]:
    """Find the classes of every factor.

    Args:
        factors: the factors.
        table: class numbers or values of every row; None for all combinations of categorical factors.
        tolerance: width of the bins of continuous factors.

    Raises:
        InputError: the table does not fit the factors, or a tolerance fits no continuous factor.
    """
    if table is None:
        table = np.zeros((1, len(factors)))
    if table.ndim != 2 or table.shape[1] != len(factors) or not len(factors) or not len(table):
        raise InputError(
            f"factor table: expected at least one row and one column for each of {len(factors)} factors, "
            f"got {list(table.shape)}"
        )
    if not np.isfinite(table).all():
        raise InputError("factor table: expected finite numbers")
    continuous = [factor.name for factor in factors if factor.kind == "continuous"]
    for name, width in tolerance.items():
        if name not in continuous or not 0 <= width < np.inf:
            raise InputError(
                f"tolerance of `{name}`: expected 0 or more for one of the continuous factors "
                f"({', '.join(continuous) or 'none'}), got {width}"
            )
    return tuple(
        FactorClasses(factor, column, tolerance.get(factor.name, 0.0))
        for factor, column in zip(factors, table.T, strict=True)
    )
