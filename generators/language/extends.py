"""Merge each set of a recipe with the set that it extends, of the same recipe or of another file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candlelight.generators.language.field_types import described, is_choice
from candlelight.generators.language.overrides import copy_apart
from candlelight.loaders.errors import InputError, did_you_mean

FOR_ALL_SETS = ("image", "render", "layers", "exposure")  # a recipe gives them for its sets; a set may differ
# `extends` is merged before the models check a recipe, so that no model has this field.
EXTENDS = described(
    None,
    "Set whose fields this set takes over, but `shares_units`: of this recipe, RECIPE/SET of a shipped one, "
    "or FILE.yaml/SET relative to this file. Fields given here are merged into them.",
    "candle/candle",
)
_LONGEST_CHAIN = 50  # far below Python's limit of recursion
_YAML = (".yaml", ".yml")
_Place = tuple[Path, str]  # a recipe's file, and a set in it


@dataclass
class Extended:
    """Facts that the sets of one recipe have from other recipes.

    Attributes:
        fields: by set, the fields among `FOR_ALL_SETS` that another recipe gives.
        folders: by kind of asset, the folder that an extended file names.
    """

    fields: dict[str, set[str]] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class SetMerger:
    """Merge sets with the sets that they extend.

    Attributes:
        shipped: files of the shipped recipes by name.
        read: read a recipe's file as a mapping of fields.
    """

    shipped: Mapping[str, Path]
    read: Callable[[Path], dict[str, Any]]

    def merge_sets(self, data: dict[str, Any], path: Path) -> Extended:
        """Merge every set of a recipe with the set that it extends, in place.

        Args:
            data: fields of the recipe.
            path: its file; a path in ``extends`` is relative to the folder of that file.

        Raises:
            InputError: ``extends`` names no set, or sets extend one another in a circle or a long chain.
        """
        extended, sets = Extended(), data.get("sets")
        for name in sets if isinstance(sets, dict) else ():
            self._merge_set(data, (path, name), (), extended)
        return extended

    def _merge_set(
        self, data: dict[str, Any], place: _Place, above: tuple[_Place, ...], extended: Extended
    ) -> None:
        (path, name), sets = place, data["sets"]
        if not isinstance(sets[name], dict) or "extends" not in sets[name]:
            return
        reference, where = str(sets[name]["extends"]), f"recipe {path.name}: sets.{name}.extends"
        chain = (*above, place)
        if len(chain) > _LONGEST_CHAIN:
            raise InputError(
                f"{where}: expected at most {_LONGEST_CHAIN} sets that extend one another, got more; write "
                "the fields of the first ones into one set"
            )
        recipe, slash, base_name = reference.rpartition("/")
        base_place = (self._file(recipe, path, reference, where), base_name) if slash else (path, reference)
        if base_place in chain:
            circle = " extends ".join(_shown(one, path) for one in (*chain, base_place))
            raise InputError(f"{where}: {circle}, which never ends")
        if slash:
            base = self._from_file(base_place, reference, where, chain, extended)
            base = {key: value for key, value in base.items() if key not in data}
            extended.fields[name] = base.keys() & set(FOR_ALL_SETS) - sets[name].keys()
        else:
            if reference not in sets:
                near = did_you_mean(reference, [other for other in sets if other != name])
                raise InputError(
                    f"{where}: expected RECIPE/SET of a shipped recipe, FILE.yaml/SET of your own, or a set "
                    f"of this one, got `{reference}`{near}"
                )
            self._merge_set(data, base_place, chain, extended)
            base = copy_apart(sets[reference]) if isinstance(sets[reference], dict) else {}
            extended.fields[name] = extended.fields.get(reference, set()) - sets[name].keys()
        # A set says itself whether it shares units: two that extend one set would else show the same scenes,
        # one as training data and the other as test data.
        base.pop("shares_units", None)
        sets[name] = _merge(base, sets[name])
        del sets[name]["extends"]

    def _file(self, recipe: str, path: Path, reference: str, where: str) -> Path:
        """Find the file of the recipe that ``extends`` names."""
        if not recipe.endswith(_YAML):
            if recipe in self.shipped:
                return self.shipped[recipe]
            near = did_you_mean(recipe, self.shipped)
            raise InputError(
                f"{where}: expected RECIPE/SET of a shipped recipe or FILE.yaml/SET of your own, got "
                f"`{reference}`{near}"
            )
        file = (path.parent / recipe).resolve()
        if not file.is_file():
            raise InputError(f"{where}: there is no file {file}; expected its path relative to {path.parent}")
        return file

    def _from_file(
        self, place: _Place, reference: str, where: str, chain: tuple[_Place, ...], extended: Extended
    ) -> dict[str, Any]:
        """Return the fields of a set in another file, with the fields that its recipe gives for all sets."""
        file, name = place
        data = self.read(file)
        sets = data.get("sets")
        if not isinstance(sets, dict) or name not in sets or not isinstance(sets[name], dict):
            known = ", ".join(map(str, sets)) if isinstance(sets, dict) else "none"
            raise InputError(f"{where}: expected a set of `{file.stem}` ({known}), got `{reference}`")
        inner = Extended()
        self._merge_set(data, place, chain, inner)
        for kind, folder in {**inner.folders, **asset_folders(data, file)}.items():
            if extended.folders.setdefault(kind, folder) != folder:
                raise InputError(
                    f"{where}: {file.name} has {kind} in {folder}, another file that this recipe extends has "
                    f"them in {extended.folders[kind]}; extend one of the two, or put the assets into one "
                    "folder"
                )
        inherited = {key: data[key] for key in FOR_ALL_SETS if key in data}
        return {**inherited, **sets[name]}


def asset_folders(data: Mapping[str, Any], path: Path) -> dict[str, Path]:
    """Return the folders of assets that a recipe's file names, by kind, absolute."""
    folders = data.get("assets")
    named = folders if isinstance(folders, dict) else {}
    return {kind: (path.parent / str(folder)).absolute() for kind, folder in named.items()}


def _shown(place: _Place, path: Path) -> str:
    return place[1] if place[0] == path else f"{place[0].name}/{place[1]}"


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings field by field. A factor, a variable or a list is one value and replaced whole."""
    merged = dict(base)
    for key, value in changes.items():
        if not isinstance(value, dict) or not isinstance(merged.get(key), dict):
            merged[key] = value
        elif key in ("factors", "variables"):
            merged[key] = {**merged[key], **value}
        elif is_choice(value) != is_choice(merged[key]):
            merged[key] = value
        elif key == "render" and "preset" in value:
            merged[key] = value  # a preset replaces all that the base says of rendering
        else:
            merged[key] = _merge(merged[key], value)
    return merged
