"""Import a mesh file with Blender's importers, and write it as an object asset.

``python -m candlelight.generators.blender.mesh_files`` is asked by
`candlelight.generators.engine.helper_process.run_helper` with the arguments of `import_mesh`, and replies the
``facts`` of the object and Blender's version, or an ``error`` of one line.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.generators.blender import VERSION, bpy, start_empty
from candlelight.generators.blender.mesh_checks import check_mesh_file, plain_obj, rounding
from candlelight.generators.engine.helper_process import answer_request

_Faces = list[tuple[int, ...]]

_SHARP_ANGLE = math.radians(60.0)  # larger angles between faces are not smoothed
_MERGE_DISTANCE = 1e-6  # at size 1; nearer vertices are merged, because importers split vertices at seams
_LARGEST_ROUNDING = 1e-4  # at size 1; of binary files, and of Blender's importers
_LEAST_THICKNESS = 1e-4  # at size 1, along every axis

# These settings keep the axes of the file. For STL, Blender's validation is off, because it writes 0 for NaN.
_IMPORTERS: dict[str, Callable[[str], Any]] = {
    ".obj": lambda file: bpy.ops.wm.obj_import(filepath=file, forward_axis="Y", up_axis="Z"),
    ".ply": lambda file: bpy.ops.wm.ply_import(filepath=file, forward_axis="Y", up_axis="Z"),
    ".stl": lambda file: bpy.ops.wm.stl_import(
        filepath=file, forward_axis="Y", up_axis="Z", use_mesh_validate=False
    ),
    ".glb": lambda file: bpy.ops.import_scene.gltf(filepath=file, import_shading="SMOOTH"),
}
# Proper rotations to z up, from a file with that axis up; the rows are x, y and z of the upright object.
_UPRIGHT = {
    "x": ((0, 0, -1), (0, 1, 0), (1, 0, 0)),
    "y": ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    "z": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "-x": ((0, 0, 1), (0, 1, 0), (-1, 0, 0)),
    "-y": ((1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "-z": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
}


def import_mesh(source: Path, target: Path, label: str, up: str) -> dict[str, Any]:
    """Read a mesh file and write a .blend file with one object without material.

    Args:
        source: the mesh file; its suffix selects the importer.
        target: the .blend file to write.
        label: name of the object.
        up: the axis of the file that points up.

    Returns:
        The facts of the object for the manifest.

    Raises:
        ValueError: the file holds no mesh, or a broken one.
        RuntimeError: Blender cannot read it.
    """
    start_empty()
    bpy.context.preferences.filepaths.use_scripts_auto_execute = False
    check_mesh_file(source)
    if source.suffix == ".obj":
        source = plain_obj(source)
    _IMPORTERS[source.suffix](str(source))
    vertices, faces = _join_meshes([found for found in bpy.data.objects if found.type == "MESH"])
    if source.suffix == ".glb":
        vertices = vertices @ np.array(_UPRIGHT["y"])  # undoes a rotation of the glTF importer
    if not faces:
        raise ValueError("expected a mesh with faces, got none")
    used = np.unique(np.concatenate(faces))
    if (error := rounding(vertices[used])) > _LARGEST_ROUNDING:
        raise ValueError(
            f"expected a mesh near its origin, got one so far off that single precision moves its vertices "
            f"by {error:.1g} of its size; move it to the origin, or take an OBJ file, which is read in double"
        )
    # Vertices without a face are removed, because they are not rendered but would change size and origin.
    numbers = np.zeros(len(vertices), int)
    numbers[used] = np.arange(len(used))
    upright, facts = fit_to_unit(vertices[used] @ np.array(_UPRIGHT[up]).T)
    if min(facts["dimensions"]) < _LEAST_THICKNESS:
        raise ValueError(f"expected a body, got a flat shape: {facts['dimensions']} at size 1")
    made = _make_object(label, upright, [tuple(numbers[list(face)].tolist()) for face in faces])
    bpy.data.libraries.write(str(target), {made}, fake_user=True, compress=True)
    return facts


def _join_meshes(found: list[Any]) -> tuple[Float64[ndarray, "n 3"], _Faces]:
    """Collect the vertices, in world space, and the faces of several objects."""
    vertices: list[ndarray] = [np.empty((0, 3))]
    faces: _Faces = []
    offset = 0
    bpy.context.view_layer.update()
    for blender_object in found:
        mesh = blender_object.data
        local = np.empty(3 * len(mesh.vertices))
        mesh.vertices.foreach_get("co", local)
        matrix = np.array(blender_object.matrix_world)
        vertices.append(local.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3])
        faces += [tuple(offset + corner for corner in polygon.vertices) for polygon in mesh.polygons]
        offset += len(mesh.vertices)
    return np.concatenate(vertices), faces


def fit_to_unit(vertices: Float64[ndarray, "n 3"]) -> tuple[Float64[ndarray, "n 3"], dict[str, Any]]:
    """Move and scale vertices to the origin and size of object assets.

    Args:
        vertices: n x 3, z up.

    Returns:
        The vertices with the middle of their bounding box at x = y = 0, the lowest at z = 0, and the longest
        side 1; and facts for the manifest: ``dimensions``, the sides of the bounding box, and ``footprint``,
        the largest distance of a vertex from the vertical axis through the origin.

    Raises:
        ValueError: a vertex is not finite, or all vertices lie in one point.
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


def _make_object(label: str, vertices: Float64[ndarray, "n 3"], faces: _Faces) -> Any:
    """Make an object without material: vertices merged, normals outwards, smooth except for sharp edges."""
    mesh = bpy.data.meshes.new(label)
    mesh.from_pydata(vertices.tolist(), [], faces)
    mesh.validate()
    made = bpy.data.objects.new(label, mesh)
    bpy.context.scene.collection.objects.link(made)
    for other in bpy.context.selected_objects:
        other.select_set(False)
    made.select_set(True)
    bpy.context.view_layer.objects.active = made
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
    made.name = label
    return made


def _reply(request: dict[str, str]) -> Iterator[dict[str, Any]]:
    try:
        facts = import_mesh(Path(request["source"]), Path(request["target"]), request["label"], request["up"])
        yield {"facts": facts, "blender": VERSION}
    except (RuntimeError, ValueError) as error:
        yield {"error": _one_line(str(error))}


def _one_line(error: str) -> str:
    """Put an error on one line; of the traceback of a Python importer, keep the last line."""
    if "Traceback" in error:
        error = error.partition("\nLocation:")[0].rstrip().rpartition("\n")[2]
    return " ".join(error.split())


if __name__ == "__main__":
    answer_request(_reply)
