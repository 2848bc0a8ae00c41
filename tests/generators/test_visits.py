import numpy as np
import pytest

from generators.extrapolation import Cost, Reading
from generators.load import load_recipe
from generators.plan import make_plan
from generators.strata import Stratum, cost_strata
from generators.visits import FIRST, LATER, TRIES, Visits

FEW = [
    f"sets.candle.factors.{name}.values={values}"
    for name, values in {
        "scene": "[garden, hall]",
        "lights": "[left]",
        "object_type": "[cube, torus]",
        "color": "[red, blue]",
        "size": "[2]",
        "rotation": "[0, 15]",
    }.items()
]


@pytest.fixture(scope="module")
def groups():
    return list(make_plan(load_recipe("candle", FEW)).groups.values())


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def strata(*parted, arrivals):
    names = ("candle", "one", "none", "1", "1")
    return [Stratum(names, tuple(members), arrivals) for members in parted]


def seen(stratum, *costs):
    return [Reading(stratum, Cost(cpu, cpu, 0.0, 0.0)) for cpu in costs]


def test_where_a_plan_stays_a_visit_is_some_groups_in_a_row(groups, rng):
    visits = Visits(groups, strata(range(8), range(8, 16), arrivals=1), rng)
    first, second = visits.first_round()
    for visit, members in ((first, range(8)), (second, range(8, 16))):
        assert set(visit) <= set(members)
        assert list(visit) == list(range(visit[0], visit[0] + FIRST))


def test_where_a_plan_moves_a_visit_is_one_group(groups, rng):
    visits = Visits(groups, strata(range(0, 16, 2), range(1, 16, 2), arrivals=8), rng)
    assert [len(visit) for visit in visits.first_round()] == [1, 1]


def test_a_visit_does_not_leave_its_surroundings(groups, rng):
    # One stratum over both scenes, of which the second begins at 8.
    visits = Visits(groups, strata(range(16), arrivals=2), rng)
    while visit := visits.most_telling([]):
        assert len(visit) <= LATER
        assert max(visit) < 8 or min(visit) >= 8
        if visits._visits[0] >= TRIES:
            break


def test_the_last_in_its_surroundings_is_visited_with_the_one_before(groups):
    found = {
        next(Visits(groups, strata(range(8), arrivals=1), np.random.default_rng(seed)).first_round())
        for seed in range(40)
    }
    assert (6, 7) in found
    assert all(len(visit) == FIRST for visit in found)


def test_warm_ups_are_of_the_stratum_that_has_most_left(groups, rng):
    visits = Visits(groups, strata(range(3), range(3, 7), arrivals=1), rng)
    assert [visits.stratum_of(*visits.warm_up()) for _ in range(3)] == [1, 0, 1]


def test_no_group_is_chosen_twice_and_all_are_in_the_end(groups, rng):
    visits = Visits(groups, strata(range(8), range(8, 16), arrivals=1), rng)
    chosen = [*visits.warm_up(), *(group for visit in visits.first_round() for group in visit)]
    readings = [*seen(0, 1.0, 2.0), *seen(1, 1.0, 2.0)]
    while visit := visits.most_telling(readings):
        chosen += visit
    assert sorted(chosen) == list(range(16))
    assert visits.warm_up() == ()
    assert list(visits.first_round()) == []


def test_the_stratum_that_spreads_most_is_visited_next(groups, rng):
    for wide in (0, 1):
        visits = Visits(groups, strata(range(8), range(8, 16), arrivals=1), rng)
        readings = [*seen(wide, 1.0, 3.0), *seen(1 - wide, 2.0, 2.1)]
        assert visits.stratum_of(visits.most_telling(readings)[0]) == wide


def test_a_stratum_seen_once_goes_first(groups, rng):
    visits = Visits(groups, strata(range(8), range(8, 16), arrivals=1), rng)
    readings = [*seen(0, 1.0, 30.0), *seen(1, 2.0)]
    assert visits.stratum_of(visits.most_telling(readings)[0]) == 1


def test_a_stratum_that_only_fails_is_given_up(groups, rng):
    visits = Visits(groups, strata(range(16), arrivals=16), rng)
    asked = 0
    while visits.most_telling([]):
        asked += 1
    assert asked == TRIES


def test_the_choice_is_always_the_same(groups):
    parted = cost_strata(make_plan(load_recipe("candle", FEW)))
    first, second = (list(Visits(groups, parted, np.random.default_rng(3)).first_round()) for _ in range(2))
    assert first == second
