"""Draw continuous factors: uniform, truncated normal, or the value of an expression."""

import math
from statistics import NormalDist

from candlelight.generators.language.expressions import evaluate_expression
from candlelight.generators.language.factor_values import FactorValues
from candlelight.generators.language.factors import Continuous, Quantity
from candlelight.loaders.errors import InputError

_DECIMALS = 9  # decimals kept of every value whose spread is a thousandth or more
_DIGITS = 6  # decimals kept below the leading digit of a smaller spread
_FLAT_WIDTH = 1e-6  # width in standard deviations below which a piece of a normal distribution is uniform
_SMALLEST_MASS = 1e-12  # probability below which a normal distribution does not reach a range


def _number(quantity: Quantity, values: FactorValues) -> float:
    return evaluate_expression(quantity, values) if isinstance(quantity, str) else float(quantity)


def draw_number(mechanism: Continuous, values: FactorValues, u: float) -> tuple[float, float]:
    """Return the value of a continuous factor at an exogenous uniform number, and its density.

    Args:
        mechanism: the mechanism of the factor.
        values: values of its parents at least.
        u: exogenous draw in [0, 1).

    Returns:
        The value, rounded, and its density given the parents, or 1 if an expression gives the value. Nine
        decimals are kept; if the range (or deviation) is below a thousandth, more are kept, to a millionth of
        it or finer.

    Raises:
        InputError: bounds, mean or deviation contradict each other, or an expression has no value.

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
    """Round to nine decimals, or to more if nine would leave fewer than a million steps of the spread.

    The number of decimals depends on the spread, not on the value, so that rounding errors near 0 in a wide
    range become 0.
    """
    if spread == 0:
        return value
    decimals = max(_DECIMALS, _DIGITS - math.floor(math.log10(spread)))
    return min(max(round(value, decimals), low), high)


def _truncated_normal(normal: NormalDist, low: float, high: float, u: float) -> tuple[float, float]:
    if high - low < _FLAT_WIDTH * normal.stdev:
        return low + u * (high - low), 1.0 / (high - low) if high > low else 1.0
    below, above = normal.cdf(low), normal.cdf(high)
    if above - below <= _SMALLEST_MASS:
        raise InputError(
            f"mean: expected a normal distribution that reaches [{low:g}, {high:g}], "
            f"got mean {normal.mean:g} and std {normal.stdev:g}"
        )
    # The inverse is not defined at 0 and 1, which bounds far from the mean would give.
    share = min(max(below + u * (above - below), 1e-300), 1 - 1e-16)
    value = normal.inv_cdf(share)
    return value, normal.pdf(value) / (above - below)
