"""Results as plain values that strict JSON can hold."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
from torch import Tensor


def to_plain(value: object) -> object:
    """Turn a result into dictionaries, lists, strings and numbers.

    Dataclasses become dictionaries, tensors and arrays nested lists. JSON has no non-finite numbers: nan
    becomes None, infinities become the strings "inf" and "-inf".

    Args:
        value: a dataclass, mapping, sequence, tensor, array, string, number, boolean or None, nested at will.

    Returns:
        The same, ready for `json.dumps`.

    Example:
        >>> to_plain({"score": Tensor([0.5, float("inf"), float("nan")]), "count": 2})
        {'score': [0.5, 'inf', None], 'count': 2}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
