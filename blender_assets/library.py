"""The library of assets: the folders of the user, then the shipped library."""

import hashlib
import os
from collections.abc import Mapping
from copy import deepcopy
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from candlelight.blender_assets.asset_kinds import (
    ASSET_SUFFIXES,
    CODE,
    IMAGE_FILES,
    REFERRED_FILES,
    is_code_label,
)
from candlelight.blender_assets.asset_manifest import ASSET_MANIFEST, read_asset_manifest
from candlelight.blender_assets.texture_folders import find_images
from candlelight.loaders.errors import InputError, argument, nearest_file
from candlelight.loaders.files.python_files import code_sha256
from candlelight.loaders.verification.checksums import file_sha256


@cache
def shipped() -> Path:
    """Return the folder of the shipped library."""
    return Path(str(files("candlelight.blender_assets")))


@cache
def manifest() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the shipped manifest: entries (file, licence, source, sha256, facts) by (kind, label).

    Example:
        >>> manifest()["materials", "red"]["licence"]
        'CC0-1.0'
    """
    return read_asset_manifest(shipped() / ASSET_MANIFEST)


class AssetLibrary:
    """Library of assets: one folder of the user per kind, if given, then the shipped library.

    Args:
        folders: by kind ("materials", ...), a folder of files whose names are the labels. A folder of kind
            "code" holds Python files that may be run; without it none may.

    Raises:
        InputError: a folder does not exist, or a kind is not one of `ASSET_SUFFIXES` or `CODE`.

    Example:
        >>> AssetLibrary().find("objects", "cube").name
        'cube.blend'
    """

    def __init__(self, folders: Mapping[Any, Path] | None = None) -> None:
        self._folders: dict[str, Path] = dict(folders or {})
        # Cached: a plan looks up the same few assets for every sample, and a folder may hold many images.
        self._path, self._entry = cache(self._look_for), cache(self._read_entry)
        self._own_manifest, self._labels = cache(self._read_manifest), cache(self._list)
        self._images, self._accompanying = cache(self._find_images), cache(_hash_accompanying_files)
        self._code = cache(code_sha256)
        for kind, folder in self._folders.items():
            if kind not in (*ASSET_SUFFIXES, CODE):
                raise InputError(
                    f"assets: kind `{kind}` is not known; expected one of {', '.join(ASSET_SUFFIXES)}"
                )
            if not folder.is_dir():
                raise InputError(
                    f"assets.{kind}: folder `{folder.absolute()}` does not exist; name a folder of {kind}"
                )

    def labels(self, kind: str) -> list[str]:
        """List the labels of a kind, sorted: of the user's folder if there is one, else of the shipped.

        Raises:
            InputError: a name has a line break, or bytes that are no UTF-8.
        """
        return list(self._labels(kind))

    def _list(self, kind: str) -> list[str]:
        folder = self._folders.get(kind, shipped() / kind)
        files = (path for suffix in ASSET_SUFFIXES[kind] for path in folder.glob(f"[!.]*{suffix}"))
        labels = sorted({*(path.stem for path in files if path.is_file()), *self._images(kind)})
        for label in labels:
            # Bytes that are no UTF-8 are lone surrogates; neither they nor line breaks can be written.
            if any(sign < " " or "\ud800" <= sign <= "\udfff" for sign in label):
                raise InputError(
                    f"assets.{kind}: the name of the file {label!r} cannot be written as one line of UTF-8; "
                    "rename it"
                )
        return labels

    def has_folder(self, kind: str) -> bool:
        """Tell whether the user gave a folder for a kind."""
        return kind in self._folders

    def _find_images(self, kind: str) -> dict[str, Path]:
        """List the images of the user's folder of textures, by label."""
        return find_images(self._folders[kind]) if kind == "textures" and kind in self._folders else {}

    def has(self, kind: str, label: str) -> bool:
        """Tell whether an asset exists."""
        return self._path(kind, label) is not None

    def find(self, kind: str, label: str) -> Path:
        """Return the file of an asset.

        Raises:
            InputError: the asset does not exist; the message lists all labels of its kind.
        """
        path = self._path(kind, label)
        if path is None and kind == CODE:
            raise InputError(self._why_no_code(label))
        if path is None:
            known = sorted({*self.labels(kind), *(name for k, name in manifest() if k == kind)})
            raise InputError(f"asset `{label}` is not among the {kind}; expected one of: {', '.join(known)}")
        return path

    def _why_no_code(self, label: str) -> str:
        file, folder = label.partition(":")[0], self._folders.get(CODE)
        if not is_code_label(label):
            return f"expected FILE.py:FUNCTION, got `{label}`"
        if folder is None:
            return f"`{label}` is Python code, which runs only if you allow it: {argument('run_code')}"
        return f"`{label}`: there is no file `{file}` in {folder}{nearest_file(folder / file)}"

    def sha256(self, kind: str, label: str) -> str:
        """Hash the current content of an asset.

        The hash covers the asset's file and, for a .blend in a user's folder, its `accompanying_files`. Image
        files do not count for an object, whose shape depends on none. The hash of code covers the local
        files that it imports. Accompanying files and code are hashed once, until `look_again`.

        Raises:
            InputError: the asset does not exist, or a file cannot be read.
        """
        path = self.find(kind, label)
        if kind == CODE:
            return self._code(path)
        alone = path.suffix != ".blend" or path.parent.parent == shipped()
        try:
            own = _sha256_now(path)
            accompanying = () if alone else self._accompanying(path.parent)
        except OSError as error:
            name = Path(error.filename or path).name
            raise InputError(f"asset `{label}`: `{name}` cannot be read: {error.strerror}") from None
        if kind == "objects":
            accompanying = tuple(
                one for one in accompanying if Path(one[0]).suffix.lower() not in IMAGE_FILES
            )
        if not accompanying:
            return own
        lines = "".join(f"{sha256}  {name}\n" for name, sha256 in ((path.name, own), *accompanying))
        return hashlib.sha256(lines.encode()).hexdigest()

    def look_again(self) -> None:
        """Forget the hashes of code and of accompanying files, so that changed files are hashed again."""
        self._accompanying.cache_clear()
        self._code.cache_clear()

    def facts(self, kind: str, label: str) -> dict[str, Any]:
        """Return the facts of an asset from its manifest; empty if no manifest has the asset.

        Raises:
            InputError: the manifest is malformed, or the file has changed since it was written.
        """
        entry = self.entry(kind, label)
        return {} if entry is None else deepcopy(entry["facts"])

    def entry(self, kind: str, label: str) -> dict[str, Any] | None:
        """Return the entry of an asset in the manifest of its folder; None if the manifest lacks it.

        Raises:
            InputError: the manifest is malformed, or the file has changed since it was written.
        """
        return self._entry(kind, label)

    def _read_entry(self, kind: str, label: str) -> dict[str, Any] | None:
        path = self._path(kind, label)
        if path is None or kind == CODE:
            return None
        if path.parent == shipped() / kind:
            return manifest().get((kind, label))
        entry = self._own_manifest(kind).get((kind, label))
        if entry is not None and entry["sha256"] != file_sha256(path):
            raise InputError(
                f"assets.{kind}: `{path.name}` is not the file that {ASSET_MANIFEST} describes; "
                f"update the manifest with `candlelight assets scan {path.parent}`"
            )
        return entry

    def _read_manifest(self, kind: str) -> dict[tuple[str, str], dict[str, Any]]:
        path = self._folders[kind] / ASSET_MANIFEST
        try:
            return read_asset_manifest(path) if path.exists() else {}
        except InputError as error:
            raise InputError(f"assets.{kind}: {error}") from None

    def _look_for(self, kind: str, label: str) -> Path | None:
        if kind == CODE:
            return self._look_for_code(label)
        if (image := self._images(kind).get(label)) is not None:
            return image
        if Path(label).name != label:  # a label may not lead out of the folder
            return None
        folders = [folder for folder in (self._folders.get(kind), shipped() / kind) if folder is not None]
        candidates = (folder / f"{label}{suffix}" for folder in folders for suffix in ASSET_SUFFIXES[kind])
        path = next((path for path in candidates if path.is_file()), None)
        if path is not None and path.parent == self._folders.get(kind):
            try:
                check_inside(path)
            except InputError as error:
                raise InputError(f"assets.{kind}: {error}") from None
        return path

    def _look_for_code(self, label: str) -> Path | None:
        file, folder = label.partition(":")[0], self._folders.get(CODE)
        if not is_code_label(label) or folder is None or not (folder / file).is_file():
            return None
        if ".." in Path(file).parts or not (folder / file).resolve().is_relative_to(folder.resolve()):
            raise InputError(f"`{label}` lies outside its folder {folder}; put the file there")
        return folder / file


