import math

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.interval_coverage import coverage, found
from candlelight.cli import main
from candlelight.evaluation.results.compare import compare
from candlelight.evaluation.results.mean_intervals import Score, mean_interval
from candlelight.evaluation.results.result import MeanResult, Provenance, StatisticResult
from candlelight.evaluation.results.result_files import write_results
from candlelight.loaders.errors import InputError

NAN = math.nan
ABOUT = {"metric": "lmse", "version": 1, "better": "lower", "model": {"name": "net"}}
ABOUT |= {"data": {"name": "demo", "sha256": "1"}, "settings": {"seed": 0}, "packages": {}}


def about(**changes):
    return Provenance(**ABOUT | changes)


def means(values, ids="abcd", groups="rstu", failed=(), **changes):
    return MeanResult(about(**changes), tuple(ids), tuple(groups), {"lmse": tuple(values)}, failed)


def statistics(value, replicates, groups="rstuvw", **changes):
    scores, drawn = {"csm": Score(value, NAN, NAN)}, {"csm": tuple(replicates)}
    return StatisticResult(about(metric="csm", **changes), scores, drawn, tuple(groups), (), {})


def test_rows_are_paired_by_id():
    first = means([0.5, 0.4, 0.7, 0.6], model={"name": "flat"})
    second = means([0.2, 0.4, 0.1, 0.3], ids="dcba", groups="utsr")
    result = compare(first, second)
    assert result.difference == mean_interval(
        [0.5 - 0.3, 0.4 - 0.1, 0.7 - 0.4, 0.6 - 0.2], ["r", "s", "t", "u"]
    )
    assert result.winner == "second"
    assert result.groups == 4
    assert str(result).startswith(
        "net is better than flat\nlmse ↓: flat - net = +0.3 (95 % interval +0.17 to"
    )
    assert str(result).endswith("p = 0.0052, 4 rows in 4 groups)")


def test_one_file_or_two_on_the_command_line(tmp_path):
    path = tmp_path / "lmse.json"
    results = [means([0.1 * rank, 0.2, 0.3, 0.4], model={"name": f"net {rank}"}) for rank in (1, 2, 3)]
    write_results(path, results)
    for words, count in (([path], 3), ([path, path], 6)):  # no result is compared with itself
        printed = CliRunner().invoke(main, ["evaluate", "compare", *map(str, words)])
        assert (printed.exit_code, printed.output.count("lmse ↓: ")) == (0, count)
    write_results(path, results[:1])
    printed = CliRunner().invoke(main, ["evaluate", "compare", str(path)])
    assert printed.exit_code == 2
    assert "expected two different results, got one in" in printed.output


def test_higher_may_be_better():
    first, second = means([5.0, 4.0, 5.5, 5.0], better="higher"), means([1.0] * 4, better="higher")
    assert compare(first, second).winner == "first"
    assert "net (first) is better than net (second)" in str(compare(first, second))


def test_equal_results_show_no_difference():
    result = compare(means([0.1, 0.2, 0.3, 0.4]), means([0.1, 0.2, 0.3, 0.4]))
    assert (result.difference, result.p_value, result.winner) == (Score(0, 0, 0), 1, None)
    assert str(result).startswith("no difference shown between net (first) and net (second)\n")


def test_rows_that_one_does_not_define_are_left_out():
    result = compare(means([0.1, NAN, 0.3, 0.4]), means([0.2, 0.1, 0.5, NAN]))
    assert result.difference == mean_interval([0.1 - 0.2, 0.3 - 0.5], ["r", "t"])
    assert result.counted == "2 rows in 2 groups, without 2 rows that are missing or undefined in one result"


def test_one_group_gives_no_verdict():
    result = compare(means([0.1] * 4, groups="rrrr"), means([0.2] * 4, groups="rrrr"))
    assert math.isnan(result.p_value)
    assert result.winner is None
    assert str(result).startswith("net (first) and net (second) cannot be compared: ")
    assert "(no interval, 4 rows in 1 groups)" in str(result)


