from inspect import unwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from candlelight.evaluation.causal.code_inputs import discretise
from candlelight.loaders.errors import InputError

NUMBERS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=30)


@settings(max_examples=50)
@given(NUMBERS, st.data())
def test_equal_width_is_that_of_numpy(values, data):
    bins = data.draw(st.integers(2, len(values)))
    column = torch.tensor(values, dtype=torch.float64)
    found = discretise(column[:, None], bins)[:, 0]
    edges = np.linspace(min(values), max(values), bins + 1)
    assert found.tolist() == (np.digitize(values, edges[:-1]) - 1).tolist()
    if column.min() < column.max():
        counts = np.histogram(column.numpy(), edges)[0]
        assert torch.bincount(found, minlength=bins).tolist() == counts.tolist()


@settings(max_examples=50)
@given(NUMBERS, st.data())
def test_quantiles_equal_loops(values, data):
    bins = data.draw(st.integers(2, len(values)))
    found = discretise(torch.tensor(values, dtype=torch.float64)[:, None], bins, "quantile")[:, 0]
    below = [sum(other < value for other in values) for value in values]
    assert found.tolist() == [count * bins // len(values) for count in below]


def test_quantiles_have_equal_counts_and_ignore_monotone_maps():
    values = torch.rand(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = discretise(values, 8, "quantile")
    assert all(torch.bincount(column).tolist() == [5] * 8 for column in found.T)
    assert torch.equal(discretise((5 * values).exp(), 8, "quantile"), found)
    assert not torch.equal(discretise((5 * values).exp(), 8), discretise(values, 8))


def test_classes_are_numbered_in_order_and_need_no_bins():
    classes = torch.tensor([[30, -1], [7, -1], [30, 5]])
    assert discretise(classes, bins=999).tolist() == [[1, 0], [0, 0], [1, 1]]
    mixed = torch.tensor([[3.0, 0.0], [1.5, 0.9], [3.0, 1.0]])
    assert discretise(mixed, 2, categorical=[0]).tolist() == [[1, 0], [0, 1], [1, 1]]


def test_a_constant_column_is_one_class():
    for rule in ("width", "quantile"):
        assert len(discretise(torch.full((6, 1), 0.3), 3, rule).unique()) == 1


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (torch.rand(6, 2), {"bins": 1}, "`bins` must be 2 to 6, the number of samples, got 1"),
        (torch.rand(6, 2), {"bins": 7}, "`bins` must be 2 to 6, the number of samples, got 7"),
        (torch.rand(0, 2), {"bins": 2}, "`bins` must be 2 to 0"),
        (torch.tensor([[0.0], [torch.nan]]), {"bins": 2}, "`values` must be finite"),
        (torch.rand(6, 2), {"categorical": [2]}, "`categorical` must list columns from 0 to 1, got 2"),
        (torch.rand(6, 2), {"rule": "widht"}, "`rule` must be one of: width, quantile; got widht"),
        (torch.rand(6), {}, r"expected `values` \[samples, columns\], got \[6\]"),
    ],
)
def test_refused_arguments(values, options, message):
    with pytest.raises(InputError, match=message):
        unwrap(discretise)(values, **options)
