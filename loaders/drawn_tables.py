"""Tables of what was drawn for the rows of an image set: values, propensities, interventions, causal graph.

They come from the metadata of frames and packs, or from the file of a plan, whose rows have no images yet.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from numpy import ndarray

from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.errors import InputError, argument, blaming, did_you_mean, nearest_file
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import FactorValue

_SURE = 1 - 1e-9  # a probability of 1, up to rounding
_DETERMINED = 1e-3  # an estimated probability as near as this to 0 or 1
_STRATUM = 10  # rows of a stratum, from which on a value that none of them has is said not to occur
_FEWEST = 4  # rows of an interventional set
_SHOWN = 20  # values in a message
_PLANNED = ("factor.", "drawn.", "propensity.", "do.")  # columns of a plan


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """What was drawn for rows of an image set.

    Attributes:
        name: name of the set.
        ids: id of each row.
        units: unit of each row; rows of one unit share their draws.
        values: values of each factor and each hidden variable that all rows have.
        propensities: probability or density of each of them given its parents, by its mechanism.
        interventions: what an intervention set in each row.
        graphs: the causal graph of each set of the data; None where the data have none.
    """

    name: str
    ids: tuple[str, ...]
    units: tuple[str, ...]
    values: Mapping[str, ndarray]
    propensities: Mapping[str, ndarray]
    interventions: tuple[Mapping[str, FactorValue], ...]
    graphs: Mapping[str, CausalGraph | None]

    @property
    def graph(self) -> CausalGraph | None:
        """The causal graph of the set."""
        return self.graphs.get(self.name)

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> ndarray:
        """Look up the values of a factor or hidden variable.

        Raises:
            InputError: the set has none of this name.
        """
        if name not in self.values:
            raise InputError(
                f"set `{self.name}` has no factor or variable `{name}`; expected one of: "
                f"{', '.join(self.values)}{did_you_mean(name, self.values)}"
            )
        return self.values[name]

    def rows_with(self, name: str, text: str) -> Bool[ndarray, " n"]:
        """Tell which rows have a value that is given as a text."""
        column = self.column(name)
        if column.dtype.kind in "US":
            return np.asarray(column == text)
        try:
            return np.asarray(column == float(text))
        except ValueError:
            return np.zeros(len(column), bool)

    def take(self, rows: Sequence[int]) -> "DrawnTable":
        """Choose rows."""
        values = {name: column[list(rows)] for name, column in self.values.items()}
        propensities = {name: column[list(rows)] for name, column in self.propensities.items()}
        ids, units = (tuple(some[row] for row in rows) for some in (self.ids, self.units))
        done = tuple(self.interventions[row] for row in rows)
        return DrawnTable(self.name, ids, units, values, propensities, done, self.graphs)

    def numbers(self, names: Sequence[str]) -> Float64[ndarray, "n k"]:
        """Make numbers of columns: texts become an indicator of each value but the first."""
        parts = [np.zeros((len(self), 0))]
        for name in names:
            column = self.column(name)[:, None]
            parts.append(column == np.unique(column)[1:] if column.dtype.kind in "US" else column)
        return np.concatenate(parts, axis=1).astype(np.float64)

    def strata(self, names: Sequence[str]) -> Iterator[tuple[str, Int[ndarray, " rows"]]]:
        """Yield the rows with equal values of some columns, and these values in words."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(
            zip(self.ids, *(self.column(name).tolist() for name in names), strict=True)
        ):
            found.setdefault(key[1:], []).append(row)
        for key, rows in found.items():
            words = ", ".join(f"{name}={value}" for name, value in zip(names, key, strict=True))
            yield words and f" where {words}", np.array(rows)


class _PlannedRow(NamedTuple):
    """A row of a plan, with the names that metadata have."""

    id: str
    unit: str
    factors: dict[str, FactorValue]
    exogenous: dict[str, FactorValue]
    propensity: dict[str, float]
    intervention: dict[str, FactorValue]


def drawn_table(frames: Frames, rows: Sequence[int]) -> DrawnTable:
    """Read the table of some rows of an image set, from the metadata of each.

    Args:
        frames: frames or a pack.
        rows: row numbers.
    """
    graphs = {name: info.graph for name, info in frames.info.sets.items()}
    return _table(frames.set_name, [frames.metadata(row) for row in rows], graphs)


