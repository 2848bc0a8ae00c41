"""Values, keys of tables and references ``$name``."""

import datetime
from fractions import Fraction

import numpy as np
import pytest

from candlelight.generators.language.factors import Categorical
from candlelight.generators.language.field_types import key_of, references, substitute
from candlelight.generators.language.layout import Object, Scene
from candlelight.generators.language.lights_and_camera import Camera, Light


def test_values_from_arrays_are_numbers():
    values = Categorical(values=(np.int64(2), np.float64(0.5), Fraction(1, 4))).values
    assert values == (2, 0.5, 0.25)
    assert [type(value) for value in values] == [int, float, float]
    with pytest.raises(ValueError, match="expected a name or a number"):
        Categorical(values=(datetime.date(2020, 1, 1),))


def test_keys_are_spelled_alike():
    assert key_of(2) == key_of(2.0) == key_of("2") == "2.0"
    assert key_of(10**400) == "1" + "0" * 400


def test_references_are_found_at_every_depth():
    camera, light = Camera(location=(0, "$y", 1), look_at=(0, 0, "$z")), Light(power="$watts")
    objects = {"choose": "$which", "among": {"a": (Object(type="$kind"),)}}
    layout = Scene(camera=camera, lights=(light,), objects=objects)
    assert set(references(layout)) == {"y", "z", "watts", "which", "kind"}
    assert list(references(Object(type="cube"))) == []


def test_substitution_fills_tuples_and_keeps_other_values():
    values = {"a": 1.5, "b": "red"}
    assert substitute(("$a", 2.0, ("$b", "$$")), {**values, "$": 0}.__getitem__) == (1.5, 2.0, ("red", 0))
    assert substitute(None, values.__getitem__) is None
    with pytest.raises(KeyError):
        substitute("$c", values.__getitem__)
