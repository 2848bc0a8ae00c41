"""Draw the factor values of one sample by the mechanisms of its image set, each with its propensity."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.causal_graph import Graph, causal_order
from candlelight.generators.language.expressions import compared_texts, evaluate_expression, previous
from candlelight.generators.language.factor_values import FactorValues, values_of
from candlelight.generators.language.factors import (
    Categorical,
    Continuous,
    Factor,
    Quantity,
    Rule,
    Weights,
    weights_of,
)
from candlelight.generators.language.field_types import key_of
from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.random_streams import stream
from candlelight.loaders.errors import InputError, within
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.selection.conditional_tables import conditional

_SMALLEST_SUM = 1e-12  # sum of probabilities that counts as 0, because of rounding errors
_DECIMALS = 9  # decimals kept of every value whose spread is a thousandth or more
_DIGITS = 6  # decimals kept below the leading digit of a smaller spread
_FLAT_WIDTH = 1e-6  # width in standard deviations below which a piece of a normal distribution is uniform
_SMALLEST_MASS = 1e-12  # probability below which a normal distribution does not reach a range


@dataclass(frozen=True)
class Mechanisms:
    """The mechanisms of one image set, perhaps under an intervention.

    Attributes:
        image_set: the set, with the mechanisms that an intervention puts in place.
        lists: the values of its categorical factors and variables.
        fixed: the values that an intervention sets.
        streams: names of the random streams of mechanisms that an intervention puts in place. They are not
            those of the factors, so that the new noise is independent of the old and no other draw shifts.
    """

    image_set: ImageSet
    lists: Mapping[str, tuple[FactorValue, ...]]
    fixed: FactorValues = field(default_factory=dict)
    streams: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> dict[str, Factor]:
        """Factors and variables by name."""
        return self.image_set.mechanisms()

    @cached_property
    def graph(self) -> Graph:
        """Parents of every factor and variable."""
        return self.image_set.causal_parents(self.fixed)

    @cached_property
    def intervened(self) -> set[str]:
        """Names that the intervention changes."""
        return {*self.fixed, *self.streams}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names, parents first."""
        return causal_order(self.graph)

    @cached_property
    def selections(self) -> tuple[Rule, ...]:
        """Rules that reject whole samples."""
        return tuple(rule for rule in self.image_set.rules if rule.selection)

    @cached_property
    def reads(self) -> Graph:
        """Keys of the values that decide each mechanism: its parents, and values of the previous step."""
        return {
            name: (*parents, *map(previous, self.by_name[name].lagged_parents()))
            for name, parents in self.graph.items()
        }

    @cached_property
    def _known(self) -> dict[tuple[object, ...], Float64[ndarray, " n"]]:
        # Every cell of a grid asks for one of the same few distributions.
        return {}

    @cached_property
    def _rows(self) -> dict[str, dict[tuple[str, ...], Weights]]:
        return {name: factor.rows() for name, factor in self.image_set.categorical().items()}

    def probabilities(self, name: str, values: FactorValues) -> Float64[ndarray, " n"]:
        """Return the probability of each value of a categorical factor or variable, given its parents.

        The probabilities are the row of the conditional table, mixed with the weights by the strength. Values
        that a rule excludes get probability 0, and the others are scaled to a sum of 1.

        Args:
            name: the factor or variable.
            values: values of its parents at least; values of the previous step by their names of
                `candlelight.generators.language.expressions.previous`.

        Raises:
            InputError: the table has no row for the parents' values, or the rules exclude every value.
        """
        key = (name, *(values[parent] for parent in self.reads[name]))
        if key not in self._known:
            self._known[key] = self._work_out(name, values)
            self._known[key].setflags(write=False)
        return self._known[key]

    def _work_out(self, name: str, values: FactorValues) -> Float64[ndarray, " n"]:
        factor, listed = self.by_name[name], self.lists[name]
        assert isinstance(factor, Categorical)
        weights = np.array(weights_of(factor.weights or (1.0,) * len(listed), listed))
        weights /= weights.sum()
        if factor.table is not None:
            weights = conditional(self._table_row(name, factor, values), factor.strength, weights)
        for rule in self.image_set.rules:
            if rule.target == name and rule.holds(values, rule.parents()):
                excluded = rule.exclude[name]
                weights = np.where([value in excluded for value in listed], 0.0, weights)
        if weights.sum() <= _SMALLEST_SUM:
            given = ", ".join(f"{parent}={values[parent]}" for parent in self.reads[name])
            raise InputError(f"rules: they leave no value of `{name}`{given and ' where ' + given}")
        return weights / weights.sum()

    def _table_row(self, name: str, factor: Categorical, values: FactorValues) -> Float64[ndarray, " n"]:
        row = self._rows[name].get(tuple(key_of(values[parent]) for parent in factor.given))
        if row is None:
            given = ", ".join(f"{parent}={values[parent]}" for parent in factor.given)
            raise InputError(f"`{name}`.table: expected a row for {given}, got none; add it")
        return np.array(weights_of(row, self.lists[name]))

    def draw(self, name: str, values: FactorValues, u: float) -> tuple[FactorValue, float]:
        """Return the value of a factor or variable at an exogenous draw, and its propensity.

        The value is the inverse of the distribution function at ``u``. The same ``u`` under another
        mechanism, or with other values of the parents, gives the counterfactual value.

        Args:
            name: the factor or variable.
            values: values of its parents at least.
            u: exogenous draw in [0, 1).

        Returns:
            The value (numbers rounded as by `draw_number`), and its probability given the parents: the
            density if it is continuous, 1 if an expression gives it.

        Raises:
            InputError: a table or an expression cannot be used for these values; the message names the
                factor.
        """
        mechanism = self.by_name[name]
        if isinstance(mechanism, Categorical):
            probabilities = self.probabilities(name, values)
            place = int(np.searchsorted(np.cumsum(probabilities), u, side="right"))
            place = min(place, int(np.flatnonzero(probabilities)[-1]))
            return self.lists[name][place], float(probabilities[place])
        with within(f"`{name}`"):
            return draw_number(mechanism, values, u)

    def sample(
        self,
        seed: int,
        unit: str,
        given: FactorValues,
        attempt: int = 0,
        step: int = 0,
        before: FactorValues | None = None,
    ) -> tuple[dict[str, FactorValue], dict[str, float]]:
        """Give every factor and variable its value, parents first.

        Args:
            seed: seed of the recipe.
            unit: the unit, whose random streams give the exogenous draws.
            given: values that the grid assigns. If an intervention changes a parent of such a factor, its
                exogenous draw is taken uniformly from the draws that give the assigned value, and the factor
                gets the value that its mechanism gives at that draw.
            attempt: number of draws of this unit that selections have rejected before.
            step: the step of a sequence; noise that is renewed at each step has a stream for each step.
            before: the values at the previous step.

        Returns:
            Values and propensities by name, in causal order.
        """
        values = {previous(name): value for name, value in (before or {}).items()}
        propensities: dict[str, float] = {}
        for name in self.order:
            if name in self.fixed:
                values[name], propensities[name] = self.fixed[name], 1.0
            elif (
                name in given
                and name not in self.streams
                and all(values[parent] == given[parent] for parent in self.graph[name])
            ):
                values[name], propensities[name] = given[name], self.probability(name, given)
            else:
                label = self.streams.get(name, name)
                label += f"@{step}" if step and self.image_set.renewed(name) else ""
                label += f"#{attempt}" if attempt else ""
                u = float(stream(seed, unit, label).random())
                if name in given and name not in self.streams:
                    u = self._draw_of_given(name, given, u)
                values[name], propensities[name] = self.draw(name, values, u)
        return {name: values[name] for name in self.order}, propensities

    def constrained(self, name: str) -> bool:
        """Tell whether a table, a rule or weights may exclude values of a categorical factor."""
        factor = self.by_name[name]
        assert isinstance(factor, Categorical)
        ruled = any(rule.target == name for rule in self.image_set.rules)
        return ruled or factor.table is not None or factor.weights is not None

    def probability(self, name: str, values: FactorValues) -> float:
        """Return the probability of the value of a categorical factor or variable, given its parents."""
        return float(self.probabilities(name, values)[self.lists[name].index(values[name])])

    def _draw_of_given(self, name: str, given: FactorValues, share: float) -> float:
        """Return an exogenous draw that gives the grid's value: ``share`` of the way through all of them."""
        probabilities = self.probabilities(name, given)
        place = self.lists[name].index(given[name])
        return float(probabilities[:place].sum() + share * probabilities[place])


