"""Plan the samples of a recipe: fix every number of every sample before rendering, without Blender."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.factor_values import allow_passed_code, fill_in_labels
from candlelight.generators.language.layout import Scene
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import light_names
from candlelight.generators.planning.planned_samples import PlannedSamples, SampleCompressor
from candlelight.generators.planning.provenance import group_id, used_assets
from candlelight.generators.planning.repeat_scenes import check_scene_function
from candlelight.generators.planning.sample_values import (
    factual_set,
    sample_id,
    sample_values,
    unit_index,
    unit_indices,
)
from candlelight.generators.random_streams import stream
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.plan_records import SamplePlan, Trace
from candlelight.generators.scenes.resolve_trace import resolve
from candlelight.generators.scenes.run_scene import SceneMaker
from candlelight.loaders.errors import InputError, argument, did_you_mean, within
from candlelight.loaders.schema import AssetRecord, LightRecord, Vector


@dataclass(frozen=True)
class Plan:
    """The planned samples of a recipe, in order.

    Attributes:
        recipe: the recipe that the plan was made from.
        samples: the planned samples. Each names its trace group: the samples that share one trace. Groups are
            fixed here, before any filter, limit or shard.
        assets: the asset files that are visible in the images, with their content when the plan was made; a
            part of a plan has those of the whole plan.
    """

    recipe: Recipe
    samples: PlannedSamples
    assets: tuple[AssetRecord, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def groups(self) -> dict[str, PlannedSamples]:
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
            InputError: the plan has no sample of that id.
        """
        if sample not in self._rows:
            raise InputError(f"sample `{sample}` is not in the plan; expected {self._some_ids(sample)}")
        return replace(self, samples=self.samples.take([self._rows[sample]]))

    def _some_ids(self, wrong: str) -> str:
        """Name ids that exist, of the same set as a wrong id where possible."""
        name = wrong.rpartition("-")[0]
        if rows := [*self._rows]:
            some = [row for row in rows if row.rpartition("-")[0] == name] or rows
            return f"an id such as {', '.join(some[:3])}"
        name = name if name in self.recipe.sets else next(iter(self.recipe.sets))
        image_set = self.recipe.sets[name]
        if image_set.counterfactual is not None:
            return f"an id such as {sample_id(name, 0)}"
        units = unit_indices(self.recipe, name, AssetLibrary(self.recipe.assets))
        last = (units[-1] + 1) * image_set.steps - 1
        return f"an id from {sample_id(name, units[0] * image_set.steps)} to {sample_id(name, last)}"

    def of_set(self, *names: str) -> "Plan":
        """Keep the samples of one image set, or of several. Trace groups lie within one set and stay whole.

        Raises:
            InputError: the plan has no samples of such a set.
        """
        check_sets(names, dict.fromkeys(key.set for key in self.samples.keys), "the plan")
        return replace(self, samples=self.samples.where(lambda key: key.set in names))

    def limit(self, count: int) -> "Plan":
        """Keep ``count`` samples (of sequences: units) of each set, chosen at random but always the same.

        A set of counterfactuals keeps the counterfactuals of the samples kept.

        Raises:
            InputError: not 1 <= count.
        """
        sets = {name: factual_set(self.recipe, name) for name in self.recipe.sets}
        chosen = {
            name: _choose(self.recipe, name, self._units(name), count)
            for name in dict.fromkeys(sets.values())
        }
        return replace(
            self,
            samples=self.samples.where(
                lambda key: unit_index(self.recipe.sets[key.set], key.index) in chosen[sets[key.set]]
            ),
        )

    def _units(self, factual: str) -> list[int]:
        """List the indices of the units of a set, whose samples or counterfactuals are here."""
        sets = self.recipe.sets
        return sorted(
            {
                unit_index(sets[key.set], key.index)
                for key in self.samples.keys
                if factual_set(self.recipe, key.set) == factual
            }
        )

    def shard(self, index: int, count: int) -> "Plan":
        """Keep every ``count``-th trace group, from the ``index``-th on (1-based); groups stay whole.

        Raises:
            InputError: not 1 <= index <= count.
        """
        if not 1 <= index <= count:
            raise InputError(f"{argument('shard')}: expected I/N with 1 <= I <= N, got {index}/{count}")
        groups = dict.fromkeys(key.group for key in self.samples.keys)
        mine = set(itertools.islice(groups, index - 1, None, count))
        return replace(self, samples=self.samples.where(lambda key: key.group in mine))


