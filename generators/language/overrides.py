"""Change fields of a recipe before it is checked: ``field=value`` with dots into nested fields."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from candlelight.generators.language.factors import read_mechanism
from candlelight.loaders.errors import InputError, argument, did_you_mean, within
from candlelight.loaders.files.plain_yaml import parse_yaml

_OF_LISTS = {"weights", "given", "table", "strength"}  # fields that a range does not have: a text is a label


def copy_apart(value: Any) -> Any:
    """Copy mappings and lists, which YAML aliases share, so that an override changes one place alone.

    Numbers and arrays of numpy, which a recipe from Python may hold, become those of YAML.
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: copy_apart(item) for key, item in value.items()}
    return [copy_apart(item) for item in value] if isinstance(value, list | tuple) else value


def override(data: dict[str, Any], change: str) -> None:
    """Change one field of a recipe, in place.

    Args:
        data: the fields of the recipe.
        change: ``field=value`` with dots into nested fields; the value is YAML.

    Raises:
        InputError: the change has another form, or there is no such field.

    Example:
        >>> override(recipe := {"image": {"height": 48}}, "image.width=64")
        >>> recipe
        {'image': {'height': 48, 'width': 64}}
    """
    field, equals, text = change.partition("=")
    if not equals or not field:
        raise InputError(
            f"{argument('overrides')}: expected FIELD=VALUE as in image.width=64, got `{change}`; "
            f"{argument('sets')} names image sets"
        )
    with within(f"{argument('overrides')} {field}"):
        try:
            value = copy_apart(parse_yaml(text))
        except InputError:
            raise InputError(f"expected a YAML value, got `{text[:60]}`") from None
        if field.partition(".")[0] == "assets":
            raise InputError(f"expected {argument('assets')} KIND=FOLDER to name a folder of assets")
        _set_field(data, field.split("."), value)


def _set_field(data: dict[str, Any], rest: list[str], value: Any) -> None:
    sets = data.get("sets")
    if rest[0] == "sets" and len(rest) > 2 and isinstance(sets, dict) and rest[1] not in sets:
        near = did_you_mean(rest[1], sets)
        raise InputError(f"there is no set `{rest[1]}`; expected one of {', '.join(sets)}{near}")
    node: Any = data
    above, path = "", list[str]()
    while (taken := _first(node, rest)) < len(rest):
        above, rest = ".".join(rest[:taken]), rest[taken:]
        path.append(above)
        node = _step(node, above, _is_mechanism(path) and rest[0] not in _OF_LISTS)
    part = ".".join(rest)
    if isinstance(node, list):
        node[_position(node, part)] = value
    else:
        mapping = _mapping(node, part)
        if (above, part) == ("render", "preset"):
            mapping.clear()
        mapping[_key(node, part)] = value


def _is_mechanism(path: list[str]) -> bool:
    """Tell whether a field holds a mechanism, which a text may state in short."""
    groups = [part for part in path[:-1] if not part.isdecimal()]  # a list of `do` has numbers
    return path[-1] == "first" or groups[-1:] in (["factors"], ["variables"], ["do"], ["of"])


def _first(node: Any, parts: list[str]) -> int:
    """Count the parts of a field that make up its first key, the longest that exists: a key may have dots."""
    lengths = range(len(parts), 1, -1) if isinstance(node, dict) else ()
    return next((n for n in lengths if _key(node, ".".join(parts[:n])) in node), 1)


def _step(node: Any, part: str, mechanism: bool) -> Any:
    """Go one field down; a missing mapping is made, and checked with the whole recipe."""
    if isinstance(node, list):
        return node[_position(node, part)]
    key = _key(_mapping(node, part), part)
    if mechanism and isinstance(node.get(key), str):
        node[key] = read_mechanism(node[key])
    elif not isinstance(node.get(key), dict | list):
        node[key] = {}
    return node[key]


def _key(node: Mapping[Any, Any], part: str) -> Any:
    """Return the key that a part of a field names; keys of tables may be numbers."""
    return next((key for key in node if not isinstance(key, str) and str(key) == part), part)


def _mapping(node: Any, part: str) -> dict[Any, Any]:
    if not isinstance(node, dict):
        raise InputError(f"expected fields above `{part}`, got the value {node!r}")
    return node


def _position(node: list[Any], part: str) -> int:
    if not part.isdecimal() or int(part) >= len(node):
        raise InputError(f"expected a position from 0 to {len(node) - 1}, got `{part}`")
    return int(part)
