"""Plan a preview: small draft images that show every factor value at least once."""

import itertools

from candlelight.generators.language.factors import Categorical
from candlelight.generators.language.image_set import ImageSet, ImageSize, RenderSettings
from candlelight.generators.language.load_recipe import revise
from candlelight.generators.language.set_settings import settings
from candlelight.generators.planning.plan import Plan, plan_samples
from candlelight.generators.planning.planned_samples import PlannedSamples
from candlelight.loaders.schema import FactorValue

PREVIEW_SIDE = 96  # longest side of a preview image, pixels
_DRAFT = RenderSettings.model_validate({"preset": "draft"})
PREVIEW_SAMPLES = 6  # samples of a set without categorical factors


def preview_plan(plan: Plan) -> Plan:
    """Choose few samples that show every value of every categorical factor, small and at draft quality.

    A set without categorical factors is shown by its first `PREVIEW_SAMPLES` samples, a set with steps by its
    first unit.

    Args:
        plan: the plan.

    Returns:
        A plan of these samples, with images of at most `PREVIEW_SIDE` pixels a side.

    Example:
        >>> from candlelight.generators import load_recipe, make_plan
        >>> full = make_plan(load_recipe("candle"), limit=60)
        >>> len(full), len(preview_plan(full))
        (60, 16)
    """
    recipe = plan.recipe
    chosen = [_cover(plan.samples.of_set(name), image_set) for name, image_set in recipe.sets.items()]
    sets = {name: _draft(plan, name).model_dump(exclude_unset=True) for name in recipe.sets}
    return plan_samples(revise(recipe, sets=sets), [*itertools.chain(*chosen)])


def _draft(plan: Plan, name: str) -> ImageSet:
    image = settings(plan.recipe, name).image
    scale = min(1.0, PREVIEW_SIDE / max(image.width, image.height))
    small = ImageSize(width=max(8, round(image.width * scale)), height=max(8, round(image.height * scale)))
    return plan.recipe.sets[name].model_copy(update={"image": small, "render": _DRAFT})


def _cover(samples: PlannedSamples, image_set: ImageSet) -> list[str]:
    """Choose ids of samples greedily: each next sample shows most of the values not shown yet."""
    if image_set.steps > 1:
        return [key.id for key in samples.keys[: image_set.samples_per_unit]]
    listed = [name for name, factor in image_set.factors.items() if isinstance(factor, Categorical)]
    if not listed:
        return [key.id for key in samples.keys[:PREVIEW_SAMPLES]]
    shown: set[tuple[str, FactorValue]] = set()
    values = {sample.id: {(name, sample.factors[name]) for name in listed} for sample in samples}
    chosen: list[str] = []
    while True:
        best = max(values, key=lambda id: len(values[id] - shown), default="")
        if not best or not values[best] - shown:
            return chosen
        chosen.append(best)
        shown |= values[best]
