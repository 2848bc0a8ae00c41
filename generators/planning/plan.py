"""Plans: every number of every sample, fixed before a pixel is rendered and without Blender."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from blender_assets import AssetLibrary
from generators.language.factor_values import spell_out
from generators.language.image_set import ImageSet
from generators.language.load_recipe import revise
from generators.language.recipe import Recipe
from generators.language.set_settings import light_names
from generators.planning.packed_samples import PackedSamples, Packer
from generators.planning.provenance import group_id, used_assets
from generators.planning.sample_values import Row, rows_of, sample_id, unit_indices
from generators.random_streams import stream
from generators.scenes.layout_inputs import LayoutInputs
from generators.scenes.resolve_trace import resolve
from generators.scenes.scene import SamplePlan
from loaders.errors import InputError
from loaders.schema import AssetRecord, FactorValue


@dataclass(frozen=True)
class Plan:
    """The samples of a recipe, in order.

    Attributes:
        recipe: the recipe that it was made from.
        samples: one row per sample, unpacked when it is read; each names the trace group that it is rendered
            with. Membership of a group is fixed here, before any filter, limit or shard.
        assets: the files that show in its pictures, as they were when it was made; of a part of a plan, those
            of the whole.
    """

    recipe: Recipe
    samples: PackedSamples
    assets: tuple[AssetRecord, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def groups(self) -> dict[str, PackedSamples]:
        """Samples by trace group, in order of appearance."""
        groups: dict[str, list[int]] = {}
        for row, key in enumerate(self.samples.keys):
            groups.setdefault(key.group, []).append(row)
        return {name: self.samples.take(rows) for name, rows in groups.items()}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {key.id: row for row, key in enumerate(self.samples.keys)}

    def __getitem__(self, sample: str) -> "Plan":
        """Return the plan of one sample, by its id.

        Raises:
            InputError: there is none of that id.
        """
        if sample not in self._rows:
            some = ", ".join([*self._rows][:3]) or sample_id(next(iter(self.recipe.sets)), 0)
            raise InputError(f"sample `{sample}` is not in the plan; expected an id such as {some}")
        return replace(self, samples=self.samples.take([self._rows[sample]]))

    def limit(self, count: int) -> "Plan":
        """Keep ``count`` samples of each set, spread over it at random but always the same ones.

        Of a set of counterfactuals, those of the samples kept.

        Raises:
            InputError: not 1 <= count.
        """
        chosen: dict[str, set[int]] = {}
        kept: list[int] = []
        for name, image_set in self.recipe.sets.items():
            base = name if image_set.counterfactual is None else image_set.counterfactual.of
            if base not in chosen:
                chosen[base] = _choose(self.recipe, base, self._units(base), count)
            kept += [
                row
                for row, key in enumerate(self.samples.keys)
                if key.set == name and _unit_index(image_set, key.index) in chosen[base]
            ]
        return replace(self, samples=self.samples.take(kept))

    def _units(self, base: str) -> list[int]:
        """List the indices of the units of a set: of its samples, or of their counterfactuals alone."""
        sets = self.recipe.sets
        own = [key.index for key in self.samples.keys if key.set == base]
        twins = (
            _unit_index(sets[key.set], key.index)
            for key in self.samples.keys
            if (asked := sets[key.set].counterfactual) is not None and asked.of == base
        )
        return own or sorted(set(twins))

    def shard(self, index: int, count: int) -> "Plan":
        """Keep every ``count``-th trace group, from the ``index``-th on (1-based): groups stay whole.

        Raises:
            InputError: not 1 <= index <= count.
        """
        if not 1 <= index <= count:
            raise InputError(f"--shard: expected I/N with 1 <= I <= N, got {index}/{count}")
        groups = dict.fromkeys(key.group for key in self.samples.keys)
        mine = set(itertools.islice(groups, index - 1, None, count))
        return replace(self, samples=self.samples.where(lambda key: key.group in mine))


def make_plan(
    recipe: Recipe, limit: int | None = None, advance: Callable[[int], object] = lambda planned: None
) -> Plan:
    """Plan every sample of a recipe: draw what is drawn, resolve the layout, group what shares a trace.

    Needs no Blender, and depends on the recipe alone.

    Args:
        recipe: the recipe.
        limit: plan only so many samples of each set, spread over it at random but always the same ones, and
            all their counterfactuals.
        advance: called with the number of samples planned since its last call, for a progress bar.

    Returns:
        The plan, sets in the recipe's order, samples by index.

    Raises:
        InputError: an asset that does not exist, a value out of range, no room for an object; the message
            names the set and the field.

    Example:
        >>> from generators.language.load_recipe import load_recipe
        >>> plan = make_plan(load_recipe("negatives", ["sets.negatives.draws=3"]))
        >>> [sample.id for sample in plan.samples]
        ['negatives-000000', 'negatives-000001', 'negatives-000002']
    """
    library = AssetLibrary(recipe.assets)
    recipe = spell_out(recipe, library)
    return new_plan(recipe, _planned(recipe, limit, library, advance), library)


def _planned(
    recipe: Recipe, limit: int | None, library: AssetLibrary, advance: Callable[[int], object]
) -> Iterator[SamplePlan]:
    """Plan the samples of all sets, one after another."""
    chosen: dict[str, set[int]] = {}
    for name, image_set in recipe.sets.items():
        try:
            light_names(recipe, name)
            if limit is not None and image_set.counterfactual is None:
                chosen[name] = _choose(recipe, name, unit_indices(recipe, name, library), limit)
            base = name if image_set.counterfactual is None else image_set.counterfactual.of
            only = None if limit is None else chosen[base]
            for sample in resolve_rows(recipe, name, rows_of(recipe, name, library, only), library):
                yield sample
                advance(1)
        except InputError as error:
            raise InputError(f"sets.{name}: {error}") from None


def plan_samples(recipe: Recipe, ids: Collection[str]) -> Plan:
    """Plan the samples of these ids alone, which is much faster than to plan all and choose.

    Args:
        recipe: the recipe.
        ids: ids of samples; those that there are not are left out.

    Raises:
        InputError: as `make_plan`.

    Example:
        >>> from generators.language.load_recipe import load_recipe
        >>> plan_samples(load_recipe("candle"), ["candle-003541"]).samples[0].factors["color"]
        'blue'
    """
    library = AssetLibrary(recipe.assets)
    recipe = spell_out(recipe, library)
    samples: list[SamplePlan] = []
    for name, image_set in recipe.sets.items():
        asked = (one.rpartition("-") for one in ids)
        units = {_unit_index(image_set, int(i)) for base, _, i in asked if base == name and i.isdecimal()}
        try:
            planned = resolve_rows(recipe, name, rows_of(recipe, name, library, units), library)
            samples += (sample for sample in planned if sample.id in ids)
        except InputError as error:
            raise InputError(f"sets.{name}: {error}") from None
    return new_plan(recipe, samples, library)


def new_plan(recipe: Recipe, samples: Iterable[SamplePlan], library: AssetLibrary) -> Plan:
    """Put a plan together, and note the assets that it needs as they are now."""
    packer = Packer()
    assets = used_assets((packer.add(sample).trace for sample in samples), library)
    return Plan(recipe, packer.finish(), assets)


def _choose(recipe: Recipe, name: str, indices: Sequence[int], count: int) -> set[int]:
    """Choose ``count`` of the indices at random, but always the same ones."""
    if count < 1:
        raise InputError(f"--limit: expected at least 1 sample of each set, got {count}")
    order = stream(recipe.seed, name, "limit").permutation(len(indices))[:count]
    return {indices[i] for i in order}


def _unit_index(image_set: ImageSet, index: int) -> int:
    return index if image_set.counterfactual is None else index // len(image_set.counterfactual.do)


def condition(plan: Plan, /, **values: FactorValue | Collection[FactorValue]) -> Plan:
    """Select the samples whose factors have the given values: conditioning, not intervention.

    Args:
        plan: the plan.
        values: factor to its value, or to several that are all kept.

    Returns:
        The plan of those samples; ids, groups and numbers are as they were.

    Raises:
        InputError: no set has such a factor, or no sample is left.

    Example:
        >>> from generators.language.load_recipe import load_recipe
        >>> plan = make_plan(load_recipe("candle", ["sets.candle.factors.rotation.values=[0]"]))
        >>> len(plan), len(condition(plan, scene="garden", color=["red", "blue"]))
        (3600, 90)
    """
    wanted = {
        k: v if isinstance(v, Collection) and not isinstance(v, str) else (v,) for k, v in values.items()
    }
    for name in wanted:
        if not any(name in image_set.factors for image_set in plan.recipe.sets.values()):
            raise InputError(f"condition: `{name}` is no factor of any set of `{plan.recipe.name}`")
    kept = [
        row
        for row, sample in enumerate(plan.samples)
        if all(name in sample.factors and sample.factors[name] in some for name, some in wanted.items())
    ]
    if not kept:
        raise InputError(f"condition: no sample of `{plan.recipe.name}` has {dict(values)}")
    return replace(plan, samples=plan.samples.take(kept))


def do(recipe: Recipe, /, *sets: str, **values: FactorValue) -> Recipe:
    """Intervene: replace the mechanism of factors by a value, and keep every exogenous draw.

    Args:
        recipe: the recipe.
        sets: names of the sets to intervene in, and in their counterfactuals; by default all that have the
            factors.
        values: factor to the value that it is set to.

    Returns:
        The recipe of the intervened population: as many samples with the same ids, units and draws, in each
        of which the factors have these values.

    Raises:
        InputError: no such set, no set has such a factor, or one of them lacks the value.

    Example:
        >>> from generators.language.load_recipe import load_recipe
        >>> plan = make_plan(do(load_recipe("negatives", ["sets.negatives.draws=9"]), count=1))
        >>> {sample.factors["count"] for sample in plan.samples}
        {1}
    """
    if not sets:
        return revise(recipe, do={**recipe.do, **values})
    plain = [name for name, image_set in recipe.sets.items() if image_set.counterfactual is None]
    for name in sets:
        if name not in plain:
            raise InputError(f"do: expected names of sets of samples ({', '.join(plain)}), got `{name}`")
    data = recipe.model_dump(exclude_unset=True)["sets"]
    for name, image_set in recipe.sets.items():
        if (name if image_set.counterfactual is None else image_set.counterfactual.of) in sets:
            data[name]["do"] = {**image_set.do, **values}
    return revise(recipe, sets=data)


def resolve_rows(
    recipe: Recipe, name: str, rows: Iterable[Row], library: AssetLibrary
) -> Iterator[SamplePlan]:
    """Resolve the layout of each row."""
    image_set = recipe.sets[name]
    for row in rows:
        lights, gain, trace = resolve(
            image_set.layout, LayoutInputs(recipe.seed, row.unit, row.values), library
        )
        yield SamplePlan(
            id=sample_id(name, row.index),
            set=name,
            index=row.index,
            unit=row.unit,
            group=group_id(name, trace, library),
            factors={factor: row.values[factor] for factor in image_set.factors},
            exogenous={variable: row.values[variable] for variable in image_set.variables},
            intervention=row.intervention,
            propensity={factor: row.propensities[factor] for factor in image_set.mechanisms()},
            counterfactual_of=row.counterfactual_of,
            lights=lights,
            gain=gain,
            trace=trace,
        )
