"""Intervene on factors, select samples by factors, and plan counterfactuals.

An intervention ``do(X=x)`` removes the mechanism of X and every rule whose target is X, and sets X to x. The
exogenous draws of each unit are kept, and the descendants of X are recomputed from them. Samples, units and
selections stay those of the population without the intervention. `do` intervenes on whole sets,
`counterfactual` on single planned samples. A recipe states interventions on all sets in its field ``do``, on
one set in ``sets.NAME.do``, and sets of counterfactuals in ``sets.NAME.counterfactual``;
`candlelight.generators.language.factor_values` checks the values of all of them. `condition` intervenes on
nothing: it selects samples. `inverse_propensity_weights` undoes the dependence of a factor on its parents.
"""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import revise
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.planning.mechanisms import Mechanisms, mechanisms_of
from candlelight.generators.planning.plan import Plan, check_plan, check_recipe, new_plan, plan_set
from candlelight.generators.planning.provenance import check_assets
from candlelight.generators.planning.sample_values import factual_set, unit_index
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.selection.conditional_tables import inverse_weights

COUNTERFACTUAL_SUFFIX = "_counterfactual"


def do(recipe: Recipe, /, *sets: str, **values: FactorValue | Mapping[str, Any]) -> Recipe:
    """Intervene on a recipe: replace the mechanisms of factors by values, and keep every exogenous draw.

    Args:
        recipe: the recipe.
        sets: names of the sets to intervene in, together with their counterfactuals; by default all sets that
            have the factors.
        values: factor to the value that it is set to, or to the fields of a mechanism that is put in place,
            as in ``x={"low": 0, "high": 1}``; such a mechanism draws from a random stream of its own.

    Returns:
        The recipe of the intervened population: the same samples, with the same ids, units and draws, in
        which the factors have these values.

    Raises:
        InputError: no recipe is given, a set does not exist, no set has such a factor, or a categorical
            factor does not have the value. A number may lie outside the range of its factor.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> from candlelight.generators.planning.plan import make_plan
        >>> plan = make_plan(do(load_recipe("negatives", ["sets.negatives.draws=9"]), count=1))
        >>> {sample.factors["count"] for sample in plan.samples}
        {1}
    """
    check_recipe(recipe)
    if not sets:
        return revise(recipe, do={**recipe.do, **values})
    plain = [name for name, image_set in recipe.sets.items() if image_set.counterfactual is None]
    for name in sets:
        if name not in plain:
            raise InputError(f"do: expected names of sets of samples ({', '.join(plain)}), got `{name}`")
    data = recipe.model_dump(exclude_unset=True)["sets"]
    for name, image_set in recipe.sets.items():
        if factual_set(recipe, name) in sets:
            data[name]["do"] = {**image_set.do, **values}
    return revise(recipe, sets=data)


def condition(plan: Plan, /, **values: FactorValue | Collection[FactorValue]) -> Plan:
    """Select the samples whose factors have the given values: conditioning, not intervention.

    Args:
        plan: the plan.
        values: factor to its value, or to a list of values of which the sample may have any.

    Returns:
        The plan of the selected samples, with their ids, groups and numbers unchanged.

    Raises:
        InputError: no plan is given, no set has such a factor, or no sample is left.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> from candlelight.generators.planning.plan import make_plan
        >>> values = {"rotation": "[0]", "scene": "[bridge, garden]", "size": "[2]"}
        >>> some = [f"sets.candle.factors.{name}.values={listed}" for name, listed in values.items()]
        >>> plan = make_plan(load_recipe("candle", some))
        >>> len(plan), len(condition(plan, scene="garden", color=["red", "blue"]))
        (150, 30)
    """
    check_plan(plan)
    wanted = {
        k: v if isinstance(v, Collection) and not isinstance(v, str) else (v,) for k, v in values.items()
    }
    for name in wanted:
        if not any(name in image_set.factors for image_set in plan.recipe.sets.values()):
            known = dict.fromkeys(key for image_set in plan.recipe.sets.values() for key in image_set.factors)
            raise InputError(
                f"condition: `{name}` is no factor of any set of `{plan.recipe.name}`"
                f"{did_you_mean(name, known)}"
            )
    kept = [
        row
        for row, sample in enumerate(plan.samples)
        if all(name in sample.factors and sample.factors[name] in some for name, some in wanted.items())
    ]
    if not kept:
        raise InputError(f"condition: no sample of `{plan.recipe.name}` has {dict(values)}")
    return replace(plan, samples=plan.samples.take(kept))


