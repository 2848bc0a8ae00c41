"""Values of the parameters that the paper leaves open, and the alternatives to them."""

from dataclasses import fields, replace

import pytest

from candlelight.evaluation.coverage.open_parameters import PROPORTIONS, OpenParameters
from candlelight.loaders.errors import InputError


def test_each_alternative_changes_one_parameter() -> None:
    for chosen in (OpenParameters(), OpenParameters(k=7, rank="score", choose="same", reduce="sum")):
        for setting, other in chosen.alternatives().items():
            name = setting.partition(" ")[0]
            differing = [
                one.name for one in fields(chosen) if getattr(chosen, one.name) != getattr(other, one.name)
            ]
            assert differing == [name]
            if " = " in setting:
                assert setting == f"{name} = {getattr(other, name)}"
    assert list(OpenParameters(k=7).alternatives())[:3] == ["k = 1", "k = 3", "k = 5"]


def test_percent_are_tried() -> None:
    percent = OpenParameters().alternatives()["proportions / 100"].proportions
    assert percent == pytest.approx([share / 100 for share in PROPORTIONS])


def test_every_parameter_but_the_sum_over_parts_is_tried() -> None:
    names = {setting.partition(" ")[0] for setting in OpenParameters().alternatives()}
    assert names == {one.name for one in fields(OpenParameters)} - {"reduce"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "`k` must be at least 1, got 0"),
        ({"rank": "scores"}, "did you mean `score`"),
        ({"proportions": ()}, "expected at least one proportion, got none"),
        ({"proportions": (0.1, 1.0)}, "`proportion` must lie between 0 and 1, got 1.0"),
        ({"proportions": (float("nan"),)}, "`proportion` must lie between 0 and 1, got nan"),
        ({"choose": "other"}, "choose"),
        ({"pooling": "sets"}, "pooling"),
        ({"threshold_at": "masks"}, "threshold_at"),
        ({"compat": "waiou"}, "compat"),
        ({"iou_threshold": 1.0}, "`iou_threshold` must be at least 0 and below 1, got 1.0"),
        ({"iou_threshold": float("nan")}, "`iou_threshold` must be at least 0 and below 1, got nan"),
        ({"reduce": "max"}, "reduce"),
    ],
)
def test_values_out_of_range(change, message) -> None:
    with pytest.raises(InputError, match=message):
        replace(OpenParameters(), **change)