def mechanisms_of(
    image_set: ImageSet,
    library: AssetLibrary,
    fixed: FactorValues | None = None,
    streams: Mapping[str, str] | None = None,
) -> Mechanisms:
    """List the values of every categorical factor and variable of a set, and check all uses of values.

    Args:
        image_set: the set, with the mechanisms that an intervention puts in place.
        library: where assets are found.
        fixed: as in `Mechanisms`.
        streams: as in `Mechanisms`.

    Raises:
        InputError: an asset that does not exist, weights that do not match the values, or a table, a rule or
            an expression with an unknown value; the message names the field.
    """
    lists: dict[str, tuple[FactorValue, ...]] = {}
    for name, factor in image_set.categorical().items():
        with within(image_set.field_of(name)):
            lists[name] = values_of(factor, library)
    _check_weights(image_set, lists)
    _check_values(image_set, lists, library)
    return Mechanisms(image_set, lists, fixed or {}, streams or {})


def _check_weights(image_set: ImageSet, lists: Mapping[str, tuple[FactorValue, ...]]) -> None:
    """Refuse weights of unknown values; rows of tables for unknown values of the parents are allowed."""
    keys = {name: {key_of(value) for value in listed} for name, listed in lists.items()}
    keys |= {previous(name): known for name, known in keys.items()}
    for name, factor in image_set.categorical().items():
        rows = {f"table.{'.'.join(given)}": (given, weights) for given, weights in factor.rows().items()}
        if factor.weights is not None:
            rows = {"weights": ((), factor.weights), **rows}
        for part, (given, weights) in rows.items():
            if all(key in keys[parent] for parent, key in zip(factor.given, given, strict=False)):
                with within(f"{image_set.field_of(name)}.{part}"):
                    weights_of(weights, lists[name])


