import math

import pytest

from candlelight.loaders.files.plain_yaml import LARGEST, LONGEST, VALUE, parse_yaml
from tests.refusals import refused

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


@pytest.mark.parametrize("text", ["{10: a, 010: b}", "{10: a, 0xa: b}", "{1: a, 1.0: b}", "{1: a, true: b}"])
def test_two_spellings_of_one_key_are_refused(text):
    with refused("expected each field once"):
        parse_yaml(text)


# ------------------------------------------------------------------------------------------------ malicious

OTHER_TAGS = ("!!bool yes", "!!int 1_000", "!!null 0", "!!timestamp x", "!!binary aGk=", "!!set {a}")
LAUGHS = "a0: &a0 lol\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 30)
)
LONG = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 200)}]\n"


@pytest.mark.parametrize("text", [LAUGHS, MERGED, LONG], ids=["lists", "merges", "texts"])
def test_yaml_bombs_are_refused(text):
    with refused(f"expected at most {LARGEST // VALUE} values, got more once all"):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "expected fields of finite depth"),
        ("[" * 700, "expected fields of finite depth"),
        *((text, "expected YAML, got something else: ") for text in OTHER_TAGS),
        ("!!python/object/apply:os.system [true]", "expected YAML, got something else: could not determine"),
        ("9" * 5000, "expected YAML, got something else: Exceeds the limit"),
        ("a: 1\n---\nb: 2", "expected YAML, got something else: expected a single document"),
        ("\0", "expected YAML, got something else: unacceptable character"),
    ],
)
def test_yaml_other_than_plain_values_is_refused(text, message):
    with refused(message):
        parse_yaml(text)


def test_yaml_within_the_limit_is_read():
    text = f"a: &a [{', '.join(['1'] * 1000)}]\nb: [{', '.join(['*a'] * 100)}]\n"
    assert [len(item) for item in parse_yaml(text)["b"]] == [1000] * 100
    assert parse_yaml("") is None
    assert parse_yaml("x: {<<: {y: 1}, z: 2}") == {"x": {"y": 1, "z": 2}}


def test_long_yaml_is_refused_before_it_is_read():
    with refused(f"expected at most {LONGEST} characters, got {LONGEST + 1}"):
        parse_yaml("#" * (LONGEST + 1))
