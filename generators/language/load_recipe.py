"""Read recipes: shipped recipes by name, files by path, with overrides, and errors of one line."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from candlelight.blender_assets.asset_kinds import CODE
from candlelight.generators.language.factors import NAME_PATTERN, PARENT_PATTERN
from candlelight.generators.language.overrides import copy_apart
from candlelight.generators.language.recipe import DATA_SET_PATTERN, Recipe, is_set_field, with_sets
from candlelight.generators.language.recipe_fields import all_fields
from candlelight.generators.language.recipe_files import (
    asset_folders,
    files_read,
    find_description,
    find_recipe,
    merge_sets,
    plain_fields,
    read_recipe_file,
)
from candlelight.generators.language.set_interventions import check_interventions
from candlelight.loaders.errors import InputError, did_you_mean, within
from candlelight.loaders.files.python_files import user_file

UNHASHED: Any = {  # texts and folders
    **dict.fromkeys(("description", "licence", "statements", "assets"), True),
    "sets": {"__all__": {"caption": True}},
}
_EXPECTED = {
    "missing": "the field is required",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping of fields",
}
_PATTERNS = {
    NAME_PATTERN: "expected lower-case letters, digits and _, starting with a letter",
    PARENT_PATTERN: "expected lower-case letters, digits and _, starting with a letter, or previous(NAME)",
    DATA_SET_PATTERN: "expected lower-case letters, digits and hyphens, starting with a letter",
}
_PYTHON = re.compile(r"(.+\.py):(\w+)")
_PATH = re.compile(r"([a-z_]\w*(?:\.\w+)*): (.+)", re.DOTALL)  # a message that goes on with a path


def load_recipe(
    source: str | Path | Mapping[str, Any],
    overrides: Iterable[str] = (),
    preset: str | None = None,
    assets: Mapping[str, Path] | None = None,
    run_code: bool = False,
) -> Recipe:
    """Load a recipe by shipped name, by path, from a pack or from a mapping, and change some of its fields.

    Args:
        source: a name of `shipped_recipes`, the path of a YAML file, a pack (an HDF5 file or a folder that
            `pack_hub` made), whose recipe is read, the content of such a file as a
            mapping, which is not changed, or ``FILE.py:NAME``, a recipe or such a mapping in a Python file,
            which is run.
        overrides: ``field=value`` with dots into nested fields, as in "image.width=64"; the value is YAML.
            A field of a set may stand without ``sets.NAME.`` in a recipe of one set.
            An override of ``render.preset`` removes all other fields of ``render``; later overrides may
            set them again.
        preset: a name in `candlelight.generators.language.image_set.RENDER_PRESETS`, which replaces
            the field ``render`` of the recipe and of all sets; overrides change it.
        assets: folders of the user's own assets by kind, in place of the recipe's folders.
        run_code: whether the Python code that the recipe names may run, from the folder of its file. The code
            of ``FILE.py:NAME`` and beside functions that the mapping holds may run without it.

    Returns:
        The recipe, checked. Folders in its ``assets`` are relative to its file (those of a mapping to the
        working directory), folders of a file that it extends to that file.

    Raises:
        InputError: there is no such recipe, the file is no YAML, a field is wrong, or code is named and may
            not run; the message names the field, the expected value and the value found.

    Example:
        >>> load_recipe("candle", ["image.width=64"]).image.width
        64
        >>> mine = {"name": "mine", "sets": {"few": {"extends": "negatives/negatives", "draws": 9}}}
        >>> load_recipe(mine).sets["few"].draws
        9
    """
    with files_read(run_code) as others:
        path, data = _read_fields(source)
        if preset is not None:
            _choose_preset(data, preset)
        folders = merge_sets(data, path.resolve(), [_whole_field(data, change) for change in overrides])
    # Absolute, because workers may have another working directory.
    own = {kind: folder.absolute() for kind, folder in (assets or {}).items()}
    # A Python file that the user names runs anyway, and may name code; a file that it reads may not.
    if run_code or (path.suffix == ".py" and not others):
        own.setdefault(CODE, path.absolute().parent)
    if isinstance(data.get("assets", {}), dict):
        data["assets"] = {**folders, **asset_folders(data, path), **own}
    with within(f"recipe {path.name}"):
        _fill_counterfactuals(data)
        return _checked(data)


def _read_fields(source: str | Path | Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Read the fields of a recipe, with ``sets``; return them with the path that folders are relative to."""
    if isinstance(source, Mapping):
        path = Path.cwd() / "(mapping)"  # named in messages, and the place that paths are relative to
        try:
            data = plain_fields(source)
        except RecursionError:
            raise InputError(
                "recipe (mapping): expected fields of finite depth, got one inside itself"
            ) from None
    elif python := _PYTHON.fullmatch(str(source)):
        path = Path(python[1])
        data = _from_python(path, python[2])
    elif described := find_description(source):
        path, info = described
        data = plain_fields(info.recipe_fields)
    else:
        path = find_recipe(source)
        data = read_recipe_file(path)
    return path, with_sets(data)


