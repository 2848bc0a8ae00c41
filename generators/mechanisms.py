"""From the mechanisms of an image set to the values of one sample, each with its propensity."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from blender_assets import AssetLibrary
from generators.expressions import evaluate
from generators.factors import Categorical, Continuous, Factor, Quantity, Rule, key_of
from generators.graph import Graph, causal_order
from generators.recipe import ImageSet
from generators.settings import values_of
from generators.streams import stream
from loaders.errors import InputError
from loaders.schema import FactorValue

Values = Mapping[str, FactorValue]
FLAT = 1e-6  # of its deviation, a piece of a normal distribution over which it is as good as uniform
FEWEST = 1e-12  # probability below which a rounding error is taken for a value that does not occur


@dataclass(frozen=True)
class Mechanisms:
    """The mechanisms of one image set, with the values of its categorical factors and variables."""

    image_set: ImageSet
    lists: Mapping[str, tuple[FactorValue, ...]]

    @cached_property
    def by_name(self) -> dict[str, Factor]:
        """Factors and variables by name."""
        return self.image_set.mechanisms()

    @cached_property
    def graph(self) -> Graph:
        """Parents of every factor and variable."""
        return self.image_set.graph()

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names, parents first."""
        return causal_order(self.graph)

    @cached_property
    def selections(self) -> tuple[Rule, ...]:
        """Rules that throw whole samples away."""
        return tuple(rule for rule in self.image_set.rules if rule.selection)

    def probabilities(self, name: str, values: Values) -> Float64[ndarray, " n"]:
        """Return the probability of each value of a categorical factor or variable, given its parents.

        The table's row, mixed with the weights by the strength; values that a rule excludes get 0 and the
        rest is scaled to add up to 1.

        Args:
            name: the factor or variable.
            values: values of its parents at least.

        Raises:
            InputError: the table has no row for the parents' values, or the rules leave no value.
        """
        factor, listed = self.by_name[name], self.lists[name]
        assert isinstance(factor, Categorical)
        weights = np.array(factor.weights if factor.weights is not None else [1.0] * len(listed))
        weights /= weights.sum()
        if factor.table is not None:
            weights = (
                factor.strength * self._table_row(name, factor, values) + (1 - factor.strength) * weights
            )
        for rule in self.image_set.rules:
            if rule.target == name and _parents_hold(rule, values):
                excluded = rule.exclude[name]
                weights = np.where([value in excluded for value in listed], 0.0, weights)
        if weights.sum() <= FEWEST:
            given = ", ".join(f"{parent}={values[parent]}" for parent in self.graph[name])
            raise InputError(f"rules: they leave no value of `{name}`{given and ' where ' + given}")
        return weights / weights.sum()

    def _table_row(self, name: str, factor: Categorical, values: Values) -> Float64[ndarray, " n"]:
        row = factor.row(values)
        given = ", ".join(f"{parent}={values[parent]}" for parent in factor.given)
        if row is None:
            raise InputError(f"`{name}`.table: expected a row for {given}, got none; add it")
        listed = self.lists[name]
        unknown = set(row) - {key_of(value) for value in listed}
        if unknown:
            raise InputError(
                f"`{name}`.table, {given}: expected values among {list(listed)}, got {sorted(unknown)}"
            )
        weights = np.array([_weight(row.get(key_of(value), 0.0), name) for value in listed])
        if weights.sum() <= 0:
            raise InputError(f"`{name}`.table, {given}: expected weights with a sum above 0, got {dict(row)}")
        return weights / weights.sum()

    def draw(self, name: str, values: Values, u: float) -> tuple[FactorValue, float]:
        """Return the value at an exogenous uniform number, and its propensity.

        The value is the inverse of the distribution function at ``u``, so that the same ``u`` under another
        mechanism, or other parents, gives the counterfactual value.

        Args:
            name: the factor or variable.
            values: values of its parents at least.
            u: exogenous number in [0, 1).

        Returns:
            The value (a number rounded to nine decimals), and its probability given the parents; of a
            continuous one the density, of one that an expression decides 1.

        Raises:
            InputError: a table or an expression cannot be used for these values; the message names it.
        """
        mechanism = self.by_name[name]
        if isinstance(mechanism, Categorical):
            probabilities = self.probabilities(name, values)
            place = int(np.searchsorted(np.cumsum(probabilities), u, side="right"))
            place = min(place, int(np.flatnonzero(probabilities)[-1]))
            return self.lists[name][place], float(probabilities[place])
        try:
            return _draw_number(mechanism, values, u)
        except InputError as error:
            raise InputError(f"`{name}`: {error}") from None

    def sample(
        self, seed: int, unit: str, given: Values, changes: Values, attempt: int = 0
    ) -> tuple[dict[str, FactorValue], dict[str, float]]:
        """Give every factor and variable its value, parents first.

        Args:
            seed: the recipe's.
            unit: whose streams are drawn from.
            given: values that the grid assigns.
            changes: interventions; their mechanisms are not asked.
            attempt: how many draws of this unit a selection has thrown away before.

        Returns:
            Values and propensities by name, in causal order.
        """
        values: dict[str, FactorValue] = {}
        propensities: dict[str, float] = {}
        for name in self.order:
            if name in changes:
                values[name], propensities[name] = changes[name], 1.0
            elif name in given:
                values[name] = given[name]
                probabilities = self.probabilities(name, values)
                propensities[name] = float(probabilities[self.lists[name].index(given[name])])
            else:
                label = f"{name}#{attempt}" if attempt else name
                u = float(stream(seed, unit, label).random())
                values[name], propensities[name] = self.draw(name, values, u)
        return values, propensities


