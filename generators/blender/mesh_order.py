"""Put vertices, edges, faces and corners of a mesh in an order of its own.

Operators of Blender leave them in an order that follows addresses in memory, which differ between processes.
Sums of floats in that order differ in the last bits of pixels.
"""

from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from candlelight.generators.blender import bpy

_TOPOLOGY = frozenset(("position", ".corner_vert", ".corner_edge", ".edge_verts"))
_CUSTOM_NORMAL = "custom_normal"


def ordered_mesh(mesh: Any) -> Any:
    """Return a mesh with the faces of another, sorted by coordinates.

    Vertices are sorted by x, y and z, faces by their vertices; each face begins at its first vertex.
    Attributes come along; vertices and edges without faces do not.

    Args:
        mesh: a valid mesh with faces, of which every number is finite.
    """
    points = _read(mesh.vertices, "co", np.float32, 3)
    starts, sizes = (_read(mesh.polygons, name, np.int32) for name in ("loop_start", "loop_total"))
    corners = _read(mesh.loops, "vertex_index", np.int32)
    used = np.unique(corners)
    used = used[np.lexsort(points[used].T[::-1])]
    rank = np.full(len(points), -1)
    rank[used] = np.arange(len(used))
    corners = rank[corners]
    order, faces = _corner_order(corners, starts.astype(int), sizes.astype(int))
    corners, sizes = corners[order], sizes[faces]
    edges, of_corners = np.unique(_edge_keys(corners, _next(corners, sizes), len(used)), return_inverse=True)

    found = bpy.data.meshes.new("ordered")
    found.vertices.add(len(used))
    found.edges.add(len(edges))
    found.loops.add(len(corners))
    found.polygons.add(len(sizes))
    found.vertices.foreach_set("co", points[used].ravel())
    found.edges.foreach_set("vertices", np.stack(np.divmod(edges, len(used)), 1).astype(np.int32).ravel())
    found.loops.foreach_set("vertex_index", corners.astype(np.int32))
    found.loops.foreach_set("edge_index", of_corners.astype(np.int32))
    found.polygons.foreach_set("loop_start", (np.cumsum(sizes) - sizes).astype(np.int32))
    for material in mesh.materials:
        found.materials.append(material)
    ends = rank[_read(mesh.edges, "vertices", np.int32, 2)]
    keys = np.where((ends >= 0).all(axis=1), _edge_keys(ends[:, 0], ends[:, 1], len(used)), -1)
    of_edges = np.argsort(keys, kind="stable")[np.searchsorted(np.sort(keys), edges)]
    _copy_attributes(mesh, found, {"POINT": used, "EDGE": of_edges, "FACE": faces, "CORNER": order})
    found.update()
    if mesh.has_custom_normals:
        normals = _read(mesh.corner_normals, "vector", np.float32, 3)[order]
        found.normals_split_custom_set(normals.tolist())
    return found


def _corner_order(
    corners: Int64[ndarray, " corners"], starts: Int64[ndarray, " faces"], sizes: Int64[ndarray, " faces"]
) -> tuple[Int64[ndarray, " corners"], Int64[ndarray, " faces"]]:
    """Return the old corners and the old faces in their new order."""
    of_face = np.repeat(np.arange(len(sizes)), sizes)
    first = np.lexsort((corners, of_face))[starts]  # the corner of each face with the smallest vertex
    place = np.arange(len(corners)) - starts[of_face]
    turned = starts[of_face] + (place + (first - starts)[of_face]) % sizes[of_face]
    rotated = corners[turned]
    faces = np.lexsort((sizes, rotated[starts + 2], rotated[starts + 1], rotated[starts]))
    new_place = np.arange(len(corners)) - np.repeat(np.cumsum(sizes[faces]) - sizes[faces], sizes[faces])
    return turned[np.repeat(starts[faces], sizes[faces]) + new_place], faces


def _next(corners: Int64[ndarray, " corners"], sizes: ndarray) -> Int64[ndarray, " corners"]:
    """Return the vertex that follows each corner in its face."""
    ends = np.cumsum(sizes)
    following = np.roll(corners, -1)
    following[ends - 1] = corners[ends - sizes]
    return following


def _edge_keys(one: ndarray, other: ndarray, vertices: int) -> Int64[ndarray, " edges"]:
    return np.minimum(one, other).astype(np.int64) * vertices + np.maximum(one, other)


def _read(items: Any, name: str, dtype: Any, width: int = 1) -> Any:
    values = np.empty(width * len(items), dtype)
    items.foreach_get(name, values)
    return values if width == 1 else values.reshape(-1, width)


def attribute_values(attribute: Any) -> tuple[str, ndarray]:
    """Return the field that an attribute has its values in, and the values, one row for each element."""
    name = next(name for name in ("value", "vector", "color") if hasattr(attribute.data[0], name))
    first = getattr(attribute.data[0], name)
    dtype = bool if isinstance(first, bool) else np.int32 if "INT" in attribute.data_type else np.float32
    return name, _read(attribute.data, name, dtype, np.size(np.asarray(first))).reshape(
        len(attribute.data), -1
    )


def _copy_attributes(mesh: Any, found: Any, orders: dict[str, ndarray]) -> None:
    """Copy the attributes of a mesh, but those that are its topology, or no part of a picture."""
    for one in mesh.attributes:
        hidden = one.name in _TOPOLOGY or "select" in one.name or one.data_type == "STRING"
        encoded = one.name == _CUSTOM_NORMAL and one.domain == "CORNER"  # relative to the order of corners
        if hidden or encoded or one.domain not in orders or not len(one.data):
            continue
        name, values = attribute_values(one)
        new = found.attributes.get(one.name) or found.attributes.new(one.name, one.data_type, one.domain)
        new.data.foreach_set(name, values[orders[one.domain]].ravel())
    for layer in mesh.uv_layers:
        found.uv_layers[layer.name].active_render = layer.active_render
    found.attributes.default_color_name = mesh.attributes.default_color_name
