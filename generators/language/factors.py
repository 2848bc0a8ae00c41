"""Factors, variables and rules of an image set, as pydantic models.

A mechanism may depend on other factors and variables of its set, its parents: ``given`` and ``table`` name
categorical parents, and any number may be an expression of parents
(`candlelight.generators.language.expressions`). ``previous(x)`` is the value of x at the previous step of a
sequence. A variable that factors depend on is a hidden confounder: drawn and recorded, but no label.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from candlelight.generators.language.expressions import (
    arguments_of_call,
    evaluate_expression,
    lagged_names,
    names_in_expression,
    previous,
)
from candlelight.generators.language.field_types import PlainType, Share, described, key_of, with_keys
from candlelight.loaders.errors import InputError, within
from candlelight.loaders.schema import AssetKind, FactorValue, Record
from candlelight.loaders.selection.conditional_tables import row_weights, table_rows

Weights = dict[str, float] | tuple[float, ...]


def read_conditional_table(table: Any) -> Any:
    """Return a conditional table with all keys spelled by `key_of`; any other value stays."""
    if not isinstance(table, dict):
        return table
    return {key: read_conditional_table(value) for key, value in with_keys(table).items()}


def check_row(row: Any, where: str) -> Any:
    """Check weights: a mapping from value to weight, or a list of weights.

    Args:
        row: the weights, keys spelled by `key_of`.
        where: path of the weights, for messages.

    Raises:
        InputError: another form, or weights that are negative, not finite, or all 0.
    """
    listed = isinstance(row, list | tuple) and not any(isinstance(weight, str) for weight in row)
    if not listed and not isinstance(row, Mapping):
        raise InputError(
            f"{where}: expected a mapping from value to weight such as {{red: 3, blue: 1}}, or a list of "
            f"weights in the order of the values, got {row!r}"
        )
    weights = row_weights(dict(enumerate(row)) if listed else row, where)
    return tuple(weights.values()) if listed else weights


def read_weights(value: Any) -> Any:
    """Return the weights of a factor, checked; None stays."""
    return None if value is None else check_row(with_keys(value), "weights")


def weights_of(row: Weights, values: Sequence[FactorValue]) -> list[float]:
    """Return the weight of each value, in order; a mapping gives 0 to the values that it leaves out.

    Args:
        row: weights by `key_of` the value, or in the order of the values.
        values: the values.

    Raises:
        InputError: the number of weights is not that of the values, or a weight has no value.

    Example:
        >>> weights_of({"blue": 3.0}, ("red", "blue")), weights_of((1.0, 2.0), ("red", "blue"))
        ([0.0, 3.0], [1.0, 2.0])
    """
    if isinstance(row, tuple):
        if len(row) != len(values):
            known = ", ".join(map(str, values))
            raise InputError(f"expected {len(values)} weights, one for each of {known}, got {len(row)}")
        return list(row)
    keys = [key_of(value) for value in values]
    if unknown := sorted(row.keys() - set(keys)):
        raise InputError(f"expected weights of values among {list(values)}, got {unknown}")
    return [row.get(key, 0.0) for key in keys]


NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=100), PlainType("name")]
_LAGGED = re.compile(r"previous\((.*)\)")
PARENT_PATTERN = r"^([a-z][a-z0-9_]*|previous\([a-z][a-z0-9_]*\))$"
ParentName = Annotated[
    str,
    Field(pattern=PARENT_PATTERN),
    PlainType("name or previous(name)"),
]
_LARGEST_WHOLE = 2**53  # whole numbers up to which a float is exact


def _number_or_expression(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number or an expression")
    if isinstance(value, str):
        names_in_expression(value)
    elif not abs(value) < math.inf:
        raise ValueError(f"expected a finite number, got {value}")
    elif isinstance(value, int) and abs(value) > _LARGEST_WHOLE:
        raise ValueError("expected a whole number of at most 2^53")
    return value


def _value(value: object) -> object:
    """Refuse any value but a name or a number; true and false are truth values of YAML."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise ValueError(f"expected a name or a number, got {value}; put a name such as 'true' in quotes")
    if not isinstance(value, Real):
        raise ValueError(f"expected a name or a number, got {value!r}")
    if isinstance(value, Integral):
        if abs(int(value)) > _LARGEST_WHOLE:
            raise ValueError("expected a whole number of at most 2^53")
        return int(value)
    if not math.isfinite(float(value)):
        raise ValueError(f"expected a finite number, got {value}")
    return float(value)


