"""Meshes of a user's own: brought into a folder of objects that recipes can name."""

import re
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from blender_assets import AssetLibrary
from blender_assets.asset_manifest import (
    ASSET_MANIFEST,
    manifest_entry,
    read_asset_manifest,
    write_asset_manifest,
)
from generators.engine.helper_process import ask
from loaders.errors import InputError
from loaders.files.atomic_files import replacing
from loaders.verification.checksums import file_sha256

# Which axis points up, by what the format says (glTF) or what most files have.
UP = {".obj": "y", ".ply": "z", ".stl": "z", ".glb": "y"}
AXES = ("x", "y", "z", "-x", "-y", "-z")
LABEL = r"[A-Za-z0-9][A-Za-z0-9_ -]{0,63}"
LICENCE = "user's own; see source"


def add_mesh(
    mesh: Path,
    folder: Path,
    *,
    label: str | None = None,
    up: str | None = None,
    replace: bool = False,
    time_limit: float = 300.0,
) -> Path:
    """Import a mesh as an object that recipes can name: ``FOLDER/<label>.blend`` and its manifest entry.

    The meshes of the file are joined, without materials; origin in the middle of the base, the longest side
    one unit, as of the shipped objects; normals outwards, smooth but for edges above 60 degrees.

    Args:
        mesh: an .obj, .ply, .stl or .glb file.
        folder: folder of objects; made if need be.
        label: name of the object; by default that of the file.
        up: axis of the file that points up, one of `AXES`; by default y for obj and glb, z for ply and stl.
        replace: whether an object of that label may be there already.
        time_limit: seconds after which the import is given up.

    Returns:
        The .blend file.

    Raises:
        InputError: the mesh is missing, broken or no mesh; the label does not do; or the folder
            cannot be written.

    Example:
        >>> add_mesh(Path("spot.txt"), Path("objects"))
        Traceback (most recent call last):
        loaders.errors.InputError: spot.txt: expected a mesh of type .obj, .ply, .stl, .glb; convert it first
    """
    suffix = mesh.suffix.lower()
    if suffix not in UP:
        raise InputError(f"{mesh}: expected a mesh of type {', '.join(UP)}; convert it first")
    if not mesh.is_file():
        raise InputError(f"{mesh}: no such file; name a mesh")
    name = mesh.stem if label is None else label
    if not re.fullmatch(LABEL, name):
        raise InputError(
            f"{mesh}: label `{name}` does not do as a file name; expected up to 64 letters, digits, `_`, `-` "
            "and spaces, the first a letter or digit; give another with --name"
        )
    if up is not None and up not in AXES:
        raise InputError(f"--up: expected one of {', '.join(AXES)}, got `{up}`")
    target = folder / f"{name}.blend"
    if target.exists() and not replace:
        raise InputError(f"{target} is there already; give another --name, or --replace it")
    known = read_asset_manifest(folder / ASSET_MANIFEST) if (folder / ASSET_MANIFEST).exists() else {}
    source = f"{mesh.name}, sha256 {file_sha256(mesh)}"
    data, reply = _in_child(mesh, suffix, name, up or UP[suffix], time_limit)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as partial:
            partial.write_bytes(data)
        facts, version = reply["facts"], reply["blender"]
        known["objects", name] = manifest_entry(
            "objects", target, folder, licence=LICENCE, source=source, blender=version, facts=facts
        )
        write_asset_manifest(folder / ASSET_MANIFEST, known.values())
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}; name another folder") from None
    return target


def _in_child(
    mesh: Path, suffix: str, label: str, up: str, time_limit: float
) -> tuple[bytes, dict[str, Any]]:
    """Have a child of its own import the mesh; return the .blend and what is known of it."""
    if find_spec("bpy") is None:
        raise InputError("importing meshes needs bpy, not installed here; see `candlelight doctor`")
    with tempfile.TemporaryDirectory(prefix="candlelight-") as scratch:
        room = Path(scratch)
        # Alone in a folder under a plain name, so that nothing a mesh refers to is found beside it.
        (source := room / f"mesh{suffix}").symlink_to(mesh.absolute())
        target = room / "object.blend"
        request = {"source": str(source), "target": str(target), "label": label, "up": up}
        try:
            answer = ask("generators.blender.mesh_files", request, time_limit)
        except TimeoutError:
            raise InputError(f"{mesh}: not imported within {time_limit:g} s; reduce the mesh") from None
        if not answer.replies:
            raise InputError(
                f"{mesh}: Blender could not read it (status {answer.status}: {answer.last}); repair the mesh"
            )
        (reply,) = answer.replies
        if "error" in reply:
            what = reply["error"].replace(str(source), mesh.name).removeprefix("Error: ")
            raise InputError(f"{mesh}: {what}; repair the mesh or export it anew")
        return target.read_bytes(), reply


def list_objects(folder: Path | None = None) -> list[str]:
    """Describe the objects of a folder, or the shipped ones, one line each.

    Args:
        folder: folder of objects; by default the shipped library.

    Returns:
        Label, dimensions at size 1 in metres, licence and source.

    Raises:
        InputError: the folder does not exist, or its manifest is malformed.

    Example:
        >>> next(line for line in list_objects() if line.startswith("arch"))
        'arch       1.00 x 0.35 x 0.80 m  CC0-1.0  built by scripts/assets/build.py'
    """
    library = AssetLibrary({} if folder is None else {"objects": folder})
    labels = library.labels("objects")
    width = max(map(len, labels), default=0)
    return [f"{label:{width}}  {_describe(library.entry('objects', label))}" for label in labels]


def _describe(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "not in the manifest: counts as a unit box"
    sides = " x ".join(f"{side:.2f}" for side in entry["facts"].get("dimensions", ()))
    return f"{sides} m  {entry['licence']}  {entry['source']}"
