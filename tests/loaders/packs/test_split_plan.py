import re

import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.packs.split_plan import SplitPlan, read_split_plan


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
        ({"split": ["train"]}, "split: expected NAME=VALUE, got `train`"),
        ({"split": ["test=blue"]}, "split `test`: expected a share like 0.8, got `blue`; .* need --split-by"),
        ({"by": "color"}, "split by `color`: expected --split NAME=VALUE"),
        ({"held_out": ["torus"]}, "hold-out: expected NAME=VALUE, got `torus`"),
        ({"held_out": ["a=1,a=2"]}, "hold-out: expected each name once, got a, a"),
        ({"held_out": ["a=1"], "split": ["test_ood=1"]}, "split `test_ood` is for held-out rows"),
    ],
)
def test_invalid_plans_are_refused_in_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        read_split_plan(**options)
    assert not re.search(r"\n", str(caught.value))


def test_shares_and_values_together_are_refused():
    with pytest.raises(InputError, match="a random split, or values of the factor"):
        SplitPlan(shares={"a": 1.0}, factor="x", values={"b": ("1",)})
    with pytest.raises(InputError, match="a random split, or values of the factor"):
        SplitPlan(values={"b": ("1",)})
