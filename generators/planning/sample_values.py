"""Give every factor and variable of every sample of an image set its value."""

import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.factor_values import FactorValues
from candlelight.generators.language.factors import Categorical, Continuous, Factor, Rule
from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_interventions import (
    Intervention,
    intervened_names,
    mechanisms_in,
    set_interventions,
)
from candlelight.generators.planning.mechanisms import Mechanisms, mechanisms_of
from candlelight.loaders.errors import InputError, within
from candlelight.loaders.schema import FactorValue, InterventionKind

_MOST_ATTEMPTS = 1000  # draws of one unit that selections may reject
_LARGEST_SET = 10**8  # units of a set, including the units that rules leave out


@dataclass(frozen=True)
class SampleValues:
    """The factor values of one sample before its layout is resolved.

    ``propensities`` gives for each factor and variable the probability (or density) of its value given its
    parents, by its mechanism, before any selection. ``step`` is None in a set without steps.
    """

    index: int
    unit: str
    step: int | None
    values: dict[str, FactorValue]
    propensities: dict[str, float]
    intervention: dict[str, FactorValue]
    intervention_kind: dict[str, InterventionKind]
    counterfactual_of: str | None = None


def sample_id(set_name: str, index: int) -> str:
    """Return the id of a sample.

    Example:
        >>> sample_id("candle", 12)
        'candle-000012'
    """
    return f"{set_name}-{index:06d}"


def factual_set(recipe: Recipe, set_name: str) -> str:
    """Return the set whose units a set has: of a set of counterfactuals its factual set, else the set."""
    asked = recipe.sets[set_name].counterfactual
    return set_name if asked is None else asked.of


def unit_index(image_set: ImageSet, index: int) -> int:
    """Return the index of the unit of a sample; the samples of one unit have consecutive indices."""
    return index // image_set.samples_per_unit


def sample_values(
    recipe: Recipe, set_name: str, library: AssetLibrary, units: Collection[int] | None = None
) -> Iterator[SampleValues]:
    """Yield the factor values of the samples of a set, by index.

    A set of samples has one sample for each unit and step, a set of counterfactuals one for each unit,
    intervention and step.

    Args:
        recipe: the recipe.
        set_name: the set.
        library: where assets are found.
        units: indices of the units to plan, by default all.

    Yields:
        The values of each sample; they do not depend on which other units are planned.

    Raises:
        InputError: a table, rule, expression or intervention that cannot be used, or a set without samples;
            the message names the field.
    """
    image_set, factual = recipe.sets[set_name], factual_set(recipe, set_name)
    mechanisms = mechanisms_of(image_set, library)
    begin = mechanisms_of(image_set.at_first_step(), library)
    entries = set_interventions(recipe, set_name, library)
    names = [intervened_names(recipe, set_name, k) for k in range(len(entries))]
    known: dict[Hashable, Mechanisms] = {}
    for cell, given in _grid_cells(mechanisms, units):
        for unit in range(cell * image_set.draws, (cell + 1) * image_set.draws):
            if units is not None and unit not in units:
                continue
            name = _unit_name(factual, image_set, given, unit)
            attempt = _rejected_draws(recipe.seed, name, begin, given)
            before: FactorValues = {}
            for k, step in itertools.product(range(len(entries)), range(image_set.steps)):
                made = [(one, one.at(step, recipe.seed, name)) for one in entries[k]]
                key = (step == 0, *((one.source, *some) for one, some in made))
                if key not in known:
                    known[key] = _intervened(image_set, made, step == 0, library)
                changed = known[key]
                values, propensities = changed.sample(recipe.seed, name, given, attempt, step, before)
                number = unit * image_set.steps + step
                yield SampleValues(
                    index=(unit * len(entries) + k) * image_set.steps + step,
                    unit=name,
                    step=step if image_set.steps > 1 else None,
                    values=values,
                    propensities=propensities,
                    intervention={one: values[one] for one in names[k] if one in changed.intervened},
                    intervention_kind={
                        one: "soft" if changed.reads[one] else "drawn"
                        for one in names[k]
                        if one in changed.streams
                    },
                    counterfactual_of=None if factual == set_name else sample_id(factual, number),
                )
                before = values


def _intervened(
    image_set: ImageSet,
    made: Sequence[tuple[Intervention, Mapping[str, FactorValue | Factor]]],
    first: bool,
    library: AssetLibrary,
) -> Mechanisms:
    """Return the mechanisms of a step under interventions, each with the changes that it makes there."""
    changes = {name: change for _, some in made for name, change in some.items()}
    by_name = {name: one for one, some in made for name in some}
    placed = mechanisms_in(changes)
    fixed = {name: one for name, one in changes.items() if not isinstance(one, Categorical | Continuous)}
    fields = ", ".join(dict.fromkeys(by_name[name].field for name in placed))
    with within(fields) if placed else nullcontext():
        changed = image_set.intervened(changes)
        changed = changed.at_first_step(fixed) if first else changed
        streams = {name: f"{name}|{by_name[name].source}" for name in placed}
        return mechanisms_of(changed, library, fixed, streams)


