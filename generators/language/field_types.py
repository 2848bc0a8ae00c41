"""What the fields of a layout hold: numbers, colours, and ``$name`` for the value of a factor or variable."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from loaders.errors import InputError
from loaders.schema import FactorValue

T = TypeVar("T")


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
    """Give a mapping, and those in it, keys spelled by `key_of`.

    Raises:
        ValueError: a key is neither a name nor a number, or two keys are equal.
    """
    if not isinstance(table, dict):
        return table
    for key in table:
        if isinstance(key, bool) or not isinstance(key, str | int | float):
            raise ValueError(f"expected names or numbers as keys, got {key!r}; put 'yes' and such in quotes")
    keyed = {key_of(key): value for key, value in table.items()}
    if len(keyed) < len(table):
        raise ValueError(f"expected distinct keys, got {list(table)}")
    return keyed


def _reference(value: str) -> str:
    if not value.startswith("$"):
        raise ValueError("expected `$name` of a factor or variable")
    return value


class Choice(Model, Generic[T]):
    """One of several values of a field, chosen by the value of a categorical factor or variable."""

    choose: Annotated[str, AfterValidator(_reference)]
    among: Annotated[dict[str, T], BeforeValidator(with_keys), Field(min_length=1)]

    @property
    def factor(self) -> str:
        """Name of the factor or variable that chooses."""
        return self.choose.removeprefix("$")

    def chosen(self, value: FactorValue, field: str) -> T:
        """Return the entry for a value of the factor.

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
