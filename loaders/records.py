"""The base class of all records that are written as JSON, and its fields that came later."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

FactorValue = str | int | float


class Record(BaseModel):
    """Base class of records: immutable; unknown keys and non-finite numbers are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def later_field(default: Any = None) -> Any:
    """Return a field that came later: its default is not written, so that older records stay.

    Example:
        >>> class Mug(Record):
        ...     size: float
        ...     handle: str | None = later_field()
        >>> Mug(size=1).model_dump_json()
        '{"size":1.0}'
    """
    return Field(default=default, exclude_if=lambda value: value == default)
