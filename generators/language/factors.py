"""How a factor or variable gets its value, as pydantic models: lists, tables, distributions, expressions.

A mechanism may depend on others of its set, its parents: `given` and `table` name categorical ones, and any
number may be an expression of them (`generators.language.expressions`). A variable that others depend on is a
hidden confounder: drawn and recorded, but no label.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from generators.language.expressions import names_in
from generators.language.field_types import Model, key_of, with_keys
from loaders.errors import InputError
from loaders.schema import AssetKind, FactorValue
from loaders.selection.conditional import row_weights, table_rows

NAME = r"^[a-z][a-z0-9_]*$"
Name = Annotated[str, Field(pattern=NAME, max_length=100)]
LARGEST = 2**53  # whole numbers up to which a float is exact


def _number_or_expression(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number or an expression")
    if isinstance(value, str):
        names_in(value)
    elif not abs(value) < math.inf:
        raise ValueError(f"expected a finite number, got {value}")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError("expected a whole number of at most 2^53")
    return value


def _value(value: object) -> object:
    """Refuse what is no value, truths among it: YAML makes them of yes, no, on and off."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise ValueError(f"expected a name or a number, got {value}; put a name such as 'yes' in quotes")
    if not isinstance(value, Real):
        raise ValueError(f"expected a name or a number, got {value!r}")
    if isinstance(value, Integral):
        if abs(int(value)) > LARGEST:
            raise ValueError("expected a whole number of at most 2^53")
        return int(value)
    if not math.isfinite(float(value)):
        raise ValueError(f"expected a finite number, got {value}")
    return float(value)


Value = Annotated[FactorValue, BeforeValidator(_value)]
Quantity = Annotated[float | str, BeforeValidator(_number_or_expression)]
Weights = dict[str, float] | tuple[float, ...]


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _keyed(table: Any) -> Any:
    """Give a table, and those in it, keys of one spelling."""
    table = with_keys(table)
    return {key: _keyed(value) for key, value in table.items()} if isinstance(table, dict) else table


def _row(row: Any, where: str) -> Any:
    """Check the form of weights: a mapping from value to weight, or a list of them.

    Raises:
        InputError: they are none, negative, not finite, or all 0.
    """
    if not isinstance(row, Mapping | list | tuple) or any(
        isinstance(weight, str) for weight in row if isinstance(row, list)
    ):
        raise InputError(
            f"{where}: expected a mapping from value to weight such as {{red: 3, blue: 1}}, or a list of "
            f"weights in the order of the values, got {row!r}"
        )
    weights = row_weights(row if isinstance(row, Mapping) else dict(enumerate(row)), where)
    return weights if isinstance(row, Mapping) else tuple(weights.values())


def _weights(value: Any) -> Any:
    return None if value is None else _row(with_keys(value), "weights")


