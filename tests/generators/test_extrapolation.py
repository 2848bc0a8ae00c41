import math
from dataclasses import replace

import pytest

from generators.extrapolation import (
    Cost,
    Estimate,
    Machine,
    Overhead,
    Reading,
    mean_cost,
    stratum_costs,
)
from generators.strata import Stratum

NOTHING = Overhead(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def stratum(count, arrivals=0, first=0):
    return Stratum(("cubes", "none", "plain", "1", "1"), tuple(range(first, first + count)), arrivals)


def reading(number, cpu, *, arrived=False, fresh=False):
    return Reading(number, Cost(cpu, 2 * cpu, 1000.0, 4.0), arrived, fresh)


def made_up(costs, overhead=NOTHING, *, samples=100, lifetime=2000, machine=None):
    return Estimate(samples, tuple(costs), overhead, lifetime, machine or Machine(2, 2), {}, 1.0, False)


def test_strata_are_weighed_by_their_groups():
    strata = [stratum(10), stratum(90, first=10)]
    costs = stratum_costs(strata, [reading(0, 1.0), reading(0, 3.0), reading(1, 10.0)])
    found = made_up(costs)
    assert found.tracing(1) == pytest.approx(10 * 2 + 90 * 10)
    assert found.bytes == pytest.approx(100 * 1000)
    assert found.inodes == pytest.approx(400)
    assert (found.traces, found.readings) == (100, 3)


def test_arrivals_are_counted_as_often_as_the_plan_has_them():
    seen = [reading(0, 1.0), reading(0, 1.0), reading(0, 5.0, arrived=True, fresh=True)]
    (cost,) = stratum_costs([stratum(10, arrivals=4)], seen)
    assert cost.total(1).cpu == pytest.approx(6 * 1 + 4 * 5)
    # Two workers come to the same surroundings, but never more often than there are groups.
    assert cost.total(2).cpu == pytest.approx(2 * 1 + 8 * 5)
    assert cost.total(8).cpu == pytest.approx(10 * 5)


def test_what_is_loaded_once_counts_once_for_each_process():
    seen = [reading(0, 9.0, arrived=True, fresh=True), reading(0, 5.0, arrived=True)]
    (cost,) = stratum_costs([stratum(100, arrivals=100)], seen)
    assert (cost.arriving.cpu, cost.fresh) == (5.0, 4.0)
    found = made_up([cost], replace(NOTHING, start=10.0))
    assert found.starting(1) == pytest.approx(14)
    assert found.starting(3) == pytest.approx(42)


def test_a_stratum_that_was_not_seen_costs_what_the_others_do():
    seen, unseen = stratum_costs([stratum(5), stratum(5, first=5)], [reading(0, 2.0)])
    assert (seen.readings, unseen.readings) == (1, 0)
    assert unseen.total().cpu == pytest.approx(10)


def test_processes_are_replaced_after_their_lifetime():
    costs = stratum_costs([stratum(1000)], [reading(0, 1.0)])
    found = made_up(costs, samples=9001, lifetime=2000)
    assert found.processes(1) == 5
    assert found.processes(2) == 6  # 4501 samples each
    assert found.processes(100) == 100
    few = made_up(stratum_costs([stratum(3)], [reading(0, 1.0)]), samples=3)
    assert few.processes(16) == 3  # one for each group at most


def test_processor_time_adds_up():
    costs = stratum_costs([stratum(10)], [reading(0, 3.0)])
    overhead = Overhead(
        start=7.0, start_seconds=8.0, planning=1.0, submitting=2.0, following=0.1, folder=500.0
    )
    found = made_up(costs, overhead)
    # 10 traces of 3 s, one start, and a tenth of the 60 s that the renderer was waited for.
    assert found.cpu_seconds(1) == pytest.approx(30 + 7 + 1 + 2 + 6)
    assert found.bytes == pytest.approx(10 * 1000 + 500)


def test_time_is_what_one_waits_for_or_what_the_processors_take():
    overhead = replace(NOTHING, planning=1.0, submitting=2.0)
    waiting = made_up(stratum_costs([stratum(100)], [reading(0, 3.0)]), overhead)
    assert waiting.wall_seconds(1) == pytest.approx(3 + 600)
    assert waiting.wall_seconds(2) == pytest.approx(3 + 300)
    # More workers than this machine's two are on more machines.
    assert waiting.wall_seconds(20) == pytest.approx(3 + 30)
    busy = stratum_costs([stratum(100)], [Reading(0, Cost(8.0, 2.0, 0.0, 0.0))])
    assert made_up(busy, overhead).wall_seconds(2) == pytest.approx(3 + 400)
    assert made_up(busy, overhead).wall_seconds(20) == pytest.approx(3 + 40)


def test_workers_without_work_save_no_time():
    found = made_up(stratum_costs([stratum(4)], [reading(0, 3.0)]), samples=4)
    assert found.wall_seconds(4) == found.wall_seconds(100)


def test_the_interval_is_that_of_a_stratified_sample():
    strata = [stratum(100), stratum(50, first=100)]
    seen = [reading(0, cpu) for cpu in (1.0, 2.0, 3.0)] + [reading(1, cpu) for cpu in (5.0, 5.0, 5.0)]
    found = made_up(stratum_costs(strata, seen))
    assert found.uncertainty == pytest.approx(1.96 * math.sqrt(100 * 97 * 1.0 / 3))


def test_nothing_is_uncertain_of_what_was_rendered_to_the_end():
    found = made_up(stratum_costs([stratum(3)], [reading(0, cpu) for cpu in (1.0, 2.0, 3.0)]))
    assert found.uncertainty == 0


def test_two_readings_borrow_the_spread_of_all():
    # Relative spread: variances 0.5 / 1.5**2 in the first and 0 in the second, one degree of freedom each.
    strata = [stratum(10), stratum(10, first=10)]
    seen = [reading(0, 1.0), reading(0, 2.0), reading(1, 4.0), reading(1, 4.0)]
    first, second = stratum_costs(strata, seen)
    spread = math.sqrt(0.5 / 1.5**2 / 2)
    assert first.deviation == pytest.approx(1.5 * spread)
    assert second.deviation == pytest.approx(4 * spread)


def test_readings_of_which_no_two_are_alike_borrow_the_spread_between_strata():
    strata = [stratum(10), stratum(10, first=10)]
    first, second = stratum_costs(strata, [reading(0, 1.0), reading(1, 3.0)])
    assert first.deviation == pytest.approx(math.sqrt(2) / 2)
    assert second.deviation == pytest.approx(3 * math.sqrt(2) / 2)


def test_mean_of_costs():
    assert mean_cost([Cost(1, 2, 3, 4), Cost(3, 4, 5, 6)]) == Cost(2, 3, 4, 5)


def test_an_empty_plan_takes_what_planning_takes():
    found = made_up((), replace(NOTHING, planning=3.0), samples=0)
    assert (found.traces, found.processes(4), found.cpu_seconds(4)) == (0, 0, 3.0)
    assert found.wall_seconds(4) == 3.0
