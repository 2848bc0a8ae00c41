"""Weight planned samples so that a factor no longer depends on its parents."""

import numpy as np

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.factors import Categorical
from candlelight.generators.planning.mechanisms import Mechanisms, mechanisms_of
from candlelight.generators.planning.plan import Plan, check_plan
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.selection.conditional_tables import inverse_weights


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
    mechanism = image_set.mechanisms().get(factor)
    if not isinstance(mechanism, Categorical):
        known = ", ".join(n for n, m in image_set.mechanisms().items() if isinstance(m, Categorical))
        raise InputError(f"inverse propensity: expected one of {known}, got `{factor}`")
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
