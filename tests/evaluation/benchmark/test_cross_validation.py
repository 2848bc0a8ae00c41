import numpy as np
import pytest

from candlelight.evaluation.intrinsic.benchmark_methods import choose_left_out, two_halves
from candlelight.loaders.public.mit import MIT_SETS
from tests.refusals import refused


def test_choice_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    scores, groups = rng.uniform(size=(9, 6)), list("aabcddefg")
    scores[4] = np.nan
    found = choose_left_out(scores, groups)
    for row, group in enumerate(groups):
        others = [one for one, other in zip(scores, groups, strict=True) if other != group]
        totals = np.sum([one for one in others if not np.isnan(one).any()], 0)
        assert totals[found[row]] == totals.min()


def test_the_first_of_equals_is_chosen() -> None:
    assert choose_left_out(np.ones((3, 4)), ["a", "b", "c"]).tolist() == [0, 0, 0]


@pytest.mark.parametrize("groups", [["a"], ["a", "a"]])
def test_one_object_is_refused(groups: list[str]) -> None:
    with refused("leave-one-out needs at least two objects or scenes, got one"):
        choose_left_out(np.ones((len(groups), 2)), groups)
    with refused("two-fold cross-validation needs at least two"):
        two_halves(groups, 0)


def test_objects_of_the_data_set_keep_their_published_halves() -> None:
    names = [*MIT_SETS["set2"], *MIT_SETS["set1"]]
    assert two_halves(names, 3).tolist() == [False] * 8 + [True] * 8


@pytest.mark.parametrize("groups", [list("abcdefgh"), list("aabbccd"), [*MIT_SETS["set1"]], ["box", "mine"]])
def test_other_data_are_halved_by_group(groups: list[str]) -> None:
    halves = two_halves(groups, 0)
    sides = {group: {bool(h) for g, h in zip(groups, halves, strict=True) if g == group} for group in groups}
    assert all(len(side) == 1 for side in sides.values())
    count = sum(side == {True} for side in sides.values())
    assert count == (len(sides) + 1) // 2
    assert (two_halves(groups, 0) == halves).all()
