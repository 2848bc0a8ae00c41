import math

import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.plain_yaml import parse_yaml

# Plain scalars, and what YAML 1.2.2 makes of them: the examples of its chapter 10.3, and where 1.1 differs.
PLAIN = {
    "010": 10,
    "008": 8,
    "-019": -19,
    "+12": 12,
    "0o14": 12,
    "0xC": 12,
    "1e3": 1000.0,
    "1e-3": 0.001,
    "-2E+05": -2e5,
    "12e03": 12000.0,
    "0.": 0.0,
    ".5": 0.5,
    "-.INF": -math.inf,
    "yes": "yes",
    "No": "No",
    "on": "on",
    "off": "off",
    "n": "n",
    "True": True,
    "tRUE": "tRUE",
    "Null": None,
    "~": None,
    "1:30": "1:30",
    "190:20:30.15": "190:20:30.15",
    "1_000": "1_000",
    "0b11": "0b11",
    "0o9": "0o9",
    "2026-01-31": "2026-01-31",
    "=": "=",
    "'010'": "010",
    "!!str 010": "010",
    "!!int 010": 10,
    "!!float 3": 3.0,
}


@pytest.mark.parametrize("text", PLAIN)
def test_plain_scalars_follow_the_core_schema_of_yaml_1_2(text):
    value = parse_yaml(f"[{text}]")[0]
    assert (value, type(value)) == (PLAIN[text], type(PLAIN[text]))


def test_numbers_may_be_infinite_or_no_number():
    assert parse_yaml(".inf") == math.inf
    assert math.isnan(parse_yaml(".NaN"))


@pytest.mark.parametrize(
    "text", ["!!bool yes", "!!int 1_000", "!!null 0", "!!timestamp x", "!!binary aGk=", "!!set {a}"]
)
def test_other_tags_and_values_are_refused(text):
    with pytest.raises(InputError, match="expected YAML, got something else: "):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["{10: a, 010: b}", "{10: a, 0xa: b}", "{1: a, 1.0: b}", "{1: a, true: b}"])
def test_two_spellings_of_one_key_are_refused(text):
    with pytest.raises(InputError, match="expected each field once"):
        parse_yaml(text)
