"""A draft of a plan: one small, quick picture of each factor value."""

import itertools

from generators.language.factors import Categorical
from generators.language.image_and_render import ImageSize, RenderSettings
from generators.language.image_set import ImageSet
from generators.language.load_recipe import revise
from generators.language.set_settings import settings
from generators.planning.packed_samples import PackedSamples
from generators.planning.plan import Plan, plan_samples
from loaders.schema import FactorValue

LONGEST_SIDE = 96  # pixels
DRAFT = RenderSettings.model_validate({"preset": "draft"})
FIRST = 6  # samples of a set that has no values to show


def preview_plan(plan: Plan) -> Plan:
    """Choose the fewest samples that show every value of every categorical factor, small and quick.

    Of a set of continuous factors alone, the first `FIRST` samples.

    Args:
        plan: the plan.

    Returns:
        A plan of the same scenes at most `LONGEST_SIDE` pixels wide, at draft quality.

    Example:
        >>> from generators import load_recipe, make_plan
        >>> full = make_plan(load_recipe("candle", ["sets.candle.factors.scene.values=[garden]"]))
        >>> len(full), len(preview_plan(full))
        (1350, 6)
    """
    recipe = plan.recipe
    chosen = [_cover(plan.samples.of_set(name), image_set) for name, image_set in recipe.sets.items()]
    sets = {name: _draft(plan, name).model_dump(exclude_unset=True) for name in recipe.sets}
    return plan_samples(revise(recipe, sets=sets), [*itertools.chain(*chosen)])


def _draft(plan: Plan, name: str) -> ImageSet:
    image = settings(plan.recipe, name).image
    scale = min(1.0, LONGEST_SIDE / max(image.width, image.height))
    small = ImageSize(width=max(8, round(image.width * scale)), height=max(8, round(image.height * scale)))
    return plan.recipe.sets[name].model_copy(update={"image": small, "render": DRAFT})


def _cover(samples: PackedSamples, image_set: ImageSet) -> list[str]:
    """Take ids of a set greedily, each sample showing as many values not shown yet as any other."""
    listed = [name for name, factor in image_set.factors.items() if isinstance(factor, Categorical)]
    if not listed:
        return [key.id for key in samples.keys[:FIRST]]
    shown: set[tuple[str, FactorValue]] = set()
    values = {sample.id: {(name, sample.factors[name]) for name in listed} for sample in samples}
    chosen: list[str] = []
    while True:
        best = max(values, key=lambda id: len(values[id] - shown), default="")
        if not best or not values[best] - shown:
            return chosen
        chosen.append(best)
        shown |= values[best]