Value = Annotated[FactorValue, BeforeValidator(_value), PlainType("name or number")]


def _change(value: object) -> object:
    return read_conditional_table(value) if isinstance(value, dict) else _value(value)


# A text is a name, or for a range a mechanism as `read_mechanism` reads it.
Change = Annotated[
    FactorValue | dict[str, Any], BeforeValidator(_change), PlainType("name, number or mechanism")
]
Every = Literal["unit", "step"]
_FIRST: Any = (
    "Its mechanism at the first step of a sequence, where its own reads `previous()`; fields left out stay."
)
_EVERY: Any = (
    "Whether its noise is drawn once for each unit or at each step; a mechanism that reads `previous()` "
    "draws at each step."
)
Quantity = Annotated[float | str, BeforeValidator(_number_or_expression), PlainType("number or expression")]


def _as_tuple(value: object) -> object:
    """Take a single name or number for a list of one."""
    return value if isinstance(value, list | tuple | dict) else (value,)


class Categorical(Record):
    """A factor or variable with a list of values: `values`, `count` or `assets`."""

    values: tuple[Value, ...] | None = described(
        None, "The values: all names or all numbers.", ["red", "blue"]
    )
    count: int | None = described(
        None, "Number of values, which are then 0, 1, ..., count - 1.", 100, ge=1, le=10**6
    )
    assets: AssetKind | None = described(
        None,
        "Kind of assets whose labels the values are; without `values` all labels of that kind.",
        "materials",
    )
    weights: Annotated[
        Weights | None,
        BeforeValidator(read_weights),
        PlainType("mapping from value to weight, or list of weights in the order of the values"),
    ] = described(
        None,
        "Weights of the values, at least 0; by default equal. A value left out has 0.",
        {"red": 3, "blue": 1},
    )
    given: Annotated[
        tuple[ParentName, ...], BeforeValidator(_as_tuple), PlainType("name or list of names")
    ] = described(
        (), "Categorical factors or variables that the `table` depends on, also `previous(name)`.", ["shape"]
    )
    table: Annotated[
        dict[str, Any] | None,
        BeforeValidator(read_conditional_table),
        PlainType("mapping from each value of the first parent, then of the next, to weights"),
    ] = described(
        None,
        "Weights for each value of the parents in `given`; one more level for each further parent.",
        {"cube": {"red": 3, "blue": 1}, "cone": [0, 1]},
    )
    strength: Share = described(
        1.0, "Mixture of `table` and `weights`: 1 follows the table, 0 ignores it.", 0.8
    )
    unit: str = described("", "Physical unit of the values, for the metadata.", "degrees")
    first: Change | None = described(None, _FIRST, "red", later=True)
    every: Every = described("unit", _EVERY, "step", later=True)

    @model_validator(mode="after")
    def _one_source(self) -> "Categorical":
        if self.values is not None and self.count is not None:
            raise ValueError("expected `values` or `count`, got both")
        if self.count is not None and self.assets is not None:
            raise ValueError("expected `count` or `assets`, got both")
        if self.values is None and self.count is None and self.assets is None:
            raise ValueError("expected `values`, `count` or `assets`, got none")
        if self.values is None and self.assets == "code":
            raise ValueError("expected `values`, labels such as knots.py:trefoil, with `assets: code`")
        if self.values is not None:
            if not self.values or len(set(map(key_of, self.values))) != len(self.values):
                raise ValueError(f"expected distinct values, at least one, got {list(self.values)}")
            if len({isinstance(value, str) for value in self.values}) != 1:
                raise ValueError(f"expected names or numbers, not both, got {list(self.values)}")
        return self

    @model_validator(mode="after")
    def _probabilities(self) -> "Categorical":
        if (self.table is None) != (not self.given):
            raise ValueError("expected `given` and `table` together")
        _check_first(self)
        if self.table is None and self.strength != 1:
            raise ValueError("`strength` needs a `table`; add the table or leave `strength` out")
        if len(set(self.given)) != len(self.given):
            raise ValueError(f"given: expected distinct names, got {list(self.given)}")
        self.rows()
        return self

    def rows(self) -> dict[tuple[str, ...], Weights]:
        """Return the weights in each row of the table, by the values of the parents as `key_of` spells them.

        Raises:
            InputError: a row has no weights, or the table has fewer levels than there are parents.
        """
        if self.table is None:
            return {}
        rows = table_rows(self.given, self.table)
        return {keys: check_row(row, where) for keys, where, row in rows}

    def listed(self) -> tuple[FactorValue, ...]:
        """Return the values that the recipe lists: none where ``assets`` alone stands for all labels."""
        return self.values or tuple(range(self.count or 0))

    def has_names(self) -> bool:
        """Tell whether the values are names; they are numbers otherwise."""
        return self.count is None and (self.values is None or isinstance(self.values[0], str))

    def parents(self) -> tuple[str, ...]:
        """Return the names that the mechanism depends on."""
        return tuple(name for name in self.given if not _LAGGED.fullmatch(name))

    def lagged_parents(self) -> tuple[str, ...]:
        """Return the names whose values at the previous step the mechanism reads."""
        return tuple(found[1] for name in self.given if (found := _LAGGED.fullmatch(name)))


