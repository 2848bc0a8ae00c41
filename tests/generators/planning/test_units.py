"""Units share their draws within a set and between sets, and random splits keep them together."""

import numpy as np
import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.packs.splits import SetRows, split_rows
from candlelight.loaders.schema import SetInfo
from tests.refusals import refused

RECIPE = """
name: pairs
description: Two sets with the same unit.
sets:
  train: &set
    factors:
      scene: {count: 12}
      look: {count: 2}
    variables:
      x: {low: -1, high: 1}
    unit_factors: [scene]
    layout:
      objects: [{type: cube, location: [$x, 0]}]
      random_material: {texturing: rgb, variation: $look}
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
  test:
    <<: *set
"""
SHARED = ["sets.train.shares_units=true", "sets.test.shares_units=true"]


@pytest.fixture
def draws(write_recipe):
    """Plan the two sets, and return for each set the draws of each unit."""

    def read(*overrides):
        by_set = {}
        for sample in make_plan(load_recipe(write_recipe(RECIPE), overrides)).samples:
            drawn = (sample.exogenous["x"], sample.trace.cycles_seed)
            by_set.setdefault(sample.set, {}).setdefault(sample.unit, set()).add(drawn)
        return by_set

    return read


def test_sets_with_the_same_unit_have_draws_of_their_own(draws):
    one, other = draws().values()
    assert (len(one), len(other)) == (12, 12)
    assert all(len(drawn) == 1 for drawn in [*one.values(), *other.values()])
    assert not one.keys() & other.keys()
    assert not set.union(*one.values()) & set.union(*other.values())


def test_sets_with_shares_units_share_all_draws(draws):
    one, other = draws(*SHARED).values()
    assert one == other
    assert "scene=7" in one
    assert not one.keys() & draws(SHARED[0])["test"].keys()  # a single set with shares_units shares with none


def test_each_draw_of_a_cell_is_a_unit(draws):
    for name, drawn in draws("sets.train.draws=2", "sets.test.draws=2").items():
        assert list(drawn) == [f"{name}/scene={scene},draw={draw}" for scene in range(12) for draw in (0, 1)]
        assert len(set.union(*drawn.values())) == 24


def test_counterfactuals_keep_the_units_of_their_set(draws):
    for said in ([], SHARED[:1]):
        of, _, changed = draws(*said, "sets.changed={counterfactual: {of: train, do: [{look: 0}]}}").values()
        assert of == changed


def test_a_set_shares_nothing_with_the_set_that_it_extends(write_recipe):
    text = "name: own\ndescription: d\nsets:\n  {}: {{extends: invariance/scale}}\n  {}: {{extends: {}}}\n"
    sets = load_recipe(write_recipe(text.format("train", "test", "invariance/rotation"))).sets
    assert [(one.unit_factors, one.shares_units) for one in sets.values()] == [(("scene",), False)] * 2
    own = make_plan(load_recipe(write_recipe(text.format("scale", "test", "invariance/scale"))), limit=4)
    assert {sample.unit.partition("scene=")[0] for sample in own.samples} == {"scale/", "test/"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sets.test.unit_factors=[scene, look]", "expected one `unit_factors`, .* of train, test$"),
        ("sets.test.draws=2", "expected one `unit_factors`, and `draws` in all or none, of train"),
        ("sets.test.unit_factors=null", "expected `unit_factors` as well"),
    ],
)
def test_shares_units_without_a_common_unit_is_refused(write_recipe, override, message):
    with refused(f"shares_units: {message}"):
        load_recipe(write_recipe(RECIPE), [*SHARED, override])


@pytest.mark.parametrize("shared", [False, True])
def test_a_random_split_keeps_shared_units_together(write_recipe, shared):
    plan = make_plan(load_recipe(write_recipe(RECIPE), SHARED if shared else ()))
    units = {name: [s.unit for s in plan.samples if s.set == name] for name in plan.recipe.sets}
    info = SetInfo(count=24, width=8, height=8, layers=("image",), factors=())
    rows = [SetRows(k, info, np.zeros((24, 0)), [(f"unit {u}",) for u in own]) for k, own in units.items()]
    made = split_rows(rows, SplitPlan(shares={"train": 0.5, "test": 0.5}))
    train, test = ([split.rows.tolist() for split in made[name]] for name in units)
    assert (train == test) == shared
