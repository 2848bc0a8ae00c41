"""Rows are chosen by text, and concept sets find their controls."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from candlelight.evaluation.views import ConceptSet, DataIdentity, match_controls, parse_rows
from candlelight.evaluation.views.named_rows import ChosenRows, NamedRows, Request, choose_rows
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "rows"),
    [("0:3", [0, 1, 2]), (" 4 : 6 ", [4, 5]), ("3,5,8", [3, 5, 8]), ("8, 3", [8, 3]), ("0", [0])],
)
def test_text_is_parsed_to_rows(text, rows):
    parsed = parse_rows(text)
    assert isinstance(parsed, Sequence)
    assert list(parsed) == rows


@pytest.mark.parametrize("text", ["", "3:3", "1:", ":4", "1,,2", "-1", "1:2:3", "1.5", "²"])
def test_text_without_rows_is_refused(text):
    with refused(r"^rows: expected START:STOP with STOP above START, or numbers as"):
        parse_rows(text)


def test_the_limit_counts_chosen_rows():
    assert choose_rows(4, Request("x")) == (0, 1, 2, 3)
    assert choose_rows(4, Request("x", limit=2)) == (0, 1)
    assert choose_rows(4, Request("x", limit=9)) == (0, 1, 2, 3)
    assert choose_rows(4, Request("x", rows="1:4", limit=2)) == (1, 2)
    assert choose_rows(4, Request("x", rows=[np.int64(3), 0])) == (3, 0)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            Request("there", rows="0:5"),
            "rows: expected each at most once, from 0 to 3 of there, got row 4 of 4",
        ),
        (Request("there", rows="0:999999999999999"), "got row 4 of 4"),
        (Request("there", rows=[-1]), "got row -1 of 4"),
        (Request("there", rows=[1, 1]), "got row 1 twice"),
        (Request("there", rows=[]), "rows: expected at least one row of there, got none of 4"),
        (Request("there", limit=0), "limit: expected at least 1, got 0"),
    ],
)
def test_missing_or_repeated_rows_are_refused(request_, message):
    with refused(message):
        choose_rows(4, request_)


def test_an_id_names_one_row():
    with refused("ducks: expected one row for each id, got 2 of `a`"):
        NamedRows(DataIdentity("ducks", "frames"), None, (0, 1), ("a", "a"), ("g", "g"), lambda: ())


def test_known_ids_are_listed_at_the_first_use():
    requested = []
    named = NamedRows(
        DataIdentity("ducks", "frames"),
        None,
        (2,),
        ("c",),
        ("g",),
        lambda: requested.append(1) or ["a", "b", "c"],
    )
    view = ChosenRows(named, lambda number: 10 * number)
    assert (len(view), view[0], view[-1], requested) == (1, 20, 20, [])
    assert view.known_ids == view.known_ids == {"a", "b", "c"}
    assert requested == [1]
    with pytest.raises(IndexError):
        view[1]


# ------------------------------------------------------------------------------------------------ controls

SCENES = ("cube", "vase")
TEMPERATURES = (2500, 4500)


def sets(**values):
    """Make a set for every combination of values, each with two rows."""
    combinations = enumerate(itertools.product(*values.values()))
    return [
        ConceptSet(dict(zip(values, one, strict=True)), rows=(2 * i, 2 * i + 1)) for i, one in combinations
    ]


ALBEDO = sets(scene=SCENES, light_azimuth=(-20, 20), temperature=TEMPERATURES)
ILLUMINATION = sets(scene=SCENES, material=(0, 1, 2), temperature=TEMPERATURES)


@pytest.mark.parametrize(
    ("concepts", "controls", "shared"),
    [
        (
            ALBEDO,
            sets(scene=SCENES[::-1], light_azimuth=(-20, 20), temperature=TEMPERATURES, material=(0, 4)),
            ("scene", "light_azimuth", "temperature"),
        ),
        (
            ILLUMINATION,
            sets(scene=SCENES, material=(0, 1, 2), temperature=TEMPERATURES, light_azimuth=(-22,)),
            ("scene", "material", "temperature"),
        ),
        (ILLUMINATION, sets(scene=("torus", *SCENES), texturing=("rgb",)), ("scene",)),
    ],
    ids=["albedo", "illumination", "negatives"],
)
def test_controls_have_the_values_of_their_sets(concepts, controls, shared):
    matched = match_controls(concepts, controls)
    assert len(matched) == len(concepts)
    for concept, some in zip(concepts, matched, strict=True):
        alike = [one for one in controls if all(concept.fixed[name] == one.fixed[name] for name in shared)]
        assert list(some) == alike


@pytest.mark.parametrize(
    "controls",
    [[], sets(scene=("torus",), material=(0,)), sets(object=("cube",))],
    ids=["none", "other scene", "no factor in common"],
)
def test_a_set_without_controls_is_refused(controls):
    message = (
        r"expected a control of the concept set with scene=cube, light_azimuth=-20, temperature=2500, "
        rf"got none of {len(controls)} sets; render controls with the same values of these factors"
    )
    with refused(message):
        match_controls(ALBEDO, controls)