class Continuous(Record):
    """A factor or variable with a range: uniform, truncated normal, or the value of an expression.

    A text says it in short: "uniform(-1, 1) in m", "normal(0.5 * x, 0.1, -1, 1)", "2 * x".
    """

    low: Quantity | None = described(
        None, "Smallest value; an expression alone (`value`) needs no range.", -60
    )
    high: Quantity | None = described(None, "Largest value.", "60 if shape == 'cube' else 90")
    mean: Quantity | None = described(
        None, "Mean of a normal distribution that is truncated to the range.", "0.5 * x"
    )
    std: Quantity | None = described(None, "Its standard deviation before truncation, above 0.", 10)
    value: Quantity | None = described(
        None, "The value itself, in place of a distribution.", "rotation * pi / 180"
    )
    unit: str = described("", "Physical unit of the values, for the metadata.", "m")
    first: Change | None = described(None, _FIRST, {"low": -1, "high": 1}, later=True)
    every: Every = described("unit", _EVERY, "step", later=True)

    @model_validator(mode="after")
    def _in_order(self) -> "Continuous":
        if isinstance(self.low, float | int) and isinstance(self.high, float | int) and self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        if (self.low is None) != (self.high is None) or (self.low is None and self.value is None):
            raise ValueError("expected `low` and `high` together, or `value` with an expression alone")
        if (self.mean is None) != (self.std is None):
            raise ValueError("expected `mean` and `std` together")
        if self.value is not None and self.mean is not None:
            raise ValueError("expected `value`, or `mean` and `std`, got both")
        _check_first(self)
        if isinstance(self.std, float | int) and self.std <= 0:
            raise ValueError(f"std: expected more than 0, got {self.std}")
        numbers = [bound for bound in (self.low, self.mean, self.high) if isinstance(bound, float | int)]
        if self.mean is not None and len(numbers) == 3 and numbers != sorted(numbers):
            raise ValueError(f"expected the mean within [{self.low}, {self.high}], got {self.mean}")
        return self

    def parents(self) -> tuple[str, ...]:
        """Return the names that the mechanism depends on."""
        texts = self.expressions().values()
        return tuple(dict.fromkeys(name for text in texts for name in names_in_expression(text)))

    def lagged_parents(self) -> tuple[str, ...]:
        """Return the names whose values at the previous step the mechanism reads."""
        texts = self.expressions().values()
        return tuple(dict.fromkeys(name for text in texts for name in lagged_names(text)))

    def expressions(self) -> dict[str, str]:
        """Return the expressions by the name of their field."""
        quantities = {name: getattr(self, name) for name in ("low", "high", "mean", "std", "value")}
        return {name: text for name, text in quantities.items() if isinstance(text, str)}


def _check_first(factor: Categorical | Continuous) -> None:
    if factor.first is not None and not factor.lagged_parents():
        raise ValueError(
            "first: the mechanism reads no `previous()` and so is that of the first step too; leave it out"
        )


