import itertools

import numpy as np
import pytest

from candlelight.loaders.factor_space import FactorSpace
from tests.refusals import refused

SCENES = (
    *("indoor", "outdoor", "playground", "bridge", "city square", "hall", "grassland", "garage", "street"),
    *("beach", "station", "tunnel", "moonlit grass", "dusk city", "skywalk", "garden"),
)
CANDLE = FactorSpace(
    ("scene", "light", "object_type", "color", "size", "rotation"),
    (
        SCENES,
        ("left", "middle", "right"),
        ("cube", "sphere", "cylinder", "cone", "torus"),
        ("red", "blue", "yellow", "purple", "orange"),
        (1.5, 2, 2.5),
        (0, 15, 30, 45, 60, 90),
    ),
)
SMALL = FactorSpace(("a", "b", "c"), ((0, 1), ("x", "y", "z"), (0.5, 1.5)))


def test_candle_numbers_its_samples_as_published():
    assert CANDLE.size == len(CANDLE) == 21_600
    values = {"scene": "playground", "light": "middle", "object_type": "torus", "color": "blue"}
    values |= {"size": 2.5, "rotation": 15}
    assert CANDLE.values_at(3541) == values
    assert CANDLE.index(values) == 3541


def test_grid_follows_itertools_product():
    for index, values in enumerate(itertools.product(*SMALL.values)):
        named = dict(zip(SMALL.names, values, strict=True))
        assert SMALL.values_at(index) == named
        assert SMALL.index(named) == index
    positions = np.array(list(itertools.product(*map(range, SMALL.sizes))))
    np.testing.assert_array_equal(SMALL.positions(np.arange(SMALL.size)), positions)


def test_positions_and_indices_are_inverse():
    indices = np.random.default_rng(0).integers(0, CANDLE.size, 500)
    np.testing.assert_array_equal(CANDLE.indices(CANDLE.positions(indices)), indices)
    assert CANDLE.positions(indices[:0]).shape == (0, 6)
    assert len(FactorSpace(SMALL.names, SMALL.values, np.array([1, 4, 5, 11]))) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FactorSpace((), ()), "at least one factor"),
        (lambda: FactorSpace(("a",), ((1,), (2,))), "1 names and 2 tuples"),
        (lambda: FactorSpace(("a", "a"), ((1,), (2,))), "names must differ, got a, a"),
        (lambda: FactorSpace(("a",), ((),)), "factor `a` needs at least one value"),
        (lambda: FactorSpace(("a",), ((1, 1.0),)), "no value twice"),
        (lambda: FactorSpace(tuple("abcd"), (tuple(range(70_000)),) * 4), "more than 2"),
        (lambda: FactorSpace(("a",), ((1, 2),), np.array([1, 0])), "sorted grid indices"),
        (lambda: FactorSpace(("a",), ((1, 2),), np.array([1, 1])), "without repeats"),
        (lambda: FactorSpace(("a",), ((1, 2),), np.array([2])), r"0\.\.1, got 2"),
        (lambda: SMALL.index({"a": 0, "b": "x"}), "wrong: c"),
        (lambda: SMALL.index({"a": 0, "b": "x", "c": 0.5, "d": 1}), "wrong: d"),
        (
            lambda: SMALL.index({"a": 0, "b": "w", "c": 0.5}),
            "factor `b`: expected one of 'x', 'y', 'z', got 'w'",
        ),
        (lambda: SMALL.values_at(12), r"0\.\.11, got 12"),
        (lambda: SMALL.positions(np.array([-1])), "got -1"),
        (lambda: SMALL.indices(np.array([[0, 1]])), "expected 3 columns"),
        (lambda: SMALL.indices(np.array([[0, 3, -1]])), "not for: b, c"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with refused(message):
        call()
