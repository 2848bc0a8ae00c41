import itertools

import numpy as np
import pytest

from loaders.errors import InputError
from loaders.factors import FactorSpace
from loaders.schema import FactorInfo, SetInfo

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
PARTIAL = FactorSpace(SMALL.names, SMALL.values, np.array([1, 4, 5, 11]))


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


def test_partial_grid_translates_rows_and_grid_indices():
    assert (len(PARTIAL), PARTIAL.size) == (4, 12)
    np.testing.assert_array_equal(PARTIAL.grid_indices(np.array([3, 0])), [11, 1])
    np.testing.assert_array_equal(PARTIAL.row_numbers(np.array([11, 1])), [3, 0])
    np.testing.assert_array_equal(PARTIAL.exists(np.array([0, 1, 5, 6])), [False, True, True, False])


def test_full_grid_has_row_numbers_equal_to_grid_indices():
    np.testing.assert_array_equal(SMALL.grid_indices(np.array([7])), [7])
    np.testing.assert_array_equal(SMALL.row_numbers(np.array([7])), [7])
    assert SMALL.exists(np.arange(12)).all()


def test_from_set_takes_the_categorical_factors_in_order():
    factors = (
        FactorInfo(name="hue", kind="continuous", low=0, high=1),
        FactorInfo(name="b", kind="categorical", values=("x", "y")),
        FactorInfo(name="a", kind="categorical", values=(3, 1)),
    )
    info = SetInfo(count=4, width=8, height=8, layers=("image",), factors=factors)
    space = FactorSpace.from_set(info, np.array([0, 2]))
    assert (space.names, space.values, len(space)) == (("b", "a"), (("x", "y"), (3, 1)), 2)
    only_continuous = info.model_copy(update={"factors": factors[:1]})
    with pytest.raises(InputError, match="categorical factors"):
        FactorSpace.from_set(only_continuous)


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
        (lambda: PARTIAL.row_numbers(np.array([4, 6])), "no sample exists at .*'a': 1, 'b': 'x', 'c': 0.5"),
        (lambda: PARTIAL.grid_indices(np.array([4])), r"0\.\.3"),
    ],
)
def test_wrong_use_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
