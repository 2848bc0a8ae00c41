"""Inverse propensities: weights that undo what a mechanism made a factor depend on."""

from dataclasses import dataclass

from blender_assets import AssetLibrary
from generators.factors import Categorical
from generators.mechanisms import Mechanisms, mechanisms_of
from generators.plan import Plan
from generators.scene import SamplePlan
from loaders.errors import InputError


@dataclass(frozen=True)
class _Asked:
    factor: str
    mechanisms: Mechanisms


def inverse_propensity(plan: Plan, factor: str) -> dict[str, float]:
    """Weight the samples of a plan so that a factor no longer depends on its parents.

    ``w = 1 / (K p(x | parents))`` for a factor of K values: under these weights each value is as frequent,
    also beside every value of the parents, as under a uniform intervention on it (Horvitz and Thompson 1952).
    The propensities are those of the mechanism, hidden confounders included.

    Args:
        plan: samples of one set, drawn, not intervened on in ``factor``.
        factor: a categorical factor.

    Returns:
        Weight by id of the sample; their mean is 1 on the average.

    Raises:
        InputError: no such factor; several sets; an intervention on it; a selection, or a grid that is not
            full, of whose effect the mechanism does not know; or no positivity: a value that does not occur
            for some parents, so that no weight can make up for it.

    Example:
        >>> from generators.load import load_recipe
        >>> from generators.plan import make_plan
        >>> plan = make_plan(load_recipe("negatives"), 20)
        >>> set(inverse_propensity(plan, "texturing").values())
        {1.0}
    """
    asked = _asked(plan, factor)
    count = len(asked.mechanisms.lists[factor])
    weights = {}
    for sample in plan.samples:
        _require_positivity(asked, sample)
        weights[sample.id] = 1.0 / (count * sample.propensity[factor])
    return weights


def _asked(plan: Plan, factor: str) -> _Asked:
    names = {sample.set for sample in plan.samples}
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
            f"inverse propensity: `{set_name}` has selections, which mechanisms know nothing of; "
            "declare the rules by their target, or leave them out"
        )
    if any(factor in sample.intervention for sample in plan.samples):
        raise InputError(f"inverse propensity: `{factor}` was set by intervention; nothing is left to undo")
    mechanisms = mechanisms_of(image_set, AssetLibrary(plan.recipe.assets))
    partial = [name for name in image_set.crossed() if mechanisms.constrained(name)]
    if factor in image_set.crossed() and partial:
        raise InputError(
            f"inverse propensity: `{factor}` is not drawn but listed, in a grid without the rows that "
            f"`{partial[0]}` rules out; leave it out of `grid` to draw it"
        )
    return _Asked(factor, mechanisms)


def _require_positivity(asked: _Asked, sample: SamplePlan) -> None:
    values = {**sample.factors, **sample.exogenous}
    probabilities = asked.mechanisms.probabilities(asked.factor, values)
    if not (probabilities > 0).all():
        never = asked.mechanisms.lists[asked.factor][int(probabilities.argmin())]
        given = ", ".join(f"{name}={values[name]}" for name in asked.mechanisms.graph[asked.factor])
        raise InputError(
            f"inverse propensity: `{asked.factor}` is never {never}{given and ' where ' + given}; without "
            "positivity no weight makes up for that: lower the strength of its table"
        )
