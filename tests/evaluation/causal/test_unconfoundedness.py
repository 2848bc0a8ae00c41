import itertools
import math
from inspect import unwrap

import numpy as np
import pytest
import torch

from evaluation.causal.irs import irs
from evaluation.causal.unconfoundedness import _candle2021, unconfoundedness
from loaders.errors import InputError


def _slow(matrix, rho):
    sets = [set(np.argsort(-column, kind="stable")[:rho]) for column in matrix.T]
    pairs = [len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)]
    return 1 - sum(pairs) / len(pairs)


def _candle(matrix, rho):
    """Select codes like the authors' program, with the swap of numpy's partition in explicit form."""
    sets = []
    for column in matrix.T:
        order = list(range(len(column)))
        largest = max(order, key=lambda code: (column[code], code))
        order[-1], order[largest] = order[largest], order[-1]
        sets.append(set(order[::-1][::rho][:rho]))
    pairs = [len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)]
    return 1 - sum(pairs) / len(pairs)


def _matrix(seed, codes=8, factors=5):
    return torch.rand(codes, factors, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("compat", ["exact", "candle2021"])
@pytest.mark.parametrize("rho", [1, 2, 3, 7])
def test_equals_sets(rho, compat):
    slow = _slow if compat == "exact" else _candle
    for seed in range(20):
        matrix = _matrix(seed)
        assert float(unconfoundedness(matrix, rho, compat)) == pytest.approx(slow(matrix.numpy(), rho))


@pytest.mark.parametrize(("rho", "steps"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("factors", [2, 5, 6, 7])
def test_values_for_rho_one_are_multiples_of_one_over_the_number_of_pairs(rho, steps, factors):
    pairs = math.comb(factors, 2)
    for seed in range(20):
        value = float(unconfoundedness(_matrix(seed, 9, factors), rho)) * steps * pairs
        assert value == pytest.approx(round(value))


def test_supplement_example():
    # {1, 2, 3} and {2, 3, 4}: 0.5 (supplement, section 9).
    matrix = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    assert float(unconfoundedness(matrix, 3)) == 0.5


def test_disjoint_codes_score_one_and_shared_codes_zero():
    assert float(unconfoundedness(torch.eye(6), 1)) == 1
    assert float(unconfoundedness(torch.ones(6, 4), 2)) == 0
    apart = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]]).float()
    assert float(unconfoundedness(apart, 2)) == 1


def test_complete_confounding_scores_zero_although_irs_is_near_one():
    both = torch.arange(3).repeat(20)
    result = irs(torch.stack([both, -2 * both], dim=1).float(), torch.stack([both, both], dim=1))
    assert float(result.score) == 1
    assert float(unconfoundedness(result)) == 0


def test_published_second_column_is_two_thirds_of_the_first():
    # Five factors with codes of their own: 1.00 and 0.66 in the published tables, 1 if selected rightly.
    matrix = torch.zeros(64, 5)
    matrix[torch.arange(5) * 3, torch.arange(5)] = 1
    matrix[torch.arange(5) * 3 + 1, torch.arange(5)] = 0.5
    assert float(unconfoundedness(matrix, 1, "candle2021")) == 1
    assert float(unconfoundedness(matrix, 2, "candle2021")) == pytest.approx(2 / 3)
    assert float(unconfoundedness(matrix, 2, "exact")) == 1


def test_selections_agree_for_rho_one():
    for seed in range(20):
        matrix = _matrix(seed)
        assert unconfoundedness(matrix, 1) == unconfoundedness(matrix, 1, "candle2021")


@pytest.mark.parametrize(
    ("column", "rho", "expected"),
    [
        ([0.1, 0.9, 0.2], 2, {1, 0}),
        ([0.9, 0.1], 1, {0}),
        # The largest is at the place that is taken second, and the last code was swapped there.
        ([0.0, 0.0, 0.9, 0.0, 0.0], 2, {2, 4}),
        # Five codes at every third from the end: two only.
        ([0.9, 0.0, 0.0, 0.0, 0.0], 3, {0, 1}),
        # The last of equals.
        ([0.5, 0.0, 0.5, 0.0, 0.0], 1, {2}),
    ],
    ids=["three are sorted", "two", "swapped", "too few", "tie"],
)
def test_selection_of_the_authors_program(column, rho, expected):
    table = torch.tensor([column]).T
    assert set(_candle2021(table, rho)[:, 0].tolist()) == expected


def test_permuting_codes_or_factors_changes_nothing():
    matrix = _matrix(3)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(unconfoundedness(matrix[order], 3), unconfoundedness(matrix, 3))
    torch.testing.assert_close(unconfoundedness(matrix[:, [4, 2, 0, 1, 3]], 3), unconfoundedness(matrix, 3))


@pytest.mark.parametrize(
    ("shape", "rho", "message"),
    [
        ((4, 1), 1, "`matrix` needs at least 2 factors to compare, got 1"),
        ((4, 2), 5, "`rho` must be 1 to 4, the number of codes that vary, got 5"),
        ((4, 2), 0, "`rho` must be 1 to 4"),
    ],
)
def test_invalid_arguments_are_refused(shape, rho, message):
    with pytest.raises(InputError, match=message):
        unconfoundedness(torch.rand(shape), rho)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_entries_that_are_not_finite_are_refused(bad):
    matrix = _matrix(0)
    matrix[1, 1] = bad
    with pytest.raises(InputError, match="`matrix` must be finite, got nan or inf"):
        unconfoundedness(matrix)
    with pytest.raises(InputError, match="`matrix` must be finite, got nan or inf"):
        unconfoundedness(torch.full((4, 3), bad))


def test_matrix_without_codes_or_factors_is_refused():
    with pytest.raises(InputError, match=r"expected `matrix` \[codes, factors\], got \[4\]"):
        unwrap(unconfoundedness)(torch.ones(4))
    with pytest.raises(InputError, match="`matrix` must be a torch tensor, got ndarray"):
        unwrap(unconfoundedness)(np.ones((4, 3)))
    with pytest.raises(InputError, match="`compat` must be one of: exact, candle2021; got candle"):
        unwrap(unconfoundedness)(torch.ones(4, 3), 1, "candle")
