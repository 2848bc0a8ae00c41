import itertools

import numpy as np
import pytest
from numpy import ndarray
from scipy.stats import chisquare

from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.selection.confounding import ConditionalTable, select_by_tables
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.supervision import (
    Pairs,
    k_pairs,
    match_pairs,
    rank_pairs,
    restricted_labels,
)
from tests.refusals import refused

NAMES = ("a", "b", "c")
FULL = FactorIndex.of(FactorSpace(NAMES, ((0, 1), ("x", "y", "z"), (0.5, 1, 1.5))))
PARTIAL = FULL.select(np.array([0, 1, 4, 5, 7, 9, 10, 13, 14, 15, 17]))
TABLE = ConditionalTable("a", {0: ["x", "y"], 1: ["y", "z"]})
CONFOUNDED = FULL.select(select_by_tables(FULL, {"b": TABLE}, 0).rows)
REPEATED = FULL.select(np.array([0, 0, 1, 4, 4, 4, 13, 9, 10, 10]))
INDEXES = {"full": FULL, "partial": PARTIAL, "repeated": REPEATED}
ITEMS = np.arange(20_000)


@pytest.fixture(params=INDEXES)
def index(request) -> FactorIndex:
    return INDEXES[request.param]


def chances(index: FactorIndex, drawn: tuple[int, ...], distinct: bool = False) -> ndarray:
    """Compute from the definition the probability of each second row given each first row."""
    table = index.positions(np.arange(len(index)))
    kept = [j for j in range(3) if j not in drawn]
    allowed = (table[:, None, kept] == table[None, :, kept]).all(axis=2)
    if distinct:
        allowed &= (table[:, None, list(drawn)] != table[None, :, list(drawn)]).all(axis=2)
    return allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1)


def agrees(pairs: Pairs, expected: ndarray) -> bool:
    """Compare pairs with the probability of each second row given the first row."""
    size = len(expected)
    assert pairs.exists.all()
    counts = np.bincount(pairs.first * size + pairs.second, minlength=size**2)
    wanted = (expected / size).ravel()
    assert counts[wanted == 0].sum() == 0
    return chisquare(counts[wanted > 0], wanted[wanted > 0] * counts.sum()).pvalue > 1e-4


def test_any_sequence_numbers_pairs_and_rows():
    draws = [
        lambda items: match_pairs(FULL, 0, items, share=["a"]),
        lambda items: rank_pairs(FULL, 0, items, ["a"]),
        lambda items: k_pairs(FULL, 0, items, 1),
    ]
    for draw in draws:
        expected = draw(np.array([3, 4, 5]))
        for items in ([3, 4, 5], (3, 4, 5), range(3, 6)):
            assert draw(items).second.tolist() == expected.second.tolist()
        assert len(draw([]).first) == 0
    expected = restricted_labels(FULL, np.arange(3), ["a"])
    np.testing.assert_array_equal(restricted_labels(FULL, [0, 1, 2], ["a"]), expected)


def test_match_pairs_have_the_stated_distribution(index):
    pairs = match_pairs(index, 1, ITEMS, share=["a", ("a", "c")], change=["c"])
    expected = [chances(index, drawn) for drawn in ((1, 2), (1,), (2,))]
    assert agrees(pairs, sum(expected) / 3)
    for label, single in enumerate(expected):
        chosen = pairs.label == label
        part = Pairs(pairs.first[chosen], pairs.second[chosen], pairs.drawn[chosen], pairs.label[chosen])
        assert agrees(part, single)
    drawn = np.array([[False, True, True], [False, True, False], [False, False, True]])
    np.testing.assert_array_equal(pairs.drawn, drawn[pairs.label])
    assert chisquare(np.bincount(pairs.label)).pvalue > 1e-4


def test_rank_pairs_are_independent_and_ranked(index):
    pairs = rank_pairs(index, 2, ITEMS, ["c", "a"])
    assert agrees(pairs, np.full((len(index),) * 2, 1 / len(index)))
    positions = index.positions(np.arange(len(index)))[:, [2, 0]]
    np.testing.assert_array_equal(pairs.label, positions[pairs.first] > positions[pairs.second])
    assert not pairs.label[pairs.first == pairs.second].any()


