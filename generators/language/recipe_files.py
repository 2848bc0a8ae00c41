"""Find and read the files of recipes, and merge each set with the set that it extends."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.resources import files
from pathlib import Path
from typing import Any

from candlelight.blender_assets.asset_kinds import CODE
from candlelight.generators.language.field_types import described, is_choice
from candlelight.generators.language.overrides import copy_apart, override
from candlelight.loaders.errors import InputError, argument, did_you_mean, nearest_file, within
from candlelight.loaders.files.plain_yaml import LONGEST, parse_yaml
from candlelight.loaders.frames import DATASET, read_dataset_info
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST
from candlelight.loaders.schema import DatasetInfo

# A recipe gives these fields for its sets; a set may differ.
_FOR_ALL_SETS = ("image", "render", "layers", "exposure")
# `extends` is merged before the models check a recipe, so that no model has this field.
EXTENDS = described(
    None,
    "Set whose fields this set takes over, but `shares_units`: of this recipe, RECIPE/SET of a shipped one, "
    "or FILE.yaml/SET relative to this file. Fields given here are merged into them.",
    "candle/candle",
)
_LONGEST_CHAIN = 50  # far below Python's limit of recursion
_YAML = (".yaml", ".yml")
_files_read: ContextVar[set[Path] | None] = ContextVar("_files_read", default=None)
_Place = tuple[Path, str]  # a recipe's file, and a set in it


def shipped_recipes() -> dict[str, Path]:
    """Return the shipped recipes by name.

    Example:
        >>> "candle" in shipped_recipes()
        True
    """
    folder = Path(str(files("candlelight.generators"))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


@contextmanager
def files_read(allowed: bool) -> Iterator[set[Path]]:
    """Collect the files that recipes are read from meanwhile, but shipped ones: each author may name code.

    Args:
        allowed: whether the user let that code run; an outer call then does not get the files.
    """
    outer, mine = _files_read.get(), set[Path]()
    token = _files_read.set(mine)
    try:
        yield mine
    finally:
        _files_read.reset(token)
        if outer is not None and not allowed:
            outer |= mine


def record_file(path: Path) -> None:
    """Tell `files_read` that a recipe is read from a file."""
    read = _files_read.get()
    if read is not None and path not in shipped_recipes().values():
        read.add(path)


def find_recipe(source: str | Path) -> Path:
    """Return the file of a recipe, shipped or not.

    Raises:
        InputError: there is no such recipe; the message lists the shipped recipes.
    """
    known = shipped_recipes()
    if not isinstance(source, str | Path):
        raise InputError(f"recipe: expected a name, a path or a mapping, got {type(source).__name__}")
    if str(source) in known:
        return known[str(source)]
    path = Path(source)
    if path.suffix == ".py":
        raise InputError(f"recipe `{source}`: expected FILE.py:NAME, with the name of a recipe in that file")
    with suppress(OSError):  # no name of a file, such as a whole recipe
        if path.is_file():
            return path
        if (plan := path / "plan.parquet").is_file():
            raise InputError(f"recipe `{source}` is a folder of frames; name its plan: {plan}")
    raise InputError(
        f"recipe `{source}` is neither a file nor shipped; expected a path or one of: {', '.join(known)}"
        f"{did_you_mean(source, known) or nearest_file(path)}"
    )


def find_description(source: object) -> tuple[Path, DatasetInfo] | None:
    """Read ``dataset.json`` of the pack that a source names; None where it names something else.

    Returns:
        The path of the description (of an HDF5 file that of the file), and its content.

    Raises:
        InputError: the pack is damaged, or was made before packs held their recipes.
    """
    if not isinstance(source, str | Path) or str(source) in shipped_recipes():
        return None
    path = Path(source)
    if path.suffix == ".h5":
        from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames

        place, info = path, HDF5Frames(path, layers=[]).info
    elif (path / PACK_MANIFEST).is_file():
        place, info = path / DATASET, read_dataset_info(path)
    else:
        return None
    if not info.recipe_fields:
        raise InputError(
            f"recipe `{source}`: expected a pack that holds its recipe, got one of an earlier version; "
            "name the recipe itself"
        )
    record_file(place)
    return place, info


def recipe_text(source: str | Path) -> str:
    """Return the YAML of a recipe, shipped or not, as it is written.

    Raises:
        InputError: there is no such recipe, or the file is no mapping in YAML.
    """
    path = find_recipe(source)
    read_recipe_file(path)
    return path.read_text(encoding="utf-8")


def read_recipe_file(path: Path) -> dict[str, Any]:
    """Read the fields of a recipe's file, unchecked.

    Raises:
        InputError: the file is no mapping in YAML.
    """
    record_file(path)
    with within(f"recipe {path.name}"):
        try:
            with path.open(encoding="utf-8") as file:
                data = parse_yaml(file.read(LONGEST + 1))
        except UnicodeDecodeError as error:
            raise InputError(f"expected YAML in UTF-8, got something else (byte {error.start})") from None
        if isinstance(data, dict):
            return plain_fields(data)
        raise InputError(f"expected a mapping of fields, got {type(data).__name__}")


def plain_fields(data: Mapping[Any, Any]) -> dict[str, Any]:
    """Copy the fields of a recipe, so that they can be changed."""
    return {str(key): copy_apart(value) for key, value in data.items()}


def merge_sets(data: dict[str, Any], path: Path, changes: Iterable[str] = ()) -> dict[str, Path]:
    """Merge every set of a recipe with the set that it extends, and change fields, in place.

    Args:
        data: fields of the recipe.
        path: its file; a path in ``extends`` is relative to the folder of that file.
        changes: changes of fields as of `override`, in order. A change of a set reaches the sets that extend
            it and do not say otherwise; a change of the recipe also a set that has the field from another
            recipe.

    Returns:
        By kind of asset, the folder that an extended file names.

    Raises:
        InputError: ``extends`` names no set, sets extend one another in a circle or a long chain, or a change
            cannot be made.
    """
    waiting: dict[str, list[str]] = {}
    for change in changes:
        parts = change.partition("=")[0].split(".")
        if parts[0] == "sets" and len(parts) == 2:
            override(data, change)
        else:
            waiting.setdefault(parts[1] if parts[0] == "sets" and len(parts) > 2 else "", []).append(change)
    sets, folders = data.get("sets"), dict[str, Path]()
    for name in sets if isinstance(sets, dict) else ():
        _merge_set(data, (path, name), (), folders, waiting)
    for change in (one for left in waiting.values() for one in left):
        override(data, change)
    return folders


def _merge_set(
    data: dict[str, Any],
    place: _Place,
    above: tuple[_Place, ...],
    folders: dict[str, Path],
    waiting: dict[str, list[str]],
) -> None:
    name = place[1]
    if isinstance(data["sets"][name], dict) and "extends" in data["sets"][name]:
        inherited = _extend(data, place, above, folders, waiting)
        for change in waiting.get("", ()):
            if re.split(r"[.=]", change, maxsplit=1)[0] in inherited:
                override(data, f"sets.{name}.{change}")
    for change in waiting.pop(name, ()):
        override(data, change)


def _extend(
    data: dict[str, Any],
    place: _Place,
    above: tuple[_Place, ...],
    folders: dict[str, Path],
    waiting: dict[str, list[str]],
) -> set[str]:
    """Merge a set with the set that it extends; return its fields that another recipe gives for all sets."""
    (path, name), sets = place, data["sets"]
    reference, where = str(sets[name]["extends"]), f"recipe {path.name}: sets.{name}.extends"
    chain = (*above, place)
    if len(chain) > _LONGEST_CHAIN:
        raise InputError(
            f"{where}: expected at most {_LONGEST_CHAIN} sets that extend one another, got more; write "
            "the fields of the first ones into one set"
        )
    recipe, slash, base_name = reference.rpartition("/")
    base_place = (_file(recipe, path, reference, where), base_name) if slash else (path, reference)
    if base_place in chain:
        circle = " extends ".join(_shown(one, path) for one in (*chain, base_place))
        raise InputError(f"{where}: {circle}, which never ends")
    inherited: set[str] = set()
    if slash:
        base = _from_file(base_place, reference, where, chain, folders)
        base = {key: value for key, value in base.items() if key not in data}
        inherited = base.keys() & set(_FOR_ALL_SETS) - sets[name].keys()
    else:
        if reference not in sets:
            near = did_you_mean(reference, [other for other in sets if other != name])
            raise InputError(
                f"{where}: expected RECIPE/SET of a shipped recipe, FILE.yaml/SET of your own, or a set "
                f"of this one, got `{reference}`{near}"
            )
        _merge_set(data, base_place, chain, folders, waiting)
        base = copy_apart(sets[reference]) if isinstance(sets[reference], dict) else {}
    # A set says itself whether it shares units: two that extend one set would else show the same scenes,
    # one as training data and the other as test data.
    base.pop("shares_units", None)
    sets[name] = _merge(base, sets[name])
    del sets[name]["extends"]
    return inherited


def _file(recipe: str, path: Path, reference: str, where: str) -> Path:
    """Find the file of the recipe that ``extends`` names."""
    if not recipe.endswith(_YAML):
        if recipe in shipped_recipes():
            return shipped_recipes()[recipe]
        near = did_you_mean(recipe, shipped_recipes())
        raise InputError(
            f"{where}: expected RECIPE/SET of a shipped recipe or FILE.yaml/SET of your own, got "
            f"`{reference}`{near}"
        )
    file = (path.parent / recipe).resolve()
    if not file.is_file():
        raise InputError(f"{where}: there is no file {file}; expected its path relative to {path.parent}")
    return file


def _from_file(
    place: _Place, reference: str, where: str, chain: tuple[_Place, ...], folders: dict[str, Path]
) -> dict[str, Any]:
    """Return the fields of a set in another file, with the fields that its recipe gives for all sets."""
    file, name = place
    data = read_recipe_file(file)
    sets = data.get("sets")
    if not isinstance(sets, dict) or name not in sets or not isinstance(sets[name], dict):
        known = ", ".join(map(str, sets)) if isinstance(sets, dict) else "none"
        raise InputError(f"{where}: expected a set of `{file.stem}` ({known}), got `{reference}`")
    inner: dict[str, Path] = {}
    _merge_set(data, place, chain, inner, {})
    for kind, folder in {**inner, **asset_folders(data, file)}.items():
        if folders.setdefault(kind, folder) != folder:
            raise InputError(
                f"{where}: {file.name} has {kind} in {folder}, another file that this recipe extends has "
                f"them in {folders[kind]}; extend one of the two, or put the assets into one "
                "folder"
            )
    inherited = {key: data[key] for key in _FOR_ALL_SETS if key in data}
    return {**inherited, **sets[name]}


def asset_folders(data: Mapping[str, Any], path: Path) -> dict[str, Path]:
    """Return the folders of assets that a recipe's file names, by kind, absolute."""
    folders = data.get("assets")
    named = folders if isinstance(folders, dict) else {}
    if CODE in named:
        raise InputError(
            f"assets.{CODE}: a recipe cannot allow its own code to run; you can: {argument('run_code')}"
        )
    return {kind: (path.parent / str(folder)).absolute() for kind, folder in named.items()}


def _shown(place: _Place, path: Path) -> str:
    return place[1] if place[0] == path else f"{place[0].name}/{place[1]}"


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings field by field. A factor, variable, intervention or list is replaced whole.

    Factors keep the order of the base, unless the changes give all of them: then theirs counts.
    """
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if not isinstance(value, dict) or not isinstance(old, dict):
            merged[key] = value
        elif key in ("factors", "variables", "do", "of"):
            merged[key] = value if value.keys() >= old.keys() else {**old, **value}
        elif is_choice(value) != is_choice(old) or (key == "render" and "preset" in value):
            merged[key] = value  # a preset replaces all that the base says of rendering
        else:
            merged[key] = _merge(old, value)
    return merged
