import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.interval_coverage import coverage, found
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.intervals import Score, mean_interval
from candlelight.evaluation.run.result import MeanResult, Provenance, StatisticResult
from candlelight.evaluation.run.result_files import write_results
from tests.command_line import refusal, run
from tests.refusals import refused

NAN = math.nan
ABOUT = {"metric": "lmse", "version": 1, "better": "lower", "model": {"name": "net"}}
ABOUT |= {"data": {"name": "demo", "sha256": "1"}, "settings": {"seed": 0}, "packages": {}}


def about(**changes):
    return Provenance(**ABOUT | changes)


def means(values, ids="abcdef", groups="rstuvw", failed=(), ranges=None, **changes):
    count = len(values)
    columns = {"lmse": tuple(values)}
    return MeanResult(
        about(**changes), tuple(ids[:count]), tuple(groups[:count]), columns, failed, ranges=ranges or {}
    )


def statistics(value, replicates, groups="rstuvw", **changes):
    scores, drawn = {"csm": Score(value, NAN, NAN)}, {"csm": tuple(replicates)}
    return StatisticResult(about(metric="csm", **changes), scores, drawn, tuple(groups), (), {})


def test_rows_are_paired_by_id():
    first = means([0.5, 0.4, 0.7, 0.6, 0.4, 0.5], model={"name": "flat"})
    second = means([0.2, 0.1, 0.2, 0.4, 0.1, 0.3], ids="fedcba", groups="wvutsr")
    result = compare(first, second)
    differences = [0.5 - 0.3, 0.4 - 0.1, 0.7 - 0.4, 0.6 - 0.2, 0.4 - 0.1, 0.5 - 0.2]
    assert result.difference == mean_interval(differences, list("rstuvw"))
    assert result.winner == "second"
    assert result.groups == 6
    assert str(result).startswith(
        "net is better than flat\nlmse ↓: flat - net = +0.3 (95 % interval +0.234 to"
    )
    assert str(result).endswith("p = 8.3e-05, 6 rows in 6 groups)")


def test_one_file_or_two_on_the_command_line(tmp_path):
    path = tmp_path / "lmse.json"
    results = [means([0.1 * rank, 0.2, 0.3, 0.4], model={"name": f"net {rank}"}) for rank in (1, 2, 3)]
    write_results(path, results)
    for words, count in (([path], 3), ([path, path], 6)):  # no result is compared with itself
        assert run("evaluate", "compare", *words).count("lmse ↓: ") == count
    controls = [means([rank, 2.0], model={"name": f"{rank}", "source": "control"}) for rank in (1, 3)]
    write_results(path, [*results[:2], *controls])
    assert run("evaluate", "compare", path).count("lmse ↓: ") == 5  # not the two controls
    write_results(path, results[:1])
    assert "expected two different results, got one in" in refusal("evaluate", "compare", path)


def test_higher_may_be_better():
    first = means([5.0, 4.0, 5.5, 5.0, 4.5, 5.0], better="higher")
    second = means([1.0] * 6, better="higher")
    assert compare(first, second).winner == "first"
    assert "net (first) is better than net (second)" in str(compare(first, second))


def test_equal_results_show_no_difference():
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    result = compare(means(values), means(values))
    assert (result.difference, result.p_value, result.winner) == (Score(0, 0, 0), 1, None)
    assert str(result).startswith("undecided between net (first) and net (second): no difference shown\n")


def test_rows_that_one_does_not_define_are_left_out():
    result = compare(means([0.1, NAN, 0.3, 0.4]), means([0.2, 0.1, 0.5, NAN]))
    assert result.difference.value == pytest.approx(-0.15)
    assert result.counted == "2 rows in 2 groups, without 2 rows that are missing or undefined in one result"


@pytest.mark.parametrize("groups", ["rrrrrr", "rstuvv"])
def test_fewer_than_six_groups_give_no_verdict(groups):
    result = compare(means([0.1, 0.12, 0.1, 0.12, 0.1, 0.1], groups=groups), means([0.9] * 6, groups=groups))
    count = len(set(groups))
    assert math.isnan(result.p_value)
    assert result.winner is None
    assert str(result) == (
        "undecided between net (first) and net (second): expected 6 or more groups, "
        f"got {count}\nlmse ↓: net (first) - net (second) = -0.793 (no interval, 6 rows in {count} groups)"
    )


def test_differences_stay_within_the_range_of_two_scores():
    values = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    first, second = (means(some, ranges={"lmse": (0.0, 1.0)}) for some in (values, [0.0] * 6))
    assert compare(means(values), means([0.0] * 6)).difference.high > 1.2
    assert compare(first, second).difference.high == 1


def test_replicates_are_paired():
    noise = np.random.default_rng(0).normal(size=500)
    first = statistics(0.6, 0.6 + noise, model={"name": "flat"}, better="higher")
    second = statistics(0.5, 0.5 + noise + 0.001 * np.arange(500) / 500, better="higher")
    result = compare(first, second)
    assert result.difference.value == pytest.approx(0.1)
    assert 0.098 < result.difference.low < result.difference.high <= 0.1001
    assert result.winner == "first"