def subsets(k: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(3), k))


def k_chances(index: FactorIndex, shares: dict[int, float]) -> ndarray:
    return sum(
        share * sum(chances(index, drawn) for drawn in subsets(k)) / len(subsets(k))
        for k, share in shares.items()
    )


@pytest.mark.parametrize(
    ("k", "shares"),
    [
        (1, {1: 1.0}),
        (2, {2: 1.0}),
        ("uniform", {1: 0.5, 2: 0.5}),
        ("locatello_code", {1: 0.75, 2: 0.25}),
    ],
)
def test_k_pairs_have_the_stated_distribution(index, k, shares):
    pairs = k_pairs(index, 3, ITEMS, k)
    assert agrees(pairs, k_chances(index, shares))
    np.testing.assert_array_equal(pairs.drawn.sum(axis=1), pairs.label)
    counts = np.bincount(pairs.label, minlength=4)[list(shares)]
    assert len(shares) == 1 or chisquare(counts, np.array(list(shares.values())) * len(ITEMS)).pvalue > 1e-4
    kinds, counts = np.unique(pairs.drawn[pairs.label == 1], axis=0, return_counts=True)
    assert not len(kinds) or (len(kinds) == 3 and chisquare(counts).pvalue > 1e-4)


@pytest.mark.parametrize("k", [1, 2])
def test_distinct_pairs_differ_in_exactly_k_factors(index, k):
    pairs = k_pairs(index, 4, ITEMS, k, distinct=True, missing="mask")
    some = pairs.exists
    table = index.positions(np.arange(len(index)))
    differ = table[pairs.first[some]] != table[pairs.second[some]]
    np.testing.assert_array_equal(differ, pairs.drawn[some])
    for drawn in subsets(k):
        expected = chances(index, drawn, distinct=True)
        chosen = (pairs.drawn == np.isin(np.arange(3), drawn)).all(axis=1)
        # Only rows without a second row are masked; other second rows are equally likely.
        np.testing.assert_array_equal(some[chosen], expected[pairs.first[chosen]].any(axis=1))
        chosen &= some
        if not chosen.any():
            continue
        counts = np.zeros_like(expected)
        np.add.at(counts, (pairs.first[chosen], pairs.second[chosen]), 1)
        wanted = expected * counts.sum(axis=1, keepdims=True)
        assert counts[wanted == 0].sum() == 0
        free = (wanted > 0).sum(axis=1) > 1
        if free.any():
            cells = wanted[free] > 0
            statistic = ((counts[free] - wanted[free])[cells] ** 2 / wanted[free][cells]).sum()
            spread = cells.sum() - free.sum()
            assert abs(statistic - spread) < 5 * np.sqrt(2 * spread)


def test_distinct_pairs_without_a_second_row_are_refused():
    with refused("has no partner that differs in exactly"):
        k_pairs(PARTIAL, 0, np.arange(100), 1, distinct=True)


def test_factors_with_one_value_and_unnamed_factors_stay():
    index = FactorIndex.of(FactorSpace(("one", *NAMES), ((7,), (0, 1), (0, 1, 2), (0, 1))))
    assert not k_pairs(index, 0, ITEMS).drawn[:, 0].any()
    assert k_pairs(index, 0, ITEMS).label.max() == 2
    drawn = k_pairs(index, 0, ITEMS, 1, names=["c", "a"]).drawn
    assert drawn.any(axis=0).tolist() == [False, True, False, True]


def test_a_pair_depends_on_its_number_only(index):
    mixed = np.random.default_rng(0).permutation(300)
    for draw in (
        lambda items: match_pairs(index, 5, items, share=["a"], change=["b", "c"]),
        lambda items: rank_pairs(index, 5, items, ["a"]),
        lambda items: k_pairs(index, 5, items, distinct=True, missing="mask"),
    ):
        whole, part = draw(np.arange(300)), draw(mixed)
        for name in ("first", "second", "drawn", "label"):
            np.testing.assert_array_equal(getattr(whole, name)[mixed], getattr(part, name))
        assert (draw(np.arange(300, 600)).first != whole.first).any()


