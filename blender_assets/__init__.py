"""Assets: one variation per file, and the file's name is its label.

The shipped library lies beside this module in ``objects materials textures lights scenes``; a folder of a
user's own is searched before it. `AssetLibrary` finds files and the facts that the manifest records of them.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from loaders.errors import InputError

SUFFIXES = {
    "objects": ".blend",
    "materials": ".blend",
    "textures": ".blend",
    "lights": ".blend",
    "scenes": ".exr",
}


@cache
def shipped() -> Path:
    """Return the folder of the shipped library."""
    return Path(str(files("blender_assets")))


@cache
def manifest() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the shipped manifest: (kind, label) to its entry (file, licence, source, sha256, facts).

    Example:
        >>> manifest()["materials", "red"]["licence"]
        'CC0-1.0'
    """
    entries = json.loads((shipped() / "manifest.json").read_text(encoding="utf-8"))["assets"]
    return {(entry["kind"], entry["name"]): entry for entry in entries}


class AssetLibrary:
    """Where assets are looked for: a user's folder per kind, if named, then the shipped library.

    Args:
        folders: kind ("materials", ...) to a folder of files whose names are the labels.

    Raises:
        InputError: a folder does not exist, or a kind is not one of `SUFFIXES`.

    Example:
        >>> AssetLibrary().find("objects", "cube").name
        'cube.blend'
    """

    def __init__(self, folders: Mapping[Any, Path] | None = None) -> None:
        self._folders: dict[str, Path] = dict(folders or {})
        self._paths: dict[tuple[str, str], Path | None] = {}
        for kind, folder in self._folders.items():
            if kind not in SUFFIXES:
                raise InputError(f"assets: kind `{kind}` is not known; expected one of {', '.join(SUFFIXES)}")
            if not folder.is_dir():
                raise InputError(f"assets.{kind}: folder `{folder}` does not exist; name a folder of {kind}")

    def labels(self, kind: str) -> list[str]:
        """List the labels of a kind, in alphabetical order: of the user's folder if named, else shipped."""
        folder = self._folders.get(kind, shipped() / kind)
        files = (path for path in folder.glob(f"[!.]*{SUFFIXES[kind]}") if path.is_file())
        return sorted(path.stem for path in files)

    def has(self, kind: str, label: str) -> bool:
        """Say whether there is an asset of that kind and label."""
        return self._path(kind, label) is not None

    def find(self, kind: str, label: str) -> Path:
        """Return the file of an asset.

        Raises:
            InputError: there is none; the message lists what there is.
        """
        path = self._path(kind, label)
        if path is None:
            known = sorted({*self.labels(kind), *(name for k, name in manifest() if k == kind)})
            raise InputError(f"asset `{label}` is not among the {kind}; expected one of: {', '.join(known)}")
        return path

    def facts(self, kind: str, label: str) -> dict[str, Any]:
        """Return the numbers that the manifest records of a shipped asset; empty for a user's own."""
        if (path := self._path(kind, label)) and path.parent == shipped() / kind:
            return dict(manifest().get((kind, label), {}).get("facts", {}))
        return {}

    def _path(self, kind: str, label: str) -> Path | None:
        # A plan asks for the same few files once per sample.
        if (kind, label) not in self._paths:
            self._paths[kind, label] = self._look_for(kind, label)
        return self._paths[kind, label]

    def _look_for(self, kind: str, label: str) -> Path | None:
        if Path(label).name != label:  # a label is a name, never a way out of the folder
            return None
        for folder in (self._folders.get(kind), shipped() / kind):
            if folder is not None and (path := folder / f"{label}{SUFFIXES[kind]}").is_file():
                return path
        return None