def planned_tables(path: Path) -> dict[str, DrawnTable]:
    """Read the tables of all sets of a plan that `candlelight plan --out` wrote; older plans have no graphs.

    Raises:
        InputError: the file does not exist, or is no plan.
    """
    from pyarrow import parquet

    if not path.is_file():
        raise InputError(f"{path}: expected a plan, there is none{nearest_file(path)}")
    with blaming(f"{path}: cannot be read as a plan", "expected a file of `candlelight plan --out`"):
        with parquet.ParquetFile(path) as file:
            if missing := {"id", "set", "unit"} - {*file.schema_arrow.names}:
                raise InputError(f"no column `{min(missing)}`")
            columns = [name for name in file.schema_arrow.names if name.startswith(_PLANNED)]
            table = file.read(columns=["id", "set", "unit", *columns])
            if not len(table):
                raise InputError("no rows")
        known = dict(json.loads((table.schema.metadata or {}).get(b"candlelight.graphs", b"{}")))
        graphs = {name: CausalGraph.model_validate(graph) for name, graph in known.items()}
    sets: dict[str, list[_PlannedRow]] = {}
    for row in table.to_pylist():
        parts: dict[str, dict[str, Any]] = {prefix: {} for prefix in _PLANNED}
        for name in columns:
            prefix, _, rest = name.partition(".")
            if row[name] is not None:
                parts[f"{prefix}."][rest] = row[name]
        sets.setdefault(row["set"], []).append(_PlannedRow(row["id"], row["unit"], *parts.values()))
    return {name: _table(name, rows, {**dict.fromkeys(sets), **graphs}) for name, rows in sets.items()}


def interventional_tables(
    observed: DrawnTable,
    treatment: str,
    values: Sequence[str],
    names: Sequence[str],
    open_set: Callable[[str], DrawnTable],
) -> list[DrawnTable]:
    """Find the set under do(treatment = value), and no further intervention, for each of some values.

    Args:
        observed: rows without an intervention on the treatment.
        treatment: the factor or variable that is intervened on.
        values: texts of its values.
        names: the sets, in any order; none looks at all sets that have the treatment.
        open_set: opens a set by its name.

    Raises:
        InputError: a value has no set of four rows or more, or several.
    """
    having = [
        name
        for name, graph in observed.graphs.items()
        if graph is None or (treatment in graph.names and graph.node(treatment).intervened == "all")
    ]
    tables = [open_set(name) for name in names or having if name != observed.name]
    before, found = observed.interventions[0], []
    for value in values:
        fits = [
            one
            for one in tables
            if all({**done} == {**before, treatment: done.get(treatment)} for done in one.interventions)
            and one.rows_with(treatment, value).all()
            and len(one) >= _FEWEST
        ]
        if len(fits) != 1:
            got = ", ".join(one.name for one in fits) or "none"
            raise InputError(
                f"expected one set of {_FEWEST} rows or more under do({treatment} = {value}) alone, got "
                f"{got}; name the sets with {argument('interventions')}"
            )
        found += fits
    return found


def check_observed(table: DrawnTable, treatment: str, values: Sequence[str]) -> None:
    """Refuse rows from which no effect of a treatment can be estimated.

    Args:
        table: the rows.
        treatment: a factor or variable.
        values: texts of the values that are compared.

    Raises:
        InputError: an intervention set the treatment; rows share units; the set has selections; the treatment
            is continuous; no row has one of the values, or one row has both; or see
            `check_recorded_positivity`.
    """
    table.column(treatment)
    if any(treatment in done for done in table.interventions) or len({*table.units}) < len(table):
        raise InputError(
            f"set `{table.name}`: expected an observed set, with rows of different units and without an "
            f"intervention on `{treatment}`"
        )
    graph = table.graph
    if graph is not None and (graph.selections or graph.node(treatment).type == "continuous"):
        what = "the set has selections" if graph.selections else f"`{treatment}` is continuous"
        raise InputError(
            f"{what}; expected a factor with `values`, whose mechanism gives a propensity to each, in a set "
            "without selections"
        )
    for value in values:
        if not table.rows_with(treatment, value).any():
            found = ", ".join(map(str, np.unique(table.column(treatment)).tolist()[:_SHOWN]))
            raise InputError(
                f"`{treatment}` is never {value} in set `{table.name}`; expected two of: {found}"
            )
    if (table.rows_with(treatment, values[0]) & table.rows_with(treatment, values[1])).any():
        raise InputError(f"expected two values of `{treatment}`, got one, as {values[0]} and {values[1]}")
    if treatment in table.propensities:
        check_recorded_positivity(table, treatment, values)