def _whole_field(data: Mapping[str, Any], change: str) -> str:
    """Name the set in a change of a field of a set; a recipe of one set may leave it out."""
    sets = data.get("sets") or ()
    field = re.split(r"[.=]", change, maxsplit=1)[0]
    return f"sets.{next(iter(sets))}.{change}" if is_set_field(field) and len(sets) == 1 else change


def _from_python(path: Path, name: str) -> dict[str, Any]:
    """Run a Python file, and return the fields of the recipe in one of its variables."""
    with user_file(path) as module:
        found = getattr(module, name, None)
    if isinstance(found, Recipe):
        return found.model_dump(exclude_unset=True, exclude={"assets": {CODE}})
    if isinstance(found, Mapping):
        return plain_fields(found)
    known = ", ".join(one for one, value in vars(module).items() if isinstance(value, Recipe)) or "none"
    raise InputError(
        f"recipe {path.name}:{name}: expected the name of a recipe in that file ({known}) or of a mapping, "
        f"got {'no such name' if found is None else type(found).__name__}"
    )


def recipe_sha256(recipe: Recipe) -> str:
    """Hash all fields of a recipe but its texts and its folders of assets.

    The content of the assets is part of each trace group's id instead
    (`candlelight.generators.planning.provenance.group_id`).
    """
    return hashlib.sha256(recipe.model_dump_json(exclude=UNHASHED).encode()).hexdigest()