def accompanying_files(folder: Path) -> list[Path]:
    """List the files that a .blend in a user's folder may refer to, in order of their paths.

    The list holds files of the kinds in `REFERRED_FILES` in the folder and below it. Hidden files, links out
    of the folder and rendered frames are left out. The hash of an asset covers these files, and the renderer
    refuses an asset that refers to any other file.
    """
    found, inside = [], folder.resolve()
    for root, folders, names in os.walk(folder):
        if "dataset.json" in names:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (Path(root, name) for name in names if not name.startswith("."))
        found += [
            path
            for path in paths
            if path.suffix.lower() in REFERRED_FILES
            and path.is_file()
            and path.resolve().is_relative_to(inside)
        ]
    return sorted(found)


def _hash_accompanying_files(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return path and hash of each accompanying file of a folder."""
    return tuple(
        (path.relative_to(folder).as_posix(), _sha256_now(path)) for path in accompanying_files(folder)
    )


def _sha256_now(path: Path) -> str:
    """Hash a file, once per version: a plan needs the same few hashes for every sample."""
    found = path.stat()
    return _sha256(path, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=100_000)
def _sha256(path: Path, *_: int) -> str:
    return file_sha256(path)


def check_inside(path: Path) -> None:
    """Refuse a link out of its folder, because a folder may come from an unknown author.

    Raises:
        InputError: the path is a link to a file outside its folder.
    """
    if not path.resolve().is_relative_to(path.parent.resolve()):
        raise InputError(f"`{path.name}` is a link out of its folder; put the file itself there")
