"""Draws of continuous factors: uniform, truncated normal, or exactly what an expression says."""

import math
from collections.abc import Mapping
from statistics import NormalDist

from generators.language.expressions import evaluate_expression
from generators.language.factors import Continuous, Quantity
from loaders.errors import InputError
from loaders.schema import FactorValue

Values = Mapping[str, FactorValue]
DECIMALS = 9  # of every value that spreads over a thousandth or more
DIGITS = 6  # of the spread, at least
FLAT = 1e-6  # of its deviation, a piece of a normal distribution over which it is as good as uniform
FEWEST = 1e-12  # probability below which a normal distribution does not reach a range


def _number(quantity: Quantity, values: Values) -> float:
    return evaluate_expression(quantity, values) if isinstance(quantity, str) else float(quantity)


def draw_number(mechanism: Continuous, values: Values, u: float) -> tuple[float, float]:
    """Return the value of a continuous factor at an exogenous uniform number, and its density.

    Args:
        mechanism: its bounds, and its mean and deviation or its value where it has them.
        values: values of its parents at least.
        u: exogenous number in [0, 1).

    Returns:
        The value, rounded, and its density given the parents; 1 where an expression decides. Nine decimals
        are kept, and of a range (or deviation) below a thousandth more, to a millionth of it or finer.

    Raises:
        InputError: numbers that do not fit each other, or an expression without a value.

    Example:
        >>> draw_number(Continuous(low=0, high="2 * x"), {"x": 2}, 0.25)
        (1.0, 0.25)
    """
    low, high = _number(mechanism.low, values), _number(mechanism.high, values)
    if low > high:
        raise InputError(f"expected low <= high, got {low:g} and {high:g}")
    if high > low and not math.isfinite(1.0 / (high - low)):
        raise InputError(f"expected a range wide enough to divide by, got {low:g} to {high:g}")
    if not math.isfinite(high - low):
        raise InputError(f"expected a finite range, got {low:g} to {high:g}")
    if mechanism.value is not None:
        exact = _number(mechanism.value, values)
        if not low <= exact <= high:
            raise InputError(f"value: expected {low:g} to {high:g}, got {exact:g} from `{mechanism.value}`")
        return _rounded(exact, low, high, high - low), 1.0
    if mechanism.mean is None or mechanism.std is None:
        value, density = low + u * (high - low), 1.0 / (high - low) if high > low else 1.0
        return _rounded(value, low, high, high - low), density
    mean, std = _number(mechanism.mean, values), _number(mechanism.std, values)
    if std <= 0:
        raise InputError(f"std: expected more than 0, got {std:g} from `{mechanism.std}`")
    value, density = _truncated_normal(NormalDist(mean, std), low, high, u)
    return _rounded(value, low, high, min(high - low, std)), density


def _rounded(value: float, low: float, high: float, spread: float) -> float:
    """Round to `DECIMALS`, or more where these would leave fewer than a million steps of the spread.

    How many depends on the spread, not on the value: near 0 in a wide range noise stays 0.
    """
    if spread == 0:
        return value
    decimals = max(DECIMALS, DIGITS - math.floor(math.log10(spread)))
    return min(max(round(value, decimals), low), high)


def _truncated_normal(normal: NormalDist, low: float, high: float, u: float) -> tuple[float, float]:
    if high - low < FLAT * normal.stdev:
        return low + u * (high - low), 1.0 / (high - low) if high > low else 1.0
    below, above = normal.cdf(low), normal.cdf(high)
    if above - below <= FEWEST:
        raise InputError(
            f"mean: expected a normal distribution that reaches [{low:g}, {high:g}], "
            f"got mean {normal.mean:g} and std {normal.stdev:g}"
        )
    # The inverse is not defined at 0 and 1, which bounds far out give.
    share = min(max(below + u * (above - below), 1e-300), 1 - 1e-16)
    value = normal.inv_cdf(share)
    return value, normal.pdf(value) / (above - below)
