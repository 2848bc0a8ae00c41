"""Counterfactuals: what a sample would have been, had some of its factors been otherwise."""

from collections.abc import Mapping

from blender_assets import AssetLibrary
from generators.language.load_recipe import revise
from generators.planning.plan import Plan, new_plan, resolve_rows
from generators.planning.provenance import check_assets
from generators.planning.sample_values import rows_of
from loaders.errors import InputError
from loaders.schema import FactorValue

SUFFIX = "_counterfactual"


def counterfactual(plan: Plan, /, *changes: Mapping[str, FactorValue], **values: FactorValue) -> Plan:
    """Plan what each sample would have been, had the named factors had these values.

    Abduction, action, prediction: every exogenous draw of the unit is kept (position, light, camera,
    materials, the renderer's seed), the mechanisms of the named factors are replaced by the values, and their
    descendants are recomputed. The result may leave the plan's support. It is what the CANDLE supplement asks
    in its section 6: how the image would have looked, had the colour of the sphere been yellow.

    Args:
        plan: the samples; ``plan["candle-000012"]`` is that of one.
        changes: interventions, each a mapping of factors to values, one twin per sample for each.
        values: one intervention, written as keywords.

    Returns:
        The plan of the twins alone, in sets of the name of theirs and ``_counterfactual``, of a recipe that
        has both; each names the sample that it is of in ``counterfactual_of``.

    Raises:
        InputError: no change, no such factor, a value that it does not have, samples that are
            counterfactuals themselves, or an asset that was edited since they were planned.

    Example:
        >>> from generators.language.load_recipe import load_recipe
        >>> from generators.planning.plan import make_plan
        >>> plan = make_plan(load_recipe("candle"), limit=1)
        >>> twin = counterfactual(plan, color="yellow", object_type="cube").samples[0]
        >>> twin.factors["color"], twin.counterfactual_of == plan.samples[0].id
        ('yellow', True)
        >>> twin.exogenous == plan.samples[0].exogenous
        True
    """
    asked = [dict(change) for change in (*changes, values) if change]
    if not asked:
        raise InputError("counterfactual: expected factors to change, as in color='yellow', got none")
    names = list(dict.fromkeys(key.set for key in plan.samples.keys))
    sets = {name: image_set.model_dump(exclude_unset=True) for name, image_set in plan.recipe.sets.items()}
    for name in names:
        base = plan.recipe.sets[name]
        if base.counterfactual is not None:
            raise InputError(f"counterfactual: `{name}` holds counterfactuals; name the samples they are of")
        missing = {factor for change in asked for factor in change} - base.mechanisms().keys()
        if missing:
            known = ", ".join(base.mechanisms())
            raise InputError(f"counterfactual: expected factors of `{name}` ({known}), got {sorted(missing)}")
        taken = plan.recipe.sets.get(name + SUFFIX)
        if taken is not None and (taken.counterfactual is None or taken.counterfactual.of != name):
            raise InputError(
                f"counterfactual: there is a set `{name + SUFFIX}` already; give it another name"
            )
        sets[name + SUFFIX] = {**sets[name], "counterfactual": {"of": name, "do": asked}}
    recipe = revise(plan.recipe, sets=sets)
    library = AssetLibrary(recipe.assets)
    check_assets(plan.assets, library, f"the plan of `{recipe.name}`", "plan again")
    twins = (
        twin
        for name in names
        for twin in resolve_rows(
            recipe,
            name + SUFFIX,
            rows_of(recipe, name + SUFFIX, library, {key.index for key in plan.samples.of_set(name).keys}),
            library,
        )
    )
    return new_plan(recipe, twins, library)
