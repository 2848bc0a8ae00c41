"""Select rows of a set so that factors depend on one another, and compute weights that undo the dependence.

Rows of an unconfounded set are selected by rules ("a yellow object is not on a bridge"), or by conditional
tables: the values of a factor for each value of other factors, with a strength.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.selection.conditional_tables import (
    conditional,
    inverse_weights,
    row_weights,
    table_rows,
)
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.numbered_draws import NumberedDraws


@dataclass(frozen=True)
class ValueRange:
    """The values of a numeric factor from ``low`` up to but not including ``high``.

    A value within a rounding error of a bound counts as the bound.
    """

    low: float
    high: float


RuleValues = FactorValue | Sequence[FactorValue] | ValueRange


@dataclass(frozen=True)
class ConditionalTable:
    """The dependence of one factor on others.

    The probability of a value is ``strength`` times its probability in the row of the table, plus
    1 - ``strength`` times the uniform probability. Recipes have the same fields and formulas.

    Attributes:
        given: the parent factor, or a tuple of parent factors.
        table: mapping from each value of ``given`` to a list of equally likely values, or to a weight for
            each value; several parents have one level of nesting each.
        strength: 0 for independence, 1 for the table.

    Example:
        >>> table = ConditionalTable("shape", {"cube": ["red", "blue"], "cone": {"red": 3, "green": 1}}, 0.8)
        >>> table.strength
        0.8
    """

    given: str | tuple[str, ...]
    table: Mapping[FactorValue, Any]
    strength: float = 1.0


@dataclass(frozen=True, eq=False)
class ConditionalProbabilities:
    """The probability of each value of a factor, given the values of its parents.

    Attributes:
        given: values of each parent, by name.
        values: values of the factor.
        probabilities: probability of each value (last axis), for each combination of the parents' values
            (other axes); NaN if the table has no such row.
    """

    given: dict[str, tuple[FactorValue, ...]]
    values: tuple[FactorValue, ...]
    probabilities: Float64[ndarray, "..."]

    def combination(self, number: int) -> dict[str, FactorValue]:
        """Return the parents' values of a combination by its number."""
        places = np.unravel_index(number, self.probabilities.shape[:-1])
        pairs = zip(self.given.items(), places, strict=True)
        return {name: values[int(place)] for (name, values), place in pairs}


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected rows of a set, in which factors depend on one another.

    Attributes:
        rows: row numbers, ascending.
        propensity: for each factor with a table, the probability of each row's value given its parents.
        conditionals: for each factor with a table, the probabilities stated by the table and its strength.
    """

    rows: Int[ndarray, " n"]
    propensity: dict[str, Float64[ndarray, " n"]]
    conditionals: dict[str, ConditionalProbabilities]

    def weights(self, names: Sequence[str] | None = None) -> Float64[ndarray, " n"]:
        """Return weights under which factors do not depend on others: the product of `inverse_weights`.

        Args:
            names: the factors; None for all factors with a table.

        Raises:
            InputError: a factor has no table; or positivity fails: a value never occurs for some combination
                of the parents, so no weight can balance it.
        """
        if not self.propensity:
            raise InputError(
                "inverse propensity: rules alone state no probabilities; "
                "`candlelight.loaders.counted_inverse_propensity` counts them"
            )
        weights = np.ones(len(self.rows))
        for name in self.propensity if names is None else names:
            if name not in self.propensity:
                known = ", ".join(self.propensity)
                raise InputError(f"inverse propensity: expected one of {known}, got `{name}`")
            stated = self.conditionals[name]
            flat = stated.probabilities.reshape(-1, len(stated.values))
            weights *= inverse_weights(name, stated.values, flat, self.propensity[name], stated.combination)
        return weights


def select_by_rules(index: FactorIndex, rules: Iterable[Mapping[str, RuleValues]]) -> Int[ndarray, " n"]:
    """List the rows that no rule leaves out.

    Args:
        index: the rows.
        rules: values by factor, like ``exclude`` in a recipe: a rule leaves out every row that has one of the
            values for each of its factors.

    Raises:
        InputError: a rule names an unknown factor or value, or no row is left.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> select_by_rules(index, [{"color": "red", "size": [2, 3]}])
        array([0, 3, 4, 5])
    """
    positions = index.positions(np.arange(len(index)))
    kept = np.ones(len(index), bool)
    for rule in rules:
        if not rule:
            raise InputError("rule: expected values of at least one factor, got none")
        excluded = np.ones(len(index), bool)
        for name, values in rule.items():
            classes = _classes(index, name, values, f"rule, `{name}`")
            excluded &= np.isin(positions[:, index.column(name)], list(classes))
        kept &= ~excluded
    if not kept.any():
        raise InputError("rules: they leave no row of this set")
    return np.flatnonzero(kept)


def select_by_tables(
    index: FactorIndex,
    tables: Mapping[str, ConditionalTable],
    seed: int,
    keep: Literal["given", "most"] = "given",
) -> Selection:
    """Select rows so that factors depend on others by conditional tables.

    A factor with a table gets the distribution of the table given its parents; other factors keep their
    distribution. A separate draw decides whether each row is kept. Its chance is proportional to (stated
    probability) / (frequency in the set), scaled as large as possible. The selection has the stated
    distribution up to chance, and exactly if all chances are 0 or 1, as for a full grid and lists of equally
    likely values.

    Args:
        index: rows of a set in which all these factors vary freely, such as a full grid.
        tables: table of each dependent factor; parents may have tables too.
        seed: seed of the draws.
        keep: "given" keeps the distribution of the parents without a table; "most" keeps as many rows as
            possible for each combination of these parents.

    Raises:
        InputError: a table names an unknown factor or value, lacks a row for a value, or is part of a cycle;
            a strength is outside 0..1; or the set lacks a combination that should occur.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("shape", "color"), (("cube", "cone"), ("red", "blue"))))
        >>> table = ConditionalTable("shape", {"cube": ["red"], "cone": ["blue", "red"]})
        >>> selection = select_by_tables(index, {"color": table}, seed=0, keep="most")
        >>> selection.rows, selection.propensity
        (array([0, 2, 3]), {'color': array([1. , 0.5, 0.5])})
    """
    if not tables:
        raise InputError("tables: expected a table for at least one factor, got none")
    roots = _roots(index, tables)
    positions = index.positions(np.arange(len(index)))
    stated = {name: _conditional(index, name, table) for name, table in tables.items()}
    propensity = {name: _look_up(index, name, stated[name], positions) for name in tables}
    wanted = np.stack(list(propensity.values())).prod(axis=0)
    cells, in_cell = _counted(index, positions, [*roots, *tables])
    groups, in_group = _counted(index, positions, roots)
    _check_complete(cells, groups, wanted)
    chances = in_group * wanted / in_cell
    most = np.zeros(int(groups.max()) + 1)
    np.maximum.at(most, groups, chances)
    chances /= chances.max() if keep == "given" else most[groups]
    # A rounding error must not lose a row with chance 1.
    uniform = NumberedDraws(seed, np.arange(len(index))).uniform("select")
    rows = np.flatnonzero((wanted > 0) & (uniform < chances + 1e-12))
    return Selection(rows, {name: column[rows] for name, column in propensity.items()}, stated)


def _classes(index: FactorIndex, name: str, values: Any, where: str) -> dict[int, float]:
    """Map the class number of each value to its weight."""
    classes = index.classes[index.column(name)]
    if isinstance(values, ValueRange):
        slack = 1e-9 * max(1.0, abs(values.low))
        numbers = [value if isinstance(value, int | float) else math.nan for value in classes.values]
        return {j: 1.0 for j, v in enumerate(numbers) if values.low - slack <= v < values.high - slack}
    return {classes.find(value): weight for value, weight in row_weights(values, where).items()}


def _given(table: ConditionalTable) -> tuple[str, ...]:
    return (table.given,) if isinstance(table.given, str) else table.given


def _roots(index: FactorIndex, tables: Mapping[str, ConditionalTable]) -> list[str]:
    """Name the parents that have no table themselves."""
    graph = {name: _given(table) for name, table in tables.items()}
    known = {name for given in graph.values() for name in given}
    for name in (*known, *tables):
        index.column(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise InputError(f"tables: expected no cycle, got {' -> '.join(error.args[1])}") from None
    return [name for name in index.names if name in known and name not in tables]


def _conditional(index: FactorIndex, name: str, table: ConditionalTable) -> ConditionalProbabilities:
    if not 0 <= table.strength <= 1:
        raise InputError(f"`{name}`.strength: expected a number in 0..1, got {table.strength}")
    given = {parent: index.classes[index.column(parent)] for parent in _given(table)}
    values = index.classes[index.column(name)].values
    uniform = np.full(len(values), 1 / len(values))
    probabilities = np.full((*map(len, given.values()), len(values)), np.nan)
    for keys, where, row in table_rows(_given(table), table.table, f"`{name}`.table"):
        place = tuple(classes.find(key) for classes, key in zip(given.values(), keys, strict=True))
        weights = _classes(index, name, row, where)
        if -1 in place or not weights or -1 in weights:
            raise InputError(f"{where}: expected values of continuous factors that occur in the set")
        row_of_weights = np.zeros(len(values))
        row_of_weights[list(weights)] = list(weights.values())
        probabilities[place] = conditional(row_of_weights, table.strength, uniform)
    return ConditionalProbabilities(
        {parent: classes.values for parent, classes in given.items()}, values, probabilities
    )


def _look_up(
    index: FactorIndex, name: str, stated: ConditionalProbabilities, positions: Int[ndarray, "n k"]
) -> Float64[ndarray, " n"]:
    columns = [index.column(factor) for factor in (*stated.given, name)]
    found = stated.probabilities[tuple(positions[:, columns].T)]
    if np.isnan(found).any():
        values = index.values(int(np.isnan(found).argmax()))
        listed = ", ".join(f"{parent}={values[parent]}" for parent in stated.given)
        raise InputError(f"`{name}`.table: expected a row for every value that occurs; {listed} has none")
    return found


def _counted(
    index: FactorIndex, positions: Int[ndarray, "n k"], names: Sequence[str]
) -> tuple[Int[ndarray, " n"], Int[ndarray, " n"]]:
    """Return the group of each row by some factors, and the number of rows in that group."""
    groups = index.groups(names)
    found = groups.find(positions[:, index.columns(names)])
    return found, groups.counts(found)


def _check_complete(
    cells: Int[ndarray, " n"], groups: Int[ndarray, " n"], wanted: Float64[ndarray, " n"]
) -> None:
    # For each combination of the roots, the stated probabilities add up to 1 if no cell is missing.
    _, first = np.unique(cells, return_index=True)
    _, group = np.unique(groups[first], return_inverse=True)
    if not np.allclose(np.bincount(group.ravel(), wanted[first]), 1):
        raise InputError(
            "tables: some combination that should occur is not in this set; select from a full grid, or "
            "remove it from the tables and use strength 1"
        )
