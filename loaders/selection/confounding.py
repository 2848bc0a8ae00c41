"""Observed confounding: select rows of a set so that factors depend on one another, and undo it by weights.

The rows of an unconfounded set are selected by rules ("what is yellow is not on a bridge"), or by tables of
the values that a factor takes for the values of others, held to with some strength.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int
from numpy import ndarray

from loaders.errors import InputError
from loaders.schema import FactorValue
from loaders.selection.draws import Draws
from loaders.selection.factor_index import FactorIndex


@dataclass(frozen=True)
class Between:
    """The values of a factor of numbers from ``low`` up to but not including ``high``.

    A value that only a rounding error keeps from a bound counts as the bound.
    """

    low: float
    high: float


Values = Sequence[FactorValue] | Between


@dataclass(frozen=True)
class Rule:
    """Rows with these values of some factors are left out, or keep only these values of others.

    Attributes:
        when: values of each factor; the rule is about rows that have one of them for every factor.
        then: values of other factors that such rows must have; without any, such rows are left out.

    Example:
        >>> Rule(when={"color": ["yellow"], "scene": ["bridge"]})
        Rule(when={'color': ['yellow'], 'scene': ['bridge']}, then={})
    """

    when: Mapping[str, Values]
    then: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """How one factor depends on others.

    The probability of a value is ``strength`` times that of its row in the table, plus 1 - ``strength`` times
    that of all values alike: 0 is independence, 1 the table. Recipes have the same words.

    Attributes:
        given: the factor, or the factors, that it depends on.
        table: for each value of ``given`` (a tuple of values, of several factors), the values that are
            equally likely, or a weight for each.
        strength: 0..1.

    Example:
        >>> Table("shape", {"cube": ["red", "blue"], "cone": {"red": 3, "green": 1}}, strength=0.8).strength
        0.8
    """

    given: str | tuple[str, ...]
    table: Mapping[FactorValue | tuple[FactorValue, ...], Values | Mapping[FactorValue, float]]
    strength: float = 1.0


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows of a set in which factors depend on one another as tables say.

    Attributes:
        rows: row numbers, ascending.
        propensity: for each factor that has a table, the probability of each row's value given the factors
            that it depends on.
        positive: whether each of these factors takes every value with a probability above 0.
        sizes: how many values each has.
    """

    rows: Int[ndarray, " n"]
    propensity: dict[str, Float64[ndarray, " n"]]
    positive: dict[str, bool]
    sizes: dict[str, int]

    def weights(self, names: Sequence[str] | None = None) -> Float64[ndarray, " n"]:
        """Weight the rows so that factors no longer depend on others: ``w = 1 / (K p(x | parents))`` each.

        Under these weights each of the K values is as frequent, also beside every value of the others, as
        under a uniform intervention on the factor (Horvitz and Thompson 1952). Their mean is 1 up to chance.

        Args:
            names: the factors; None for all that have a table.

        Raises:
            InputError: a factor, or every one, has no table; or there is no positivity: a value that never
                occurs beside some of the others, so that no weight makes up for it.
        """
        if not self.propensity:
            raise InputError(
                "inverse propensity: rules alone state no probabilities; `loaders.inverse_propensity` counts"
            )
        weights = np.ones(len(self.rows))
        for name in self.propensity if names is None else names:
            if name not in self.propensity:
                known = ", ".join(self.propensity)
                raise InputError(f"inverse propensity: expected one of {known}, got `{name}`")
            if not self.positive[name]:
                raise InputError(
                    f"inverse propensity: some value of `{name}` never occurs beside some of what it depends "
                    "on; without positivity no weight makes up for that: lower the strength of its table"
                )
            weights /= self.sizes[name] * self.propensity[name]
        return weights


def select_by_rules(index: FactorIndex, rules: Sequence[Rule]) -> Int[ndarray, " n"]:
    """List the rows that all rules leave.

    Raises:
        InputError: a rule names a factor or value that does not exist, or nothing is left.

    Example:
        >>> from loaders.factors import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> select_by_rules(index, [Rule(when={"color": ["red"]}, then={"size": [1, 2]})])
        array([0, 1, 3, 4, 5])
    """
    everything = index.positions(np.arange(len(index)))
    kept = np.ones(len(index), bool)
    for rule in rules:
        if not rule.when:
            raise InputError("rule: expected values of at least one factor under `when`, got none")
        concerned = _have(index, everything, rule.when)
        kept &= ~(concerned & ~_have(index, everything, rule.then)) if rule.then else ~concerned
    if not kept.any():
        raise InputError("rules: they leave no row of this set")
    return np.flatnonzero(kept)


