from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candlelight.evaluation.perception.experiment.stimuli import Stimulus, plan_trials


def pairs(levels, repeats):
    return [
        Stimulus("transform", f"{name}{level}{repeat}", name, float(level), level, repeat)
        for name in ("rotation", "scale")
        for level in range(levels)
        for repeat in range(repeats)
    ]


@given(levels=st.integers(1, 4), repeats=st.integers(1, 7), seed=st.integers(0, 2**63 - 1))
def test_every_pair_is_shown_once_and_sides_are_balanced_in_each_level(levels, repeats, seed):
    trials = plan_trials(pairs(levels, repeats), seed, "ann")
    assert [trial.number for trial in trials] == list(range(2 * levels * repeats))
    assert Counter(trial.stimulus for trial in trials) == Counter(pairs(levels, repeats))
    cells = Counter((t.stimulus.transform, t.stimulus.level, t.side) for t in trials)
    for name, level in {(t.stimulus.transform, t.stimulus.level) for t in trials}:
        assert abs(cells[name, level, "left"] - cells[name, level, "right"]) == repeats % 2


def test_the_order_depends_on_seed_and_observer_alone():
    first = plan_trials(pairs(5, 6), 1, "ann")
    assert plan_trials(pairs(5, 6), 1, "ann") == first
    for seed, observer in ((2, "ann"), (1, "bob")):
        other = plan_trials(pairs(5, 6), seed, observer)
        assert [t.stimulus for t in other] != [t.stimulus for t in first]
        sides = [{t.stimulus: t.side for t in plan} for plan in (first, other)]
        assert sides[0] != sides[1]


def test_the_extra_side_and_the_first_side_are_drawn():
    sides = Counter(plan_trials(pairs(1, 1)[:1], seed, "ann")[0].side for seed in range(200))
    assert sides["left"] == pytest.approx(100, abs=35)  # five standard deviations
