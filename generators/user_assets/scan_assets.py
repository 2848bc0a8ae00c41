"""Scanning a user's assets: .blend files as they are, and a manifest beside them of what a plan must know."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blender_assets import check_inside
from blender_assets.asset_manifest import (
    ASSET_MANIFEST,
    manifest_entry,
    read_asset_manifest,
    write_asset_manifest,
)
from generators.engine.helper_process import ask
from loaders.errors import InputError

KINDS = ("objects", "materials", "lights", "scenes")
UNKNOWN = "the user's own; not stated"


@dataclass(frozen=True)
class Scanned:
    """One manifest that was written: where, its entries, and notes as lines ``file: note``."""

    manifest: Path
    entries: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def scan_assets(folder: Path, kind: str | None = None, time_limit: float = 600.0) -> tuple[Scanned, ...]:
    """Write the manifests of a folder of .blend files, one variation per file, the file name its label.

    This is the convention of CANDLE's generator (Reddy et al., AAAI 2022, supplement section 3): an object
    with its origin at its base and one metre wide; a material; a point light at its place; a scene with a
    world and, if it has one, a camera called ``Camera``. The files stay as they are; Blender reads them in a
    process of its own and runs nothing that they hold.

    Args:
        folder: holds a folder for each kind, or is the folder of one kind.
        kind: what ``folder`` holds, where its name does not say it.
        time_limit: seconds for the files of one kind.

    Returns:
        A manifest for each kind. Licence and source that an earlier one states are kept.

    Raises:
        InputError: there is nothing to scan, or a file is not of the convention; then no manifest is written.

    Example:
        >>> scan_assets(Path("nowhere"))
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere: there is no such folder
    """
    folders = _folders(folder, kind)
    files = {name: sorted(path.glob("[!.]*.blend")) for name, path in folders.items()}
    if not any(files.values()):
        raise InputError(f"{folder}: there is no .blend file in {', '.join(map(str, folders.values()))}")
    for paths in files.values():
        for path in paths:
            check_inside(path)
    answers = {name: _ask(name, paths, time_limit) for name, paths in files.items() if paths}
    return tuple(_write(name, folders[name], files[name], answers[name]) for name in answers)


def _folders(folder: Path, kind: str | None) -> dict[str, Path]:
    """Map kinds to the folders to scan."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    if kind is not None:
        return {kind: folder}
    found = {name: folder / name for name in KINDS if (folder / name).is_dir()}
    if not found and folder.absolute().name in KINDS:
        return {folder.absolute().name: folder}
    if not found:
        raise InputError(
            f"{folder}: expected folders {', '.join(KINDS)} in it, found none; "
            "say with --kind what it holds itself"
        )
    return found


def _ask(kind: str, paths: list[Path], time_limit: float) -> list[dict[str, Any]]:
    """Have files scanned; all are, or the first that is not right is named."""
    try:
        answer = ask(
            "generators.blender.scan_file",
            [(kind, path.stem, str(path.absolute())) for path in paths],
            time_limit,
        )
    except TimeoutError:
        raise InputError(f"{paths[0].parent}: not scanned within {time_limit:g} s") from None
    wrong = [reply["error"] for reply in answer.replies if "error" in reply]
    if wrong:
        rest = f" (and {len(wrong) - 1} more files)" if len(wrong) > 1 else ""
        raise InputError(f"{kind}/{wrong[0]}{rest}; no manifest was written")
    if len(answer.replies) < len(paths):
        raise InputError(
            f"{kind}/{paths[len(answer.replies)].name}: Blender ended with status {answer.status} over it "
            f"({answer.last}); no manifest was written"
        )
    return list(answer.replies)


def _write(kind: str, folder: Path, paths: list[Path], answers: list[dict[str, Any]]) -> Scanned:
    target = folder / ASSET_MANIFEST
    try:
        before = read_asset_manifest(target) if target.exists() else {}
    except InputError:
        before = {}  # what is malformed is written anew
    # What is no .blend, a map with its turn and strength, cannot be scanned and stays.
    entries = [entry for entry in before.values() if not entry["file"].endswith(".blend")]
    for path, answer in zip(paths, answers, strict=True):
        known = before.get((kind, path.stem), {})
        stated = {field: known.get(field, UNKNOWN) for field in ("licence", "source")}
        found = {field: answer[field] for field in ("blender", "facts")}
        entries.append(manifest_entry(kind, path, folder, **stated, **found))
    write_asset_manifest(target, entries)
    notes = [
        f"{kind}/{path.name}: {note}"
        for path, answer in zip(paths, answers, strict=True)
        for note in answer["notes"]
    ]
    return Scanned(target, tuple(entries), tuple(notes))
