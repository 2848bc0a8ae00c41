import itertools
import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.irs import irs, select_codes, unconfoundedness
from tests.refusals import refused


def _slow(matrix, rho, select):
    """Compute unconfoundedness from sets of codes that ``select`` chooses for each factor."""
    sets = [set(select(column, rho)) for column in matrix.T]
    pairs = [len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)]
    return 1 - sum(pairs) / len(pairs)


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


def exact(column, rho):
    return np.argsort(-column, kind="stable")[:rho].tolist()


def _matrix(seed, codes=8, factors=5):
    return torch.rand(codes, factors, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("compat", ["exact", "candle2021"])
@pytest.mark.parametrize("rho", [1, 2, 3, 7])
def test_equals_sets(rho, compat):
    select = exact if compat == "exact" else candle
    for seed in range(10):
        matrix = _matrix(seed)
        assert float(unconfoundedness(matrix, rho, compat)) == pytest.approx(
            _slow(matrix.numpy(), rho, select)
        )


def test_supplement_example():
    # {1, 2, 3} and {2, 3, 4}: 0.5, and exp(2 (0.5 - 1)) (supplement, section 9).
    matrix = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    assert float(unconfoundedness(matrix, 3)) == 0.5
    assert float(unconfoundedness(matrix, 3, transform="exponential")) == pytest.approx(math.exp(-1))


def test_transform_keeps_the_order_and_the_value_of_one():
    scores = [
        [float(unconfoundedness(_matrix(seed), 3, transform=kind)) for seed in range(20)]
        for kind in ("none", "exponential")
    ]
    assert np.argsort(scores[0], kind="stable").tolist() == np.argsort(scores[1], kind="stable").tolist()
    np.testing.assert_allclose(scores[1], np.exp(2 * (np.array(scores[0]) - 1)))
    assert float(unconfoundedness(torch.eye(4).repeat(2, 1), 2, transform="exponential")) == 1
    assert float(unconfoundedness(torch.ones(6, 4), 2, transform="exponential")) == pytest.approx(
        math.exp(-2)
    )


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


def test_the_authors_selection_of_codes_of_their_own_is_two_thirds():
    # 1.00 and 0.66 in the published tables, 1 if selected rightly.
    matrix = torch.cat([torch.eye(4), torch.zeros(3, 4), torch.eye(4) / 2, torch.zeros(4, 4)])
    assert float(unconfoundedness(matrix, 1, "candle2021")) == 1
    assert float(unconfoundedness(matrix, 2, "candle2021")) == pytest.approx(2 / 3)
    assert float(unconfoundedness(matrix, 2)) == 1


# Unconfoundedness for rho = 1 and 2 by number of factors: tables 3, 4, 5, 7, 9 and 11 of the supplement.
PUBLISHED = (
    (7, "0.52 0.19 0.28 0.19 0.28 0.19 0.52 0.34 1.00 0.66 1.00 0.66 0.42 0.19 1.00 0.60"),
    (5, "0.40 0.27 0.40 0.26 0.40 0.53 0.40 0.26 0.90 0.27 0.40 0.26 0.7 0.60 0.4 0.26"),
    (5, "0.40 0.13 0.70 0.29 0.40 0.29 0.40 0.13 0.80 0.60 0.80 0.46 0.40 0.26 0.40 0.60"),
    (5, "0.40 0.27 0.40 0.26 0.70 0.46 0.70 0.47 0.90 0.60 0.90 0.60 0.90 0.60 0.90 0.60"),
    (6, "0.63 0.53 0.33 0.22 0.73 0.40 0.86 0.49 0.73 0.48 0.33 0.22 0.80 0.48 0.73 0.48"),
    (7, "0.28 0.19 0.00 0.00 0.28 0.19 0.66 0.38 0.66 0.19 0.28 0.19 0.76 0.32 0.00 0.00"),
)


def _partitions(number, largest):
    """Yield the ways in which factors share codes: numbers of factors for each code."""
    if number == 0:
        yield ()
    for first in range(min(number, largest), 0, -1):
        yield from ((first, *rest) for rest in _partitions(number - first, first))


def test_published_pairs_of_values():
    """The values for rho = 2 are 2/3 of those for rho = 1 in 28 of 48 pairs, by the authors' selection."""
    explained = 0
    for factors, values in PUBLISHED:
        reachable = []
        for sizes in _partitions(factors, factors):
            matrix = torch.zeros(20, factors)
            firsts = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
            matrix[firsts, torch.arange(factors)] = 1
            reachable.append([float(unconfoundedness(matrix, rho, "candle2021")) for rho in (1, 2)])
        numbers = list(map(float, values.split()))
        # Published values are truncated in most places and rounded in others.
        for pair in zip(numbers[::2], numbers[1::2], strict=True):
            explained += any(np.allclose(pair, one, rtol=0, atol=0.0101) for one in reachable)
        assert max(numbers[1::2]) < 0.67
    assert explained == 28


@pytest.mark.parametrize("levels", [None, 3], ids=["distinct", "ties"])
@pytest.mark.parametrize(
    ("codes", "rho"), [(1, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2), (5, 3), (8, 1), (8, 2), (16, 7)]
)
def test_selected_codes_equal_loops(codes, rho, levels):
    rng = np.random.default_rng(codes)
    for _ in range(5):
        matrix = rng.random((codes, 4)) if levels is None else rng.integers(levels, size=(codes, 4)) / levels
        table = torch.from_numpy(matrix)
        assert select_codes(table, rho).tolist() == [exact(column, rho) for column in matrix.T]
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: unconfoundedness(torch.ones(4)), r"expected `matrix` \[codes, factors\], got \[4\]"),
        (lambda: unconfoundedness(_matrix(0), 9), "`rho` must be 1 to 8, .* got 9"),
        (lambda: unconfoundedness(_matrix(0), 0), "`rho` must be 1 to 8"),
        (lambda: unconfoundedness(_matrix(0), 1, transform="exponential"), "for `rho` above 1, got"),
        (lambda: unconfoundedness(_matrix(0), 2, "exact", "exp"), "`transform` must be one of: none"),
        (lambda: select_codes(_matrix(0), 0), "`rho` must be 1 to 8"),
        (lambda: select_codes(torch.ones(4)), r"expected `matrix` \[codes, factors\], got \[4\]"),
        (lambda: select_codes(_matrix(0), 1, "candle"), "`compat` must be one of: exact, candle2021; got"),
    ],
)
def test_arguments_that_are_refused(call, message):
    with refused(message):
        call()
