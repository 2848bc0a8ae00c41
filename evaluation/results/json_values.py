"""Results as plain values that strict JSON and CSV can hold."""

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


JSONNumber = Annotated[
    float, BeforeValidator(_from_json_value)
]  # a float that pydantic reads as `to_json_values` writes it


def to_json_values(value: object) -> Any:
    """Turn a result into dictionaries, lists, strings and numbers.

    Dataclasses become dictionaries, tensors and arrays nested lists. JSON has no non-finite numbers: nan
    becomes None, infinities become the strings "inf" and "-inf".

    Args:
        value: a dataclass, mapping, sequence, tensor, array, string, number, boolean or None, nested at will.

    Returns:
        The same, ready for `json.dumps`.

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
    r"""Give the JSON text of what `to_json_values` takes: the same bytes for the same value.

    Example:
        >>> to_json({"score": float("nan")})
        '{\n  "score": null\n}\n'
    """
    return json.dumps(to_json_values(value), indent=2, allow_nan=False) + "\n"


def to_csv(lines: Iterable[Sequence[object]]) -> str:
    r"""Give CSV text, nan as an empty cell and infinity as inf.

    Example:
        >>> to_csv([("id", "lmse"), ("a", 0.5), ("b", float("nan"))])
        'id,lmse\na,0.5\nb,\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        ["" if cell != cell else cell for cell in line] for line in lines
    )
    return text.getvalue()


def canonical_nan(value: float) -> float:
    """Put the nan of `math` for any other: results are equal where they hold the same object.

    Example:
        >>> canonical_nan(float("nan")) is math.nan
        True
    """
    return math.nan if value != value else float(value)


def with_canonical_nan(columns: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Do what `canonical_nan` does to every number of every column.

    Example:
        >>> with_canonical_nan({"a": (float("nan"), 1)}) == {"a": (math.nan, 1.0)}
        True
    """
    return {
        name: tuple(math.nan if value != value else float(value) for value in column)
        for name, column in columns.items()
    }
