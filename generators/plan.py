"""Plans: every number of every sample, fixed before a pixel is rendered and without Blender."""

import hashlib
import itertools
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from blender_assets import AssetLibrary
from generators.layout import Draws
from generators.load import revise
from generators.recipe import Categorical, Continuous, Factor, ImageSet, Recipe
from generators.resolve import resolve
from generators.scene import SamplePlan, Trace
from generators.settings import light_names, values_of
from generators.streams import stream
from loaders.errors import InputError
from loaders.schema import FactorValue


@dataclass(frozen=True)
class Plan:
    """The samples of a recipe, in order.

    Attributes:
        recipe: the recipe that it was made from.
        samples: one row per sample; each names the trace group that it is rendered with. Membership of a
            group is fixed here, before any filter, limit or shard.
    """

    recipe: Recipe
    samples: tuple[SamplePlan, ...]

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def groups(self) -> dict[str, tuple[SamplePlan, ...]]:
        """Samples by trace group, in order of appearance."""
        groups: dict[str, list[SamplePlan]] = {}
        for sample in self.samples:
            groups.setdefault(sample.group, []).append(sample)
        return {name: tuple(members) for name, members in groups.items()}

    def limit(self, count: int) -> "Plan":
        """Keep ``count`` samples of each set, spread over it at random but always the same ones.

        Raises:
            InputError: not 1 <= count.
        """
        if count < 1:
            raise InputError(f"--limit: expected at least 1 sample of each set, got {count}")
        kept: list[SamplePlan] = []
        for name in self.recipe.sets:
            rows = [sample for sample in self.samples if sample.set == name]
            order = stream(self.recipe.seed, name, "limit").permutation(len(rows))[:count]
            kept += [rows[i] for i in sorted(order)]
        return replace(self, samples=tuple(kept))

    def shard(self, index: int, count: int) -> "Plan":
        """Keep every ``count``-th trace group, from the ``index``-th on (1-based): groups stay whole.

        Raises:
            InputError: not 1 <= index <= count.
        """
        if not 1 <= index <= count:
            raise InputError(f"--shard: expected I/N with 1 <= I <= N, got {index}/{count}")
        mine = set(itertools.islice(self.groups, index - 1, None, count))
        return replace(self, samples=tuple(sample for sample in self.samples if sample.group in mine))


def make_plan(recipe: Recipe) -> Plan:
    """Plan every sample of a recipe: draw what is drawn, resolve the layout, group what shares a trace.

    Needs no Blender, and depends on the recipe alone.

    Args:
        recipe: the recipe.

    Returns:
        The plan, sets in the recipe's order, samples by index.

    Raises:
        InputError: an asset that does not exist, a value out of range, no room for an object; the message
            names the set and the field.

    Example:
        >>> from generators.load import load_recipe
        >>> plan = make_plan(load_recipe("negatives", ["sets.negatives.draws=3"]))
        >>> [sample.id for sample in plan.samples]
        ['negatives-000000', 'negatives-000001', 'negatives-000002']
    """
    library = AssetLibrary(recipe.assets)
    samples: list[SamplePlan] = []
    for name, image_set in recipe.sets.items():
        try:
            light_names(recipe, name)
            samples += _plan_set(recipe, name, image_set, library)
        except InputError as error:
            raise InputError(f"sets.{name}: {error}") from None
    return Plan(recipe, tuple(samples))


def condition(plan: Plan, **values: FactorValue | Collection[FactorValue]) -> Plan:
    """Select the samples whose factors have the given values: conditioning, not intervention.

    Args:
        plan: the plan.
        values: factor to its value, or to several that are all kept.

    Returns:
        The plan of those samples; ids, groups and numbers are as they were.

    Raises:
        InputError: no set has such a factor, or no sample is left.

    Example:
        >>> from generators.load import load_recipe
        >>> plan = make_plan(load_recipe("candle", ["sets.candle.factors.rotation.values=[0]"]))
        >>> len(plan), len(condition(plan, scene="garden", color=["red", "blue"]))
        (1350, 90)
    """
    wanted = {
        k: v if isinstance(v, Collection) and not isinstance(v, str) else (v,) for k, v in values.items()
    }
    for name in wanted:
        if not any(name in image_set.factors for image_set in plan.recipe.sets.values()):
            raise InputError(f"condition: `{name}` is no factor of any set of `{plan.recipe.name}`")
    kept = tuple(
        sample
        for sample in plan.samples
        if all(name in sample.factors and sample.factors[name] in some for name, some in wanted.items())
    )
    if not kept:
        raise InputError(f"condition: no sample of `{plan.recipe.name}` has {dict(values)}")
    return replace(plan, samples=kept)


