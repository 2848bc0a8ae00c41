"""Scan folders of .blend files, and write the manifests that plans need."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candlelight.blender_assets import check_inside
from candlelight.blender_assets.asset_manifest import (
    ASSET_MANIFEST,
    manifest_entry,
    read_asset_manifest,
    write_asset_manifest,
)
from candlelight.generators.engine.helper_process import run_helper
from candlelight.loaders.errors import InputError

ASSET_KINDS = ("objects", "materials", "lights", "scenes")
_UNKNOWN = "the user's own; not stated"


@dataclass(frozen=True)
class ScannedAssets:
    """One written manifest: its path, its entries, and notes as lines ``file: note``."""

    manifest: Path
    entries: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def scan_assets(
    folder: Path, kind: str | None = None, time_limit: float = 600.0
) -> tuple[ScannedAssets, ...]:
    """Write the manifests of folders of .blend files, with one asset per file, named like the file.

    The files follow the convention of CANDLE's generator (Reddy et al., AAAI 2022, supplement section 3): an
    object of one metre width with its origin at its base; a material; a point light at its location; a scene
    with a world and optionally a camera called ``Camera``. The files do not change. Blender reads them in a
    process of its own and runs none of their scripts.

    Args:
        folder: a folder with one folder for each kind, or the folder of one kind.
        kind: kind of the assets in ``folder``, if the folder's name does not say it.
        time_limit: seconds for the files of one kind.

    Returns:
        A manifest for each kind. Licences and sources of a previous manifest are kept.

    Raises:
        InputError: there is no file, or a file does not follow the convention; then no manifest is written.

    Example:
        >>> scan_assets(Path("nowhere"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: there is no such folder
    """
    folders = _folders(folder, kind)
    files = {name: sorted(path.glob("[!.]*.blend")) for name, path in folders.items()}
    if not any(files.values()):
        raise InputError(f"{folder}: there is no .blend file in {', '.join(map(str, folders.values()))}")
    for paths in files.values():
        for path in paths:
            check_inside(path)
    answers = {name: _scan_files(name, paths, time_limit) for name, paths in files.items() if paths}
    return tuple(_write_manifest(name, folders[name], files[name], answers[name]) for name in answers)


def _folders(folder: Path, kind: str | None) -> dict[str, Path]:
    """Map kinds to the folders to scan."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    if kind is not None:
        return {kind: folder}
    found = {name: folder / name for name in ASSET_KINDS if (folder / name).is_dir()}
    if not found and folder.absolute().name in ASSET_KINDS:
        return {folder.absolute().name: folder}
    if not found:
        raise InputError(
            f"{folder}: expected folders {', '.join(ASSET_KINDS)} in it, found none; "
            "if it holds assets itself, give their --kind"
        )
    return found


def _scan_files(kind: str, paths: list[Path], time_limit: float) -> list[dict[str, Any]]:
    """Scan files in a process of its own; raise an error for the first file that cannot be used."""
    try:
        answer = run_helper(
            "candlelight.generators.blender.scan_file",
            [(kind, path.stem, str(path.absolute())) for path in paths],
            time_limit,
        )
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
    kind: str, folder: Path, paths: list[Path], answers: list[dict[str, Any]]
) -> ScannedAssets:
    target = folder / ASSET_MANIFEST
    try:
        before = read_asset_manifest(target) if target.exists() else {}
    except InputError:
        before = {}  # a malformed manifest is replaced
    # Entries of other files stay, such as an environment map with its rotation and strength.
    entries = [entry for entry in before.values() if not entry["file"].endswith(".blend")]
    for path, answer in zip(paths, answers, strict=True):
        known = before.get((kind, path.stem), {})
        stated = {field: known.get(field, _UNKNOWN) for field in ("licence", "source")}
        found = {field: answer[field] for field in ("blender", "facts")}
        entries.append(manifest_entry(kind, path, folder, **stated, **found))
    write_asset_manifest(target, entries)
    notes = [
        f"{kind}/{path.name}: {note}"
        for path, answer in zip(paths, answers, strict=True)
        for note in answer["notes"]
    ]
    return ScannedAssets(target, tuple(entries), tuple(notes))
