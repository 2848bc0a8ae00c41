import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from blender_assets.shapes import lathe, prism, stand, tube
from loaders.errors import InputError

SQUARE = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1]])


def volume(shape):
    """Sum signed tetrahedra: the volume, positive where faces run anticlockwise seen from outside."""
    vertices, faces = shape
    total = 0.0
    for face in faces:
        a = vertices[face[0]]
        for i, j in pairwise(face[1:]):
            total += np.dot(a, np.cross(vertices[i], vertices[j])) / 6
    return total


def is_closed(shape):
    """Every edge belongs to two faces, once in each direction."""
    edges = Counter((a, b) for face in shape[1] for a, b in zip(face, face[1:] + face[:1], strict=True))
    return all(count == 1 and edges[b, a] == 1 for (a, b), count in edges.items())


def test_an_object_stands_in_the_middle_of_its_base():
    points, facts = stand(np.array([[10.0, -3, 7], [14, -1, 8], [12, -1, 7.5]]))
    np.testing.assert_allclose(points, [[-0.5, -0.25, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.125]])
    assert facts["dimensions"] == [1.0, 0.5, 0.25]
    assert facts["footprint"] == pytest.approx(math.hypot(0.5, 0.25), abs=1e-6)


def test_a_footprint_is_that_of_the_farthest_vertex_and_not_of_the_box():
    circle = [(math.cos(a), math.sin(a), 0) for a in np.linspace(0, 2 * math.pi, 400)]
    assert stand(np.array([*circle, (0, 0, 1)]))[1]["footprint"] == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0, 0, math.nan], [1, 1, 1]], "expected finite vertices"),
        ([[0, 0, math.inf], [1, 1, 1]], "expected finite vertices"),
        ([[2, 2, 2], [2, 2, 2]], "expected an extent that can be scaled to one unit, got 0"),
    ],
)
def test_what_cannot_stand_is_refused(points, message):
    with pytest.raises(InputError, match=message):
        stand(np.array(points))


def test_a_lathe_turns_a_profile():
    cone = lathe([(0, 0), (3, 0), (0, 5)], segments=400)
    assert is_closed(cone)
    assert volume(cone) == pytest.approx(math.pi * 9 * 5 / 3, rel=1e-3)
    cup = lathe([(0, 0), (2, 0), (2, 4), (1, 4), (1, 1), (0, 1)], segments=400)
    assert is_closed(cup)
    assert volume(cup) == pytest.approx(math.pi * (4 * 4 - 1 * 3), rel=1e-3)


def test_a_tube_follows_its_curve():
    def circle(t):
        return np.stack([3 * np.cos(2 * np.pi * t), 3 * np.sin(2 * np.pi * t), 0 * t], axis=-1)

    def bent(t):
        a = 2 * np.pi * t
        x, y = np.sin(a) + 2 * np.sin(2 * a), np.cos(a) - 2 * np.cos(2 * a)
        return np.stack([x, y, -np.sin(3 * a)], axis=-1)

    def straight(t):
        return np.stack([0 * t, 0 * t, 2 * t], axis=-1)

    ring = tube(circle, 0.5, 300, closed=True, segments=60)
    assert is_closed(ring)
    assert volume(ring) == pytest.approx(2 * math.pi**2 * 3 * 0.25, rel=5e-3)
    rod = tube(straight, 0.5, 5, closed=False, segments=200)
    assert is_closed(rod)
    assert volume(rod) == pytest.approx(math.pi * 0.25 * 2, rel=5e-3)
    # Where a knot closes, rings are turned against each other no more than anywhere else.
    vertices, _ = tube(bent, 0.3, 200, closed=True, segments=12)
    rings = vertices.reshape(200, 12, 3)
    steps = np.linalg.norm(np.roll(rings, -1, axis=0) - rings, axis=-1).max(axis=1)
    assert steps[-1] < 1.1 * steps[:-1].max()


def test_a_prism_raises_an_outline():
    block = prism(SQUARE, 3)
    assert is_closed(block)
    assert volume(block) == pytest.approx(12)
    frame = prism(SQUARE, 3, hole=SQUARE / 2)
    assert is_closed(frame)
    assert volume(frame) == pytest.approx(9)


def test_an_open_prism_has_two_ends():
    outline, hole = (
        np.array([[2.0, 0], [2, 2], [-2, 2], [-2, 0]]),
        np.array([[1.0, 0], [1, 1], [-1, 1], [-1, 0]]),
    )
    gate = prism(outline, 1, hole=hole, closed=False)
    assert is_closed(gate)
    assert volume(gate) == pytest.approx(8 - 2)