_LISTED = Categorical.model_fields.keys() - Continuous.model_fields.keys()
_RANGED = Continuous.model_fields.keys() - Categorical.model_fields.keys()


def _kind(value: object) -> str | None:
    fields = vars(value) if isinstance(value, Record) else value
    if not isinstance(fields, dict):
        return None
    if not (ranged := fields.keys() & _RANGED):
        return "[categorical]"
    return None if fields.keys() & _LISTED or not ranged & {"low", "high", "value"} else "[continuous]"


_DISTRIBUTIONS = {"uniform": ("low", "high"), "normal": ("mean", "std", "low", "high")}
_TEXT = re.compile(r"\s*(?:(uniform|normal)\s*\((.*)\)|(.*?))(?:\s+in\s+([^\s'\"()]+))?\s*", re.DOTALL)


def read_mechanism(text: str) -> dict[str, float | str]:
    """Read a mechanism as a text: a distribution or an expression, with the unit after ``in``.

    Raises:
        InputError: a distribution has other arguments.

    Example:
        >>> read_mechanism("normal(120 * x, 40, -180, 180) in degrees")
        {'mean': '120 * x', 'std': 40, 'low': -180, 'high': 180, 'unit': 'degrees'}
        >>> read_mechanism("uniform(-1, 1)"), read_mechanism("2 * x in m")
        ({'low': -1, 'high': 1}, {'value': '2 * x', 'unit': 'm'})
    """
    found = _TEXT.fullmatch(text)
    assert found is not None
    name, arguments, expression, unit = found.groups()
    fields: dict[str, float | str] = {"value": expression}
    if name is None and re.match(r"(uniform|normal)\s*\(", expression):
        raise InputError(f"expected `)` at the end, got `{text}`; inside {{}} the text stands in quotes")
    if name is not None:
        names, given = _DISTRIBUTIONS[name], arguments_of_call(arguments)
        if len(given) != len(names):
            raise InputError(f"expected {name}({', '.join(names)}), got `{name}({arguments})`")
        fields = dict(zip(names, given, strict=True))
    return fields if unit is None else {**fields, "unit": unit}


def _read_factor(value: object) -> object:
    """Read a list as values and a text as a mechanism; refuse a range with fields of a conditional table."""
    if isinstance(value, list | tuple):
        return {"values": value}
    if isinstance(value, str):
        return read_mechanism(value)
    if isinstance(value, dict) and value.keys() & {"low", "high"}:
        listed = value.keys() & _LISTED
        if listed and not listed & {"values", "count", "assets"}:
            raise ValueError(
                "`given`, `table`, `strength` and `weights` belong to lists of values; a range depends on "
                "others through expressions such as `mean: \"40 if style == 'a' else -40\"` with `std: 10`"
            )
    return value


Factor = Annotated[
    Annotated[Categorical, Tag("[categorical]")] | Annotated[Continuous, Tag("[continuous]")],
    Discriminator(
        _kind,
        custom_error_type="factor",
        custom_error_message="expected a list (`values`, `count`, `assets`), a range (`low`, `high`) or text "
        "such as uniform(0, 1)",
    ),
    BeforeValidator(_read_factor),
]


_VALUES = {"values", "count", "assets"}  # fields that say which values there are


def read_change(factor: Factor, change: FactorValue | Mapping[str, Any]) -> FactorValue | Factor:
    """Return the value that an intervention sets, or the mechanism that it puts in place of a factor's own.

    An expression without names, such as ``pi / 2``, is a value. A factor with a list keeps its values. A
    range and the mechanism of the first step are kept where the fields of the mechanism leave them out and it
    uses them.

    Args:
        factor: the factor.
        change: a value, or a mechanism: its fields, or for a range also a text as `read_mechanism` reads it.

    Raises:
        InputError: fields of another kind, or that contradict each other.

    Example:
        >>> size = Continuous(low=0, high=1, value="x")
        >>> read_change(size, 3), read_change(size, {"high": 2}).high, read_change(size, "2 * y").value
        (3.0, 2.0, '2 * y')
    """
    if isinstance(change, str) and isinstance(factor, Continuous):
        change = read_mechanism(change)
    if isinstance(change, Mapping):
        placed = _in_place(factor, change)
        named = placed.parents() or placed.lagged_parents()
        if isinstance(placed, Continuous) and placed.low is None and not named:
            return evaluate_expression(str(placed.value), {})
        return placed
    return change if isinstance(factor, Categorical) else float(change)


