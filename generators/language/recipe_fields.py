"""Print the fields of a recipe as annotated YAML, from the descriptions at the models."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from candlelight.generators.language.factors import Categorical, Continuous
from candlelight.generators.language.field_types import Choice, PlainType
from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.language.material_spec import BuiltMaterial, Material
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.recipe_files import EXTENDS
from candlelight.loaders.errors import InputError, did_you_mean

_WIDTH = 100
_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path"}
_ITEM, _KEY = "- ", "NAME:"
_TITLES = {
    Categorical: "A list of values:",
    Continuous: "Or a range; in short `uniform(-1, 1) in m`, `normal(0.5 * x, 1, -3, 3)` or an expression:",
    Material: "As numbers:",
    BuiltMaterial: "Of your own code:",
}
_PAGE = """# Fields of a recipe

Every field of a recipe, nested as in the YAML: above each field its meaning, its type, its unit and its
default, behind it an example. `NAME` stands for a name of your own, `$name` for the value of the factor or
variable of that name. `candlelight recipes fields` prints the same, `candlelight recipes fields lights` one
field with its parts. [Recipes](recipes.md) shows how the fields work together.

```yaml
{fields}
```

This page is generated: `candlelight recipes fields --page > docs/recipe-fields.md`.
"""


@dataclass(frozen=True)
class _Branch:
    """Fields below a field: of a model, of each item of a list, or of each entry of a mapping."""

    model: type[BaseModel]
    inside: str = ""


def describe_fields(name: str = "") -> str:
    """Describe the fields of a recipe as annotated YAML.

    Args:
        name: a field, with fields above it if it is not the only one of its name, as in "camera.location"; ""
            for all.

    Raises:
        InputError: there is no such field.

    Example:
        >>> print(describe_fields("camera.zoom"))
        # sets.NAME.layout.camera.zoom
        # Scale of the image about its middle, 0.1 to 10.
        # number or $name; default 1
        zoom: 1.2
    """
    if not name:
        return "\n".join(_model_lines(Recipe, set()))
    wanted = tuple(part for part in name.split(".") if part != "NAME" and not part.isdecimal())
    found: dict[tuple[type[BaseModel], str], str] = {}
    for path, model, field in all_fields(Recipe):
        if path[-len(wanted) :] == wanted and (model, path[-1]) not in found:
            shown = ".".join(("sets.NAME", *path[1:]) if path[0] == "sets" and len(path) > 1 else path)
            found[model, path[-1]] = "\n".join([f"# {shown}", *_field_lines(path[-1], field, set())])
    if not found:
        known = dict.fromkeys(path[-1] for path, _, _ in all_fields(Recipe))
        near = did_you_mean(name, known)
        raise InputError(f"there is no field `{name}`; `candlelight recipes fields` lists all{near}")
    return "\n\n".join(found.values())


def fields_page() -> str:
    """Return the page docs/recipe-fields.md."""
    return _PAGE.format(fields=describe_fields())


def all_fields(
    model: type[BaseModel], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[BaseModel], FieldInfo]]:
    """Yield every field below a model: its path without names and positions, its model, and itself."""
    for name, field in _fields_of(model).items():
        yield (*path, name), model, field
        for branch in _branches(field):
            yield from all_fields(branch.model, (*path, name))


def _fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    if model is ImageSet:
        return {"extends": FieldInfo.from_annotated_attribute(str, EXTENDS), **model.model_fields}
    return dict(model.model_fields)


def _model_lines(model: type[BaseModel], shown: set[type[BaseModel]]) -> list[str]:
    blocks = [_field_lines(name, field, shown) for name, field in _fields_of(model).items()]
    return [line for block in blocks for line in block]


def _field_lines(name: str, field: FieldInfo, shown: set[type[BaseModel]]) -> list[str]:
    """Write one field, and below it the fields of its models that are not shown yet."""
    facts = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    unit = f", in {facts['unit']}" if facts.get("unit") else ""
    annotation = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    kind = f"{_words(annotation)}{unit}; {_default(field, facts)}"
    lines = [*_comment(str(field.description)), *_comment(kind)]
    branches = _branches(field)
    new = [branch for branch in branches if branch.model not in shown]
    shown |= {branch.model for branch in new}
    example = _flow((field.examples or [""])[0])
    if not new:
        return [*lines, f"{name}: {example}"]
    simpler = not example.startswith("{") and not any(branch.inside for branch in new)
    lines.append(f"{name}:  # or {example}" if simpler else f"{name}:")
    for branch in new:
        lines += _branch_lines(branch, shown)
    return lines


def _branch_lines(branch: _Branch, shown: set[type[BaseModel]]) -> list[str]:
    title = (
        "Or, by the value of a factor:" if issubclass(branch.model, Choice) else _TITLES.get(branch.model, "")
    )
    body = _model_lines(branch.model, shown)
    if branch.inside:
        first = next(i for i, line in enumerate(body) if not line.startswith("#"))
        marked = body[first]
        body = [f"  {line}" for line in body]
        if branch.inside == _ITEM:
            body[first] = f"- {marked}"
        else:
            body = [_KEY, *body]
    return [f"  {line}" for line in ([f"# {title}", *body] if title else body)]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _default(field: FieldInfo, facts: dict[str, Any]) -> str:
    if words := facts.get("default_words"):
        return f"default {words}"
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None or isinstance(default, BaseModel) or default in ("", (), {}):
        return "optional"
    return f"default {_flow(list(default) if isinstance(default, tuple) else default)}"


def _flow(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        value = [int(item) if isinstance(item, float) and item.is_integer() else item for item in value]
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("...\n").strip()


def _words(kind: Any) -> str:
    """Say the type of a field in plain words."""
    arguments, origin = get_args(kind), get_origin(kind)
    if origin is Annotated:
        plain = [part.words for part in arguments[1:] if isinstance(part, PlainType)]
        return plain[-1] if plain else _words(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(part) for part in arguments if part is not NoneType))
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"list, each {_words(arguments[0])}"
        return f"list of {len(arguments)}, each {_words(arguments[0])}"
    if origin is dict:
        return f"mapping from {_words(arguments[0])} to {_words(arguments[1])}"
    if isinstance(kind, type) and issubclass(kind, Choice):
        return "{choose: $name, among: {VALUE: ...}}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "mapping"
    return _WORDS.get(kind, "any value")


def _branches(field: FieldInfo) -> list[_Branch]:
    return list(dict.fromkeys(_models(field.annotation)))


def _models(kind: Any, inside: str = "") -> Iterator[_Branch]:
    arguments, origin = get_args(kind), get_origin(kind)
    if origin is Annotated:
        yield from _models(arguments[0], inside)
    elif origin in (Union, UnionType):
        for part in arguments:
            yield from _models(part, inside)
    elif origin is tuple:
        yield from _models(arguments[0], _ITEM if arguments[-1] is Ellipsis else inside)
    elif origin is dict:
        yield from _models(arguments[1], _KEY)
    elif isinstance(kind, type) and issubclass(kind, Choice):
        yield _Branch(Choice, inside)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield _Branch(kind, inside)