def _check_values(
    image_set: ImageSet, lists: Mapping[str, tuple[FactorValue, ...]], library: AssetLibrary
) -> None:
    """Refuse expressions and rules that name a value which a variable never has.

    A label that the variable's list of assets leaves out is allowed.
    """
    factors = image_set.categorical()

    def possible(name: str, value: FactorValue) -> bool:
        if name not in factors:
            return False
        assets = factors[name].assets
        return value in lists[name] or (assets is not None and library.has(assets, str(value)))

    for name, mechanism in image_set.mechanisms().items():
        for part, text in mechanism.expressions().items() if isinstance(mechanism, Continuous) else ():
            for other, value in compared_texts(text):
                if not possible(other, value):
                    known = ", ".join(map(str, lists.get(other, ()))) or "numbers"
                    raise InputError(
                        f"{image_set.field_of(name)}.{part}: `{other}` is compared with '{value}'; "
                        f"expected one of {known}"
                    )
    for i, rule in enumerate(image_set.rules):
        for name, excluded in rule.exclude.items():
            if unknown := [value for value in excluded if not possible(name, value)]:
                known = ", ".join(map(str, lists[name]))
                raise InputError(f"rules.{i}.exclude.{name}: expected some of {known}, got {unknown}")


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
    if mechanism.low is None or mechanism.high is None:
        return round(_number(mechanism.value or 0.0, values), _DECIMALS), 1.0
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