GOLDEN = [0, 1, 2, 3, 10**12]


def test_golden_pairs_do_not_change():
    def as_lists(pairs: Pairs) -> tuple:
        return pairs.first.tolist(), pairs.second.tolist(), pairs.label.tolist()

    items = np.array(GOLDEN)
    assert as_lists(match_pairs(FULL, 3, items, share=["a"], change=["c"])) == (
        [1, 16, 12, 16, 9],
        [2, 16, 13, 17, 10],
        [1, 1, 1, 1, 1],
    )
    assert as_lists(rank_pairs(PARTIAL, 3, items, ["c"])) == (
        [1, 10, 7, 10, 5],
        [9, 4, 6, 10, 6],
        [[True], [True], [False], [False], [False]],
    )
    assert as_lists(k_pairs(FULL, 3, items, distinct=True)) == (
        [1, 16, 12, 16, 9],
        [2, 17, 11, 7, 3],
        [1, 1, 2, 1, 2],
    )
    assert as_lists(k_pairs(PARTIAL, 3, items, "locatello_code")) == (
        [1, 10, 7, 10, 5],
        [1, 9, 8, 10, 9],
        [1, 1, 2, 1, 1],
    )
    assert as_lists(k_pairs(CONFOUNDED, 3, items, 2, distinct=True, missing="mask")) == (
        [1, 11, 8, 11, 6],
        [-1, -1, 9, 5, 0],
        [2, 2, 2, 2, 2],
    )


def test_restricted_labels_standardise_class_numbers():
    labels = restricted_labels(PARTIAL, np.arange(len(PARTIAL)), ["c", "a"])
    numbers = PARTIAL.positions(np.arange(len(PARTIAL)))
    np.testing.assert_allclose(labels[:, 0], (numbers[:, 0] - 0.5) / 0.5)
    np.testing.assert_allclose(labels[:, 2], (numbers[:, 2] - 1) / np.sqrt(2 / 3))
    assert (labels[:, 1] == 0).all()


def test_restricted_labels_of_continuous_factors_and_of_constants():
    factors = (
        FactorInfo(name="one", kind="categorical", values=("only",)),
        FactorInfo(name="angle", kind="continuous", low=0.0, high=9.0),
    )
    index = FactorIndex.from_table(factors, np.array([[0, 1.0], [0, 2.0], [0, 6.0]]))
    labels = restricted_labels(index, np.arange(3), ["one", "angle"])
    assert (labels[:, 0] == 0).all()
    np.testing.assert_allclose(labels[:, 1], (np.array([1, 2, 6]) - 3) / np.sqrt(14 / 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: match_pairs(FULL, 0, ITEMS),
            "match pairs: expected factors to share or to change, got none",
        ),
        (lambda: match_pairs(FULL, 0, ITEMS, share=["d"]), "factor `d` is not in this set"),
        (lambda: rank_pairs(FULL, 0, ITEMS, ["d"]), "factor `d` is not in this set"),
        (lambda: k_pairs(FULL, 0, ITEMS, 4), "k: expected 1..3, or with two factors or more .* got 4"),
        (lambda: k_pairs(FULL, 0, ITEMS, 0), "got 0"),
        (lambda: k_pairs(FULL, 0, ITEMS, "uniform", names=["a"]), "expected 1..1, or .* got 'uniform'"),
        (lambda: k_pairs(FULL, 0, ITEMS, 1, names=[]), "expected at least one factor that may change"),
        (lambda: restricted_labels(FULL, ITEMS[:2], ["d"]), "factor `d` is not in this set"),
    ],
)
def test_bad_factors_and_counts_are_refused(call, message):
    with refused(message):
        call()
