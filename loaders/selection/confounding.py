"""Observed confounding: select rows of a set so that factors depend on one another, and undo it by weights.

The rows of an unconfounded set are selected by rules ("what is yellow is not on a bridge"), or by tables of
the values that a factor takes for the values of others, held to with some strength.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from loaders.errors import InputError
from loaders.schema import FactorValue
from loaders.selection.conditional import conditional, inverse_weights, row_weights, table_rows
from loaders.selection.factor_index import FactorIndex
from loaders.selection.numbered_draws import NumberedDraws


@dataclass(frozen=True)
class ValueRange:
    """The values of a factor of numbers from ``low`` up to but not including ``high``.

    A value that only a rounding error keeps from a bound counts as the bound.
    """

    low: float
    high: float


RuleValues = FactorValue | Sequence[FactorValue] | ValueRange


@dataclass(frozen=True)
class ConditionalTable:
    """How one factor depends on others.

    The probability of a value is ``strength`` times that of its row in the table, plus 1 - ``strength`` times
    that of all values alike: 0 is independence, 1 the table. Recipes have the same words and formulas.

    Attributes:
        given: the factor, or the factors, that it depends on.
        table: for each value of ``given`` (of several factors: for each value of the first, and in it for
            each of the second), the values that are equally likely, or a weight for each.
        strength: 0..1.

    Example:
        >>> ConditionalTable("shape", {"cube": ["red", "blue"], "cone": {"red": 3, "green": 1}}, strength=0.8).strength
        0.8
    """

    given: str | tuple[str, ...]
    table: Mapping[FactorValue, Any]
    strength: float = 1.0


@dataclass(frozen=True, eq=False)
class ConditionalProbabilities:
    """The probability of each value of a factor beside what it depends on.

    Attributes:
        given: values of each factor that it depends on, by name.
        values: its values.
        probabilities: of its values (last axis), beside each combination of the others; NaN if not stated.
    """

    given: dict[str, tuple[FactorValue, ...]]
    values: tuple[FactorValue, ...]
    probabilities: Float64[ndarray, "..."]

    def combination(self, number: int) -> dict[str, FactorValue]:
        """Name the values of a combination of what it depends on, by its number."""
        places = np.unravel_index(number, self.probabilities.shape[:-1])
        pairs = zip(self.given.items(), places, strict=True)
        return {name: values[int(place)] for (name, values), place in pairs}


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows of a set in which factors depend on one another as tables say.

    Attributes:
        rows: row numbers, ascending.
        propensity: for each factor that has a table, the probability of each row's value given the factors
            that it depends on.
        conditionals: what each of these tables says, with its strength.
    """

    rows: Int[ndarray, " n"]
    propensity: dict[str, Float64[ndarray, " n"]]
    conditionals: dict[str, ConditionalProbabilities]

    def weights(self, names: Sequence[str] | None = None) -> Float64[ndarray, " n"]:
        """Weight the rows so that factors no longer depend on others: the product of their `inverse_weights`.

        Args:
            names: the factors; None for all that have a table.

        Raises:
            InputError: a factor, or every one, has no table; or there is no positivity: a value that never
                occurs beside some of the others, so that no weight makes up for it.
        """
        if not self.propensity:
            raise InputError(
                "inverse propensity: rules alone state no probabilities; `loaders.counted_inverse_propensity` counts"
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
    """List the rows that all rules leave.

    Args:
        index: the rows.
        rules: values that do not occur together, by factor, as after ``exclude`` in a recipe: a row that has
            one of them for every factor is left out.

    Raises:
        InputError: a rule names a factor or value that does not exist, or nothing is left.

    Example:
        >>> from loaders.factor_space import FactorSpace
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
    """Select rows so that factors depend on others as tables say.

    The factors that have a table get its distribution beside what they depend on, and all others keep theirs.
    Each row is kept or not by a draw of its own, with a chance in proportion to (stated probability) /
    (frequency in the set), as large as can be. So the selection has the stated distribution up to chance, and
    exactly where all chances are 0 or 1, as of a full grid and values that are equally likely.

    Args:
        index: rows of a set in which all these factors vary freely, such as a full grid.
        tables: table of each factor that is to depend on others; these may have tables, too.
        seed: seed of the draws.
        keep: the distribution of the factors that others are given and that have no table ("given"), or as
            many rows as can be beside each of their combinations ("most").

    Raises:
        InputError: a table names a factor or value that does not exist, has no row for a value, or depends on
            itself; a strength is outside 0..1; or a combination that should occur is not in the set.

    Example:
        >>> from loaders.factor_space import FactorSpace
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
    # Where the chance is to be 1, a rounding error must not lose the row.
    lots = NumberedDraws(seed, np.arange(len(index))).uniform("select")
    rows = np.flatnonzero((wanted > 0) & (lots < chances + 1e-12))
    return Selection(rows, {name: column[rows] for name, column in propensity.items()}, stated)


def _classes(index: FactorIndex, name: str, values: Any, where: str) -> dict[int, float]:
    """Number the classes of a row's values, and give each its weight."""
    classes = index.classes[index.column(name)]
    if isinstance(values, ValueRange):
        slack = 1e-9 * max(1.0, abs(values.low))
        numbers = [value if isinstance(value, int | float) else math.nan for value in classes.values]
        return {j: 1.0 for j, v in enumerate(numbers) if values.low - slack <= v < values.high - slack}
    return {classes.find(value): weight for value, weight in row_weights(values, where).items()}


def _given(table: ConditionalTable) -> tuple[str, ...]:
    return (table.given,) if isinstance(table.given, str) else table.given


def _roots(index: FactorIndex, tables: Mapping[str, ConditionalTable]) -> list[str]:
    """Name the factors that others depend on and that have no table themselves."""
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
            raise InputError(f"{where}: expected values of continuous factors that occur")
        said = np.zeros(len(values))
        said[list(weights)] = list(weights.values())
        probabilities[place] = conditional(said, table.strength, uniform)
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
    """Group of each row by some factors, and how many rows are in it."""
    groups = index.groups(names)
    found = groups.find(positions[:, index.columns(names)])
    return found, groups.counts(found)


def _check_complete(
    cells: Int[ndarray, " n"], groups: Int[ndarray, " n"], wanted: Float64[ndarray, " n"]
) -> None:
    # Over the combinations beside one of the roots', what is wanted adds up to 1 if none is missing.
    _, first = np.unique(cells, return_index=True)
    _, group = np.unique(groups[first], return_inverse=True)
    if not np.allclose(np.bincount(group.ravel(), wanted[first]), 1):
        raise InputError(
            "tables: some combination that should occur is not in this set; select from a full grid, or "
            "leave it out of the tables at strength 1"
        )
