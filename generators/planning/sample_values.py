"""The rows of an image set: which units there are, and the value of every factor and variable of each."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from blender_assets import AssetLibrary
from generators.language.factor_values import interventions
from generators.language.image_set import ImageSet
from generators.language.recipe import Recipe
from generators.planning.mechanisms import Mechanisms, Values, mechanisms_of
from loaders.errors import InputError
from loaders.schema import FactorValue

NOTHING_LEFT = "rules: they leave no row of the grid; expected at least one"
ATTEMPTS = 1000  # draws of one row that a selection may throw away
MOST = 10**8  # rows of a set, those that rules leave out among them


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
) -> Iterator[Row]:
    """Yield the rows of a set, by index.

    Args:
        recipe: the recipe.
        set_name: the set.
        library: where assets are found.
        only: indices of the units to list, all by default; of a set of counterfactuals, those it is of.

    Yields:
        The rows; a row does not depend on which others are listed.

    Raises:
        InputError: a table, rule, expression or intervention that cannot be used, or a set without rows; the
            message names the field.
    """
    asked = recipe.sets[set_name].counterfactual
    base_name = set_name if asked is None else asked.of
    mechanisms = mechanisms_of(recipe.sets[base_name], library)
    changes = interventions({**recipe.do, **mechanisms.image_set.do}, "do", mechanisms.image_set, library)
    found = _units(recipe, base_name, mechanisms, changes, only)
    twins = [
        interventions(change, f"counterfactual.do.{k}", mechanisms.image_set, library)
        for k, change in enumerate(asked.do if asked else ())
    ]
    empty = True
    for unit in found:
        empty = False
        if asked is None:
            yield unit.row
        for k, twin in enumerate(twins):
            index = unit.row.index * len(twins) + k
            yield _twin(recipe, base_name, mechanisms, unit, {**changes, **twin}, index)
    if empty and only is None:
        raise InputError(NOTHING_LEFT)


def unit_indices(recipe: Recipe, set_name: str, library: AssetLibrary) -> list[int]:
    """List the indices of the units of a set, without drawing any of their values.

    Raises:
        InputError: as `rows_of`.
    """
    mechanisms = mechanisms_of(recipe.sets[set_name], library)
    draws = mechanisms.image_set.draws
    found = [cell * draws + draw for cell, _ in _cells(mechanisms, None) for draw in range(draws)]
    if not found:
        raise InputError(NOTHING_LEFT)
    return found


def count_rows(recipe: Recipe, library: AssetLibrary) -> int:
    """Count the rows of all sets, without drawing any of their values.

    Raises:
        InputError: as `rows_of`, with the name of the set.
    """
    units: dict[str, int] = {}
    total = 0
    for name, image_set in recipe.sets.items():
        asked = image_set.counterfactual
        if asked is None:
            try:
                units[name] = len(unit_indices(recipe, name, library))
            except InputError as error:
                raise InputError(f"sets.{name}: {error}") from None
        total += units[name] if asked is None else units[asked.of] * len(asked.do)
    return total


@dataclass(frozen=True)
class _Unit:
    row: Row
    given: Values
    attempt: int


def _units(
    recipe: Recipe, name: str, mechanisms: Mechanisms, changes: Values, only: Collection[int] | None
) -> Iterator[_Unit]:
    image_set = mechanisms.image_set
    for cell, given in _cells(mechanisms, only):
        for draw in range(image_set.draws):
            index = cell * image_set.draws + draw
            if only is not None and index not in only:
                continue
            unit = _unit_name(name, image_set, given, index, draw)
            attempt = _accepted(recipe.seed, unit, mechanisms, given)
            values, propensities = mechanisms.sample(recipe.seed, unit, given, changes, attempt)
            yield _Unit(Row(index, unit, values, propensities, dict(changes)), given, attempt)


def _cells(
    mechanisms: Mechanisms, only: Collection[int] | None
) -> Iterator[tuple[int, dict[str, FactorValue]]]:
    """Yield the cells of the grid that exist, with their number in the full product; only those of some rows.

    Which exist does not depend on interventions: those act on the units that there are.
    """
    image_set = mechanisms.image_set
    crossed = image_set.crossed()
    lists = [mechanisms.lists[factor] for factor in crossed]
    count = math.prod(map(len, lists))
    if count * image_set.draws > MOST:
        raise InputError(f"draws: expected at most {MOST:g} rows, got {count} cells x {image_set.draws}")
    selections = [rule for rule in mechanisms.selections if set(rule.exclude) <= set(crossed)]
    # Parents first, so that no mechanism is asked about parents that do not occur.
    asked = [name for name in mechanisms.order if name in crossed and mechanisms.constrained(name)]
    cells: Iterable[tuple[int, tuple[FactorValue, ...]]] = enumerate(itertools.product(*lists))
    if only is not None:
        numbers = sorted({row // image_set.draws for row in only})
        cells = ((number, _cell(lists, number)) for number in numbers if 0 <= number < count)
    for number, values in cells:
        given = dict(zip(crossed, values, strict=True))
        if not any(rule.holds(given) for rule in selections) and all(
            mechanisms.probability(name, given) > 0 for name in asked
        ):
            yield number, given


def _cell(lists: Sequence[Sequence[FactorValue]], number: int) -> tuple[FactorValue, ...]:
    """Return one cell of the full product of lists, the last of which is fastest."""
    values = []
    for listed in reversed(lists):
        number, place = divmod(number, len(listed))
        values.append(listed[place])
    return tuple(reversed(values))


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
    if image_set.unit_factors is None:
        return f"{name}/{index:06d}"
    parts = [f"{factor}={given[factor]}" for factor in image_set.unit_factors]
    unit = ",".join([*parts, f"draw={draw}"] if image_set.draws > 1 else parts)
    return unit if image_set.shares_units else f"{name}/{unit}"
