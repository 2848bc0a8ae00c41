import itertools

import numpy as np
import pytest

from candlelight.evaluation.commands.causal_command import select_confounded
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo

OBJECTS = ("cube", "sphere", "cylinder", "cone", "torus")
COLORS = ("red", "blue", "yellow", "purple", "orange")
ALL = {"rows": None, "limit": None}


@pytest.fixture
def view(memory_view):
    infos = (
        FactorInfo(name="object_type", kind="categorical", values=OBJECTS),
        FactorInfo(name="color", kind="categorical", values=COLORS),
    )
    table = np.array(list(itertools.product(range(5), repeat=2)), np.float64)
    return memory_view([None] * 25, factors=infos, table=table)


def testselect_confoundedion_keeps_the_colors_of_each_object_of_table_6(view):
    rows = select_confounded(view, "candle-color", ALL)
    kept = {(OBJECTS[row // 5], COLORS[row % 5]) for row in rows}
    assert len(kept) == 10
    assert {color for shape, color in kept if shape == "cube"} == {"red", "blue"}
    assert {color for shape, color in kept if shape == "torus"} == {"orange", "red"}
    assert select_confounded(view, "candle-color:0", ALL) == list(range(25))


@pytest.mark.parametrize(
    ("selection", "choice", "message"),
    [
        ("candle-color", {"rows": "0:5", "limit": None}, "omit --rows and --limit"),
        ("candle-color:much", ALL, r"expected a strength in \[0, 1\], got `much`"),
        ("candle-color:2", ALL, "strength"),
        ("candle-hue", ALL, "preset: expected one of"),
        ("candle-size", ALL, "size"),
    ],
)
def testselect_confoundedions_that_cannot_be_made_are_refused(view, selection, choice, message):
    with pytest.raises(InputError, match=message):
        select_confounded(view, selection, choice)
