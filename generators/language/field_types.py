"""Types that the fields of recipes share: numbers, colours, references ``$name`` and choices by a factor."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from annotated_types import Interval
from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, Field, Tag

from candlelight.blender_assets.asset_kinds import is_code_label
from candlelight.generators.language.colour_texts import linear_colour
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue, Record, Vector

_T = TypeVar("_T")
_ANY = Interval()


@dataclass(frozen=True)
class PlainType:
    """The type of a field in plain words, as part of its annotation."""

    words: str


def described(
    default: Any,
    meaning: str,
    example: Any,
    unit: str = "",
    default_words: str = "",
    filled: Interval = _ANY,
    later: bool = False,
    **limits: Any,
) -> Any:
    """Return a field of a recipe: its default, one line on its meaning, an example, its unit and its limits.

    Args:
        default: the default; ``...`` for a required field.
        meaning: one sentence.
        example: a value that is valid, as YAML has it.
        unit: physical unit, "" for none.
        default_words: the default in words, where the model's own default does not say it.
        filled: limits of the number that a reference ``$name`` may stand for, checked for each sample.
        later: whether the field came after recipes were hashed: its default is then not written, so that the
            hash of a recipe without the field stays.
        limits: limits of a value that is no reference, as those of `pydantic.Field`.
    """
    facts: dict[str, Any] = {"unit": unit, "default_words": default_words, "filled": filled}
    if later:
        limits["exclude_if"] = lambda value: value == default
    return Field(default, description=meaning, examples=[example], json_schema_extra=facts, **limits)


def _number(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number or $variable")
    if isinstance(value, str) and re.search(r"\$\w", value) and not re.fullmatch(r"\$\w+", value):
        expression = re.sub(r"\$(?=\w)", "", value)
        raise ValueError(
            f"a layout takes plain $names; make a variable with `value: {expression}`, and its `low` and "
            "`high`"
        )
    if isinstance(value, str) and not value.startswith("$"):
        raise ValueError("expected a number or $variable")
    return value


NumberOrReference = Annotated[float | str, BeforeValidator(_number), PlainType("number or $name")]
Point = Annotated[
    tuple[NumberOrReference, NumberOrReference, NumberOrReference], PlainType("three numbers or $names")
]
Pair = Annotated[tuple[NumberOrReference, NumberOrReference], PlainType("two numbers or $names")]
# Types of fields that recipe and plan have in common: with references in a recipe, numbers in a plan.
Number = TypeVar("Number", float, NumberOrReference)
Two = TypeVar("Two", tuple[float, float], Pair)
Three = TypeVar("Three", Vector, Point)
Share = Annotated[float, Field(ge=0, le=1)]
Label = Annotated[str, PlainType("label or $name")]


def _code_label(text: str) -> str:
    if not text.startswith("$") and not is_code_label(text):
        raise ValueError(f"expected FILE.py:FUNCTION or $name, got `{text}`")
    return text


def _keyword(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"expected names of a function's arguments, got {name!r}")
    return name


def _argument(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number, a label or $name")
    return _number(value) if isinstance(value, str) and value.startswith("$") else value


CodeLabel = Annotated[str, AfterValidator(_code_label), PlainType("FILE.py:FUNCTION or $name")]
CodeNumbers = Annotated[
    dict[Annotated[str, AfterValidator(_keyword)], Annotated[float | str, BeforeValidator(_argument)]],
    PlainType("mapping from argument to number, label or $name"),
]


def _layer_names(value: object) -> object:
    if isinstance(value, str) and value != "all":
        raise ValueError("expected a list of layers, or `all`")
    return ("all",) if value == "all" else value


LayerNames = Annotated[
    tuple[str, ...],
    BeforeValidator(_layer_names),
    PlainType("list of texts, or all"),
]


def stated_fields(model: BaseModel) -> list[str]:
    """List the fields of a model whose values are not their defaults."""
    fields = type(model).model_fields.items()
    return [
        name for name, field in fields if getattr(model, name) != field.get_default(call_default_factory=True)
    ]


def check_order(model: Any) -> Any:
    """Refuse a model whose ``low`` is above its ``high``; a validator of pydantic."""
    if model.low > model.high:
        raise ValueError(f"expected low <= high, got {model.low} and {model.high}")
    return model


class Hue(Record):
    """A colour by hue, saturation and value on the HSV hexagon of linear Rec.709."""

    hue: NumberOrReference = described(..., "Hue: 0 is red, 120 green, 240 blue.", "$hue", "degrees")
    saturation: NumberOrReference = described(
        1.0, "Saturation, from 0 (gray) to 1.", 0.8, filled=Interval(ge=0, le=1)
    )
    value: NumberOrReference = described(1.0, "The largest of the three channels.", 0.5)


def _colour_text(text: str) -> str:
    if not text.startswith("$"):
        linear_colour(text)
    return text


def _colour_kind(value: object) -> str:
    return "[hue]" if isinstance(value, dict | Hue) else "[text]" if isinstance(value, str) else "[rgb]"


Color = Annotated[
    Annotated[Point, Tag("[rgb]"), PlainType("three linear numbers or $names")]
    | Annotated[
        str,
        AfterValidator(_colour_text),
        Tag("[text]"),
        PlainType("sRGB as '#3080c0' or css:teal"),
    ]
    | Annotated[Hue, Tag("[hue]")],
    Discriminator(_colour_kind),
]


def key_of(value: FactorValue) -> str:
    """Return the key of a value in a table, the same for 2, 2.0 and what JSON makes of either, "2".

    Example:
        >>> key_of(2), key_of("2.0"), key_of("red")
        ('2.0', '2.0', 'red')
    """
    try:
        return repr(float(value))
    except (ValueError, OverflowError):
        return str(value)


def with_keys(table: Any) -> Any:
    """Return a mapping with its keys spelled by `key_of`; any other value stays.

    Raises:
        ValueError: a key is neither a name nor a number, or two keys are equal.
    """
    if not isinstance(table, dict):
        return table
    for key in table:
        if isinstance(key, bool) or not isinstance(key, str | int | float):
            raise ValueError(f"expected names or numbers as keys, got {key!r}; put 'true' and such in quotes")
    keyed = {key_of(key): value for key, value in table.items()}
    if len(keyed) < len(table):
        raise ValueError(f"expected distinct keys, got {list(table)}")
    return keyed


def _reference(value: str) -> str:
    if not value.startswith("$"):
        raise ValueError("expected `$name` of a factor or variable")
    return value


class Choice(Record, Generic[_T]):
    """A field whose value depends on a categorical factor or variable."""

    choose: Annotated[str, AfterValidator(_reference), PlainType("$name")] = described(
        ..., "Factor or variable that chooses.", "$view"
    )
    among: Annotated[
        dict[str, _T],
        BeforeValidator(with_keys),
        PlainType("mapping from each value of the factor to a value of the field"),
    ] = described(
        ...,
        "An entry for each value of the factor; entries of other values do no harm.",
        {"front": {"location": [0, 5, 3], "look_at": [0, 0, 0]}},
        min_length=1,
    )

    @property
    def factor(self) -> str:
        """Name of the factor or variable that chooses."""
        return self.choose.removeprefix("$")

    def chosen(self, value: FactorValue, field: str) -> _T:
        """Return the entry for a value of the factor.

        Args:
            value: the factor's value.
            field: path of the choice in the set, for messages.

        Raises:
            InputError: no entry has this value.
        """
        if missing := self.missing([value]):
            raise InputError(f"{field}.{missing}")
        return self.among[key_of(value)]

    def missing(self, values: Iterable[FactorValue]) -> str:
        """Say which values of the factor have no entry, "" if each has one."""
        missing = ", ".join(str(value) for value in values if key_of(value) not in self.among)
        message = f"among: expected an entry for each value of `{self.factor}`, got none for {missing}"
        return message if missing else ""


def is_choice(value: object) -> bool:
    """Tell whether the value of a field is a `Choice`, before or after it was validated."""
    return isinstance(value, Choice) or (isinstance(value, dict) and "choose" in value)


def references(value: object) -> Iterator[str]:
    """Yield the names that ``$name`` refers to anywhere in a model."""
    if isinstance(value, str) and value.startswith("$"):
        yield value[1:]
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from references(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from references(key)
            yield from references(item)


def substitute(value: Any, lookup: Callable[[str], Any]) -> Any:
    """Return the value that a field of a layout stands for: ``$name`` is looked up, all else stays.

    Example:
        >>> substitute((1.0, "$size"), {"size": 2.5}.__getitem__)
        (1.0, 2.5)
    """
    if isinstance(value, str) and value.startswith("$"):
        return lookup(value[1:])
    if isinstance(value, tuple):
        return tuple(substitute(item, lookup) for item in value)
    return value
