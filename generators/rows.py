"""The rows of an image set: which units there are, and the value of every factor and variable of each."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from blender_assets import AssetLibrary
from generators.factors import Categorical
from generators.mechanisms import Mechanisms, Values, mechanisms_of
from generators.recipe import ImageSet, Recipe
from loaders.errors import InputError
from loaders.schema import FactorValue

NOTHING_LEFT = "rules: they leave no row of the grid; expected at least one"
ATTEMPTS = 1000  # draws of one row that a selection may throw away


@dataclass(frozen=True)
class Row:
    """One sample before its layout is resolved.

    ``propensities`` gives for each factor and variable the probability (or density) of its value given its
    parents, by its mechanism, before any selection.
    """

    index: int
    unit: str
    values: dict[str, FactorValue]
    propensities: dict[str, float]
    intervention: dict[str, FactorValue]
    counterfactual_of: str | None = None


def sample_id(set_name: str, index: int) -> str:
    """Return the id of a sample.

    Example:
        >>> sample_id("candle", 12)
        'candle-000012'
    """
    return f"{set_name}-{index:06d}"


def rows_of(
    recipe: Recipe, set_name: str, library: AssetLibrary, only: Collection[int] | None = None
) -> list[Row]:
    """List the rows of a set, by index.

    Args:
        recipe: the recipe.
        set_name: the set.
        library: where assets are found.
        only: indices of the units to list, all by default; of a set of counterfactuals, those it is of.

    Returns:
        The rows; a row does not depend on which others are listed.

    Raises:
        InputError: a table, rule, expression or intervention that cannot be used, or a set without rows; the
            message names the field.
    """
    asked = recipe.sets[set_name].counterfactual
    base_name = set_name if asked is None else asked.of
    mechanisms = mechanisms_of(recipe.sets[base_name], library)
    changes = _allowed(recipe.do, "do", mechanisms)
    found = _units(recipe, base_name, mechanisms, changes, only)
    if asked is None:
        rows = [unit.row for unit in found]
    else:
        twins = [_allowed(change, f"counterfactual.do.{k}", mechanisms) for k, change in enumerate(asked.do)]
        rows = [
            _twin(recipe, base_name, mechanisms, unit, {**changes, **twin}, unit.row.index * len(twins) + k)
            for unit in found
            for k, twin in enumerate(twins)
        ]
    if not rows:
        raise InputError(NOTHING_LEFT)
    return rows


def unit_indices(recipe: Recipe, set_name: str, library: AssetLibrary) -> list[int]:
    """List the indices of the units of a set, without drawing any of their values.

    Raises:
        InputError: as `rows_of`.
    """
    mechanisms = mechanisms_of(recipe.sets[set_name], library)
    changes = _allowed(recipe.do, "do", mechanisms)
    draws = mechanisms.image_set.draws
    found = [cell * draws + draw for cell, _ in _cells(mechanisms, changes) for draw in range(draws)]
    if not found:
        raise InputError(NOTHING_LEFT)
    return found


@dataclass(frozen=True)
class _Unit:
    row: Row
    given: Values
    attempt: int


def _units(
    recipe: Recipe, name: str, mechanisms: Mechanisms, changes: Values, only: Collection[int] | None
) -> Iterator[_Unit]:
    image_set = mechanisms.image_set
    for cell, given in _cells(mechanisms, changes):
        for draw in range(image_set.draws):
            index = cell * image_set.draws + draw
            if only is not None and index not in only:
                continue
            unit = _unit_name(name, image_set, given, index, draw)
            attempt = _accepted(recipe.seed, unit, mechanisms, given)
            values, propensities = mechanisms.sample(recipe.seed, unit, given, changes, attempt)
            yield _Unit(Row(index, unit, values, propensities, dict(changes)), given, attempt)


def _cells(mechanisms: Mechanisms, changes: Values) -> Iterator[tuple[int, dict[str, FactorValue]]]:
    """Yield the cells of the grid that exist, with their number in the full product."""
    crossed = mechanisms.image_set.crossed()
    cells = itertools.product(*(mechanisms.lists[factor] for factor in crossed))
    for cell, values in enumerate(cells):
        given = dict(zip(crossed, values, strict=True))
        if not _left_out(mechanisms, given, changes):
            yield cell, given


def _left_out(mechanisms: Mechanisms, given: Values, changes: Values) -> bool:
    """Say whether a cell of the grid does not exist.

    A selection asks what the cell was made with. A mechanism asks how it is, interventions included: it has
    no say over a factor that one of them has set.
    """
    if any(set(rule.exclude) <= given.keys() and rule.holds(given) for rule in mechanisms.selections):
        return True
    if not any(mechanisms.graph[name] for name in given) and not mechanisms.image_set.rules:
        return False
    set_so = {**given, **{name: value for name, value in changes.items() if name in given}}
    for name, value in given.items():
        if name not in changes:
            probabilities = mechanisms.probabilities(name, set_so)
            if probabilities[mechanisms.lists[name].index(value)] == 0:
                return True
    return False


def _accepted(seed: int, unit: str, mechanisms: Mechanisms, given: Values) -> int:
    """Count the draws of a row that the selections throw away before one is kept.

    Interventions are not applied: a selection decides which units there are, an intervention acts on those.
    """
    asked = [rule for rule in mechanisms.selections if not set(rule.exclude) <= given.keys()]
    if not asked:
        return 0
    for attempt in range(ATTEMPTS):
        values, _ = mechanisms.sample(seed, unit, given, {}, attempt)
        if not any(rule.holds(values) for rule in asked):
            return attempt
    cell = ", ".join(f"{name}={value}" for name, value in given.items())
    raise InputError(f"rules: the selections left none of {ATTEMPTS} draws{cell and ' with ' + cell}")


def _twin(recipe: Recipe, base: str, mechanisms: Mechanisms, unit: _Unit, changes: Values, index: int) -> Row:
    """Return the counterfactual of a unit: its exogenous draws, the changes, and what follows from them."""
    values, propensities = mechanisms.sample(recipe.seed, unit.row.unit, unit.given, changes, unit.attempt)
    twin_of = sample_id(base, unit.row.index)
    return Row(index, unit.row.unit, values, propensities, dict(changes), twin_of)


def _unit_name(name: str, image_set: ImageSet, given: Values, index: int, draw: int) -> str:
    if image_set.unit is None:
        return f"{name}/{index:06d}"
    parts = [f"{factor}={given[factor]}" for factor in image_set.unit]
    return ",".join([*parts, f"draw={draw}"] if image_set.draws > 1 else parts)


def _allowed(changes: Values, field: str, mechanisms: Mechanisms) -> dict[str, FactorValue]:
    """Check the interventions that concern a set; they may leave a range, but a category must exist."""
    allowed: dict[str, FactorValue] = {}
    for name, value in changes.items():
        mechanism = mechanisms.image_set.mechanisms().get(name)
        if isinstance(mechanism, Categorical):
            listed = mechanisms.lists[name]
            if value not in listed:
                known = ", ".join(map(str, listed))
                raise InputError(f"{field}.{name}: expected one of {known}, got {value!r}")
            allowed[name] = listed[listed.index(value)]
        elif mechanism is not None:
            if isinstance(value, str):
                raise InputError(f"{field}.{name}: expected a number, got {value!r}")
            allowed[name] = float(value)
    return allowed
