import itertools
import math
from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.irs import irs, unconfoundedness
from candlelight.loaders.errors import InputError


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
def test_values_are_multiples_of_one_over_the_number_of_pairs(rho, steps, factors):
    """Pairs of sets share all codes or none for rho = 1, and also one of three for rho = 2."""
    pairs = math.comb(factors, 2)
    for seed in range(20):
        for compat in ("exact", "candle2021"):
            value = float(unconfoundedness(_matrix(seed, 9, factors), rho, compat)) * steps * pairs
            assert value == pytest.approx(round(value))


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


def test_transform_is_for_several_codes():
    with pytest.raises(InputError, match="`transform` is for `rho` above 1, got `rho` 1; leave it out"):
        unconfoundedness(_matrix(0), 1, transform="exponential")
    with pytest.raises(InputError, match="`transform` must be one of: none, exponential; got exp"):
        unwrap(unconfoundedness)(_matrix(0), 2, "exact", "exp")


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


def test_authors_second_code_makes_two_thirds_of_the_value():
    for seed in range(40):
        matrix = _matrix(seed)
        pair = [float(unconfoundedness(matrix, rho, "candle2021")) for rho in (1, 2)]
        assert pair[1] <= 2 / 3 + 1e-9
        if 5 not in matrix.argmax(0):  # the third of eight from the end
            assert pair[1] == pytest.approx(2 / 3 * pair[0])
    # Codes of their own for all factors: 1.00 and 0.66 in the published tables, 1 if selected rightly.
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


def test_selections_agree_for_rho_one():
    for seed in range(20):
        matrix = _matrix(seed)
        assert unconfoundedness(matrix, 1) == unconfoundedness(matrix, 1, "candle2021")


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
