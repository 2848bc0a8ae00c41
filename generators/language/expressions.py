"""Parse and evaluate expressions in recipes: arithmetic on the values of other variables."""

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue

_LONGEST = 400  # characters
_LARGEST_POWER = 64.0
_PREVIOUS = "previous"
CONSTANTS = {"pi": math.pi}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "max": max,
    "min": min,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > _LARGEST_POWER:
        raise ValueError(f"a power beyond {_LARGEST_POWER:g}")
    if base < 0 and exponent % 1:
        raise ValueError(f"a power of {base:g} that is not whole")
    return float(base) ** exponent


_UNARY: dict[type, Callable[[float], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_Evaluate = Callable[[Mapping[str, FactorValue]], Any]  # gives a value at the values of variables


@cache
def _parsed(text: str) -> tuple[ast.expr, _Evaluate]:
    """Parse an expression, and refuse everything outside a small safe language.

    The language has numbers, texts in quotes, names of variables, ``pi``, ``+ - * / % **``, comparisons,
    ``and or not``, ``a if b else c``, the functions in `FUNCTIONS`, and ``previous(x)``, the value of x at
    the previous step of a sequence.

    Raises:
        InputError: the text is no expression, is too long, or is outside the language.
    """
    if len(text) > _LONGEST:
        raise InputError(f"expected an expression of at most {_LONGEST} characters, got {len(text)}")
    try:
        body = ast.parse(text.strip(), mode="eval").body
        return body, _number(body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"expected an expression such as `0.5 * size + 1`, got `{text}`") from None


def names_in_expression(text: str) -> tuple[str, ...]:
    """List the variables that an expression names, in the order of their first appearance.

    A name before brackets is a function, any other name a variable; both may have the same name. The names
    within ``previous()`` are those of `lagged_names` and not of this list.

    Raises:
        InputError: the text is no expression of the language.

    Example:
        >>> names_in_expression("sin(angle) * size + size if color == 'red' else 0")
        ('angle', 'size', 'color')
    """
    calls = [node for node in ast.walk(_parsed(text)[0]) if isinstance(node, ast.Call)]
    others = {id(node.func) for node in calls} | {id(node) for node in _lagged(text)}
    return _in_order(
        node
        for node in ast.walk(_parsed(text)[0])
        if isinstance(node, ast.Name) and id(node) not in others and node.id not in CONSTANTS
    )


def lagged_names(text: str) -> tuple[str, ...]:
    """List the variables whose value at the previous step an expression reads.

    Raises:
        InputError: the text is no expression of the language.

    Example:
        >>> lagged_names("0.9 * previous(x) + 0.1 * size")
        ('x',)
    """
    return _in_order(_lagged(text))


def previous(name: str) -> str:
    """Name the value of a variable at the previous step.

    Example:
        >>> previous("x")
        'previous(x)'
    """
    return f"{_PREVIOUS}({name})"


def _lagged(text: str) -> list[ast.Name]:
    calls = [node for node in ast.walk(_parsed(text)[0]) if isinstance(node, ast.Call)]
    return [one for call in calls for one in call.args if _is_previous(call) and isinstance(one, ast.Name)]


def _compared_name(node: ast.expr) -> list[str]:
    """Return the name of a variable, now or at the previous step; nothing for any other expression."""
    if isinstance(node, ast.Call) and _is_previous(node) and len(node.args) == 1:
        node = node.args[0]
    return [node.id] if isinstance(node, ast.Name) else []


def _is_previous(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == _PREVIOUS


def _in_order(nodes: Iterable[ast.Name]) -> tuple[str, ...]:
    found = sorted((node.lineno, node.col_offset, node.id) for node in nodes)
    return tuple(dict.fromkeys(name for _, _, name in found))


def arguments_of_call(text: str) -> list[float | str]:
    """Split the arguments of a call: numbers, and the texts of all other expressions as they are written.

    Raises:
        InputError: the text is no list of expressions.

    Example:
        >>> arguments_of_call("max(x, 2) * 3, -1.5")
        ['max(x, 2) * 3', -1.5]
    """
    whole = f"[{text}]"
    try:
        nodes = ast.parse(whole, mode="eval").body
        assert isinstance(nodes, ast.List)
    except (SyntaxError, ValueError, RecursionError, MemoryError, AssertionError):
        raise InputError(f"expected expressions with commas between them, got `{text[:60]}`") from None
    parts = [str(ast.get_source_segment(whole, node)) for node in nodes.elts]
    return [_plain_number(part) for part in parts]


def _plain_number(text: str) -> float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def compared_texts(text: str) -> list[tuple[str, str]]:
    """List the pairs of a variable and a text in quotes that an expression compares.

    Raises:
        InputError: the text is no expression of the language.

    Example:
        >>> compared_texts("1 if kind == 'cube' or 'cone' != kind else x > 2")
        [('kind', 'cube'), ('kind', 'cone')]
    """
    found: list[tuple[str, str]] = []
    for node in ast.walk(_parsed(text)[0]):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for op, (left, right) in zip(node.ops, itertools.pairwise(sides), strict=True):
                for pair in ((left, right), (right, left)):
                    match op, *pair:
                        case [ast.Eq() | ast.NotEq(), left_side, ast.Constant(value=str() as value)]:
                            found += [(name, value) for name in _compared_name(left_side)]
    return found


def evaluate_expression(text: str, values: Mapping[str, FactorValue]) -> float:
    """Evaluate an expression.

    Args:
        text: the expression.
        values: values of its variables; of those at the previous step by their names of `previous`.

    Returns:
        A finite number; a comparison is 1 or 0.

    Raises:
        InputError: the expression has no finite value for these values of its variables.

    Example:
        >>> evaluate_expression("0.5 * size if kind == 'cube' else -1", {"size": 3, "kind": "cube"})
        1.5
    """
    try:
        number: float = _parsed(text)[1](values)
    except (ArithmeticError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"`{text}` cannot be evaluated: {error} (at {_shown(text, values)})") from None
    if not math.isfinite(number):
        raise InputError(f"`{text}`: expected a finite number, got {number} (at {_shown(text, values)})")
    return number


def _shown(text: str, values: Mapping[str, FactorValue]) -> str:
    names = (*names_in_expression(text), *map(previous, lagged_names(text)))
    return ", ".join(f"{name}={values[name]!r}" for name in names) or "no variables"


def _compiled(node: ast.expr, text: str) -> _Evaluate:
    """Return the function that gives the value of a node; refuse a node outside the language."""
    match node:
        case ast.Constant(value=int() | float() | str() as value) if not isinstance(value, bool):
            return lambda values: value
        case ast.Name(id=name):
            return lambda values: CONSTANTS[name] if name in CONSTANTS else values[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _applied(_BINARY[type(op)], [left, right], text)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _applied(_UNARY[type(op)], [operand], text)
        case ast.Call(func=ast.Name(id="previous"), args=[ast.Name(id=name)], keywords=[]):
            return lambda values: values[previous(name)]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in FUNCTIONS:
            return _applied(FUNCTIONS[name], parts, text)
        case ast.BoolOp(op=op, values=parts):
            joined, numbers = all if isinstance(op, ast.And) else any, [_number(part, text) for part in parts]
            return lambda values: joined(number(values) for number in numbers)
        case ast.Compare(left=left, ops=ops, comparators=others) if _COMPARISONS.keys() >= set(
            map(type, ops)
        ):
            sides = [_compiled(side, text) for side in (left, *others)]
            return lambda values: _in_relation(ops, [side(values) for side in sides])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            holds, chosen, other = _number(test, text), _compiled(body, text), _compiled(orelse, text)
            return lambda values: chosen(values) if holds(values) else other(values)
    raise InputError(
        f"`{text}`: `{ast.unparse(node)}` is not allowed; expected numbers, names, arithmetic, "
        f"comparisons, `a if b else c`, {', '.join(FUNCTIONS)} and {previous('NAME')}"
    )


def _applied(function: Callable[..., Any], parts: list[ast.expr], text: str) -> _Evaluate:
    numbers = [_number(part, text) for part in parts]
    return lambda values: function(*(number(values) for number in numbers))


def _in_relation(ops: list[ast.cmpop], sides: list[Any]) -> bool:
    pairs = itertools.pairwise(sides)
    return all(_COMPARISONS[type(op)](*pair) for op, pair in zip(ops, pairs, strict=True))


def _number(node: ast.expr, text: str) -> _Evaluate:
    value_of = _compiled(node, text)

    def evaluate(values: Mapping[str, FactorValue]) -> float:
        value = value_of(values)
        if isinstance(value, str):
            raise TypeError(f"`{ast.unparse(node)}` is the name '{value}', not a number")
        # Floats have a fixed size; whole numbers of any length would let a recipe fill the memory.
        return float(value)

    return evaluate
