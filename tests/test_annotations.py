"""Tests of the check of annotations, without which wrong shapes in tests would go unseen."""

from collections.abc import Iterator
from dataclasses import dataclass

import jaxtyping
import numpy as np
import pytest

from tests.annotations import checked

Row = jaxtyping.Float[np.ndarray, "n"]


@checked
def shorten(one: Row, other: Row, count: float = 0) -> Row:
    return one[int(count) :]


@checked
def read(rows: Row, other: Row) -> Iterator[Row]:
    yield rows


@checked
def fill(size: int) -> jaxtyping.Float[np.ndarray, " {size}"]:
    return np.ones(2)


@checked
def plain(later: "Unknown", count: int) -> str:  # noqa: F821
    return "a" * count


@checked
@dataclass
class Pair:
    one: Row
    other: Row


TWO, THREE = np.ones(2), np.ones(3)
WRONG = {
    "sizes": lambda: shorten(TWO, THREE),
    "dtype": lambda: shorten(TWO, TWO.astype(int)),
    "type": lambda: shorten(TWO, TWO, "1"),
    "result": lambda: shorten(TWO, TWO, 1),
    "generator": lambda: read(TWO, THREE),
    "size that is an argument": lambda: fill(3),
    "without arrays": lambda: plain(None, "2"),
    "fields": lambda: Pair(TWO, THREE),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_refused_unless_the_check_is_off(name):
    with pytest.raises(Exception, match=r"violates type hint|Type-check error"):
        WRONG[name]()
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        if name not in ("type", "without arrays"):  # Python itself refuses these
            WRONG[name]()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_right_calls_are_made():
    assert shorten(TWO, TWO).tolist() == [1, 1]  # an int is a float, too
    assert [len(row) for row in read(THREE, THREE)] == [3]
    assert (fill(2).tolist(), plain(None, 2), Pair(TWO, TWO).one.tolist()) == ([1, 1], "aa", [1, 1])


def test_modules_with_arrays_are_checked():
    from candlelight.loaders import colour, errors

    assert hasattr(colour, "_checked_annotations")
    assert not hasattr(errors, "_checked_annotations")