def _table(name: str, rows: Sequence[Any], graphs: Mapping[str, CausalGraph | None]) -> DrawnTable:
    values = _columns([{**row.factors, **row.exogenous} for row in rows])
    for column, numbers in values.items():
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            raise InputError(f"set `{name}`: `{column}`: expected finite numbers, got nan or inf")
    propensities = _columns([row.propensity for row in rows])
    ids, units = tuple(row.id for row in rows), tuple(row.unit for row in rows)
    return DrawnTable(name, ids, units, values, propensities, tuple(row.intervention for row in rows), graphs)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, ndarray]:
    """Turn rows into columns; a name that a row lacks is left out."""
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: np.array([row[name] for row in rows]) for name in names}


def check_recorded_positivity(table: DrawnTable, treatment: str, values: Sequence[str]) -> None:
    """Refuse a treatment of which a value never occurs given its parents, by its mechanism.

    The propensities of the values that occur with some values of the parents add up to 1 where no other value
    can occur.

    Args:
        table: observed rows.
        treatment: a categorical factor or variable.
        values: texts of the values that have to occur.

    Raises:
        InputError: see above.

    Example:
        >>> values = {"toy": np.array(["a", "b"]), "color": np.array(["red", "blue"])}
        >>> propensities = {"color": np.array([1.0, 0.9])}
        >>> table = DrawnTable("toys", ("0", "1"), ("0", "1"), values, propensities, ({}, {}), {})
        >>> check_recorded_positivity(table, "color", ["red", "blue"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: positivity fails: by its mechanism, `color` has a propensity \
of 1 in 1 of 2 rows; lower the strength of the dependence
    """
    column, propensity = table.column(treatment), table.propensities[treatment]
    graph = table.graph
    if graph is None and (propensity >= _SURE).any():
        raise InputError(
            f"positivity fails: by its mechanism, `{treatment}` has a propensity of 1 in "
            f"{int((propensity >= _SURE).sum())} of {len(table)} rows; lower the strength of the dependence"
        )
    for words, rows in table.strata(graph.node(treatment).parents if graph else ()):
        seen = dict(zip(column[rows].tolist(), propensity[rows].tolist(), strict=True))
        for value in values:
            if sum(seen.values()) >= _SURE and not table.rows_with(treatment, value)[rows].any():
                raise InputError(
                    f"positivity fails: by its mechanism, `{treatment}` is never {value}{words}, so that no "
                    "data tell its effect there; give it a probability above 0 there, in the recipe"
                )


def check_estimated_positivity(
    table: DrawnTable,
    treatment: str,
    values: Sequence[str],
    given: Sequence[str],
    propensity: Float64[ndarray, " n"],
) -> None:
    """Refuse a treatment of which a value never occurs in a stratum of the rows, or that the others foretell.

    Args:
        table: observed rows.
        treatment: a categorical factor or variable.
        values: texts of the values that have to occur.
        given: columns whose values form the strata.
        propensity: estimated probability of each row's own value.

    Raises:
        InputError: a stratum of 10 rows or more lacks a value, or a propensity is within 0.001 of 0 or 1.
    """
    for words, rows in table.strata(given):
        for value in values:
            if len(rows) >= _STRATUM and not table.rows_with(treatment, value)[rows].any():
                raise InputError(
                    f"positivity fails: none of {len(rows)} rows{words} has {treatment}={value}; adjust for "
                    "less, or take more rows"
                )
    if given and not ((propensity > _DETERMINED) & (propensity < 1 - _DETERMINED)).all():
        raise InputError(
            f"positivity fails: estimated propensities of `{treatment}` given {', '.join(given)} reach "
            f"{propensity.min():.2g} and {propensity.max():.2g}; adjust for less"
        )
