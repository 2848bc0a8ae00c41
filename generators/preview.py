"""A draft of a plan: one small, quick picture of each factor value."""

from dataclasses import replace

from generators.load import revise
from generators.plan import Plan, make_plan
from generators.recipe import Image, ImageSet, Render
from generators.scene import SamplePlan
from generators.settings import settings

LONGEST_SIDE = 96  # pixels
DRAFT = Render(samples=8, bounces=2)


def preview_plan(plan: Plan) -> Plan:
    """Choose the fewest samples that show every value of every categorical factor, small and quick.

    Args:
        plan: the plan.

    Returns:
        A plan of the same scenes at most `LONGEST_SIDE` pixels wide, at draft quality.

    Example:
        >>> from generators.load import load_recipe
        >>> full = make_plan(load_recipe("candle", ["sets.candle.factors.scene.values=[garden]"]))
        >>> len(full), len(preview_plan(full))
        (1350, 6)
    """
    recipe = plan.recipe
    sets = {name: _draft(plan, name).model_dump(exclude_unset=True) for name in recipe.sets}
    small = make_plan(revise(recipe, sets=sets))
    wanted = {(sample.set, sample.index) for sample in plan.samples}
    return replace(small, samples=_cover([s for s in small.samples if (s.set, s.index) in wanted]))


def _draft(plan: Plan, name: str) -> ImageSet:
    image = settings(plan.recipe, name).image
    scale = min(1.0, LONGEST_SIDE / max(image.width, image.height))
    small = Image(width=max(8, round(image.width * scale)), height=max(8, round(image.height * scale)))
    return plan.recipe.sets[name].model_copy(update={"image": small, "render": DRAFT})


def _cover(samples: list[SamplePlan]) -> tuple[SamplePlan, ...]:
    """Take samples greedily, each showing as many values not shown yet as any other."""
    shown: set[tuple[str, str, object]] = set()
    values = {
        sample.id: {(sample.set, k, v) for k, v in sample.factors.items() if not isinstance(v, float)}
        for sample in samples
    }
    chosen: list[SamplePlan] = []
    while True:
        best = max(samples, key=lambda sample: len(values[sample.id] - shown), default=None)
        if best is None or not values[best.id] - shown:
            return tuple(sorted(chosen, key=lambda sample: sample.id))
        chosen.append(best)
        shown |= values[best.id]
