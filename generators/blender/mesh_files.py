"""The import child: reads one mesh file with Blender's importers, and writes it as an object of ours.

``python -m generators.blender.mesh_files`` is asked by `generators.engine.helper_process.ask` with the
arguments of `import_mesh`, and replies the ``facts`` of the object and Blender's version, or an ``error`` of
one line.
"""

import json
import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from generators.blender import bpy, start_empty
from generators.engine.helper_process import answer

_Faces = list[tuple[int, ...]]

_SHARP_ANGLE = math.radians(60.0)  # an edge between faces of a larger angle is not smoothed over
_MERGE_DISTANCE = 1e-6  # vertices nearer than this, at size 1, are one: importers split them at seams
_LARGEST_FLOAT = 3e38  # what single precision holds; a number that is none is not below it either
_LEAST_THICKNESS = 1e-4  # a body is at least this thick along every axis, at size 1

# Blender's importers turn what they read; these are their settings for leaving the axes of the file alone.
# Nor may they put 0 for what is no number, as validating does.
_IMPORTERS: dict[str, Callable[[str], Any]] = {
    ".obj": lambda file: bpy.ops.wm.obj_import(filepath=file, forward_axis="Y", up_axis="Z"),
    ".ply": lambda file: bpy.ops.wm.ply_import(filepath=file, forward_axis="Y", up_axis="Z"),
    ".stl": lambda file: bpy.ops.wm.stl_import(
        filepath=file, forward_axis="Y", up_axis="Z", use_mesh_validate=False
    ),
    ".glb": lambda file: bpy.ops.import_scene.gltf(filepath=file, import_shading="SMOOTH"),
}
# Rows: where x, y and z of a standing object are in a file with that axis up; each is a proper rotation.
_UPRIGHT = {
    "x": ((0, 0, -1), (0, 1, 0), (1, 0, 0)),
    "y": ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    "z": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "-x": ((0, 0, 1), (0, 1, 0), (-1, 0, 0)),
    "-y": ((1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "-z": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
}


def import_mesh(source: Path, target: Path, label: str, up: str) -> dict[str, Any]:
    """Read a mesh file and write it as a .blend of one object without material.

    Args:
        source: the file; its suffix says which importer reads it.
        target: the .blend to write.
        label: name of the object.
        up: the file's axis that points up.

    Returns:
        The object's facts.

    Raises:
        ValueError: the file holds no mesh, or a broken one.
        RuntimeError: Blender cannot read it.
    """
    start_empty()
    bpy.context.preferences.filepaths.use_scripts_auto_execute = False
    if source.suffix in _CHECKS:
        _CHECKS[source.suffix](source)
    if source.suffix == ".obj":
        source = without_materials(source)
    _IMPORTERS[source.suffix](str(source))
    vertices, faces = joined([thing for thing in bpy.data.objects if thing.type == "MESH"])
    if source.suffix == ".glb":
        vertices = vertices @ np.array(_UPRIGHT["y"])  # undoes the turn that this importer always makes
    if not faces:
        raise ValueError("expected a mesh with faces, got none")
    used = np.unique(np.concatenate(faces))
    # A vertex without a face is not seen, but would count for size and origin.
    numbers = np.zeros(len(vertices), int)
    numbers[used] = np.arange(len(used))
    standing, facts = stand(vertices[used] @ np.array(_UPRIGHT[up]).T)
    if min(facts["dimensions"]) < _LEAST_THICKNESS:
        raise ValueError(f"expected a body, got one that is flat: {facts['dimensions']} at size 1")
    thing = finish(label, standing, [tuple(numbers[list(face)].tolist()) for face in faces])
    bpy.data.libraries.write(str(target), {thing}, fake_user=True, compress=True)
    return facts


def check_obj(source: Path) -> None:
    """Refuse what Blender would read without a word: `nan` as 0, faces of missing vertices not at all.

    Raises:
        ValueError: a vertex is not three finite numbers, or a face names a vertex that is not there.
    """
    count, highest = 0, 0
    text = source.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    for words in map(str.split, text.splitlines()):
        if words[:1] == ["v"]:
            count += 1
            _finite(words[1:4], words, 3)
        elif words[:1] == ["f"]:
            corners = [word.partition("/")[0] for word in words[1:]]
            _finite(corners, words)
            numbers = [int(corner) for corner in corners]
            highest = max(highest, *numbers, 0)
            if 0 in numbers or min(numbers, default=0) < -count:
                raise ValueError(f"expected numbers of vertices, got `{' '.join(words)[:60]}`")
    if highest > count:
        raise ValueError(f"a face names vertex {highest}, but there are {count}")


def check_stl(source: Path) -> None:
    """Refuse an STL of text with vertices that are not three finite numbers.

    Raises:
        ValueError: as said.
    """
    data = source.read_bytes()
    if not data.startswith(b"solid") or b"facet" not in data[:1000]:
        return  # binary: what is read is what is there
    for line in data.decode(errors="replace").splitlines():
        if (words := line.split())[:1] == ["vertex"]:
            _finite(words[1:4], words, 3)


def check_ply(source: Path) -> None:
    """Refuse a PLY of text with numbers that are not finite.

    Raises:
        ValueError: as said.
    """
    head, _, body = source.read_bytes().partition(b"end_header")
    if b"format ascii" not in head:
        return
    for words in map(str.split, body.decode(errors="replace").splitlines()):
        _finite(words, words)


def check_glb(source: Path) -> None:
    """Refuse a glTF that names other files, wherever they lie: shapes and pictures must be in the file.

    Raises:
        ValueError: as said.
    """
    data = source.read_bytes()
    try:
        # The importer takes what does not begin so for the text of a .gltf.
        length = struct.unpack_from("<I", data, 12)[0] if data.startswith(b"glTF") else 0
        document = json.loads(data[20 : 20 + length] if length else data)
    except (struct.error, ValueError):
        return  # the importer says what is wrong
    for uri in _uris(document):
        if not str(uri).startswith("data:"):
            raise ValueError(f"expected all in one file, got the name of another, `{str(uri)[:60]}`")


def _uris(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from [item] if key == "uri" else _uris(item)
    elif isinstance(value, list):
        for item in value:
            yield from _uris(item)


def without_materials(source: Path) -> Path:
    """Write an OBJ anew beside itself without the lines that name files of materials, and return that."""
    plain = source.with_name("plain.obj")
    text = source.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    lines = (line for line in text.split("\n") if "mtllib" not in line)
    plain.write_text("\n".join(lines), encoding="utf-8")
    return plain


def _finite(numbers: list[str], words: list[str], least: int = 0) -> None:
    """Refuse words that are no numbers, none that single precision holds, or too few."""
    try:
        if len(numbers) >= least and all(abs(float(number)) < _LARGEST_FLOAT for number in numbers):
            return
    except ValueError:
        pass
    raise ValueError(f"expected finite numbers, got `{' '.join(words)[:60]}`")


_CHECKS: dict[str, Callable[[Path], None]] = {
    ".obj": check_obj,
    ".stl": check_stl,
    ".ply": check_ply,
    ".glb": check_glb,
}


def joined(things: list[Any]) -> tuple[Float64[ndarray, "n 3"], _Faces]:
    """Collect the vertices, in world space, and the faces of several objects."""
    vertices: list[ndarray] = [np.empty((0, 3))]
    faces: _Faces = []
    offset = 0
    bpy.context.view_layer.update()
    for thing in things:
        mesh = thing.data
        local = np.empty(3 * len(mesh.vertices))
        mesh.vertices.foreach_get("co", local)
        matrix = np.array(thing.matrix_world)
        vertices.append(local.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3])
        faces += [tuple(offset + corner for corner in polygon.vertices) for polygon in mesh.polygons]
        offset += len(mesh.vertices)
    return np.concatenate(vertices), faces


def stand(vertices: Float64[ndarray, "n 3"]) -> tuple[Float64[ndarray, "n 3"], dict[str, Any]]:
    """Move and scale vertices to an object's origin and size.

    Args:
        vertices: n x 3, z up.

    Returns:
        The vertices with the middle of their bounding box at x = y = 0, the lowest at z = 0 and the longest
        side 1; and the facts of a manifest: ``dimensions``, the sides of the bounding box, and ``footprint``,
        the distance of the farthest vertex from the vertical through the origin.

    Raises:
        ValueError: a vertex is not finite, or all lie in one point.
    """
    points = np.asarray(vertices, np.float64)
    if not np.isfinite(points).all():
        raise ValueError("expected finite vertices, got some that are not numbers or infinite")
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float((high - low).max())
    if not 1e-12 < longest < 1e12:
        raise ValueError(f"expected an extent that can be scaled to one unit, got {longest:g}")
    origin = np.array([*(low + high)[:2] / 2, low[2]])
    points = (points - origin) / longest
    dimensions = ((high - low) / longest).round(6).tolist()
    return points, {"dimensions": dimensions, "footprint": round(float(np.hypot(*points[:, :2].T).max()), 6)}


def finish(label: str, vertices: Float64[ndarray, "n 3"], faces: _Faces) -> Any:
    """Make one object: welded, its normals outwards, smooth but for sharp edges, without material."""
    mesh = bpy.data.meshes.new(label)
    mesh.from_pydata(vertices.tolist(), [], faces)
    mesh.validate()
    thing = bpy.data.objects.new(label, mesh)
    bpy.context.scene.collection.objects.link(thing)
    for other in bpy.context.selected_objects:
        other.select_set(False)
    thing.select_set(True)
    bpy.context.view_layer.objects.active = thing
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.remove_doubles(threshold=_MERGE_DISTANCE)
    bpy.ops.mesh.normals_make_consistent(inside=False)
    bpy.ops.object.mode_set(mode="OBJECT")
    if not mesh.polygons:
        raise ValueError("expected a mesh with faces, got none that has an area")
    mesh.shade_smooth()
    mesh.set_sharp_from_angle(angle=_SHARP_ANGLE)
    mesh.name = label
    thing.name = label
    return thing


def reply(request: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Answer a request."""
    try:
        facts = import_mesh(Path(request["source"]), Path(request["target"]), request["label"], request["up"])
        yield {"facts": facts, "blender": bpy.app.version_string}
    except (RuntimeError, ValueError) as error:
        yield {"error": _one_line(str(error))}


def _one_line(error: str) -> str:
    """Put an error on one line; of the traceback that an importer in Python fails with, its end."""
    if "Traceback" in error:
        error = error.partition("\nLocation:")[0].rstrip().rpartition("\n")[2]
    return " ".join(error.split())


if __name__ == "__main__":
    answer(reply)
