"""List the assets of the shipped library, or of a folder, with the facts that their manifests record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from candlelight.blender_assets import ASSET_SUFFIXES, AssetLibrary, shipped
from candlelight.loaders.errors import InputError


def list_assets(folder: Path | None = None, kind: str | None = None) -> Iterator[str]:
    """Describe assets as lines of text: a heading for each kind, and a line for each asset.

    Args:
        folder: a folder that holds a folder for each kind, or the folder of one kind; by default the shipped
            library.
        kind: the only kind to list, one of `candlelight.blender_assets.ASSET_SUFFIXES`; by default all.

    Yields:
        Headings, and the label of each asset with its facts, licence and source. Dimensions of objects are in
        metres at size 1.

    Raises:
        InputError: the folder does not exist or holds no assets of these kinds, or a manifest is malformed or
            describes another file.

    Example:
        >>> next(line for line in list_assets() if line.startswith("  arch"))
        '  arch       1.00 x 0.35 x 0.80 m  CC0-1.0  built by scripts/assets/build.py'
    """
    for name, path in _folders_by_kind(folder, kind).items():
        library = AssetLibrary({name: path} if folder else {})
        labels = library.labels(name)
        width = max(map(len, labels), default=0)
        yield f"{name}: {len(labels)} in {path}"
        yield from (f"  {label:{width}}  {_describe(library.entry(name, label))}" for label in labels)


def _folders_by_kind(folder: Path | None, kind: str | None) -> dict[str, Path]:
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    kinds = tuple(ASSET_SUFFIXES) if kind is None else (kind,)
    found = {name: (folder or shipped()) / name for name in kinds}
    found = {name: path for name, path in found.items() if path.is_dir()}
    if folder is not None and not found:
        own = kind or folder.absolute().name
        if own not in ASSET_SUFFIXES:
            raise InputError(
                f"{folder}: expected folders named {', '.join(ASSET_SUFFIXES)} in it, found none; "
                "name the kind of its files with --kind"
            )
        found = {own: folder}
    return found


def _describe(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "not in a manifest"
    facts = ", ".join(_facts(entry["facts"]))
    return "  ".join(text for text in (facts, entry["licence"], entry["source"]) if text)


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the facts of `asset_manifest.AssetFacts` that are recorded, with their units."""
    if "dimensions" in facts:
        yield " x ".join(f"{side:.2f}" for side in facts["dimensions"]) + " m"
    if "parts" in facts:
        yield f"parts {' '.join(part['name'] for part in facts['parts'])}"
    if "location" in facts:
        yield f"at {_numbers(facts['location'])} m"
    for name, unit in (("power", " W"), ("radius", " m"), ("rotation", " degrees"), ("strength", "")):
        if name in facts:
            yield f"{name} {facts[name]:g}{unit}"
    for name in ("color", "base_color"):
        if name in facts:
            yield f"{name} {_numbers(facts[name])}"
    if "modelled" in facts:
        yield "modelled" if facts["modelled"] else "environment map"


def _numbers(values: list[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in values)})"
