"""Closed shapes in numpy, from which objects with parts are composed; shapes may overlap."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy import ndarray

from shapes import Faces, Shape

Triple = Sequence[float]
Rgb = tuple[float, float, float]  # linear Rec.709


def both(name: str, rgb: Rgb) -> dict[str, Rgb]:
    """Give the left and the right part of a name the same colour."""
    return {f"left_{name}": rgb, f"right_{name}": rgb}


def ellipsoid(center: Triple, radii: Triple, pitch: float = 0.0, segments: int = 32) -> Shape:
    """Return an ellipsoid, its front (-y) raised by ``pitch`` degrees."""
    levels = np.linspace(-np.pi / 2, np.pi / 2, segments // 2 + 1)[1:-1]
    rings = [_ring(np.cos(a), np.sin(a), segments) for a in levels]
    points = np.concatenate([[(0.0, 0.0, -1.0)], *rings, [(0.0, 0.0, 1.0)]])
    return _turned(points * radii, pitch) + np.array(center), _skin(len(rings), segments)


def rod(
    start: Triple, end: Triple, radius: float, end_radius: float | None = None, segments: int = 24
) -> Shape:
    """Return a rod between two points; ``end_radius`` is the radius of its far end, 0 for a cone."""
    last = max(radius if end_radius is None else end_radius, 1e-4)
    a, b = np.array(start, float), np.array(end, float)
    axis = (b - a) / np.linalg.norm(b - a)
    side = np.cross(axis, (0.0, 0.0, 1.0) if abs(axis[2]) < 0.9 else (1.0, 0.0, 0.0))
    side /= np.linalg.norm(side)
    across = np.cross(axis, side)
    circle = _ring(1.0, 0.0, segments)[:, :2] @ np.stack([side, across])
    points = np.concatenate([[a], a + radius * circle, b + last * circle, [b]])
    return points, _skin(2, segments)


def box(center: Triple, size: Triple, top: tuple[float, float] = (1.0, 1.0), shift: float = 0.0) -> Shape:
    """Return a box whose upper side is scaled by ``top`` in x and y and moved by ``shift`` along y."""
    corners = np.array(
        [(x, y, z) for z in (-0.5, 0.5) for x, y in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))]
    )
    corners[4:, :2] *= top
    points = corners * size + np.array(center)
    points[4:, 1] += shift
    sides: Faces = [(i, (i + 1) % 4, 4 + (i + 1) % 4, 4 + i) for i in range(4)]
    return points, [(3, 2, 1, 0), (4, 5, 6, 7), *sides]


def slab(
    outline: Sequence[tuple[float, float]], thickness: float, origin: Triple, u: Triple, v: Triple
) -> Shape:
    """Return a flat body around an outline in the plane of ``u`` and ``v``."""
    first, second = np.array(u, float), np.array(v, float)
    across = np.cross(first, second)
    across *= thickness / 2 / np.linalg.norm(across)
    flat = np.array(outline) @ np.stack([first, second]) + np.array(origin)
    count = len(outline)
    sides: Faces = [(i, (i + 1) % count, count + (i + 1) % count, count + i) for i in range(count)]
    return np.concatenate([flat - across, flat + across]), [
        tuple(reversed(range(count))),
        tuple(range(count, 2 * count)),
        *sides,
    ]


def mirrored(shape: Shape) -> Shape:
    """Return the mirror image of a shape to the other side of x = 0."""
    points, faces = shape
    return points * (-1.0, 1.0, 1.0), [tuple(reversed(face)) for face in faces]


def _ring(radius: float, height: float, segments: int) -> ndarray:
    angles = 2 * np.pi * np.arange(segments) / segments
    return np.column_stack([radius * np.cos(angles), radius * np.sin(angles), np.full(segments, height)])


def _skin(rings: int, segments: int) -> Faces:
    """List the faces that join a point, rings of equal length and another point."""
    starts = [1 + ring * segments for ring in range(rings)]
    last = 1 + rings * segments
    turns = [(i, (i + 1) % segments) for i in range(segments)]
    ends: Faces = [(0, starts[0] + j, starts[0] + i) for i, j in turns]
    ends += [(last, starts[-1] + i, starts[-1] + j) for i, j in turns]
    return ends + [(a + i, a + j, b + j, b + i) for a, b in pairwise(starts) for i, j in turns]


def _turned(points: ndarray, pitch: float) -> ndarray:
    angle = np.radians(-pitch)
    turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    return points @ turn.T