def test_seeds_are_paired():
    drawn = [0.4, 0.5, 0.6, 0.5, 0.5, 0.4], [0.2, 0.3, 0.35, 0.3, 0.2, 0.3]
    first, second = (statistics(sum(some) / 6, some, groups="", better="higher") for some in drawn)
    result = compare(first, second)
    assert result.difference == mean_interval(np.subtract(*drawn).tolist(), list("012345"))
    assert result.counted == "6 seeds"
    few = (statistics(0.5, some[:5], groups="", better="higher") for some in drawn)
    assert "expected 6 or more seeds, got 5" in str(compare(*few))


def test_other_units_that_the_replicates_draw_decide_too():
    def drawn(*counts):
        noise = np.random.default_rng(0).normal(size=500)
        units = {"csm": dict(zip(("scenes", "controls"), counts, strict=True))}
        results = (statistics(value, value + noise * value, groups="abcdefgh") for value in (3.0, 1.0))
        first, second = (replace(one, units=units) for one in results)
        return compare(first, second)

    assert drawn(8, 9).groups == 8
    assert drawn(8, 9).counted == "8 groups, 8 scenes, 9 controls"
    assert drawn(6, 9).p_value > drawn(8, 9).p_value
    few = drawn(8, 5)
    assert few.winner is None
    assert math.isnan(few.difference.low)
    assert ": expected 6 or more controls, got 5\n" in str(few)
    assert ": expected 6 or more scenes and controls, got 2 and 3\n" in str(drawn(2, 3))


def test_infinite_and_undefined_statistics_have_no_interval():
    result = compare(statistics(math.inf, [math.inf] * 20), statistics(math.inf, [math.inf] * 20))
    assert math.isnan(result.difference.value)
    assert math.isnan(result.p_value)
    assert "undecided between net (first) and net (second): undefined values\n" in str(result)


def test_the_same_data_may_have_two_names():
    other = means([0.2] * 6, data={"name": "copy", "sha256": "1"})
    assert compare(means([0.1] * 6), other).winner == "first"


FOUR = means([0.1] * 4)
UNALIKE = [
    ({"metric": "whdr"}, "the results differ in metric, 'lmse' and 'whdr': evaluate both in the same way"),
    ({"version": 2}, "differ in version, 1 and 2"),
    ({"better": "higher"}, "differ in better, 'lower' and 'higher'"),
    ({"data": {"name": "demo", "sha256": "2"}}, "differ in data.sha256, '1' and '2'"),
    ({"settings": {}}, "differ in settings.seed, 0 and 'nothing'"),
    ({"settings": {"seed": {"a": 1}}}, "differ in settings.seed, 0 and {'a': 1}"),
]
REPLICATES = "expected equal numbers of replicates of `csm` on the same groups"


@pytest.mark.parametrize(
    ("first", "second", "column", "message"),
    [
        *((FOUR, means([0.2] * 4, **changes), None, message) for changes, message in UNALIKE),
        (FOUR, means([0.1] * 4, ids="efgh"), None, "got none in common"),
        (
            FOUR,
            means([0.1] * 4, groups="srtu"),
            None,
            "row `a` belongs to group `r` in one result and to `s`",
        ),
        (FOUR, FOUR, "lmsee", r"no column `lmsee` in both results; .*did you mean `lmse`"),
        (statistics(0.1, [1.0]), statistics(0.1, []), None, REPLICATES),
        (statistics(0.1, [1.0]), statistics(0.1, [1.0, 2.0]), None, REPLICATES),
        (statistics(0.1, [1.0]), statistics(0.1, [1.0], "rstuvx"), None, REPLICATES),
        # Scores over random halves have intervals, but no replicates.
        (
            statistics(0.1, []),
            statistics(0.2, []),
            None,
            "`csm` cannot be compared, because it has no",
        ),
        (FOUR, statistics(0.1, []), None, "expected two results of one metric, got `lmse` and `csm`"),
    ],
)
def test_results_must_be_alike(first, second, column, message):
    with refused(message):
        compare(first, second, column)


@pytest.mark.parametrize(
    ("skewed", "groups", "least"), [(False, 8, 0.91), (False, 64, 0.91), (True, 64, 0.84)]
)
def test_intervals_reach_the_coverage_in_the_docs(skewed, groups, least):
    # 200 runs of an interval that covers 95 % fall below 0.91 once in 200 tries.
    assert all(share >= least for share in coverage(groups, skewed, runs=200, seed=1).values())


@pytest.mark.parametrize("skewed", [False, True], ids=["normal", "lognormal"])
def test_true_differences_are_found_and_equal_models_are_not_distinguished(skewed, monkeypatch):
    monkeypatch.setattr("benchmarks.interval_coverage.RESAMPLES", 500)
    assert all(share >= 0.85 for share in found(0.35, skewed, runs=200, seed=1).values())
    assert all(share <= 0.10 for share in found(0.0, skewed, runs=200, seed=1).values())
