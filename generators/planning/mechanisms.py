"""From the mechanisms of an image set to the values of one sample, each with its propensity."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from blender_assets import AssetLibrary
from generators.language.causal_graph import Graph, causal_order
from generators.language.expressions import compared_texts
from generators.language.factor_values import values_of
from generators.language.factor_weights import Weights, weights_of
from generators.language.factors import Categorical, Continuous, Factor, Rule
from generators.language.field_types import key_of
from generators.language.image_set import ImageSet
from generators.planning.distributions import draw_number
from generators.random_streams import stream
from loaders.errors import InputError
from loaders.schema import FactorValue
from loaders.selection.conditional import conditional

Values = Mapping[str, FactorValue]
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

    @cached_property
    def _known(self) -> dict[tuple[object, ...], Float64[ndarray, " n"]]:
        # A grid asks for the same few rows again and again, once for each of its cells.
        return {}

    @cached_property
    def _rows(self) -> dict[str, dict[tuple[str, ...], Weights]]:
        return {name: m.rows() for name, m in self.by_name.items() if isinstance(m, Categorical)}

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
        key = (name, *(values[parent] for parent in self.graph[name]))
        if key not in self._known:
            self._known[key] = self._work_out(name, values)
            self._known[key].setflags(write=False)
        return self._known[key]

    def _work_out(self, name: str, values: Values) -> Float64[ndarray, " n"]:
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
        if weights.sum() <= FEWEST:
            given = ", ".join(f"{parent}={values[parent]}" for parent in self.graph[name])
            raise InputError(f"rules: they leave no value of `{name}`{given and ' where ' + given}")
        return weights / weights.sum()

    def _table_row(self, name: str, factor: Categorical, values: Values) -> Float64[ndarray, " n"]:
        row = self._rows[name].get(tuple(key_of(values[parent]) for parent in factor.given))
        if row is None:
            given = ", ".join(f"{parent}={values[parent]}" for parent in factor.given)
            raise InputError(f"`{name}`.table: expected a row for {given}, got none; add it")
        return np.array(weights_of(row, self.lists[name]))

    def draw(self, name: str, values: Values, u: float) -> tuple[FactorValue, float]:
        """Return the value at an exogenous uniform number, and its propensity.

        The value is the inverse of the distribution function at ``u``, so that the same ``u`` under another
        mechanism, or other parents, gives the counterfactual value.

        Args:
            name: the factor or variable.
            values: values of its parents at least.
            u: exogenous number in [0, 1).

        Returns:
            The value (a number rounded as by `draw_number`), and its probability given the parents; of a
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
            return draw_number(mechanism, values, u)
        except InputError as error:
            raise InputError(f"`{name}`: {error}") from None

    def sample(
        self, seed: int, unit: str, given: Values, changes: Values, attempt: int = 0
    ) -> tuple[dict[str, FactorValue], dict[str, float]]:
        """Give every factor and variable its value, parents first.

        Args:
            seed: the recipe's.
            unit: whose streams are drawn from.
            given: values that the grid assigns. One whose parents an intervention has moved follows them:
                where it lay within the probability of its value is drawn, and it is the value found there.
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
            elif name in given and all(values[parent] == given[parent] for parent in self.graph[name]):
                values[name], propensities[name] = given[name], self.probability(name, given)
            else:
                label = f"{name}#{attempt}" if attempt else name
                u = float(stream(seed, unit, label).random())
                if name in given:
                    u = self._within(name, given, u)
                values[name], propensities[name] = self.draw(name, values, u)
        return values, propensities

    def constrained(self, name: str) -> bool:
        """Say whether some values of a categorical factor may not occur: by a table, a rule or a weight."""
        factor = self.by_name[name]
        assert isinstance(factor, Categorical)
        ruled = any(rule.target == name for rule in self.image_set.rules)
        return ruled or factor.table is not None or factor.weights is not None

    def probability(self, name: str, values: Values) -> float:
        """Return the probability of the value of a categorical factor or variable, given its parents."""
        return float(self.probabilities(name, values)[self.lists[name].index(values[name])])

    def _within(self, name: str, given: Values, share: float) -> float:
        """Return the exogenous number that lies so far into the probability of the value given by a grid."""
        probabilities = self.probabilities(name, given)
        place = self.lists[name].index(given[name])
        return float(probabilities[:place].sum() + share * probabilities[place])


def mechanisms_of(image_set: ImageSet, library: AssetLibrary) -> Mechanisms:
    """Look up the values of every categorical factor and variable of a set, and check what names them.

    Raises:
        InputError: an asset that does not exist, weights that do not match the values, or a table, a rule or
            an expression about a value that there is not; the message names the field.
    """
    lists: dict[str, tuple[FactorValue, ...]] = {}
    for name, mechanism in image_set.mechanisms().items():
        if isinstance(mechanism, Categorical):
            where = _field(image_set, name)
            try:
                lists[name] = values_of(mechanism, library)
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            if mechanism.weights is not None:
                _check_weights(mechanism.weights, lists[name], f"{where}.weights")
    _check_tables(image_set, lists)
    _check_comparisons(image_set, lists, library)
    for i, rule in enumerate(image_set.rules):
        for name, excluded in rule.exclude.items():
            unknown = [value for value in excluded if not _may_be(image_set, name, value, lists, library)]
            if unknown:
                known = ", ".join(map(str, lists[name]))
                raise InputError(f"rules.{i}.exclude.{name}: expected some of {known}, got {unknown}")
    return Mechanisms(image_set, lists)


def _field(image_set: ImageSet, name: str) -> str:
    return f"{'factors' if name in image_set.factors else 'variables'}.{name}"


def _check_tables(image_set: ImageSet, lists: Mapping[str, tuple[FactorValue, ...]]) -> None:
    """Refuse values in tables that there are not; rows for parents that there are not are no harm."""
    keys = {name: {key_of(value) for value in listed} for name, listed in lists.items()}
    for name, mechanism in image_set.mechanisms().items():
        for parents, weights in mechanism.rows().items() if isinstance(mechanism, Categorical) else ():
            there = all(key in keys[parent] for parent, key in zip(mechanism.parents(), parents, strict=True))
            if there:
                _check_weights(weights, lists[name], f"{_field(image_set, name)}.table.{'.'.join(parents)}")


def _check_weights(weights: Weights, listed: tuple[FactorValue, ...], where: str) -> None:
    try:
        weights_of(weights, listed)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _may_be(
    image_set: ImageSet,
    name: str,
    value: FactorValue,
    lists: Mapping[str, tuple[FactorValue, ...]],
    library: AssetLibrary,
) -> bool:
    """Say whether a variable has a value, or would have if the list of its assets were not narrowed."""
    mechanism = image_set.mechanisms()[name]
    assets = mechanism.assets if isinstance(mechanism, Categorical) else None
    return value in lists.get(name, ()) or (assets is not None and library.has(assets, str(value)))


def _check_comparisons(
    image_set: ImageSet, lists: Mapping[str, tuple[FactorValue, ...]], library: AssetLibrary
) -> None:
    """Refuse expressions that ask for a name that their variable never has; an asset's may be left out."""
    for name, mechanism in image_set.mechanisms().items():
        for field, text in mechanism.expressions().items() if isinstance(mechanism, Continuous) else ():
            for other, value in compared_texts(text):
                if not _may_be(image_set, other, value, lists, library):
                    known = ", ".join(map(str, lists.get(other, ()))) or "numbers"
                    raise InputError(
                        f"{_field(image_set, name)}.{field}: `{other}` is compared with '{value}'; "
                        f"expected one of {known}"
                    )
