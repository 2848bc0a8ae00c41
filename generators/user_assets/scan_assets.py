"""Scan folders of assets: open each file as `render` would, and write the manifests that plans need."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from candlelight.blender_assets import ASSET_SUFFIXES, AssetLibrary
from candlelight.blender_assets.asset_manifest import (
    ASSET_MANIFEST,
    manifest_entry,
    read_asset_manifest,
    write_asset_manifest,
)
from candlelight.generators.engine.blender_version import how_to_render
from candlelight.generators.engine.helper_process import run_helper
from candlelight.loaders.errors import InputError
from candlelight.loaders.licences import is_known

_UNKNOWN = "the user's own; not stated"  # licence of an asset without a stated one

_Assets = dict[str, Path]  # files by label


@dataclass(frozen=True)
class ScannedAssets:
    """One written manifest: its path, its entries, and notes as lines ``file: note``."""

    manifest: Path
    entries: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def scan_assets(
    folder: Path,
    kind: str | None = None,
    time_limit: float = 600.0,
    *,
    licence: str | None = None,
    source: str | None = None,
) -> tuple[ScannedAssets, ...]:
    """Open the assets of folders as `render` would, and write their manifests.

    The .blend files hold one asset each, named like the file, and follow the convention of CANDLE's generator
    (Reddy et al., AAAI 2022, supplement section 3): an object of one metre width with its origin at its base;
    a material whose surface is a Principled BSDF; a point light at its location; a scene with a world and
    optionally a camera called ``Camera``. Scenes may also be environment maps, and textures images. The files
    do not change. Blender reads them in a process of its own and runs none of their scripts.

    Args:
        folder: a folder with one folder for each kind, or the folder of one kind.
        kind: kind of the assets in ``folder``, if the folder's name does not say it.
        time_limit: seconds for the files of one kind.
        licence: licence, such as "CC-BY-4.0", of the assets whose licence is not known yet.
        source: source of the assets whose source is not stated yet.

    Returns:
        A manifest for each kind. Known licences and sources of a previous manifest are kept, and the turn and
        strength of environment maps.

    Raises:
        InputError: there is no file, Blender is not installed, or a file cannot be rendered; then no manifest
            is written.

    Example:
        >>> scan_assets(Path("nowhere"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: there is no such folder
    """
    folders = _folders(folder, kind)
    found = {name: _assets(name, path) for name, path in folders.items()}
    if not any(found.values()):
        kinds = "; ".join(f"{name}: {', '.join(_suffixes(name))}" for name in folders)
        raise InputError(f"{folder}: there is no asset in it; expected files of {kinds}")
    answers = {name: _scan_files(name, assets, time_limit) for name, assets in found.items() if assets}
    stated = {"licence": licence, "source": source}
    return tuple(_write_manifest(name, folders[name], found[name], answers[name], stated) for name in answers)


def _folders(folder: Path, kind: str | None) -> dict[str, Path]:
    """Map kinds to the folders to scan."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    if kind is not None:
        return {kind: folder}
    found = {name: folder / name for name in ASSET_SUFFIXES if (folder / name).is_dir()}
    if not found and folder.absolute().name in ASSET_SUFFIXES:
        return {folder.absolute().name: folder}
    if not found:
        raise InputError(
            f"{folder}: expected folders {', '.join(ASSET_SUFFIXES)} in it, found none; "
            "if it holds assets itself, give their --kind"
        )
    return found


def _suffixes(kind: str) -> tuple[str, ...]:
    return (*ASSET_SUFFIXES[kind], ".jpg", ".png") if kind == "textures" else ASSET_SUFFIXES[kind]


def _assets(kind: str, folder: Path) -> _Assets:
    library = AssetLibrary({kind: folder})
    return {label: library.find(kind, label) for label in library.labels(kind)}


def _scan_files(kind: str, assets: _Assets, time_limit: float) -> list[dict[str, Any]]:
    """Scan files in a process of its own; raise an error for the first file that cannot be used."""
    if find_spec("bpy") is None:
        raise InputError(f"scanning assets needs bpy, not installed here; {how_to_render()}")
    paths = list(assets.values())
    request = [(kind, label, str(path.absolute())) for label, path in assets.items()]
    try:
        answer = run_helper("candlelight.generators.blender.scan_file", request, time_limit)
    except TimeoutError:
        raise InputError(f"{paths[0].parent}: not scanned within {time_limit:g} s") from None
    errors = [reply["error"] for reply in answer.replies if "error" in reply]
    if errors:
        rest = f" (and {len(errors) - 1} more files)" if len(errors) > 1 else ""
        raise InputError(f"{kind}/{errors[0]}{rest}; no manifest was written")
    if len(answer.replies) < len(paths):
        raise InputError(
            f"{kind}/{paths[len(answer.replies)].name}: Blender ended with status {answer.status} "
            f"({answer.last}); no manifest was written"
        )
    return list(answer.replies)


def _write_manifest(
    kind: str,
    folder: Path,
    assets: _Assets,
    answers: list[dict[str, Any]],
    stated: dict[str, str | None],
) -> ScannedAssets:
    target = folder / ASSET_MANIFEST
    try:
        before = read_asset_manifest(target) if target.exists() else {}
    except InputError:
        before = {}  # a malformed manifest is replaced
    # Entries of other files stay, except those of .blend files that are gone.
    others = {key: entry for key, entry in before.items() if not entry["file"].endswith(".blend")}
    entries = [entry for (_, label), entry in others.items() if label not in assets]
    for (label, path), answer in zip(assets.items(), answers, strict=True):
        known = before.get((kind, label), {})
        # A map keeps the turn and strength that its manifest states.
        facts = answer["facts"] if path.suffix == ".blend" else {**known.get("facts", {}), **answer["facts"]}
        entry = manifest_entry(
            kind, path, folder, **_stated(known, stated), blender=answer["blender"], facts=facts
        )
        entries.append({**entry, "name": label})
    write_asset_manifest(target, entries)
    notes = [
        f"{kind}/{path.name}: {note}"
        for path, answer in zip(assets.values(), answers, strict=True)
        for note in answer["notes"]
    ]
    return ScannedAssets(target, tuple(entries), tuple(notes))


def _stated(known: dict[str, Any], stated: dict[str, str | None]) -> dict[str, str]:
    """Choose licence and source of an asset: those of its previous entry if they say something."""
    licence, source = known.get("licence", _UNKNOWN), known.get("source", "")
    return {
        "licence": licence if is_known(licence) else stated["licence"] or licence,
        "source": stated["source"] or source if source in ("", _UNKNOWN) else source,
    }
