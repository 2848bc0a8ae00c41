import numpy as np
import pytest

from candlelight.generators.language.expressions import (
    compared_texts,
    evaluate_expression,
    names_in_expression,
)
from tests.refusals import refused

VALUES = {"x": 1.5, "n": 3, "kind": "cube"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("-x ** 2", -2.25),
        ("n % 2", 1.0),
        ("7 / 2", 3.5),
        ("2 if kind == 'cube' else 5", 2.0),
        ("2 if kind != 'cube' and x > 0 else 5", 5.0),
        ("0 < x < 2", 1.0),
        ("not (x > 1 or n < 1)", 0.0),
        ("sin(pi / 2) + cos(0)", 2.0),
        ("min(x, n, 1) + max(x, n)", 4.0),
        ("sqrt(abs(0 - 16)) * exp(0) + log(1) + floor(1.9) + tan(0)", 5.0),
    ],
)
def test_values_by_hand(text, expected):
    assert evaluate_expression(text, VALUES) == pytest.approx(expected, abs=1e-12)


def test_arithmetic_agrees_with_python():
    rng = np.random.default_rng(3)
    for _ in range(200):
        text = "x"
        for _ in range(rng.integers(1, 8)):
            text = f"({text} {rng.choice(list('+-*'))} {rng.choice(['n', 'x', str(rng.uniform(-3, 3))])})"
        assert evaluate_expression(text, VALUES) == pytest.approx(eval(text, {}, {"x": 1.5, "n": 3.0}))


def test_a_name_is_a_function_where_it_is_called_and_a_variable_elsewhere():
    assert names_in_expression("max(max, min) + floor(x)") == ("max", "min", "x")
    assert evaluate_expression("max(max, 2) + floor(1.5)", {"max": 3}) == 4.0


def test_names_are_variables_in_the_order_in_which_they_are_written():
    text = "sin(angle) * pi + min(a, b) if kind == 'a' else 2"
    assert sorted(names_in_expression(text)) == ["a", "angle", "b", "kind"]
    assert names_in_expression("a * b + c if d else a - e") == ("a", "b", "c", "d", "e")


def test_comparisons_pair_a_name_with_a_text():
    text = "(kind == 'cube' != tone) + ('a' == x) + (kind == 2) + (kind < 'b') + ('a' == 'b') + (kind == x)"
    assert sorted(compared_texts(text)) == [("kind", "cube"), ("tone", "cube"), ("x", "a")]


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os').system('true')", "open('/etc/passwd')", "x.real", "(1).__class__", "x[0]"),
        *("[1, 2]", "{'a': 1}", "lambda: 1", "[i for i in x]", "f'{x}'", "x := 3", "True", "1j", "x @ n"),
        *("min(*x)", "max(x, key=abs)"),
    ],
)
def test_expressions_outside_the_language_are_refused(text):
    with refused(r"not allowed|expected an expression"):
        names_in_expression(text)


@pytest.mark.parametrize("text", ["1 +", "", "(" * 200, "x" * 401, "a b"])
def test_text_that_is_no_expression_is_refused(text):
    with refused("expected an expression"):
        names_in_expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / (x - 1.5)", r"cannot be evaluated: .*division by zero \(at x=1.5\)"),
        ("9 ** 9 ** 9", "a power beyond 64"),
        ("log(0 - x)", "cannot be evaluated"),
        ("kind + 1", "`kind` is the name 'cube', not a number"),
        ("1 if kind else 2", "`kind` is the name"),
        ("not kind", "`kind` is the name"),
        ("x > 0 and kind", "`kind` is the name"),
        ("'2'", "`'2'` is the name '2', not a number"),
        ("(0 - x) ** 0.5", "a power of -1.5 that is not whole"),
        ("'a' * 1000000", "`'a'` is the name 'a', not a number"),
        (" * ".join(["10 ** 60"] * 6), "expected a finite number, got inf"),
    ],
)
def test_an_expression_without_a_value_says_why(text, message):
    with refused(message):
        evaluate_expression(text, VALUES)


def test_the_result_is_a_float():
    assert [type(evaluate_expression(text, VALUES)) for text in ("n > 2", "n")] == [float, float]
