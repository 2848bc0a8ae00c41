import csv
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from candlelight.evaluation.run.json_values import to_csv, to_json_values


@dataclass(frozen=True)
class Inner:
    score: torch.Tensor


@dataclass(frozen=True)
class Outer:
    inner: Inner
    table: dict[int, float]


def test_nested_dataclasses_become_strict_json():
    value = Outer(Inner(torch.tensor([[1.0, math.nan]])), {1: math.inf, 2: -math.inf})
    plain = to_json_values(value)
    assert plain == {"inner": {"score": [[1.0, None]]}, "table": {"1": "inf", "2": "-inf"}}
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.tensor(2.5), 2.5),
        (torch.tensor(True), True),
        (np.float32(math.nan), None),
        (np.arange(2), [0, 1]),
        ((1, "a", None), [1, "a", None]),
    ],
    ids=["scalar", "bool", "numpy", "array", "tuple"],
)
def test_values(value, expected):
    assert to_json_values(value) == expected


def test_formulas_are_written_as_text():
    cells = ["=1+1", "+x", "-name", "@sum", "\t=1", "-", "-0.5", "+3e-2", "-inf", "a=b", "", -1.5]
    written = ["'=1+1", "'+x", "'-name", "'@sum", "'\t=1", "-", "-0.5", "+3e-2", "-inf", "a=b", "", "-1.5"]
    once = to_csv([cells])
    assert next(csv.reader([once])) == written
    assert to_csv([written]) == once  # tables of several results are written again