def test_replicates_are_paired():
    noise = np.random.default_rng(0).normal(size=500)
    first = statistics(0.6, 0.6 + noise, model={"name": "flat"}, better="higher")
    second = statistics(0.5, 0.5 + noise + 0.001 * np.arange(500) / 500, better="higher")
    result = compare(first, second)
    assert result.difference.value == pytest.approx(0.1)
    assert 0.098 < result.difference.low < result.difference.high <= 0.1001
    assert result.winner == "first"


def test_seeds_are_paired():
    first = statistics(0.5, [0.4, 0.5, 0.6], groups="", better="higher")
    second = statistics(0.3, [0.2, 0.3, 0.35], groups="", better="higher")
    result = compare(first, second)
    assert result.difference == mean_interval([0.4 - 0.2, 0.5 - 0.3, 0.6 - 0.35], ["0", "1", "2"])
    assert result.counted == "3 seeds"


def test_infinite_and_undefined_statistics_have_no_interval():
    result = compare(statistics(math.inf, [math.inf] * 20), statistics(math.inf, [math.inf] * 20))
    assert math.isnan(result.difference.value)
    assert math.isnan(result.p_value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"metric": "whdr"},
            "the results differ in metric, 'lmse' and 'whdr': evaluate both in the same way",
        ),
        ({"version": 2}, "differ in version, 1 and 2"),
        ({"better": "higher"}, "differ in better, 'lower' and 'higher'"),
        ({"data": {"name": "demo", "sha256": "2"}}, "differ in data.sha256, '1' and '2'"),
        ({"settings": {"seed": 1}}, "differ in settings.seed, 0 and 1"),
        ({"settings": {}}, "differ in settings.seed, 0 and 'nothing'"),
        ({"settings": {"seed": {"a": 1}}}, "differ in settings.seed, 0 and {'a': 1}"),
    ],
)
def test_results_must_be_alike(changes, message):
    with pytest.raises(InputError, match=message):
        compare(means([0.1] * 4), means([0.2] * 4, **changes))


def test_the_same_data_may_have_two_names():
    other = means([0.2] * 4, data={"name": "copy", "sha256": "1"})
    assert compare(means([0.1] * 4), other).winner == "first"


def test_rows_in_common_and_in_the_same_groups():
    with pytest.raises(InputError, match="got none in common"):
        compare(means([0.1] * 4), means([0.1] * 4, ids="efgh"))
    with pytest.raises(
        InputError, match="row `a` belongs to group `r` in one result and to `s` in the other"
    ):
        compare(means([0.1] * 4), means([0.1] * 4, groups="srtu"))


def test_columns_that_are_not_there():
    with pytest.raises(InputError, match=r"no column `lmsee` in both results; .*did you mean `lmse`"):
        compare(means([0.1] * 4), means([0.1] * 4), "lmsee")


@pytest.mark.parametrize(
    ("replicates", "groups"),
    [([], "rstuvw"), ([1.0, 2.0], "rstuvw"), ([1.0], "rstuvx")],
    ids=["none", "more", "groups"],
)
def test_replicates_of_the_same_groups(replicates, groups):
    with pytest.raises(InputError, match="expected equal numbers of replicates of `csm` on the same groups"):
        compare(statistics(0.1, [1.0]), statistics(0.1, replicates, groups))


def test_scores_without_replicates_are_not_compared():
    """Scores over random halves have intervals, but no replicates."""
    with pytest.raises(InputError, match="`csm` cannot be compared, because it has no replicates"):
        compare(statistics(0.1, []), statistics(0.2, []))


def test_kinds_are_not_mixed():
    with pytest.raises(InputError, match="expected two results of one metric, got `lmse` and `csm`"):
        compare(means([0.1] * 4), statistics(0.1, []))


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
