"""Refuse mesh files that Blender's importers would read wrongly without an error."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

_FAR = 1e-6  # rounding from which an OBJ file is moved: the distance at which vertices are merged
_LARGEST_FLOAT = 3e38  # bound of single precision; NaN is not below it either


def check_mesh_file(path: Path) -> None:
    """Check a mesh file before Blender imports it.

    Raises:
        ValueError: numbers are missing or not finite, a face names a vertex that does not exist, or a glTF
            file refers to other files.
    """
    _CHECKS[path.suffix](path)


def _check_obj(path: Path) -> None:
    """Refuse vertices that are not three finite numbers, and faces of missing vertices.

    Blender reads `nan` as 0 and leaves such faces out, without a message.
    """
    count, highest = 0, 0
    for words in map(str.split, _obj_text(path).splitlines()):
        if words[:1] == ["v"]:
            count += 1
            _check_finite(words[1:4], words, 3)
        elif words[:1] == ["f"]:
            corners = [word.partition("/")[0] for word in words[1:]]
            _check_finite(corners, words)
            numbers = [int(corner) for corner in corners]
            highest = max(highest, *numbers, 0)
            if 0 in numbers or min(numbers, default=0) < -count:
                raise ValueError(f"expected numbers of vertices, got `{' '.join(words)[:60]}`")
    if highest > count:
        raise ValueError(f"a face names vertex {highest}, but there are {count}")


def _obj_text(path: Path) -> str:
    """Read an OBJ file, its continued lines joined."""
    return path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")


def _check_stl(path: Path) -> None:
    """Refuse a text STL with vertices that are not three finite numbers."""
    data = path.read_bytes()
    if not data.startswith(b"solid") or b"facet" not in data[:1000]:
        return  # a binary file, which Blender reads without changing numbers
    for line in data.decode(errors="replace").splitlines():
        if (words := line.split())[:1] == ["vertex"]:
            _check_finite(words[1:4], words, 3)


def _check_ply(path: Path) -> None:
    """Refuse a text PLY with numbers that are not finite."""
    head, _, body = path.read_bytes().partition(b"end_header")
    if b"format ascii" not in head:
        return
    for words in map(str.split, body.decode(errors="replace").splitlines()):
        _check_finite(words, words)


def _check_glb(path: Path) -> None:
    """Refuse a glTF file that refers to other files; meshes and images must be in the file."""
    data = path.read_bytes()
    try:
        # The importer reads a file that does not begin with `glTF` as the text of a .gltf file.
        length = struct.unpack_from("<I", data, 12)[0] if data.startswith(b"glTF") else 0
        document = json.loads(data[20 : 20 + length] if length else data)
    except (struct.error, ValueError):
        return  # the importer reports the error
    for uri in _uris(document):
        if not str(uri).startswith("data:"):
            raise ValueError(f"expected all data in one file, got the name of another, `{str(uri)[:60]}`")


def _uris(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from [item] if key == "uri" else _uris(item)
    elif isinstance(value, list):
        for item in value:
            yield from _uris(item)


def _check_finite(numbers: list[str], words: list[str], least: int = 0) -> None:
    """Refuse words that are not numbers or not finite in single precision, and fewer than ``least``."""
    try:
        if len(numbers) >= least and all(abs(float(number)) < _LARGEST_FLOAT for number in numbers):
            return
    except ValueError:
        pass
    raise ValueError(f"expected finite numbers, got `{' '.join(words)[:60]}`")


_CHECKS: dict[str, Callable[[Path], None]] = {
    ".obj": _check_obj,
    ".stl": _check_stl,
    ".ply": _check_ply,
    ".glb": _check_glb,
}


def plain_obj(path: Path) -> Path:
    """Copy an OBJ file to `plain.obj` in its folder: without materials, and moved to the origin if far off.

    Blender reads numbers in single precision, which has 0.5 m at the 4,500 km of map coordinates. The numbers
    of the text are moved in double precision. Lines that name material files are left out.

    Args:
        path: a file that `check_mesh_file` accepts.
    """
    lines = [line for line in _obj_text(path).split("\n") if "mtllib" not in line]
    words = [line.split() for line in lines]
    places = [row for row, found in enumerate(words) if found[:1] == ["v"]]
    points = np.array([words[row][1:4] for row in places], np.float64).reshape(-1, 3)
    used = points[_used_vertices(words)]  # a stray vertex says nothing of the place of the mesh
    if len(used) and rounding(used) > _FAR:
        moved = points - (used.min(axis=0) + used.max(axis=0)) / 2
        for row, point in zip(places, moved.tolist(), strict=True):
            lines[row] = " ".join(["v", *map(repr, point), *words[row][4:]])
    plain = path.with_name("plain.obj")
    plain.write_text("\n".join(lines), encoding="utf-8")
    return plain


def _used_vertices(words: list[list[str]]) -> list[int]:
    """List the vertices of faces, counted from 0; a negative number counts back from its face."""
    used: set[int] = set()
    count = 0
    for found in words:
        if found[:1] == ["v"]:
            count += 1
        elif found[:1] == ["f"]:
            numbers = (int(corner.partition("/")[0]) for corner in found[1:])
            used.update(number - 1 if number > 0 else count + number for number in numbers)
    return sorted(used)


def rounding(points: Float64[ndarray, "n 3"]) -> float:
    """Return the largest error of coordinates in single precision, as a share of the longest side.

    Example:
        >>> rounding(np.array([[2.0**24, 0.0, 0.0], [2.0**24 + 4, 0.0, 0.0]]))
        0.2500000596046448
    """
    longest = float((points.max(axis=0) - points.min(axis=0)).max())
    return float(np.abs(points).max()) * 2.0**-24 / longest if longest > 0 else 0.0
