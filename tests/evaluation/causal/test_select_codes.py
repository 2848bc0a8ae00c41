from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.irs import irs, select_codes
from candlelight.loaders.errors import InputError


def candle(column, rho):
    """Select codes like the authors' program, with the order of numpy's partition in explicit form."""
    order = list(range(len(column)))
    if len(order) <= 3:
        for place in range(len(order)):
            smallest = min(range(place, len(order)), key=lambda other: (column[order[other]], other))
            order[place], order[smallest] = order[smallest], order[place]
    else:
        largest = max(order, key=lambda code: (column[code], code))
        order[-1], order[largest] = order[largest], order[-1]
    return order[::-1][::rho][:rho]


@pytest.mark.parametrize("levels", [None, 3], ids=["distinct", "ties"])
@pytest.mark.parametrize(
    ("codes", "rho"), [(1, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2), (5, 3), (8, 1), (8, 2), (16, 7)]
)
def test_equals_loops(codes, rho, levels):
    rng = np.random.default_rng(codes)
    for _ in range(10):
        matrix = rng.random((codes, 4)) if levels is None else rng.integers(levels, size=(codes, 4)) / levels
        table = torch.from_numpy(matrix)
        exact = [np.argsort(-column, kind="stable")[:rho].tolist() for column in matrix.T]
        assert select_codes(table, rho).tolist() == exact
        authors = [candle(column, rho) for column in matrix.T]
        assert select_codes(table, rho, "candle2021").tolist() == authors


@pytest.mark.parametrize(
    ("column", "rho", "expected"),
    [
        ([0.1, 0.9, 0.2], 2, [1, 0]),
        ([0.9, 0.1], 1, [0]),
        # Three of which two are equal: the smallest changes places with the first.
        ([0.5, 0.5, 0.1], 3, [0]),
        # The largest is at the place that is taken second, and the last code was swapped there.
        ([0.0, 0.0, 0.9, 0.0, 0.0], 2, [2, 4]),
        # Four places from the end, the last code stays where the largest was.
        ([0.9, 0.0, 0.8, 0.7, 0.0, 0.0], 2, [0, 3]),
        # Five codes at every third from the end: two only.
        ([0.9, 0.0, 0.0, 0.0, 0.0], 3, [0, 1]),
        # The last of equals.
        ([0.5, 0.0, 0.5, 0.0, 0.0], 1, [2]),
    ],
    ids=["three are sorted", "two", "equal threes", "swapped", "third from the end", "too few", "tie"],
)
def test_order_of_the_authors_program(column, rho, expected):
    assert select_codes(torch.tensor([column]).T, rho, "candle2021").tolist() == [expected]


def test_codes_of_irs_are_columns_of_its_input():
    factors = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    constant = torch.ones(12)
    codes = torch.stack([constant, factors[:, 1], constant, factors[:, 0]], dim=1).float()
    assert select_codes(irs(codes, factors)).tolist() == [[3], [1]]


@pytest.mark.parametrize("rho", [0, 5])
def test_rho_must_be_a_number_of_codes(rho):
    with pytest.raises(InputError, match=f"`rho` must be 1 to 4, the number of codes that vary, got {rho}"):
        select_codes(torch.rand(4, 2), rho)


def test_invalid_arguments_are_refused():
    with pytest.raises(InputError, match="`matrix` must be finite, got nan or inf"):
        select_codes(torch.full((4, 2), torch.nan))
    with pytest.raises(InputError, match=r"expected `matrix` \[codes, factors\], got \[4\]"):
        unwrap(select_codes)(torch.ones(4))
    with pytest.raises(InputError, match="`compat` must be one of: exact, candle2021; got candle"):
        unwrap(select_codes)(torch.ones(4, 3), 1, "candle")
