"""The interventions of an image set: `do` of the recipe and the set, drawn targets, and counterfactuals.

`candlelight.generators.planning.interventions` says what an intervention is.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.factor_values import values_of
from candlelight.generators.language.factors import Categorical, Continuous, Factor, read_change
from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.language.intervention_fields import Targets
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.random_streams import stream
from candlelight.loaders.errors import InputError, did_you_mean, within
from candlelight.loaders.schema import FactorValue

_MOST_CHOICES = 200  # of targets that are checked when a recipe is read; planning finds the others


@dataclass(frozen=True)
class Intervention:
    """One intervention: changes that are made together, at some steps of a unit.

    Attributes:
        field: the field of the set that states it, such as "do" or "counterfactual.do.0".
        source: the name of its random streams: the field, and the set if that is one of counterfactuals, so
            that two such sets of the same units differ.
        changes: by name, the values that it sets and the mechanisms that it puts in place.
        targets: the field that says how some of the changes are drawn; None if all are made.
        first: first step at which it acts.
        only: the only step at which it acts; None for all.
    """

    field: str
    source: str
    changes: Mapping[str, FactorValue | Factor]
    targets: Targets | None = None
    first: int = 0
    only: int | None = None

    def acts_at(self, step: int) -> bool:
        """Tell whether it acts at a step of a unit."""
        return step >= self.first if self.only is None else step == self.only

    def choices(self) -> Iterator[dict[str, FactorValue | Factor]]:
        """Yield the changes that it may make together; those of many targets first."""
        sizes: Iterable[int] = [len(self.changes)]
        if self.targets is not None:
            chance = self.targets.chance
            number = [self.targets.number or 1]
            sizes = number if chance is None else range(len(self.changes) if chance else 0, -1, -1)
        for size in sizes:
            yield from map(dict, itertools.combinations(self.changes.items(), size))

    def at(self, step: int, seed: int, unit: str) -> dict[str, FactorValue | Factor]:
        """Return the changes at a step of a unit; targets are drawn from a stream of their own."""
        if not self.acts_at(step):
            return {}
        if self.targets is None:
            return dict(self.changes)
        random = stream(seed, unit, f"|{self.source}" + (f"@{step}" if step else ""))
        names = list(self.changes)
        if self.targets.chance is not None:
            chosen = {names[i] for i in (random.random(len(names)) < self.targets.chance).nonzero()[0]}
        else:
            chosen = {names[i] for i in random.permutation(len(names))[: self.targets.number or 1]}
        return {name: change for name, change in self.changes.items() if name in chosen}


def mechanisms_in(changes: Mapping[str, FactorValue | Factor]) -> dict[str, Factor]:
    """Return the mechanisms that an intervention puts in place, without the values that it sets.

    Example:
        >>> mechanisms_in({"color": "red"})
        {}
    """
    return {name: one for name, one in changes.items() if isinstance(one, Categorical | Continuous)}


def check_interventions(recipe: Recipe) -> None:
    """Refuse a recipe whose interventions set values or mechanisms that their factors cannot have.

    Raises:
        InputError: as `set_interventions`; the message names the set.
    """
    for name, image_set in recipe.sets.items():
        if not (recipe.do or image_set.do or image_set.targets or image_set.counterfactual):
            continue
        library = AssetLibrary(recipe.assets)
        with within(f"sets.{name}"):
            for entry in set_interventions(recipe, name, library):
                steps = {0, 1, *(one.only for one in entry if one.only is not None)}
                for step in sorted(step for step in steps if step < image_set.steps):
                    _check_entry(image_set, [one for one in entry if one.acts_at(step)], step == 0)


def _check_entry(image_set: ImageSet, entry: Sequence[Intervention], first: bool) -> None:
    """Refuse mechanisms that close a cycle or have no first step, with any of some choices of targets."""
    possible = itertools.product(*(itertools.islice(one.choices(), _MOST_CHOICES) for one in entry))
    for made in itertools.islice(possible, _MOST_CHOICES):
        before: dict[str, FactorValue | Factor] = {}
        for one, changes in zip(entry, made, strict=True):
            before |= changes
            if mechanisms_in(changes):
                with within(one.field):
                    changed = image_set.intervened(before)
                    if first:
                        changed.at_first_step(before.keys() - mechanisms_in(before).keys())


def set_interventions(
    recipe: Recipe, set_name: str, library: AssetLibrary
) -> tuple[tuple[Intervention, ...], ...]:
    """List the interventions of a set, for each of the samples of a unit and step.

    Later ones take precedence: the set's targets, the recipe's ``do`` and the set's own, and the entry of a
    set of counterfactuals.

    Args:
        recipe: the recipe.
        set_name: the set.
        library: where assets are found.

    Returns:
        For each sample of a unit and step its interventions. A set of samples has one, a set of
        counterfactuals one for each entry of its ``counterfactual.do``.

    Raises:
        InputError: a categorical factor does not have the value, or a number is expected. Numbers may leave
            the range of their factor. Or fields that are no mechanism of the factor.
    """
    image_set = recipe.sets[set_name]
    mechanisms, asked = image_set.mechanisms(), image_set.counterfactual
    start = 0 if image_set.steps == 1 else 1  # of targets
    always = []
    if image_set.targets is not None:
        changes = _read_targets(image_set.targets, "targets.of", mechanisms, library)
        always.append(Intervention("targets", "targets", changes, image_set.targets, start))
    try:
        changes = _read({**recipe.do, **image_set.do}, "do", mechanisms, library)
    except InputError as error:
        remedy = "; `sets.NAME.do` sets a factor of one set alone" if len(recipe.sets) > 1 else ""
        raise InputError(f"{error}{remedy}") from None
    always.append(Intervention("do", "do", changes))
    if asked is None:
        return (tuple(always),)
    if asked.targets is not None:
        changes = _read_targets(asked.targets, "counterfactual.targets.of", mechanisms, library)
        field = "counterfactual.targets"
        entries = [Intervention(field, f"{set_name}.{field}", changes, asked.targets, start, asked.step)]
    else:
        entries = []
        for k, one in enumerate(asked.do or ()):
            field = f"counterfactual.do.{k}"
            changes = _read(one, field, mechanisms, library)
            entries.append(Intervention(field, f"{set_name}.{field}", changes, only=asked.step))
    return tuple((*always, entry) for entry in entries)


def intervened_names(recipe: Recipe, set_name: str, entry: int) -> tuple[str, ...]:
    """Name all that an intervention may change in the samples of an entry, in the order of the metadata.

    Args:
        recipe: the recipe.
        set_name: the set.
        entry: number of the intervention among those of a set of counterfactuals, otherwise 0.
    """
    image_set = recipe.sets[set_name]
    asked = image_set.counterfactual
    names = [*recipe.do, *image_set.do, *(image_set.targets.of if image_set.targets else ())]
    if asked is not None:
        names += asked.targets.of if asked.targets else (asked.do or ())[entry]
    return tuple(dict.fromkeys(name for name in names if name in image_set.mechanisms()))


def _read_targets(
    targets: Targets, field: str, mechanisms: Mapping[str, Factor], library: AssetLibrary
) -> dict[str, FactorValue | Factor]:
    """Read targets: those without a mechanism get a uniform one, and their noise is drawn at each step."""
    given = {name: {} if change is None else change for name, change in targets.of.items()}
    changes = _read(given, field, mechanisms, library)
    for name, change in targets.of.items():
        placed = changes[name]
        parents = (*placed.parents(), *placed.lagged_parents()) if isinstance(placed, Continuous) else ()
        if change is None and parents:
            raise InputError(
                f"{field}.{name}: its range depends on {', '.join(parents)}; state the range of the "
                f'target, as in {name}: "uniform(0, 1)"'
            )
        if isinstance(placed, Categorical | Continuous):
            changes[name] = placed.model_copy(update={"every": "step"})
    return changes


def _read(
    changes: Mapping[str, Any], field: str, mechanisms: Mapping[str, Factor], library: AssetLibrary
) -> dict[str, FactorValue | Factor]:
    """Choose the changes that concern these mechanisms, and check their values."""
    chosen: dict[str, FactorValue | Factor] = {}
    for name in (name for name in changes if name in mechanisms):
        mechanism = mechanisms[name]
        with within(f"{field}.{name}"):
            read = read_change(mechanism, changes[name])
            if isinstance(mechanism, Categorical) and not isinstance(read, Categorical):
                listed = values_of(mechanism, library)
                if read not in listed:
                    known, near = ", ".join(map(str, listed)), did_you_mean(read, listed)
                    raise InputError(f"expected one of {known}, got {read!r}{near}")
                read = listed[listed.index(read)]
        chosen[name] = read
    return chosen