def recipe_as_fields(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain fields that `load_recipe` reads back to the same hash.

    Fields with their default are left out, and so are the folders of assets. A set of
    counterfactuals has the other fields of the set that it changes; they stand there alone.

    Example:
        >>> recipe = load_recipe("candle")
        >>> recipe_sha256(load_recipe(recipe_as_fields(recipe))) == recipe_sha256(recipe)
        True
    """
    fields = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"assets"})
    for name, image_set in fields["sets"].items():
        if image_set.get("counterfactual"):
            fields["sets"][name] = {"counterfactual": image_set["counterfactual"]}
    return fields


def recipe_differences(first: Recipe, second: Recipe) -> list[tuple[str, Any, Any]]:
    """List the hashed fields in which two recipes differ, each with its two values, None where it is absent.

    Example:
        >>> recipe = load_recipe("candle")
        >>> recipe_differences(recipe, revise(recipe, seed=7))
        [('seed', 0, 7)]
    """
    return json_differences(*(one.model_dump(mode="json", exclude=UNHASHED) for one in (first, second)))


def json_differences(first: Any, second: Any) -> list[tuple[str, Any, Any]]:
    """List the fields in which two values of JSON differ, each with its two values, None where it is absent.

    Example:
        >>> json_differences({"a": [1, 2]}, {"a": [1, 3]})
        [('a.1', 2, 3)]
    """
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        first, second = (dict(enumerate(one)) for one in (first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return [
            (f"{key}.{path}" if path else str(key), *values)
            for key in {**first, **second}
            for path, *values in json_differences(first.get(key), second.get(key))
        ]
    return [] if first == second else [("", first, second)]


def _fill_counterfactuals(data: dict[str, Any]) -> None:
    """Give a set whose only field is ``counterfactual`` the fields of the set that it changes."""
    sets = data.get("sets")
    if not isinstance(sets, dict):
        return
    for name, image_set in sets.items():
        if isinstance(image_set, dict) and set(image_set) == {"counterfactual"}:
            asked = image_set["counterfactual"]
            of = asked.get("of") if isinstance(asked, dict) else asked
            if not isinstance(of, str) or not isinstance(sets.get(of), dict) or of == name:
                others = ", ".join(str(other) for other in sets if other != name)
                raise InputError(
                    f"sets.{name}.counterfactual.of: expected one of "
                    f"{others or 'the other sets, got none'}, got {of!r}"
                )
            sets[name] = {**copy_apart(sets[of]), "counterfactual": asked}


def _choose_preset(data: dict[str, Any], preset: str) -> None:
    data["render"] = {"preset": preset}
    sets = data.get("sets")
    for image_set in sets.values() if isinstance(sets, dict) else ():
        if isinstance(image_set, dict):
            image_set.pop("render", None)


def revise(recipe: Recipe, **fields: Any) -> Recipe:
    """Return the recipe with some top-level fields changed, checked again.

    Raises:
        InputError: the changed recipe is not valid.
    """
    return _checked({**recipe.model_dump(exclude_unset=True), **fields})


def _checked(data: Mapping[str, Any]) -> Recipe:
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        raise InputError(first_error(error)) from None
    check_interventions(recipe)
    return recipe


def first_error(error: ValidationError) -> str:
    """Return one line on the first wrong field: its path, the expected value and the value found."""
    worst = max(error.errors(include_url=False), key=_depth)
    # The path also holds pydantic's names of kinds, all in brackets: `[list]`, `[key]`, `tuple[...]`.
    parts = [part for part in map(str, worst["loc"]) if "[" not in part]
    message = worst["msg"].removeprefix("Value error, ")
    if worst["type"] == "value_error" and (found := _PATH.fullmatch(message)):
        # A check of one field repeats the name of the field.
        parts, message = [*parts, *([found[1]] if parts[-1:] != [found[1]] else [])], found[2]
    line = f"{'.'.join(parts)}: " if parts else ""
    if worst["type"] == "extra_forbidden":
        known = dict.fromkeys(path[-1] for path, _, _ in all_fields(Recipe))
        if parts[-1] in known:
            where = f"`candlelight recipes fields {parts[-1]}` says where it is"
            return f"{line}there is no such field here; {where}"
        near = did_you_mean(parts[-1], known)
        return f"{line}there is no such field; `candlelight recipes fields` lists all{near}"
    # A check of a whole mapping says itself which part is wrong; the mapping would only hide it.
    if worst["type"] == "value_error" and ("got" in message or isinstance(worst["input"], dict)):
        return line + message
    known_words = _EXPECTED.get(worst["type"]) or _PATTERNS.get(worst.get("ctx", {}).get("pattern", ""))
    expected = known_words or message[0].lower() + message[1:]
    return f"{line}{expected}; got {_shown(worst)}" if parts else expected


def _depth(detail: ErrorDetails) -> tuple[int, bool]:
    """Rank an error: the deepest says most, and an unknown field more than a missing one."""
    return len(detail["loc"]), detail["type"] == "extra_forbidden"


def _shown(detail: ErrorDetails) -> str:
    of_no_kind = detail["type"] == "factor" and isinstance(detail["input"], dict)
    given = repr(list(detail["input"]) if of_no_kind else detail["input"])
    return given if len(given) <= 60 else given[:57] + "..."
