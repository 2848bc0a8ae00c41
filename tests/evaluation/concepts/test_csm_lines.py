"""A verdict names its score and its reference, and there is none where a single control reverses it."""

import numpy as np

from benchmarks.null_rates import controls_pair
from candlelight.evaluation.concepts.concepts_pictures import csm_lines
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import Provenance, StatisticResult

CONTROL = "csm_s aligned against control, all sets"
PLAIN = "csm_r aligned, all sets"


def result(name, against, by_control, plain, controls=6):
    about = Provenance("csm", 4, "higher", {"name": name}, {}, {}, {})
    values = {CONTROL: against, PLAIN: plain, "csm_s aligned, all sets": 9.0}
    scores = {key: Score(value, value - 0.1, value + 0.1) for key, value in values.items()}
    replicates = {key: tuple(value + 0.01 * (k % 7) for k in range(400)) for key, value in values.items()}
    details = {"by_control": {CONTROL: by_control}}
    units = {CONTROL: {"scenes": 6, "controls": controls}}
    return StatisticResult(about, scores, replicates, tuple("abcdefgh"), (), details, units)


def test_each_verdict_names_score_and_reference():
    first = result("net", 2.0, {"material=0": 1.5, "material=1": 3.0}, 0.5)
    other = result("flat", 1.0, {"material=0": 0.5, "material=1": 1.2}, 0.7)
    spread, _, better, numbers, worse, _ = csm_lines([first, other])
    assert spread == f"net: {CONTROL} is 1.5 against material=0 alone and 3 against material=1, of 2 controls"
    assert better == "net is better than flat, by csm_s against controls"
    assert numbers.startswith(f"{CONTROL} ↑: net - flat = +1")
    assert worse == "flat is better than net, by csm_r against negatives"


def test_one_control_that_reverses_the_order_leaves_it_undecided():
    first = result("net", 2.0, {"material=0": 1.5, "material=1": 3.0}, 0.5)
    other = result("flat", 1.0, {"material=0": 1.6, "material=1": 0.5}, 0.5)
    found = compare(first, other, CONTROL)
    assert found.winner is None
    assert found.p_value < 0.05
    assert str(found).startswith(
        "undecided between net and flat: the order is reversed against material=0 alone\n"
    )


def test_few_controls_leave_it_undecided():
    first, other = (result(name, value, {}, 0.5, controls=5) for name, value in (("net", 2.0), ("flat", 1.0)))
    verdict, numbers, *_ = csm_lines([first, other])
    assert verdict == (
        "undecided between net and flat, by csm_s against controls: expected 6 or more controls, got 5"
    )
    assert numbers.endswith("(no interval, 8 groups, 6 scenes, 5 controls)")


def test_a_large_difference_over_scenes_and_controls_is_found():
    rng = np.random.default_rng(0)
    pair = controls_pair(rng, images=12, scenes=6, controls=6, spread=(0.3, 0.3), ratio=8)
    assert [compare(*pair, name).winner for name in pair[0].scores] == ["first"] * 2