def do(recipe: Recipe, **values: FactorValue) -> Recipe:
    """Intervene: replace the mechanism of factors by a value, and keep every exogenous draw.

    Args:
        recipe: the recipe.
        values: factor to the value that it is set to.

    Returns:
        The recipe of the intervened population: as many samples with the same ids, units and draws, in each
        of which the factors have these values.

    Raises:
        InputError: no set has such a factor.

    Example:
        >>> from generators.load import load_recipe
        >>> plan = make_plan(do(load_recipe("negatives", ["sets.negatives.draws=9"]), count=1))
        >>> {sample.factors["count"] for sample in plan.samples}
        {1}
    """
    return revise(recipe, do={**recipe.do, **values})


def _plan_set(recipe: Recipe, name: str, image_set: ImageSet, library: AssetLibrary) -> Iterator[SamplePlan]:
    grids = {}
    for factor_name, factor in image_set.factors.items():
        if isinstance(factor, Categorical):
            try:
                grids[factor_name] = values_of(factor, library)
            except InputError as error:
                raise InputError(f"factors.{factor_name}: {error}") from None
    crossed = image_set.crossed()
    cells = itertools.product(*(grids[factor_name] for factor_name in crossed))
    for cell, values in enumerate(cells):
        for draw in range(image_set.draws):
            index = cell * image_set.draws + draw
            given = dict(zip(crossed, values, strict=True))
            unit = _unit(name, image_set, given, index, draw)
            yield _sample(recipe, name, image_set, library, grids, given, index, unit)


def _unit(name: str, image_set: ImageSet, given: dict[str, FactorValue], index: int, draw: int) -> str:
    if image_set.unit is None:
        return f"{name}/{index:06d}"
    parts = [f"{factor}={given[factor]}" for factor in image_set.unit]
    return ",".join([*parts, f"draw={draw}"] if image_set.draws > 1 else parts)


def _sample(
    recipe: Recipe,
    name: str,
    image_set: ImageSet,
    library: AssetLibrary,
    grids: dict[str, tuple[FactorValue, ...]],
    given: dict[str, FactorValue],
    index: int,
    unit: str,
) -> SamplePlan:
    intervention = {
        factor: _allowed(factor, value, grids)
        for factor, value in recipe.do.items()
        if factor in image_set.factors
    }
    given = {**given, **intervention}
    factors = {
        factor: given[factor]
        if factor in given
        else draw_value(plan, grids.get(factor), stream(recipe.seed, unit, factor))
        for factor, plan in image_set.factors.items()
    }
    exogenous = {
        variable: float(draw_value(plan, None, stream(recipe.seed, unit, variable)))
        for variable, plan in image_set.variables.items()
    }
    draws = Draws(recipe.seed, unit, {**factors, **exogenous})
    lights, gain, trace = resolve(image_set.layout, draws, library)
    return SamplePlan(
        id=f"{name}-{index:06d}",
        set=name,
        index=index,
        unit=unit,
        group=_group(name, trace),
        factors=factors,
        exogenous=exogenous,
        intervention=intervention,
        lights=lights,
        gain=gain,
        trace=trace,
    )


def _allowed(name: str, value: FactorValue, grids: dict[str, tuple[FactorValue, ...]]) -> FactorValue:
    """Return the value of an intervention; it may leave a continuous range, but a category must exist."""
    if name in grids:
        if value not in grids[name]:
            known = ", ".join(str(v) for v in grids[name])
            raise InputError(f"do.{name}: expected one of {known}, got {value!r}")
        return grids[name][grids[name].index(value)]
    if isinstance(value, str):
        raise InputError(f"do.{name}: expected a number, got {value!r}")
    return float(value)


def draw_value(
    factor: Factor, values: tuple[FactorValue, ...] | None, rng: np.random.Generator
) -> FactorValue:
    """Draw one value of a factor or variable.

    Args:
        factor: the distribution.
        values: the values of a categorical one, each as likely as the other.
        rng: the stream of this variable in this unit.

    Returns:
        A value of the list, or a float in [low, high], rounded to nine decimals; one uniform number is taken
        from the stream for it, a normal one being the inverse of its distribution function there.
    """
    if values is not None:
        return values[int(rng.integers(len(values)))]
    assert isinstance(factor, Continuous)
    if factor.mean is None or factor.std is None:
        value = float(rng.uniform(factor.low, factor.high))
    else:
        normal = NormalDist(factor.mean, factor.std)
        share = float(rng.uniform(normal.cdf(factor.low), normal.cdf(factor.high)))
        # The inverse is not defined at 0 and 1, which bounds far out give.
        value = normal.inv_cdf(min(max(share, 1e-300), 1 - 1e-16))
    return min(max(round(value, 9), factor.low), factor.high)


def _group(set_name: str, trace: Trace) -> str:
    text = json.dumps([set_name, trace.model_dump(mode="json")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
