"""Options that the paper leaves open and the alternatives to them, and options that no method reads."""

from dataclasses import fields

import pytest

from candlelight.evaluation.catalogue.coverage_options import PROPORTIONS, CoverageOptions, ExplanationOptions
from candlelight.evaluation.catalogue.record import make_options
from tests.refusals import refused


def test_each_alternative_changes_one_parameter() -> None:
    for chosen in (CoverageOptions(), CoverageOptions(k=7, rank="score", choose="same", reduce="sum")):
        for setting, other in chosen.alternatives().items():
            name = setting.partition(" ")[0]
            differing = [
                one.name for one in fields(chosen) if getattr(chosen, one.name) != getattr(other, one.name)
            ]
            assert differing == [name]
            if " = " in setting:
                assert setting == f"{name} = {getattr(other, name)}"
    assert list(CoverageOptions(k=7).alternatives())[:3] == ["k = 1", "k = 3", "k = 5"]


def test_percent_are_tried() -> None:
    percent = CoverageOptions().alternatives()["proportions / 100"].proportions
    assert percent == pytest.approx([share / 100 for share in PROPORTIONS])


def test_every_parameter_but_the_sum_over_parts_is_tried() -> None:
    names = {setting.partition(" ")[0] for setting in CoverageOptions().alternatives()}
    others = {"layer", "by", "part", "quick", "reduce"} | {one.name for one in fields(ExplanationOptions)}
    assert names == {one.name for one in fields(CoverageOptions)} - others


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"proportions": ()}, "`proportions`: expected at least one share of points, got none"),
        ({"proportions": (0.1, 1.0)}, "`proportions`: expected above 0 and below 1, got 1"),
        ({"topics": 3}, "`topics` 3: needs `method` topics"),
        ({"fit": "parts"}, "`fit` parts: needs a `method`"),
        ({"method": ("vebi",), "topics": 3}, "`topics` 3: needs `method` topics"),
        ({"method": ("topics",), "bound": 3.0}, "`bound` 3.0: needs `method` vebi"),
        ({"method": ("vebi",), "seed": 3}, "`seed` 3: needs `method` topics, prototypes, rise, .* or file.*"),
    ],
)
def test_options_that_are_refused(given, message) -> None:
    with refused(f"^{message}$"):
        make_options(CoverageOptions, given)


def test_options_that_a_method_reads() -> None:
    given = {"method": ("vebi", "topics"), "topics": 3, "bound": 2, "fit": "parts", "seed": 1}
    assert make_options(CoverageOptions, given).bound == 2
    assert make_options(CoverageOptions, {"method": ("all",), "prototypes": 3}).prototypes == 3
