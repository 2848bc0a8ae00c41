"""Convert results to values that strict JSON and CSV can hold."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator
from torch import Tensor


def _from_json_value(value: Any) -> Any:
    if value is None:
        return math.nan
    return float(value) if value in ("inf", "-inf") else value


# A float that pydantic reads in the form in which `to_json_values` writes it.
JSONNumber = Annotated[float, BeforeValidator(_from_json_value)]


def to_json_values(value: object) -> Any:
    """Convert a result to dictionaries, lists, strings and numbers.

    Dataclasses become dictionaries; tensors and arrays become nested lists. JSON has only finite numbers: nan
    becomes None, infinities become the strings "inf" and "-inf".

    Args:
        value: a dataclass, mapping, sequence, tensor, array, string, number, boolean or None, nested or not.

    Returns:
        The converted value, ready for `json.dumps`.

    Example:
        >>> to_json_values({"score": Tensor([0.5, float("inf"), float("nan")]), "count": 2})
        {'score': [0.5, 'inf', None], 'count': 2}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_values(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_values(item) for item in value]
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return to_json_values(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def to_json(value: object) -> str:
    r"""Write a value as JSON text; equal values give equal bytes.

    Example:
        >>> to_json({"score": float("nan")})
        '{\n  "score": null\n}\n'
    """
    return json.dumps(to_json_values(value), indent=2, allow_nan=False) + "\n"


def to_csv(lines: Iterable[Sequence[object]]) -> str:
    r"""Write lines as CSV text; nan becomes an empty cell and infinity becomes inf.

    A text that a spreadsheet would run as a formula gets an apostrophe before it.

    Example:
        >>> to_csv([("id", "lmse"), ("a", 0.5), ("b", float("nan"))])
        'id,lmse\na,0.5\nb,\n'
        >>> to_csv([("=HYPERLINK(A1)", "-0.5", -0.5)])
        "'=HYPERLINK(A1),-0.5,-0.5\n"
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        ["" if cell != cell else _inert(cell) for cell in line] for line in lines
    )
    return text.getvalue()


def _inert(cell: object) -> object:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return cell if cell == "-" else f"'{cell}"
    return cell


def canonical_nan(value: float) -> float:
    """Replace any nan by the object `math.nan`, so that equal results compare equal.

    Example:
        >>> canonical_nan(float("nan")) is math.nan
        True
    """
    return math.nan if value != value else float(value)


def with_canonical_nan(columns: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Apply `canonical_nan` to every number of every column.

    Example:
        >>> with_canonical_nan({"a": (float("nan"), 1)}) == {"a": (math.nan, 1.0)}
        True
    """
    return {
        name: tuple(math.nan if value != value else float(value) for value in column)
        for name, column in columns.items()
    }