def unit_indices(recipe: Recipe, set_name: str, library: AssetLibrary) -> list[int]:
    """List the indices of the units of a set, without drawing any of their values.

    Raises:
        InputError: as `sample_values`.
    """
    mechanisms = mechanisms_of(recipe.sets[set_name], library)
    draws = mechanisms.image_set.draws
    if not any(_exclusions(mechanisms)):
        return list(range(_count_cells(mechanisms) * draws))
    return [cell * draws + draw for cell, _ in _grid_cells(mechanisms, None) for draw in range(draws)]


def count_samples(recipe: Recipe, library: AssetLibrary, sets: Collection[str] | None = None) -> int:
    """Count the samples of all sets, or of some, without drawing any of their values.

    Raises:
        InputError: as `sample_values`, with the name of the set.
    """
    total = 0
    for name, image_set in recipe.sets.items():
        if sets is None or name in sets:
            with within(f"sets.{name}"):
                units = unit_indices(recipe, factual_set(recipe, name), library)
            total += len(units) * image_set.samples_per_unit
    return total


def _exclusions(mechanisms: Mechanisms) -> tuple[list[Rule], list[str]]:
    """List the selections and the factors of a grid by which some of its cells may be impossible."""
    crossed = mechanisms.image_set.crossed()
    rules = [rule for rule in mechanisms.selections if set(rule.exclude) <= set(crossed)]
    # Parents come first, because a table need not have a row for parents that do not occur.
    return rules, [name for name in mechanisms.order if name in crossed and mechanisms.constrained(name)]


def _count_cells(mechanisms: Mechanisms) -> int:
    """Count the cells of the full product, and refuse too many."""
    image_set = mechanisms.image_set
    count = math.prod(len(mechanisms.lists[factor]) for factor in image_set.crossed())
    if count * image_set.draws > _LARGEST_SET:
        raise InputError(
            f"draws: expected at most {_LARGEST_SET:g} samples, got {count} cells x {image_set.draws}"
        )
    return count


def _grid_cells(
    mechanisms: Mechanisms, units: Collection[int] | None
) -> Iterator[tuple[int, dict[str, FactorValue]]]:
    """Yield the possible cells of the grid, each with its number in the full product.

    Interventions do not change which cells are possible, because they act on existing units. With ``units``
    only the cells of these units are yielded; without, an empty grid is refused.
    """
    image_set = mechanisms.image_set
    crossed = image_set.crossed()
    lists = [mechanisms.lists[factor] for factor in crossed]
    count = _count_cells(mechanisms)
    selections, constrained = _exclusions(mechanisms)
    cells: Iterable[tuple[int, tuple[FactorValue, ...]]] = enumerate(itertools.product(*lists))
    if units is not None:
        numbers = sorted({unit // image_set.draws for unit in units})
        cells = ((number, _cell_values(lists, number)) for number in numbers if 0 <= number < count)
    empty = units is None
    for number, values in cells:
        given = dict(zip(crossed, values, strict=True))
        if not any(rule.holds(given) for rule in selections) and all(
            mechanisms.probability(name, given) > 0 for name in constrained
        ):
            empty = False
            yield number, given
    if empty:
        raise InputError("rules: they leave no cell of the grid; expected at least one")


def _cell_values(lists: Sequence[Sequence[FactorValue]], number: int) -> tuple[FactorValue, ...]:
    """Return one cell of the full product of lists, in which the last list changes fastest."""
    places = np.unravel_index(number, [len(listed) for listed in lists])
    return tuple(listed[int(place)] for listed, place in zip(lists, places, strict=True))


def _rejected_draws(seed: int, unit: str, mechanisms: Mechanisms, given: FactorValues) -> int:
    """Count the draws of a unit that selections reject before they accept one.

    Interventions are not applied: selections decide which units exist, and interventions act on these units.
    """
    selections = [rule for rule in mechanisms.selections if not set(rule.exclude) <= given.keys()]
    if not selections:
        return 0
    for attempt in range(_MOST_ATTEMPTS):
        values, _ = mechanisms.sample(seed, unit, given, attempt)
        if not any(rule.holds(values) for rule in selections):
            return attempt
    cell = ", ".join(f"{name}={value}" for name, value in given.items())
    raise InputError(f"rules: the selections left none of {_MOST_ATTEMPTS} draws{cell and ' with ' + cell}")


def _unit_name(set_name: str, image_set: ImageSet, given: FactorValues, index: int) -> str:
    if image_set.unit_factors is None:
        return f"{set_name}/{index:06d}"
    parts = [f"{factor}={given[factor]}" for factor in image_set.unit_factors]
    unit = ",".join([*parts, f"draw={index % image_set.draws}"] if image_set.draws > 1 else parts)
    return unit if image_set.shares_units else f"{set_name}/{unit}"
