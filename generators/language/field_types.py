"""What the fields of a layout hold: numbers, colours, and ``$name`` for the value of a factor or variable."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag


class Model(BaseModel):
    """Base of the models below: immutable; unknown keys and non-finite numbers are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number or $variable")
    if isinstance(value, str) and not value.startswith("$"):
        raise ValueError("expected a number or $variable")
    return value


Number = Annotated[float | str, BeforeValidator(_number)]
Share = Annotated[float, Field(ge=0, le=1)]


class Hue(Model):
    """A colour by its place on the HSV hexagon in linear Rec.709: hue in degrees, the others 0 to 1."""

    hue: Number
    saturation: Number = 1.0
    value: Number = 1.0


def _colour_kind(value: object) -> str:
    return "hue" if isinstance(value, dict | Hue) else "rgb"


Color = Annotated[
    Annotated[tuple[Number, Number, Number], Tag("rgb")] | Annotated[Hue, Tag("hue")],
    Discriminator(_colour_kind),
]


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
        for item in value.values():
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
