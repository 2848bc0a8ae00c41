"""Previews show every value of every categorical factor in few small samples."""

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.reports.preview import PREVIEW_SAMPLES, PREVIEW_SIDE, preview_plan


def shown(plan, name, factor):
    return {sample.factors[factor] for sample in plan.samples if sample.set == name}


def test_every_value_of_a_categorical_factor_is_shown():
    few = {"scene": "[garden, hall]", "object_type": "[cube]", "color": "[red]"}
    overrides = [f"sets.candle.factors.{name}.values={values}" for name, values in few.items()]
    draft = preview_plan(make_plan(load_recipe("candle", overrides)))
    assert shown(draft, "candle", "size") == {1.5, 2, 2.5}
    assert shown(draft, "candle", "scene") == {"garden", "hall"}
    assert shown(draft, "candle", "rotation") == {0, 15, 30, 45, 60, 90}
    assert len(draft.samples) == 6
    assert draft.recipe.sets["candle"].image.width == PREVIEW_SIDE
    assert draft.recipe.sets["candle"].render.preset == "draft"


def test_values_of_a_factor_with_a_count_are_shown():
    draft = preview_plan(make_plan(load_recipe("dead-leaves", ["sets.dead_leaves.draws=40"])))
    assert shown(draft, "dead_leaves", "contrast") == {0, 0.5}
    assert len(draft.samples) == 3


def test_a_set_of_continuous_factors_alone_shows_its_first_samples():
    few = [f"sets.{name}.draws=20" for name in ("teapot", "shapes", "causal")]
    draft = preview_plan(make_plan(load_recipe("identifiable", few)))
    assert [s.index for s in draft.samples if s.set == "teapot"] == list(range(PREVIEW_SAMPLES))
    assert len(shown(draft, "shapes", "object_type")) == 7
