import math

import pytest

from candlelight.evaluation.intrinsic.protocol_report import changed_orders, model_ranks, protocol_rows
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import Provenance, StatisticResult


def results(protocol: str, column: str, **scores: float) -> dict[str, StatisticResult]:
    made = {}
    for name, score in scores.items():
        about = Provenance(protocol, 1, "lower", {"name": name}, {}, {"protocol": protocol}, {})
        made[name] = StatisticResult(about, {column: Score(score, math.nan, math.nan)}, {}, (), (), {})
    return made


@pytest.fixture
def three():
    return {
        "mit-grosse": results("mit-grosse", "lmse", one=0.1, two=0.2, three=0.2),
        "stanford-orb": results("stanford-orb", "psnr_reflectance", one=20, two=30, three=math.nan),
        "iiw-whdr": results("iiw-whdr", "whdr", one=0.5, two=0.25, three=0.75),
        "iiw-gamma": results("iiw-gamma", "whdr", one=0.5, two=0.5, three=0.5),
    }


def test_ranks_follow_the_direction_and_equal_scores_share_the_best(three) -> None:
    assert model_ranks("mit-grosse", three["mit-grosse"]) == {"one": 1, "two": 2, "three": 2}
    assert model_ranks("stanford-orb", three["stanford-orb"]) == {"one": 2, "two": 1}


def test_table(three) -> None:
    assert protocol_rows(three) == [
        ("protocol", "score", "one", "two", "three"),
        ("mit-grosse", "lmse ↓", "0.1 (1)", "0.2 (2)", "0.2 (2)"),
        ("stanford-orb", "psnr_reflectance ↑", "20 (2)", "30 (1)", "undefined"),
        ("iiw-whdr", "whdr ↓", "0.5 (2)", "0.25 (1)", "0.75 (3)"),
        ("iiw-gamma", "whdr ↓", "0.5 (1)", "0.5 (1)", "0.5 (1)"),
        ("ranks", "", "1 to 2", "1 to 2", "1 to 3"),
    ]


def test_neighbours_differ_only_if_two_models_change_places(three) -> None:
    assert changed_orders(three) == ["mit-grosse: one, two = three; stanford-orb: two, one"]
    del three["stanford-orb"]
    assert changed_orders(three) == ["mit-grosse: one, two = three; iiw-whdr: two, one, three"]
    assert changed_orders({"mit-grosse": three["mit-grosse"]}) == []


def test_perfect_scores_are_ranked(three) -> None:
    perfect = results("stanford-orb", "psnr_reflectance", one=math.inf, two=30)
    assert model_ranks("stanford-orb", perfect) == {"one": 1, "two": 2}


def test_rounding_decides_no_rank() -> None:
    noisy = results("mit-grosse", "lmse", one=0.13130000000000002, two=0.1313, three=0.1314)
    assert model_ranks("mit-grosse", noisy) == {"one": 1, "two": 1, "three": 3}
