"""Putting finely sampled geometry into a trace over a shadow catcher, on pixels worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from generators.scenes.scene import Camera

refining = pytest.importorskip("generators.layers.shadow_catcher", exc_type=ImportError)
composing = pytest.importorskip("generators.layers.decomposition", exc_type=ImportError)

CAMERA = Camera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60)  # looks along -y, x to the left


def image(*values):
    """A picture of one row of three channels."""
    return np.array([[(value,) * 3 if np.isscalar(value) else value for value in values]], np.float32)


def plane(*values):
    return np.array([values], np.float32)


@pytest.fixture
def parts():
    """Four pixels: sky, an edge that few samples missed, an edge, and the inside of an object."""
    zero = np.zeros((1, 4, 3), np.float32)
    return composing.TracedLayers(
        albedo=image(0, 0, 0.2, 0.8),
        shading_direct=image(0, 0, 0.5, 0.7),
        shading_indirect=zero,
        shading=image(0, 0, 0.5, 0.7),
        residual=image(3, 3, 2, 0.1),
        lights={},
        depth=plane(np.inf, np.inf, np.inf, 5),
        normal=image((0, 0, 0), (0, 0, 0), (0, 0, -1), (0, 0, -1)),
        object=np.array([[0, 0, 0, 1]], np.uint8),
        part=np.zeros((1, 4), np.uint8),
        position=zero,
        roughness=plane(0, 0, 0.1, 0.5),
        metallic=plane(0, 0, 0, 0),
        catcher=True,
        identity_error=None,
    )


PASSES = {"coverage": plane(0, 0, 0.25, 1), "Environment": image(3, 3, 2.25, 0)}
FINE = {
    "coverage": plane(0, 0.1, 0.5, 1),
    "albedo": image(0, 0.08, 0.4, 0.8),
    "normal": image((0, 0, 0), (0, 0.1, 0), (0, 0.5, 0), (0, 1, 0)),
    "roughness": plane(0, 0.05, 0.25, 0.5),
    "metallic": plane(0, 0, 0.125, 0.25),
}


def test_objects_take_the_finer_geometry_and_the_rest_stays(parts):
    fine = refining.replace_geometry(parts, PASSES, FINE, CAMERA)
    np.testing.assert_allclose(fine.albedo, image(0, 0.08, 0.4, 0.8))
    np.testing.assert_allclose(fine.roughness, plane(0, 0.05, 0.25, 0.5))
    np.testing.assert_allclose(fine.metallic, plane(0, 0, 0.125, 0.25))
    # World +y faces a camera that looks along -y: -z in its own axes.
    np.testing.assert_allclose(fine.normal, image((0, 0, 0), (0, 0, -1), (0, 0, -1), (0, 0, -1)), atol=1e-6)
    for name in ("depth", "object", "part", "position", "residual"):
        assert getattr(fine, name) is getattr(parts, name)


def test_an_edge_that_light_missed_is_lit_like_its_neighbours(parts):
    fine = refining.replace_geometry(parts, PASSES, FINE, CAMERA)
    np.testing.assert_allclose(fine.shading, image(0, 0.5, 0.5, 0.7))
    np.testing.assert_allclose(fine.shading_direct, image(0, 0.5, 0.5, 0.7))


def test_shading_is_zero_where_albedo_is(parts):
    gone = {**FINE, "albedo": image(0, 0, 0, 0.8)}
    fine = refining.replace_geometry(parts, PASSES, gone, CAMERA)
    np.testing.assert_array_equal(fine.shading, image(0, 0, 0, 0.7))


def test_shares_of_the_shading_stay_apart(parts):
    fine = refining.replace_geometry(replace(parts, shading=None), PASSES, FINE, CAMERA)
    assert fine.shading is None
    np.testing.assert_allclose(fine.shading_direct, image(0, 0.5, 0.5, 0.7))


def test_the_backdrop_shows_the_map_where_no_object_is():
    # The map has radiance 3: free shares 1, 0.9, 0.5 of it, and the object gives 0, 0.1, 0.5, 1.
    found = refining.exact_backdrop(PASSES, FINE)
    np.testing.assert_allclose(found, image(3, 2.8, 2, 1), rtol=1e-6)


def test_the_same_coverage_gives_the_same_backdrop():
    own = composing.backdrop_radiance(PASSES["Environment"], PASSES["coverage"])
    np.testing.assert_array_equal(refining.exact_backdrop(PASSES, PASSES), own)


def test_the_sky_is_left_to_the_bit():
    rng = np.random.default_rng(0)
    light = rng.random((6, 7, 3), np.float32)
    none = np.zeros((6, 7), np.float32)
    found = refining.exact_backdrop({"coverage": none, "Environment": light}, {"coverage": none})
    np.testing.assert_array_equal(found, np.maximum(light, composing.LEAST_BACKDROP))


def test_the_backdrop_takes_the_map_as_it_is_worked_out():
    view = image(3.1, 3.1, 3.1, 3.1)
    found = refining.exact_backdrop(PASSES, FINE, view)
    np.testing.assert_allclose(found, image(3.1, 2.89, 2.05, 1), rtol=1e-6)
    # Where there is no object in the picture nothing was traced finer.
    free = {**PASSES, "coverage": plane(0, 0, 0, 0)}
    np.testing.assert_array_equal(refining.exact_backdrop(free, None, view), view)
