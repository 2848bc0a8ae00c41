"""Import mesh files as objects that recipes can name."""

import re
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from candlelight.blender_assets.asset_manifest import (
    ASSET_MANIFEST,
    manifest_entry,
    read_asset_manifest,
    write_asset_manifest,
)
from candlelight.generators.engine.blender_version import how_to_render
from candlelight.generators.engine.helper_process import run_helper
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.verification.checksums import file_sha256

# The axis that points up, by the format (glTF) or in most files.
_UP_AXIS = {".obj": "y", ".ply": "z", ".stl": "z", ".glb": "y"}
_LABEL = r"[A-Za-z0-9][A-Za-z0-9_ -]{0,63}"
_UNKNOWN = "user's own; see source"


def add_mesh(
    mesh: Path,
    folder: Path,
    *,
    label: str | None = None,
    up: str | None = None,
    replace: bool = False,
    licence: str | None = None,
    source: str | None = None,
    time_limit: float = 300.0,
) -> Path:
    """Import a mesh as an object that recipes can name: ``FOLDER/<label>.blend`` and its manifest entry.

    The meshes of the file become one object without materials. Like the shipped objects, it has its origin in
    the middle of its base, and its longest side is one unit. Normals point outwards; edges of up to 60
    degrees are smooth.

    Args:
        mesh: an .obj, .ply, .stl or .glb file.
        folder: folder of objects; created if it is missing.
        label: name of the object; by default the name of the file.
        up: axis of the file that points up: x, y, z, -x, -y or -z; by default y (obj, glb) or z (ply, stl).
        replace: whether to replace an object of that label.
        licence: licence of the mesh, such as "CC-BY-4.0"; by default the manifest says that it is not known.
        source: where the mesh is from; the manifest adds the name of the file and its hash.
        time_limit: seconds after which the import is stopped.

    Returns:
        The .blend file.

    Raises:
        InputError: the mesh is missing, broken or of another type; the label is not valid or is taken; or
            the folder cannot be written.

    Example:
        >>> add_mesh(Path("spot.txt"), Path("objects"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: spot.txt: expected a mesh of type .obj, .ply, .stl, .glb; \
convert it first
    """
    suffix = mesh.suffix.lower()
    if suffix not in _UP_AXIS:
        raise InputError(f"{mesh}: expected a mesh of type {', '.join(_UP_AXIS)}; convert it first")
    if not mesh.is_file():
        raise InputError(f"{mesh}: no such file; name a mesh")
    name = mesh.stem if label is None else label
    if not re.fullmatch(_LABEL, name):
        raise InputError(
            f"{mesh}: label `{name}` is not a valid file name; expected up to 64 letters, digits, `_`, `-` "
            "and spaces, the first a letter or digit; give another with --name"
        )
    target = folder / f"{name}.blend"
    if target.exists() and not replace:
        raise InputError(f"{target} already exists; give another --name, or --replace it")
    known = read_asset_manifest(folder / ASSET_MANIFEST) if (folder / ASSET_MANIFEST).exists() else {}
    file = f"{mesh.name}, sha256 {file_sha256(mesh)}"
    data, reply = _import_in_process(mesh, suffix, name, up or _UP_AXIS[suffix], time_limit)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as partial:
            partial.write_bytes(data)
        known["objects", name] = manifest_entry(
            "objects",
            target,
            folder,
            licence=licence or _UNKNOWN,
            source=f"{source}; {file}" if source else file,
            blender=reply["blender"],
            facts=reply["facts"],
        )
        write_asset_manifest(folder / ASSET_MANIFEST, known.values())
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}; name another folder") from None
    return target


def _import_in_process(
    mesh: Path, suffix: str, label: str, up: str, time_limit: float
) -> tuple[bytes, dict[str, Any]]:
    """Import the mesh in a process of its own; return the .blend file and the reply of the process."""
    if find_spec("bpy") is None:
        raise InputError(f"importing meshes needs bpy, not installed here; {how_to_render()}")
    with tempfile.TemporaryDirectory(prefix="candlelight-") as scratch:
        # The mesh is alone in a folder, so that the importer finds no file that the mesh refers to.
        (source := Path(scratch) / f"mesh{suffix}").symlink_to(mesh.absolute())
        target = Path(scratch) / "object.blend"
        request = {"source": str(source), "target": str(target), "label": label, "up": up}
        late = f"{mesh}: not imported within {time_limit:g} s; reduce the mesh"
        answer = run_helper("candlelight.generators.blender.mesh_files", request, time_limit, late)
        if not answer.replies:
            raise InputError(
                f"{mesh}: Blender could not read it (status {answer.status}: {answer.last}); repair the mesh"
            )
        (reply,) = answer.replies
        if "error" in reply:
            error = reply["error"].replace(str(source), mesh.name).removeprefix("Error: ")
            raise InputError(f"{mesh}: {error}; repair the mesh or export it again")
        return target.read_bytes(), reply