def _in_place(factor: Factor, fields: Mapping[str, Any]) -> Factor:
    listed = isinstance(factor, Categorical)
    known = type(factor).model_fields.keys() - (_VALUES if listed else set())
    if unknown := sorted(fields.keys() - known):
        kind = "the factor keeps its list of values" if listed else "the factor is a range"
        raise InputError(f"expected some of {', '.join(sorted(known))}, got {unknown}: {kind}")
    kept = {"unit", "every", *(_VALUES if listed else () if "value" in fields else ("low", "high"))}
    try:
        placed = type(factor).model_validate(
            {**factor.model_dump(include=kept, exclude_unset=True), **fields}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
        raise InputError(f"{where}{where and ': '}{first['msg'].removeprefix('Value error, ')}") from None
    if placed.first is None and placed.lagged_parents():
        return placed.model_copy(update={"first": factor.first})
    return placed


def first_mechanism(factor: Factor) -> Factor:
    """Return the mechanism of a factor at the first step of a sequence.

    Raises:
        InputError: it reads values of a previous step, and no ``first`` says how it begins.

    Example:
        >>> angle = Continuous(value="previous(angle) + 10", first={"low": 0, "high": 360})
        >>> first_mechanism(angle).high
        360.0
    """
    if not factor.lagged_parents():
        return factor
    past = previous(factor.lagged_parents()[0])
    if factor.first is None:
        raise InputError(
            f"reads {past}, which the first step does not have; add `first`, its value or mechanism there"
        )
    fields = factor.first
    if not isinstance(fields, dict):
        if isinstance(factor, Categorical):
            fields = {"weights": {key_of(fields): 1.0}}
        else:
            fields = read_mechanism(fields) if isinstance(fields, str) else {"value": fields}
    with within("first"):
        placed = _in_place(factor, fields)
        if isinstance(factor, Continuous) and isinstance(placed, Continuous) and placed.low is None:
            # A value has to lie in the range too, unless this reads the step before.
            bounds = {"low": factor.low, "high": factor.high}
            if not any(isinstance(one, str) and lagged_names(one) for one in bounds.values()):
                placed = placed.model_copy(update=bounds)
        if placed.lagged_parents():
            raise InputError(f"expected a mechanism that reads no previous step, got {factor.first}")
    return placed


_Values = Annotated[
    tuple[Value, ...], BeforeValidator(_as_tuple), Field(min_length=1), PlainType("value or list of values")
]


class Rule(Record):
    """A rule: values that do not occur together, by the mechanism of a target or by selection."""

    exclude: dict[Name, _Values] = described(
        ...,
        "Values that do not occur together, by the names of their factors.",
        {"shape": "cone", "size": [2, 3]},
        min_length=1,
    )
    target: str | None = described(
        None, "Factor whose mechanism avoids these values; the others become its parents.", "size"
    )
    selection: bool = described(
        False, "Whether samples with these values are thrown away, as a selection after all were drawn.", True
    )

    @model_validator(mode="after")
    def _acts(self) -> "Rule":
        if (self.target is None) != self.selection:
            raise ValueError(
                "expected `target`, the variable that the rule acts on, or `selection: true`, got "
                + ("both" if self.selection else "neither")
            )
        if self.target is not None and self.target not in self.exclude:
            raise ValueError(f"target: expected one of {', '.join(self.exclude)}, got `{self.target}`")
        return self

    def parents(self) -> tuple[str, ...]:
        """Return the names of the factors that the target depends on by this rule."""
        return tuple(name for name in self.exclude if name != self.target)

    def holds(self, values: Mapping[str, FactorValue], names: Iterable[str] | None = None) -> bool:
        """Tell whether the values of all excluded names, or of the given names alone, are excluded ones."""
        return all(values[name] in self.exclude[name] for name in (self.exclude if names is None else names))