def select_by_tables(
    index: FactorIndex, tables: Mapping[str, Table], seed: int, keep: Literal["given", "most"] = "given"
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
        >>> from loaders.factors import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("shape", "color"), (("cube", "cone"), ("red", "blue"))))
        >>> table = Table("shape", {"cube": ["red"], "cone": ["blue", "red"]})
        >>> selection = select_by_tables(index, {"color": table}, seed=0, keep="most")
        >>> selection.rows, selection.propensity
        (array([0, 2, 3]), {'color': array([1. , 0.5, 0.5])})
    """
    if not tables:
        raise InputError("tables: expected a table for at least one factor, got none")
    roots = _roots(index, tables)
    positions = index.positions(np.arange(len(index)))
    shares = {name: _shares(index, name, table) for name, table in tables.items()}
    propensity = {name: _look_up(index, name, tables[name], shares[name], positions) for name in tables}
    wanted = np.stack(list(propensity.values())).prod(axis=0)
    cells, in_cell = _counted(index, positions, [*roots, *tables])
    groups, in_group = _counted(index, positions, roots)
    _check_complete(cells, groups, wanted)
    chances = in_group * wanted / in_cell
    most = np.zeros(int(groups.max()) + 1)
    np.maximum.at(most, groups, chances)
    chances /= chances.max() if keep == "given" else most[groups]
    # Where the chance is to be 1, a rounding error must not lose the row.
    lots = Draws(seed, np.arange(len(index))).uniform("select")
    rows = np.flatnonzero((wanted > 0) & (lots < chances + 1e-12))
    return Selection(
        rows,
        {name: column[rows] for name, column in propensity.items()},
        {name: not (share <= 0).any() for name, share in shares.items()},
        {name: index.sizes[index.column(name)] for name in tables},
    )


def _have(
    index: FactorIndex, positions: Int[ndarray, "n k"], values: Mapping[str, Values]
) -> Bool[ndarray, " n"]:
    have = np.ones(len(positions), bool)
    for name, wanted in values.items():
        have &= np.isin(positions[:, index.column(name)], list(_classes(index, name, wanted)))
    return have


def _classes(index: FactorIndex, name: str, values: Values | Mapping[FactorValue, float]) -> dict[int, float]:
    """Number the classes of values, and give each its weight, 1 if none is said."""
    classes = index.classes[index.column(name)]
    if isinstance(values, Between):
        slack = 1e-9 * max(1.0, abs(values.low))
        numbers = [value if isinstance(value, int | float) else math.nan for value in classes.values]
        return {j: 1.0 for j, v in enumerate(numbers) if values.low - slack <= v < values.high - slack}
    weights = values if isinstance(values, Mapping) else dict.fromkeys(values, 1.0)
    return {classes.find(value): weight for value, weight in weights.items()}


def _given(table: Table) -> tuple[str, ...]:
    return (table.given,) if isinstance(table.given, str) else table.given


def _roots(index: FactorIndex, tables: Mapping[str, Table]) -> list[str]:
    """Name the factors that others depend on and that have no table themselves."""
    known = {name for table in tables.values() for name in _given(table)} - tables.keys()
    roots, left = index.names, dict(tables)
    for name in (*known, *tables):
        index.column(name)
    while ready := [name for name, table in left.items() if known.issuperset(_given(table))]:
        known |= set(ready)
        left = {name: table for name, table in left.items() if name not in ready}
    if left:
        raise InputError(f"tables: {', '.join(left)} depend on one another; expected no cycle")
    return [name for name in roots if name in known and name not in tables]


def _shares(index: FactorIndex, name: str, table: Table) -> Float64[ndarray, "..."]:
    """Probability of each value (last axis) beside each combination of the given ones; NaN if not said."""
    if not 0 <= table.strength <= 1:
        raise InputError(f"table of `{name}`: expected a strength in 0..1, got {table.strength}")
    size, parents = index.sizes[index.column(name)], [index.column(parent) for parent in _given(table)]
    shares = np.full((*(index.sizes[j] for j in parents), size), np.nan)
    for key, row in table.table.items():
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(parents):
            raise InputError(f"table of `{name}`: expected a value of each of {_given(table)}, got {key!r}")
        place = tuple(index.classes[j].find(value) for j, value in zip(parents, values, strict=True))
        weights = _classes(index, name, row)
        if -1 in place or -1 in weights:
            raise InputError(f"table of `{name}`, {key!r}: expected values of continuous factors that occur")
        said = np.zeros(size)
        said[list(weights)] = list(weights.values())
        if not (said >= 0).all() or not 0 < said.sum() < math.inf:
            raise InputError(f"table of `{name}`, {key!r}: expected weights of 0 or more, some above 0")
        shares[place] = table.strength * said / said.sum() + (1 - table.strength) / size
    return shares


def _look_up(
    index: FactorIndex,
    name: str,
    table: Table,
    shares: Float64[ndarray, "..."],
    positions: Int[ndarray, "n k"],
) -> Float64[ndarray, " n"]:
    columns = [index.column(factor) for factor in (*_given(table), name)]
    found = shares[tuple(positions[:, columns].T)]
    if np.isnan(found).any():
        values = index.values(int(np.isnan(found).argmax()))
        listed = ", ".join(f"{parent}={values[parent]}" for parent in _given(table))
        raise InputError(f"table of `{name}`: expected a row for every value that occurs; {listed} has none")
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