def check_recipe(recipe: object) -> None:
    """Refuse what is no recipe, such as the name of one."""
    if not isinstance(recipe, Recipe):
        remedy = f"; load it: load_recipe({str(recipe)!r})" if isinstance(recipe, str | PurePath) else ""
        raise InputError(f"expected a recipe, got {_given(recipe)}{remedy}")


def check_plan(plan: object) -> None:
    """Refuse what is no plan, such as a recipe or its name."""
    if not isinstance(plan, Plan):
        raise InputError(f"expected a plan of make_plan, got {_given(plan)}; plan it: make_plan(recipe)")


def _given(value: object) -> str:
    """Name a value of a wrong type for a message: a text as it is, anything else by its type."""
    if isinstance(value, str | PurePath):
        return repr(str(value))
    return f"the recipe {value.name!r}" if isinstance(value, Recipe) else type(value).__name__


def check_sets(names: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse names of image sets that are not known, and an empty list of names."""
    for name in names or [""]:
        if name not in known:
            raise InputError(
                f"set `{name}` is not in {where}; expected one of: {', '.join(known) or 'none'}"
                f"{did_you_mean(name, known)}"
            )


def make_plan(
    recipe: Recipe,
    limit: int | None = None,
    advance: Callable[[int], object] = lambda planned: None,
    sets: Collection[str] | None = None,
) -> Plan:
    """Plan every sample of a recipe: draw its factors, resolve its layout, and assign its trace group.

    Planning needs no Blender, and depends on nothing but the recipe and the assets that it names.

    Args:
        recipe: the recipe.
        limit: number of samples of each set to plan (of sequences: units), chosen at random but always the
            same ones, with all their counterfactuals; by default all samples.
        advance: called with the number of samples planned since its last call, for a progress bar.
        sets: image sets to plan, whose samples are those of the whole plan; by default all sets.

    Returns:
        The plan, with sets in the recipe's order and samples by index.

    Raises:
        InputError: no recipe, an asset that does not exist, a value out of range, no room for an object, an
            unknown set; the message names the set and the field.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> plan = make_plan(load_recipe("negatives", ["sets.negatives.draws=3"]))
        >>> [sample.id for sample in plan.samples]
        ['negatives-000000', 'negatives-000001', 'negatives-000002']
    """
    check_recipe(recipe)
    recipe, library = _with_library(recipe)
    if sets is not None:
        check_sets(sets, recipe.sets, "the recipe")
    wanted = [name for name in recipe.sets if sets is None or name in sets]
    return new_plan(recipe, _planned(recipe, wanted, limit, library, advance), library)


def _with_library(recipe: Recipe) -> tuple[Recipe, AssetLibrary]:
    """Return the recipe with what its files say, and the library of its assets."""
    recipe = allow_passed_code(recipe)
    library = AssetLibrary(recipe.assets)
    return fill_in_labels(recipe, library), library


def _planned(
    recipe: Recipe,
    sets: Iterable[str],
    limit: int | None,
    library: AssetLibrary,
    advance: Callable[[int], object],
) -> Iterator[SamplePlan]:
    """Plan the samples of some sets, one set after another."""
    chosen: dict[str, set[int]] = {}
    for name in sets:
        with within(f"sets.{name}"):
            light_names(recipe, name)
            if recipe.sets[name].scene is not None:
                check_scene_function(recipe, name, library)
            factual = factual_set(recipe, name)
            if limit is not None and factual not in chosen:
                chosen[factual] = _choose(recipe, factual, unit_indices(recipe, factual, library), limit)
            for sample in plan_set(recipe, name, library, chosen.get(factual)):
                yield sample
                advance(1)


def plan_samples(recipe: Recipe, ids: Collection[str]) -> Plan:
    """Plan only the samples with the given ids, much faster than planning all samples.

    Args:
        recipe: the recipe.
        ids: ids of samples; unknown ids are ignored.

    Raises:
        InputError: as `make_plan`.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> plan_samples(load_recipe("candle"), ["candle-003541"]).samples[0].factors["color"]
        'blue'
    """
    recipe, library = _with_library(recipe)
    samples: list[SamplePlan] = []
    for name, image_set in recipe.sets.items():
        split = (id.rpartition("-") for id in ids)
        units = {
            unit_index(image_set, int(i)) for set_name, _, i in split if set_name == name and i.isdecimal()
        }
        with within(f"sets.{name}"):
            samples += (sample for sample in plan_set(recipe, name, library, units) if sample.id in ids)
    return new_plan(recipe, samples, library)


def whole_units(plan: Plan) -> Plan:
    """Return the plan with all steps of the units of its samples; without steps it is the plan itself.

    Raises:
        InputError: as `make_plan`.
    """
    steps = {name: image_set.steps for name, image_set in plan.recipe.sets.items()}
    if set(steps.values()) == {1}:
        return plan
    starts = {(key.set, key.index - key.index % steps[key.set]) for key in plan.samples.keys}
    return plan_samples(
        plan.recipe, [sample_id(name, start + i) for name, start in starts for i in range(steps[name])]
    )


def plan_set(
    recipe: Recipe, name: str, library: AssetLibrary, units: Collection[int] | None = None
) -> Iterator[SamplePlan]:
    """Plan the samples of one set, by index.

    Args:
        recipe: the recipe.
        name: the set.
        library: where assets are found.
        units: indices of the units to plan, by default all.

    Raises:
        InputError: as `make_plan`; the message names the field.
    """
    image_set = recipe.sets[name]
    maker = None if image_set.scene is None else SceneMaker(image_set.scene, library)
    for drawn in sample_values(recipe, name, library, units):
        values = drawn.values
        inputs, id = LayoutInputs(recipe.seed, drawn.unit, values, library), sample_id(name, drawn.index)
        lights, gain, trace = _resolve(image_set.layout or maker, inputs, id)
        yield SamplePlan(
            id=id,
            set=name,
            index=drawn.index,
            unit=drawn.unit,
            step=drawn.step,
            group=group_id(name, trace, library),
            factors={factor: values[factor] for factor in image_set.factors},
            exogenous={variable: values[variable] for variable in image_set.variables},
            intervention=drawn.intervention,
            intervention_kind=drawn.intervention_kind,
            propensity={factor: drawn.propensities[factor] for factor in image_set.mechanisms()},
            counterfactual_of=drawn.counterfactual_of,
            lights=lights,
            gain=gain,
            trace=trace,
        )


def _resolve(
    source: Scene | SceneMaker | None, inputs: LayoutInputs, sample: str
) -> tuple[tuple[LightRecord, ...], Vector, Trace]:
    """Resolve the layout of a sample, which the recipe states or a scene function makes."""
    if isinstance(source, SceneMaker):
        layout = source.layout(inputs, sample)
        with within(source.where(sample)):
            return resolve(layout, inputs)
    assert source is not None
    return resolve(source, inputs)


def new_plan(recipe: Recipe, samples: Iterable[SamplePlan], library: AssetLibrary) -> Plan:
    """Make a plan of samples, and record the assets that it needs with their present content."""
    compressor = SampleCompressor()
    assets = used_assets((compressor.add(sample).trace for sample in samples), library)
    return Plan(recipe, compressor.finish(), assets)


def _choose(recipe: Recipe, name: str, indices: Sequence[int], count: int) -> set[int]:
    """Choose ``count`` of the indices at random, but always the same ones."""
    if count < 1:
        raise InputError(f"{argument('limit')}: expected at least 1 sample of each set, got {count}")
    order = stream(recipe.seed, name, "limit").permutation(len(indices))[:count]
    return {indices[i] for i in order}