def counterfactual(
    plan: Plan,
    /,
    *changes: Mapping[str, FactorValue | Mapping[str, Any]],
    step: int | None = None,
    **values: FactorValue | Mapping[str, Any],
) -> Plan:
    """Plan how each sample would have been, had the named factors had these values.

    Abduction, action, prediction: every exogenous draw of the unit is kept (position, light, camera,
    materials, the renderer's seed), the mechanisms of the named factors are replaced by the values, and their
    descendants are recomputed. The result may leave the plan's support. The CANDLE supplement asks such a
    question in its section 6: how would the image have looked, had the colour of the sphere been yellow?

    Args:
        plan: the factual samples; ``plan["candle-000012"]`` is the plan of one sample.
        changes: interventions, each a mapping of factors to values or mechanisms, as in `do`;
            each gives one counterfactual a sample; of a sequence all of its steps.
        step: the only step of a sequence at which the interventions act, from 0; by default all.
        values: one intervention, written as keywords.

    Returns:
        The plan of the counterfactuals alone. Their sets are named after the factual sets with the suffix
        ``_counterfactual``, the plan's recipe has both, and ``counterfactual_of`` of each sample is the id of
        its factual sample.

    Raises:
        InputError: no plan, no change, no such factor, a value that a categorical factor does not have,
            samples that are counterfactuals themselves, or an asset that was edited since the samples were
            planned.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> from candlelight.generators.planning.plan import make_plan
        >>> plan = make_plan(load_recipe("candle"), limit=1)
        >>> changed = counterfactual(plan, color="yellow", object_type="cube").samples[0]
        >>> changed.factors["color"], changed.counterfactual_of == plan.samples[0].id
        ('yellow', True)
        >>> changed.exogenous == plan.samples[0].exogenous
        True
    """
    check_plan(plan)
    asked: list[dict[str, Any]] = [dict(change) for change in (*changes, values) if change]
    if not asked:
        raise InputError("counterfactual: expected factors to change, as in color='yellow', got none")
    names = list(dict.fromkeys(key.set for key in plan.samples.keys))
    recipe = _with_counterfactuals(plan.recipe, names, asked, step)
    library = AssetLibrary(recipe.assets)
    check_assets(plan.assets, library, f"the plan of `{recipe.name}`", "plan again")
    units = {
        name: {unit_index(recipe.sets[name], key.index) for key in plan.samples.of_set(name).keys}
        for name in names
    }
    planned = (plan_set(recipe, name + COUNTERFACTUAL_SUFFIX, library, units[name]) for name in names)
    return new_plan(recipe, itertools.chain.from_iterable(planned), library)


def _with_counterfactuals(
    recipe: Recipe, names: list[str], asked: list[dict[str, Any]], step: int | None
) -> Recipe:
    """Add a set of counterfactuals to a recipe for each of the named sets."""
    sets: dict[str, Any] = recipe.model_dump(exclude_unset=True)["sets"]
    for name in names:
        factual, taken = recipe.sets[name], recipe.sets.get(name + COUNTERFACTUAL_SUFFIX)
        if factual.counterfactual is not None:
            raise InputError(
                f"counterfactual: `{name}` holds counterfactuals; name the samples that they are of"
            )
        unknown = {factor for change in asked for factor in change} - factual.mechanisms().keys()
        if unknown:
            known = ", ".join(factual.mechanisms())
            near = did_you_mean(min(unknown), factual.mechanisms())
            raise InputError(
                f"counterfactual: expected factors of `{name}` ({known}), got {sorted(unknown)}{near}"
            )
        if taken is not None and (taken.counterfactual is None or taken.counterfactual.of != name):
            raise InputError(
                f"counterfactual: there is a set `{name + COUNTERFACTUAL_SUFFIX}` already; "
                "give it another name"
            )
        stated: dict[str, Any] = {"of": name, "do": asked} | ({} if step is None else {"step": step})
        sets[name + COUNTERFACTUAL_SUFFIX] = {**sets[name], "counterfactual": stated}
    return revise(recipe, sets=sets)


def inverse_propensity_weights(plan: Plan, factor: str) -> dict[str, float]:
    """Weight the samples of a plan so that a factor no longer depends on its parents.

    The weights are `candlelight.loaders.selection.conditional_tables.inverse_weights` of the mechanism's
    propensities given all parents, hidden confounders included.

    Args:
        plan: samples of one set, without an intervention on ``factor``.
        factor: a categorical factor.

    Returns:
        Weight by id of the sample, with an expected mean of 1.

    Raises:
        InputError: no such factor; several sets; an intervention on it; a selection or an incomplete grid,
            whose effect the mechanism does not describe; or no positivity: a value never occurs for some
            values of the parents, so that no weight can make up for it.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> from candlelight.generators.planning.plan import make_plan
        >>> plan = make_plan(load_recipe("negatives"), 20)
        >>> set(inverse_propensity_weights(plan, "texturing").values())
        {1.0}
    """
    check_plan(plan)
    mechanisms = _mechanisms(plan, factor)
    values: list[dict[str, FactorValue]] = []
    propensities: list[float] = []
    for sample in plan.samples:
        if factor in sample.intervention:
            raise InputError(
                f"inverse propensity: `{factor}` was set by intervention and depends on no parent"
            )
        values.append({**sample.factors, **sample.exogenous})
        propensities.append(sample.propensity[factor])
    weights = inverse_weights(
        factor,
        mechanisms.lists[factor],
        np.stack([mechanisms.probabilities(factor, known) for known in values]),
        np.array(propensities),
        lambda row: {parent: values[row][parent] for parent in mechanisms.graph[factor]},
    )
    return {key.id: weight for key, weight in zip(plan.samples.keys, weights.tolist(), strict=True)}


def _mechanisms(plan: Plan, factor: str) -> Mechanisms:
    names = {key.set for key in plan.samples.keys}
    if len(names) != 1:
        raise InputError(f"inverse propensity: expected samples of one set, got {sorted(names)}")
    set_name = names.pop()
    image_set = plan.recipe.sets[set_name]
    if factor not in image_set.categorical():
        known = ", ".join(image_set.categorical())
        raise InputError(f"inverse propensity: expected one of {known}, got `{factor}`")
    if image_set.steps > 1:
        raise InputError(
            f"inverse propensity: `{set_name}` has steps, which are not independent; expected a set without"
        )
    if any(rule.selection for rule in image_set.rules):
        raise InputError(
            f"inverse propensity: `{set_name}` has selections, whose effect mechanisms do not describe; "
            "give the rules a target, or leave them out"
        )
    mechanisms = mechanisms_of(image_set, AssetLibrary(plan.recipe.assets))
    partial = [name for name in image_set.crossed() if mechanisms.constrained(name)]
    if factor in image_set.crossed() and partial:
        raise InputError(
            f"inverse propensity: `{factor}` is not drawn but listed, in a grid without the cells that "
            f"`{partial[0]}` excludes; leave it out of `grid` to draw it"
        )
    return mechanisms
