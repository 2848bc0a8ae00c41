"""Shapes as vertices and faces, in numpy: surfaces of revolution, tubes, prisms.

Lengths are arbitrary until `candlelight.generators.blender.mesh_files.fit_to_unit` makes an object of a
shape. Faces run anticlockwise seen from outside.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy import ndarray

Faces = list[tuple[int, ...]]
Shape = tuple[ndarray, Faces]


def lathe(profile: Sequence[tuple[float, float]], segments: int = 96) -> Shape:
    """Revolve a profile about the vertical.

    Args:
        profile: (radius, height) from the middle of the underside, round the outside, to the axis again;
            points at radius 0 close the surface.
        segments: faces round the axis.
    """
    vertices: list[tuple[float, float, float]] = []
    rings = []
    for radius, height in profile:
        count = segments if radius > 0 else 1
        rings.append(range(len(vertices), len(vertices) + count))
        angles = 2 * np.pi * np.arange(count) / segments
        vertices += [(radius * np.cos(a), radius * np.sin(a), height) for a in angles]
    return np.array(vertices), [face for pair in pairwise(rings) for face in _band(*pair)]


def _band(below: range, above: range, closed: bool = True) -> Faces:
    """Join two rings, or open rows, by quadrilaterals, or by triangles if a ring is a point."""
    count = max(len(below), len(above))
    faces = []
    for i in range(count if closed else count - 1):
        j = (i + 1) % count
        corners = [below[i % len(below)], below[j % len(below)], above[j % len(above)], above[i % len(above)]]
        faces.append(tuple(dict.fromkeys(corners)))
    return faces


def tube(
    curve: Callable[[ndarray], ndarray], radius: float, steps: int, closed: bool, segments: int = 24
) -> Shape:
    """Sweep a circle along a curve, its frame carried along without twist.

    Args:
        curve: parameters in [0, 1] (n) to points (n x 3).
        radius: of the circle.
        steps: circles along the curve.
        closed: whether the curve ends where it starts; otherwise flat caps close the ends.
        segments: faces round the tube.
    """
    t = np.linspace(0, 1, steps, endpoint=not closed)
    points = curve(t)
    tangents = curve(t + 1e-4) - curve(t - 1e-4)
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    normals = _carry(tangents, closed)
    sides = np.cross(tangents, normals)
    angles = 2 * np.pi * np.arange(segments) / segments
    circle = np.cos(angles)[:, None, None] * normals + np.sin(angles)[:, None, None] * sides
    vertices = (points + radius * circle).transpose(1, 0, 2).reshape(-1, 3)
    rings = [range(k * segments, (k + 1) * segments) for k in range(steps)]
    faces = [face for pair in pairwise(rings) for face in _band(*pair)]
    if closed:
        faces += _band(rings[-1], rings[0])
    else:
        faces += [tuple(reversed(rings[0])), tuple(rings[-1])]
    return vertices, faces


def _carry(tangents: ndarray, closed: bool) -> ndarray:
    """Carry a normal along a curve without twist; on a closed curve, spread the remaining turn evenly."""
    normal = np.cross(tangents[0], (0.3, 0.5, 0.8))
    normals = [normal / np.linalg.norm(normal)]
    for tangent in tangents[1:]:
        normal = normals[-1] - tangent * (normals[-1] @ tangent)
        normals.append(normal / np.linalg.norm(normal))
    carried = np.array(normals)
    if not closed:
        return carried
    last = carried[-1] - tangents[0] * (carried[-1] @ tangents[0])
    off = np.arctan2(np.cross(last, carried[0]) @ tangents[0], last @ carried[0])
    turn = off * np.arange(len(tangents))[:, None] / len(tangents)
    return np.cos(turn) * carried + np.sin(turn) * np.cross(tangents, carried)


def prism(outline: ndarray, height: float, hole: ndarray | None = None, closed: bool = True) -> Shape:
    """Raise an outline into a body with a flat top and underside.

    Args:
        outline: n x 2, anticlockwise.
        height: of the body.
        hole: n x 2, anticlockwise, each point facing that of the outline; by default the middle of the
            outline, which then must see all of it.
        closed: whether outline and hole end where they start; otherwise two flat ends join them.
    """
    count = len(outline)
    inner = outline.mean(axis=0, keepdims=True) if hole is None else hole
    flat = np.concatenate([outline, inner])
    low = np.column_stack([flat, np.zeros(len(flat))])
    vertices = np.concatenate([low, low + np.array([0, 0, height])])
    shift = len(flat)
    outer_low, inner_low = range(count), range(count, shift)
    outer_high, inner_high = range(shift, shift + count), range(shift + count, 2 * shift)
    around = [(outer_low, outer_high), (outer_high, inner_high), (inner_low, outer_low)]
    if hole is not None:
        around.append((inner_high, inner_low))
    faces = [face for pair in around for face in _band(*pair, closed)]
    if not closed:
        first, last = (
            [ring[end] for ring in (outer_low, outer_high, inner_high, inner_low)] for end in (0, -1)
        )
        faces += [tuple(first), tuple(reversed(last))]
    return vertices, faces
