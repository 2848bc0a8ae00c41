import hashlib

import numpy as np
import pytest
from scipy.stats import chisquare

from candlelight.loaders.selection.numbered_draws import NumberedDraws

WORD = 2**64


def split_mix(state: int) -> int:
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % WORD
    return state ^ (state >> 31)


def test_draws_are_split_mix_from_a_hashed_start():
    start = int.from_bytes(hashlib.sha256(b"5\0x").digest()[:8], "little")
    items = [0, 1, 2, 10**6, 2**40]
    words = [split_mix((start + (i + 1) * 0x9E3779B97F4A7C15) % WORD) for i in items]
    expected = [(word >> 11) / 2**53 for word in words]
    assert NumberedDraws(5, np.array(items)).uniform("x").tolist() == expected


def test_published_first_words_of_split_mix():
    # The test vectors of the authors, for a generator that starts at 1234567.
    words = [split_mix((1234567 + (i + 1) * 0x9E3779B97F4A7C15) % WORD) for i in range(3)]
    assert words == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_golden_values_do_not_change():
    drawn = NumberedDraws(0, np.arange(8))
    assert drawn.below("die", 6).tolist() == [1, 3, 0, 5, 3, 5, 4, 1]
    assert NumberedDraws.of(np.random.default_rng(7), 3).below("die", 1000).tolist() == [411, 858, 199]


def test_an_item_draws_the_same_in_any_batch_and_order():
    whole = NumberedDraws(3, np.arange(100))
    mixed = np.random.default_rng(0).permutation(100)
    np.testing.assert_array_equal(NumberedDraws(3, mixed).uniform("x"), whole.uniform("x")[mixed])
    np.testing.assert_array_equal(whole.take(mixed < 20).uniform("x"), whole.uniform("x")[mixed < 20])


@pytest.mark.parametrize(("seed", "name"), [(0, "y"), (1, "x")])
def test_variables_and_seeds_are_independent(seed, name):
    items = np.arange(50_000)
    pairs = NumberedDraws(0, items).below("x", 8) * 8 + NumberedDraws(seed, items).below(name, 8)
    assert chisquare(np.bincount(pairs, minlength=64)).pvalue > 1e-4


def test_neighbouring_items_are_independent():
    drawn = NumberedDraws(0, np.arange(100_000)).below("x", 10)
    assert chisquare(np.bincount(drawn[:-1] * 10 + drawn[1:], minlength=100)).pvalue > 1e-4


def test_draws_stay_below_counts_that_differ():
    drawn = NumberedDraws(0, np.arange(5000)).below("x", np.arange(5000) % 7 + 1)
    assert (drawn < np.arange(5000) % 7 + 1).all()
    assert np.float64(1 - 2.0**-53) * (2**31 - 1) < 2**31 - 1
