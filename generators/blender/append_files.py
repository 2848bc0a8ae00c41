"""Read one named datablock of a .blend file, or one environment map, and refuse what cannot be rendered."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.generators.blender import bpy
from candlelight.generators.blender.sanitize import block_ids, sanitize

LEAST_EXTENT = 1e-3  # at size 1
_MAP_FORMATS = ("OPEN_EXR", "HDR")
_MAP_ASPECT = 2.0
_ASPECT_TOLERANCE = 0.01


def append(path: Path, collection: str, label: str, notes: list[str] | None = None) -> Any:
    """Append a named datablock from a .blend file, with the datablocks that it needs, sanitized.

    The name is matched without regard to case. If the file holds a single block of the kind, that block is
    returned whatever its name is.

    Args:
        path: the file.
        collection: kind of the block, as a field of `bpy.data`.
        label: name of the block.
        notes: a list to extend by the notes of `candlelight.generators.blender.sanitize.sanitize`.

    Raises:
        ValueError: the file is damaged, holds no such block, or holds something harmful that is needed.
    """
    block = append_or_none(path, collection, label, notes)
    if block is None:
        raise ValueError(f"{path.name}: expected a block named `{label}` in {collection}, found none")
    return block


def append_or_none(path: Path, collection: str, label: str, notes: list[str] | None = None) -> Any:
    """Append a datablock as `append` does; return None if the file holds no block of the kind.

    Raises:
        ValueError: the file is damaged, holds several blocks of the kind and none of that name, or holds
            something harmful that is needed.
    """
    before = block_ids()
    try:
        with bpy.data.libraries.load(str(path), link=False) as (source, target):
            names = list(getattr(source, collection))
            wanted = [name for name in names if name.lower() == label.lower()] or names
            if len(wanted) > 1:
                raise ValueError(
                    f"{path.name}: expected one block named `{label}` in {collection}, found {names}; "
                    "give the block the file's name"
                )
            setattr(target, collection, wanted)
    except OSError:
        raise ValueError(f"{path.name}: cannot be read as a .blend file; replace it") from None
    found = sanitize(path, before, rendered=collection != "objects")
    if notes is not None:
        notes += found
    return _check_kept(path, getattr(target, collection)[0]) if wanted else None


def _check_kept(path: Path, block: Any) -> Any:
    """Return a block; refuse one that `sanitize` removed, such as an object that shows an image."""
    try:
        block.name  # noqa: B018 - raises if the block was removed
    except ReferenceError:
        raise ValueError(f"{path.name}: expected a block with a shape or a material, got neither") from None
    return block


def append_mesh(
    path: Path, label: str, notes: list[str] | None = None
) -> tuple[Any, Float64[ndarray, "n 3"]]:
    """Append the mesh object of a .blend file as `append` does.

    Returns:
        The object, and its vertices with the scale, rotation and location that the object has in its file.

    Raises:
        ValueError: as `append`; or the object is no mesh, has no faces, or no finite extent.
    """
    found = append(path, "objects", label, notes)
    if found.type != "MESH" or not found.data.polygons:
        got = "one without faces" if found.type == "MESH" else f"`{found.name}`, a {found.type.lower()}"
        raise ValueError(
            f"{path.name}: expected a mesh object with faces, got {got}; save a mesh in its place"
        )
    local = np.empty(3 * len(found.data.vertices))
    found.data.vertices.foreach_get("co", local)
    pose = np.array(found.matrix_basis)
    points = local.reshape(-1, 3) @ pose[:3, :3].T + pose[:3, 3]
    extent = points.max(axis=0) - points.min(axis=0)
    if not LEAST_EXTENT <= extent.max() < np.inf:  # NaN is in no interval
        raise ValueError(f"{path.name}: expected a mesh of finite extent, got one of {extent} m; repair it")
    return found, points


def load_map(path: Path) -> Any:
    """Load an environment map as a Blender image.

    The map is equirectangular, seen from inside: its middle column shows +x, columns to the left of the
    middle turn towards +y, and the top row shows +z.

    Raises:
        ValueError: the file is damaged or no environment map; Blender itself would show one colour, or a
            stretched image.
    """
    try:
        image = bpy.data.images.load(str(path))
    except RuntimeError:
        raise ValueError(f"{path.name}: cannot be read as an image; replace it") from None
    if fault := _map_fault(image):
        bpy.data.images.remove(image)
        raise ValueError(f"{path.name}: {fault}")
    return image


def _map_fault(image: Any) -> str:
    """Say why an image is no environment map, and what to do; "" if it is one."""
    columns, rows = image.size
    if image.type == "MULTILAYER":  # known once the size was read
        return "expected one layer with the channels R, G and B, got several layers or parts; save it as one"
    if not columns:
        return "cannot be read as an image; replace it"
    if image.file_format not in _MAP_FORMATS:
        return f"expected OpenEXR or Radiance data, got {image.file_format}; convert it"
    if abs(columns / rows - _MAP_ASPECT) > _ASPECT_TOLERANCE:
        return f"expected an equirectangular map, twice as wide as high, got {columns} x {rows}; convert it"
    pixels = np.empty(rows * columns * image.channels, np.float32)
    image.pixels.foreach_get(pixels)
    if count := pixels.size - np.count_nonzero(np.isfinite(pixels)):
        return f"expected finite numbers, got {count} that are infinite or not numbers; replace them"
    return ""
