import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.packs.splits import SetRows, _quotas, split_rows
from candlelight.loaders.schema import FactorInfo, SetInfo

COLOR = FactorInfo(name="color", kind="categorical", values=("red", "green", "blue"))
SIZE = FactorInfo(name="size", kind="categorical", values=(1, 2.5))
ANGLE = FactorInfo(name="angle", kind="continuous", low=0, high=9)
THREE = SplitPlan(shares={"train": 0.8, "val": 0.1, "test": 0.1})


def make_rows(links, name="set", varies=(), seed=0):
    count = len(links)
    rng = np.random.default_rng(seed)
    table = np.stack([np.arange(count) % 3, np.arange(count) // 3 % 2, rng.random(count)], axis=1)
    factors = (COLOR, SIZE, ANGLE)
    info = SetInfo(count=count, width=8, height=8, layers=("image",), factors=factors, varies=varies)
    return SetRows(name, info, table, links)


def alone(count, name="set", first=0):
    return make_rows([(f"unit {name}/{number}",) for number in range(first, first + count)], name)


def by_name(splits):
    return {split.name: split.rows.tolist() for split in splits}


def test_every_row_is_train_without_a_plan():
    (split,) = split_rows([alone(7)], SplitPlan())["set"]
    assert (split.name, split.rows.tolist(), split.made) == ("train", list(range(7)), "every row")


@pytest.mark.parametrize("count", [10, 23, 100, 1001])
def test_counts_follow_largest_remainders_and_no_row_is_lost(count):
    splits = by_name(split_rows([alone(count)], THREE)["set"])
    assert [len(rows) for rows in splits.values()] == _quotas(count, [0.8, 0.1, 0.1])
    assert sorted(row for rows in splits.values() for row in rows) == list(range(count))
    assert all(rows == sorted(rows) for rows in splits.values())


def test_quotas_match_values_computed_by_hand():
    assert _quotas(10, [0.8, 0.1, 0.1]) == [8, 1, 1]
    assert _quotas(23, [0.8, 0.1, 0.1]) == [19, 2, 2]  # 18.4, 2.3, 2.3: the largest remainder is the first
    assert _quotas(5, [0.5, 0.5]) == [3, 2]
    assert _quotas(100, [0.29, 0.57, 0.14]) == [29, 57, 14]


def test_a_split_depends_on_names_and_seed_only():
    """The test computes the order by SHA-256 of seed and name independently."""
    import hashlib

    plan = SplitPlan(shares={"train": 0.5, "test": 0.5}, seed=3)
    names = [f"unit set/{number}" for number in range(20)]
    order = sorted(range(20), key=lambda row: hashlib.sha256(f"3\n{names[row]}".encode()).digest())
    assert by_name(split_rows([alone(20)], plan)["set"]) == {
        "train": sorted(order[:10]),
        "test": sorted(order[10:]),
    }
    other = SplitPlan(shares=plan.shares, seed=4)
    assert by_name(split_rows([alone(20)], other)["set"]) != by_name(split_rows([alone(20)], plan)["set"])


def test_added_rows_move_few_other_rows():
    plan = SplitPlan(shares={"train": 0.8, "test": 0.2})
    few, many = (by_name(split_rows([alone(count)], plan)["set"]) for count in (900, 1000))
    moved = set(few["train"]) & set(many["test"]) | set(few["test"]) & set(many["train"])
    # The new rows lie on both sides of the one cut, which moves by a few places only.
    assert len(moved) < 20


def test_members_of_a_family_stay_together():
    rng = np.random.default_rng(1)
    units = rng.integers(0, 60, 400)
    groups = [f"group {unit}-{number % 2}" for number, unit in enumerate(units)]
    links = [(f"unit {unit}", group) for unit, group in zip(units, groups, strict=True)]
    splits = by_name(split_rows([make_rows(links)], THREE)["set"])
    owners = {}
    for name, rows in splits.items():
        for row in rows:
            owners.setdefault(units[row], set()).add(name)
    assert all(len(found) == 1 for found in owners.values())
    assert abs(len(splits["train"]) / 400 - 0.8) < 0.05


def test_links_join_families_transitively():
    links = [("unit a", "group 1"), ("unit b", "group 1"), ("unit b", "group 2"), ("unit c", "group 2")]
    links += [(f"unit {number}",) for number in range(12)]
    for seed in range(20):
        splits = split_rows([make_rows(links)], SplitPlan(shares={"a": 0.5, "b": 0.5}, seed=seed))["set"]
        first = [split.name for split in splits if set(split.rows.tolist()) & {0, 1, 2, 3}]
        assert len(first) == 1


def test_concept_sets_stay_whole():
    rows = make_rows([(f"unit {number}",) for number in range(120)], varies=("color",))
    info = rows.set_info.model_copy(update={"factors": (COLOR, SIZE, COLOR.model_copy(update={"name": "x"}))})
    table = rows.table.copy()
    table[:, 2] = np.arange(120) // 6  # 20 values of x, with two sizes each: 40 concept sets of 3 rows
    rows = SetRows("set", info, table, rows.links)
    splits = by_name(split_rows([rows], SplitPlan(shares={"train": 0.75, "test": 0.25}))["set"])
    assert [len(found) for found in splits.values()] == [90, 30]
    keys = {name: {tuple(table[row, 1:]) for row in found} for name, found in splits.items()}
    assert not keys["train"] & keys["test"]


def test_sets_that_share_units_are_split_together_and_other_sets_separately():
    names = [f"unit set/{number}" for number in range(50)]
    one = make_rows([(name,) for name in names], "set")
    twins = make_rows([(name,) for name in names[::2] for _ in range(2)], "set_counterfactual")
    far = alone(30, "far")
    both = split_rows([one, twins, far], SplitPlan(shares={"train": 0.7, "test": 0.3}))
    tests = {name: set(by_name(splits)["test"]) for name, splits in both.items()}
    assert {row // 2 * 2 for row in tests["set_counterfactual"]} == {
        row for row in tests["set"] if row % 2 == 0
    }
    assert len(tests["far"]) == 9
    assert split_rows([far], SplitPlan(shares={"train": 0.7, "test": 0.3}))["far"][1].rows.tolist() == sorted(
        tests["far"]
    )


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
    out = [row for row in range(30) if row % 3 == 1 or (row % 3 == 0 and row // 3 % 2 == 1)]
    assert [split.name for split in splits] == ["train", "test", "test_ood"]
    assert splits[2].rows.tolist() == out
    assert splits[2].made == "rows with color=red, size=2.5; or color=green"
    # Shares apply to the remaining rows.
    assert [len(split.rows) for split in splits[:2]] == [8, 7]
    (rest, _) = split_rows([alone(30)], SplitPlan(held_out=held))["set"]
    assert rest.made == "the other rows"


def test_families_divided_by_a_factor_are_counted():
    rows = make_rows([(f"unit {number // 3}",) for number in range(12)])
    splits = split_rows([rows], SplitPlan(factor="color", values={"test": ("blue",)}))["set"]
    assert splits[0].made == "the other rows; 4 families have rows in other splits too"
    assert splits[1].made.endswith("; 4 families have rows in other splits too")


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
    with pytest.raises(InputError, match=r"split `large` .*empty: only held-out rows"):
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
def test_impossible_splits_are_refused_in_one_line(plan, message):
    with pytest.raises(InputError, match=message) as caught:
        split_rows([alone(12)], plan)
    assert "\n" not in str(caught.value)