def weights_of(row: Weights, values: Sequence[FactorValue]) -> list[float]:
    """Return the weight of each value, in order; a mapping gives 0 to the values that it leaves out.

    Args:
        row: weights by `key_of` the value, or in the order of the values.
        values: the values.

    Raises:
        InputError: another number of weights, or a weight of a value that there is not.

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


class Categorical(Model):
    """A factor with a list of values.

    Exactly one of the first three says which: ``values`` lists them, ``count`` stands for 0 .. count - 1,
    ``assets`` alone takes every label of that kind. ``assets`` beside ``values`` says that they are labels
    of that kind, and each is checked to exist.

    Drawn, each value is as likely as the other, or as its weight in ``weights``. With ``given`` and ``table``
    the weights depend on the parents: the table has such weights for each value of the first parent (and in
    it of the second, and so on). ``strength`` mixes:
    the probability is strength x table + (1 - strength) x what it would be without the table, so that 0 is
    independent and 1 is the table.
    """

    values: tuple[Value, ...] | None = None
    count: Annotated[int, Field(ge=1, le=10**6)] | None = None
    assets: AssetKind | None = None
    weights: Annotated[Weights | None, BeforeValidator(_weights)] = None
    given: Annotated[tuple[Name, ...], BeforeValidator(_as_tuple)] = ()
    table: Annotated[dict[str, Any] | None, BeforeValidator(_keyed)] = None
    strength: Annotated[float, Field(ge=0, le=1)] = 1.0
    unit: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> "Categorical":
        if self.values is not None and self.count is not None:
            raise ValueError("expected `values` or `count`, got both")
        if self.count is not None and self.assets is not None:
            raise ValueError("expected `count` or `assets`, got both")
        if self.values is None and self.count is None and self.assets is None:
            raise ValueError("expected `values`, `count` or `assets`, got none of them")
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
        if self.table is None and self.strength != 1:
            raise ValueError("expected `strength` beside a `table`")
        if len(set(self.given)) != len(self.given):
            raise ValueError(f"given: expected distinct names, got {list(self.given)}")
        self.rows()
        return self

    def rows(self) -> dict[tuple[str, ...], Weights]:
        """Return the weights in each row of the table, by the values of the parents as `key_of` spells them.

        Raises:
            InputError: a row that is none, or not so deep in the table as there are parents.
        """
        if self.table is None:
            return {}
        rows = table_rows(self.given, self.table)
        return {keys: _row(row, where) for keys, where, row in rows}

    def listed(self) -> tuple[FactorValue, ...]:
        """Return the values that the recipe lists: none where ``assets`` alone stands for all labels."""
        return self.values or tuple(range(self.count or 0))

    def names_things(self) -> bool:
        """Say whether the values are names; they are numbers otherwise."""
        return self.count is None and (self.values is None or isinstance(self.values[0], str))

    def parents(self) -> tuple[str, ...]:
        """Name the variables that the mechanism depends on."""
        return self.given


class Continuous(Model):
    """A factor or variable between ``low`` and ``high``.

    Uniform, or normal with ``mean`` and ``std`` where they are given, truncated to what lies within, or
    exactly ``value`` where that is given. Each may be a number or an expression of the parents.
    """

    low: Quantity
    high: Quantity
    mean: Quantity | None = None
    std: Quantity | None = None
    value: Quantity | None = None
    unit: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> "Continuous":
        if isinstance(self.low, float | int) and isinstance(self.high, float | int) and self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        if (self.mean is None) != (self.std is None):
            raise ValueError("expected `mean` and `std` together")
        if self.value is not None and self.mean is not None:
            raise ValueError("expected `value`, or `mean` and `std`, got both")
        if isinstance(self.std, float | int) and self.std <= 0:
            raise ValueError(f"std: expected more than 0, got {self.std}")
        numbers = [bound for bound in (self.low, self.mean, self.high) if isinstance(bound, float | int)]
        if self.mean is not None and len(numbers) == 3 and numbers != sorted(numbers):
            raise ValueError(f"expected the mean within [{self.low}, {self.high}], got {self.mean}")
        return self

    def parents(self) -> tuple[str, ...]:
        """Name the variables that the mechanism depends on."""
        return tuple(dict.fromkeys(name for text in self.expressions().values() for name in names_in(text)))

    def expressions(self) -> dict[str, str]:
        """Return the expressions by the name of their field."""
        quantities = {
            "low": self.low,
            "high": self.high,
            "mean": self.mean,
            "std": self.std,
            "value": self.value,
        }
        return {name: text for name, text in quantities.items() if isinstance(text, str)}


_LISTED = Categorical.model_fields.keys() - Continuous.model_fields.keys()
_RANGED = Continuous.model_fields.keys() - Categorical.model_fields.keys()


def _kind(value: object) -> str | None:
    fields = vars(value) if isinstance(value, Model) else value
    if not isinstance(fields, dict):
        return None
    if not (ranged := fields.keys() & _RANGED):
        return "categorical"
    return None if fields.keys() & _LISTED or not ranged & {"low", "high"} else "continuous"


Factor = Annotated[
    Annotated[Categorical, Tag("categorical")] | Annotated[Continuous, Tag("continuous")],
    Discriminator(
        _kind,
        custom_error_type="factor",
        custom_error_message="expected a list (`values`, `count`, `assets`) or a range (`low`, `high`)",
    ),
]


class Rule(Model):
    """Values that do not occur together: ``exclude`` maps names to a value or a list of values.

    Either the rule belongs to the mechanism of one of them, its ``target``, whose parents are then the
    others: the target never takes these values where the others have theirs. Or it is a declared
    ``selection``, which throws away what was made whole: a collider, and no mechanism.
    """

    exclude: Annotated[dict[Name, Annotated[tuple[Value, ...], Field(min_length=1)]], Field(min_length=1)]
    target: str | None = None
    selection: bool = False

    @field_validator("exclude", mode="before")
    @classmethod
    def _lists(cls, exclude: Any) -> Any:
        if not isinstance(exclude, dict):
            return exclude
        return {k: v if isinstance(v, list | tuple) else (v,) for k, v in exclude.items()}

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
        """Name what the target depends on by this rule."""
        return tuple(name for name in self.exclude if name != self.target)

    def holds(self, values: Mapping[str, FactorValue], names: Iterable[str] | None = None) -> bool:
        """Say whether the values, or those of some names, are all as excluded."""
        return all(values[name] in self.exclude[name] for name in (self.exclude if names is None else names))