def mechanisms_of(image_set: ImageSet, library: AssetLibrary) -> Mechanisms:
    """Look up the values of every categorical factor and variable of a set.

    Raises:
        InputError: an asset that does not exist, weights that do not match the values, or a rule about a
            value that there is not; the message names the field.
    """
    lists: dict[str, tuple[FactorValue, ...]] = {}
    for name, mechanism in image_set.mechanisms().items():
        if isinstance(mechanism, Categorical):
            field = f"{'factors' if name in image_set.factors else 'variables'}.{name}"
            try:
                lists[name] = values_of(mechanism, library)
            except InputError as error:
                raise InputError(f"{field}: {error}") from None
            if mechanism.weights is not None and len(mechanism.weights) != len(lists[name]):
                raise InputError(
                    f"{field}.weights: expected {len(lists[name])}, one for each value, "
                    f"got {len(mechanism.weights)}"
                )
    for i, rule in enumerate(image_set.rules):
        for name, excluded in rule.exclude.items():
            if unknown := [value for value in excluded if value not in lists[name]]:
                known = ", ".join(map(str, lists[name]))
                raise InputError(f"rules.{i}.exclude.{name}: expected some of {known}, got {unknown}")
    return Mechanisms(image_set, lists)


def _parents_hold(rule: Rule, values: Values) -> bool:
    return all(values[name] in rule.exclude[name] for name in rule.parents())


def _weight(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise InputError(f"`{name}`.table: expected weights of at least 0, got {value!r}")
    return float(value)


def _number(quantity: Quantity, values: Values) -> float:
    return evaluate(quantity, values) if isinstance(quantity, str) else float(quantity)


def _draw_number(mechanism: Continuous, values: Values, u: float) -> tuple[float, float]:
    low, high = _number(mechanism.low, values), _number(mechanism.high, values)
    if low > high:
        raise InputError(f"expected low <= high, got {low:g} and {high:g}")
    if mechanism.value is not None:
        exact = _number(mechanism.value, values)
        if not low <= exact <= high:
            raise InputError(f"value: expected {low:g} to {high:g}, got {exact:g} from `{mechanism.value}`")
        return round(exact, 9), 1.0
    if mechanism.mean is None or mechanism.std is None:
        value, density = low + u * (high - low), 1.0 / (high - low) if high > low else 1.0
    else:
        mean, std = _number(mechanism.mean, values), _number(mechanism.std, values)
        if std <= 0:
            raise InputError(f"std: expected more than 0, got {std:g} from `{mechanism.std}`")
        value, density = _truncated_normal(NormalDist(mean, std), low, high, u)
    return min(max(round(value, 9), low), high), density


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
