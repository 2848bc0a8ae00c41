"""Plans of splits, their descriptions, and refusals; `test_splits_reference.py` tests the rows."""

import numpy as np
import pytest

from candlelight.loaders.packs.split_plan import SplitPlan, read_split_plan
from candlelight.loaders.packs.splits import SetRows, _quotas, split_rows
from candlelight.loaders.schema import FactorInfo, SetInfo
from tests.refusals import refused

COLOR = FactorInfo(name="color", kind="categorical", values=("red", "green", "blue"))
SIZE = FactorInfo(name="size", kind="categorical", values=(1, 2.5))
ANGLE = FactorInfo(name="angle", kind="continuous", low=0, high=9)


# --------------------------------------------------------------------------------------------------- plans


def test_shares_may_be_given_in_one_or_several_texts():
    one = read_split_plan(["train=0.8, val=0.1,test=0.1"], seed=4)
    assert one == read_split_plan(["train=0.8", "val=.1,test=1e-1"], seed=4)
    assert (one.names, one.seed) == (("train", "val", "test"), 4)
    assert read_split_plan() == SplitPlan()
    assert SplitPlan().names == ("train",)


def test_unassigned_values_of_a_factor_belong_to_train():
    plan = read_split_plan(["test=blue, red", "val = green"], by="color")
    assert plan.values == {"test": ("blue", "red"), "val": ("green",)}
    assert plan.names == ("train", "test", "val")
    assert read_split_plan(["a.b=1", "train=2"], by="size").names == ("a.b", "train")


def test_combinations_are_held_out():
    plan = read_split_plan(held_out=["shape=torus,color=red", "size=2.5"])
    assert plan.held_out == ({"shape": "torus", "color": "red"}, {"size": "2.5"})
    assert plan.names == ("train",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": ["train=0.8,test-ood=0.2"]}, "split `test-ood`: expected letters, digits and `_`"),
        ({"split": ["all=1"]}, "split `all`"),
        ({"split": ["été=1"]}, "split `été`"),
        ({"split": ["a..b=1"]}, "split `a..b`"),
        ({"split": ["../a=1"]}, "split `../a`"),
        ({"split": ["train=0.8,test=0.1"]}, "add up to 1, got train=0.8, test=0.1"),
        ({"split": ["train=1.5,test=-0.5"]}, "shares above 0"),
        ({"split": ["train=nan"]}, "shares above 0"),
        ({"split": ["train=0.5", "train=0.5"]}, "expected each name once, got train, train"),
        ({"split": ["=1"]}, "split: expected NAME=VALUE|split ``"),
        ({"split": ["train"]}, "split: expected NAME=VALUE, got `train`"),
        ({"split": ["test=blue"]}, "split `test`: expected a share like 0.8, got `blue`; .* need --split-by"),
        ({"by": "color"}, "split by `color`: expected --split NAME=VALUE"),
        ({"held_out": ["torus"]}, "hold-out: expected NAME=VALUE, got `torus`"),
        ({"held_out": ["a=1,a=2"]}, "hold-out: expected each name once, got a, a"),
        ({"held_out": ["a=1"], "split": ["test_ood=1"]}, "split `test_ood` is for held-out rows"),
    ],
)
def test_invalid_plans_are_refused(options, message):
    with refused(message):
        read_split_plan(**options)


def test_shares_and_values_together_are_refused():
    with refused("a random split, or values of the factor"):
        SplitPlan(shares={"a": 1.0}, factor="x", values={"b": ("1",)})
    with refused("a random split, or values of the factor"):
        SplitPlan(values={"b": ("1",)})


# -------------------------------------------------------------------------------------------------- splits


