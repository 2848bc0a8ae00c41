"""Functions that all builders of shipped assets share: reset Blender, and write a file with its entry."""

import shutil
from pathlib import Path
from typing import Any

import bpy

from candlelight.blender_assets.asset_manifest import manifest_entry

OURS = "built by scripts/assets/build.py"
CC0 = "CC0-1.0"


def start() -> None:
    """Reset Blender to an empty file."""
    bpy.ops.wm.read_factory_settings(use_empty=True)


def save(
    out: Path,
    kind: str,
    name: str,
    blocks: set[Any],
    facts: dict[str, Any],
    source: str = OURS,
    licence: str = CC0,
) -> dict[str, Any]:
    """Write datablocks into the .blend file of an asset, and return its entry for the manifest."""
    target = _target(out, kind, f"{name}.blend")
    bpy.data.libraries.write(str(target), blocks, fake_user=True, compress=True)
    version = bpy.app.version_string
    return manifest_entry(kind, target, out, licence=licence, source=source, blender=version, facts=facts)


def copy(out: Path, kind: str, name: str, origin: Path, facts: dict[str, Any], source: str) -> dict[str, Any]:
    """Copy a CC0 file that comes with Blender under its label, and return its entry for the manifest."""
    target = _target(out, kind, name + origin.suffix)
    shutil.copyfile(origin, target)
    version = bpy.app.version_string
    return manifest_entry(kind, target, out, licence=CC0, source=source, blender=version, facts=facts)


def _target(out: Path, kind: str, file: str) -> Path:
    target = out / kind / file
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
