from typing import Literal

import pytest

from candlelight.loaders.check_choice import check_choice
from tests.refusals import refused

Fruit = Literal["apple", "pear"]


def test_choices_pass():
    check_choice("fruit", "apple", Fruit)
    check_choice("fruit", "pear", Fruit)
    check_choice("fruit", "pear", ("apple", "pear"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("aple", r"^`fruit` must be one of: apple, pear; got aple; did you mean `apple`\?$"),
        ("Zzz", "^`fruit` must be one of: apple, pear; got Zzz$"),
        (None, "^`fruit` must be one of: apple, pear; got None$"),
    ],
)
def test_other_values_are_refused_with_their_name(value, message):
    for fruits in (Fruit, ("apple", "pear")):
        with refused(message):
            check_choice("fruit", value, fruits)