def make_rows(links, name="set"):
    count = len(links)
    table = np.stack([np.arange(count) % 3, np.arange(count) // 3 % 2, np.linspace(0, 9, count)], axis=1)
    factors = (COLOR, SIZE, ANGLE)
    info = SetInfo(count=count, width=8, height=8, layers=("image",), factors=factors)
    return SetRows(name, info, table, links)


def alone(count, name="set"):
    return make_rows([(f"unit {name}/{number}",) for number in range(count)], name)


def by_name(splits):
    return {split.name: split.rows.tolist() for split in splits}


def test_every_row_is_train_without_a_plan():
    (split,) = split_rows([alone(7)], SplitPlan())["set"]
    assert (split.name, split.rows.tolist(), split.made) == ("train", list(range(7)), "every row")


def test_quotas_match_values_computed_by_hand():
    assert _quotas(10, [0.8, 0.1, 0.1]) == [8, 1, 1]
    assert _quotas(23, [0.8, 0.1, 0.1]) == [19, 2, 2]  # 18.4, 2.3, 2.3: the largest remainder is the first
    assert _quotas(5, [0.5, 0.5]) == [3, 2]
    assert _quotas(100, [0.29, 0.57, 0.14]) == [29, 57, 14]


def test_added_rows_move_few_other_rows():
    plan = SplitPlan(shares={"train": 0.8, "test": 0.2})
    few, many = (by_name(split_rows([alone(count)], plan)["set"]) for count in (900, 1000))
    moved = set(few["train"]) & set(many["test"]) | set(few["test"]) & set(many["train"])
    # The new rows lie on both sides of the one cut, which moves by a few places only.
    assert len(moved) < 20


def test_rows_are_split_by_a_factor():
    plan = SplitPlan(factor="color", values={"test": ("blue", "red")})
    train, test = split_rows([alone(9)], plan)["set"]
    assert (train.rows.tolist(), test.rows.tolist()) == ([1, 4, 7], [0, 2, 3, 5, 6, 8])
    assert (train.made, test.made) == ("the other rows", "rows with color=blue or red")
    numbers = SplitPlan(factor="size", values={"a": ("1",), "train": ("2.5",)})
    assert by_name(split_rows([alone(9)], numbers)["set"]) == {"a": [0, 1, 2, 6, 7, 8], "train": [3, 4, 5]}


def test_held_out_rows_are_in_no_other_split():
    held = ({"color": "red", "size": "2.5"}, {"color": "green"})
    plan = SplitPlan(shares={"train": 0.5, "test": 0.5}, held_out=held)
    splits = split_rows([alone(30)], plan)["set"]
    assert [split.name for split in splits] == ["train", "test", "test_ood"]
    assert splits[2].made == "rows with color=red, size=2.5; or color=green"
    assert all((np.diff(split.rows) > 0).all() for split in splits)
    # Shares apply to the remaining rows.
    assert [len(split.rows) for split in splits[:2]] == [8, 7]
    (rest, _) = split_rows([alone(30)], SplitPlan(held_out=held))["set"]
    assert rest.made == "the other rows"


def test_each_set_counts_only_its_own_divided_families():
    torn = make_rows([(f"unit {number // 3}",) for number in range(12)], "torn")
    splits = split_rows([torn, alone(9, "whole")], SplitPlan(factor="color", values={"test": ("blue",)}))
    assert [split.made for split in splits["whole"]] == ["the other rows", "rows with color=blue"]
    assert splits["torn"][1].made == "rows with color=blue; 4 families have rows in other splits too"


def test_a_family_divided_between_sets_is_counted_in_each_set():
    one = alone(9)
    twin = SetRows("twin", one.set_info, np.roll(one.table, 1, axis=0), one.links)
    splits = split_rows([one, twin], SplitPlan(factor="color", values={"test": ("blue",)}))
    # Of 9 units, 3 are blue in one set and train in the other, and 3 the other way round.
    assert [split.made.count("; 3 families") for name in splits for split in splits[name]] == [1, 1, 1, 1]


def test_train_is_absent_if_every_value_has_a_split():
    plan = SplitPlan(factor="size", values={"small": ("1",), "large": ("2.5",)})
    assert by_name(split_rows([alone(9)], plan)["set"]) == {"small": [0, 1, 2, 6, 7, 8], "large": [3, 4, 5]}
    with refused(r"split `large` .*empty: only held-out rows"):
        split_rows([alone(3)], plan)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            SplitPlan(shares={"a": 0.99, "b": 0.01}),
            "split `b` of set `set` would be empty: its 12 rows are 12 families.* or name the sets to pack",
        ),
        (
            SplitPlan(factor="color", values={"a": ("red",)}, held_out=({"color": "red"},)),
            "split `a` of set `set` would be empty: only held-out rows show such",
        ),
        (
            SplitPlan(factor="colour", values={"a": ("x",)}),
            "factor `colour` is not in this set; .*name the sets",
        ),
        (SplitPlan(factor="color", values={"a": ("pink",)}), "expected one of red, green, blue, got `pink`"),
        (SplitPlan(factor="angle", values={"a": ("1",)}), "expected a categorical factor, this one is cont"),
        (SplitPlan(factor="size", values={"a": ("1", "1")}), "value `1` of factor `size` is given to two"),
        (
            SplitPlan(factor="color", values={"train": ("red",), "a": ("blue",)}),
            "`green` .* is in no split",
        ),
        (SplitPlan(held_out=({"color": "pink"},)), "expected one of red, green, blue, got `pink`"),
        (
            SplitPlan(held_out=({"color": "red"}, {"color": "green"}, {"color": "blue"})),
            "split `train` of set `set` would be empty: every row is held out; hold out fewer combinations",
        ),
    ],
)
def test_impossible_splits_are_refused(plan, message):
    with refused(message):
        split_rows([alone(12)], plan)


def test_steps_of_a_unit_stay_together():
    """Two units of two steps: (red, red), (green, blue)."""
    table = np.array([[0.0], [0.0], [1.0], [2.0]])
    info = SetInfo(count=4, width=8, height=8, layers=("image",), factors=(COLOR,))
    links = [(f"unit {row // 2}", f"sample {row}") for row in range(4)]
    rows = SetRows("steps", info, table, links, has_steps=True)
    held = split_rows([rows], SplitPlan(held_out=({"color": "blue"},)))["steps"]
    assert [(split.name, split.rows.tolist()) for split in held] == [("train", [0, 1]), ("test_ood", [2, 3])]
    whole = split_rows([rows], SplitPlan(factor="color", values={"test": ("blue", "green")}))["steps"]
    assert [(split.name, split.rows.tolist()) for split in whole] == [("train", [0, 1]), ("test", [2, 3])]
    with refused(
        "expected all steps of a unit in one split, got unit 1 in `train` and `test`; split at random"
    ):
        split_rows([rows], SplitPlan(factor="color", values={"test": ("blue",)}))
    at_random = split_rows([rows], SplitPlan(shares={"train": 0.5, "test": 0.5}))["steps"]
    assert sorted(split.rows.tolist() for split in at_random) == [[0, 1], [2, 3]]
