"""Backdrop and geometry over a shadow catcher, on pixels computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.layers.decompose_trace import TracedLayers
from candlelight.generators.layers.shadow_catcher import (
    LEAST_BACKDROP,
    backdrop_radiance,
    exact_backdrop,
    replace_geometry,
)

CAMERA = PlacedCamera(
    location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60
)  # looks along -y, x to the left


def image(*values):
    """Make an image of one row and three channels."""
    return np.array([[(value,) * 3 if np.isscalar(value) else value for value in values]], np.float32)


def plane(*values):
    return np.array([values], np.float32)


@pytest.fixture
def traced():
    """Make four pixels: sky, an edge that the few samples missed, an edge, and the inside of an object."""
    zero = np.zeros((1, 4, 3), np.float32)
    return TracedLayers(
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
GEOMETRY = {
    "coverage": plane(0, 0.1, 0.5, 1),
    "albedo": image(0, 0.08, 0.4, 0.8),
    "normal": image((0, 0, 0), (0, 0.1, 0), (0, 0.5, 0), (0, 1, 0)),
    "roughness": plane(0, 0.05, 0.25, 0.5),
    "metallic": plane(0, 0, 0.125, 0.25),
}


def test_objects_take_the_geometry_trace_and_other_layers_stay(traced):
    replaced = replace_geometry(traced, PASSES, GEOMETRY, CAMERA)
    np.testing.assert_allclose(replaced.albedo, image(0, 0.08, 0.4, 0.8))
    np.testing.assert_allclose(replaced.roughness, plane(0, 0.05, 0.25, 0.5))
    np.testing.assert_allclose(replaced.metallic, plane(0, 0, 0.125, 0.25))
    # World +y faces a camera that looks along -y: -z in camera axes.
    expected = image((0, 0, 0), (0, 0, -1), (0, 0, -1), (0, 0, -1))
    np.testing.assert_allclose(replaced.normal, expected, atol=1e-6)
    for name in ("depth", "object", "part", "position", "residual"):
        assert getattr(replaced, name) is getattr(traced, name)


def test_an_edge_that_the_first_trace_missed_takes_the_shading_of_its_neighbours(traced):
    replaced = replace_geometry(traced, PASSES, GEOMETRY, CAMERA)
    np.testing.assert_allclose(replaced.shading, image(0, 0.5, 0.5, 0.7))
    np.testing.assert_allclose(replaced.shading_direct, image(0, 0.5, 0.5, 0.7))
    # Where the new albedo is 0, so is the shading.
    without_edges = {**GEOMETRY, "albedo": image(0, 0, 0, 0.8)}
    replaced = replace_geometry(traced, PASSES, without_edges, CAMERA)
    np.testing.assert_array_equal(replaced.shading, image(0, 0, 0, 0.7))


def test_direct_and_indirect_shading_stay_apart(traced):
    replaced = replace_geometry(replace(traced, shading=None), PASSES, GEOMETRY, CAMERA)
    assert replaced.shading is None
    np.testing.assert_allclose(replaced.shading_direct, image(0, 0.5, 0.5, 0.7))


def test_the_backdrop_is_the_map_in_proportion_to_the_free_share_of_a_pixel():
    # The map has radiance 3; shares of 1, 0.9, 0.5 and 0 are free, and objects count as radiance 1.
    np.testing.assert_allclose(exact_backdrop(PASSES, GEOMETRY), image(3, 2.8, 2, 1), rtol=1e-6)


def test_equal_coverage_gives_the_backdrop_of_the_trace():
    expected = backdrop_radiance(PASSES["Environment"], PASSES["coverage"])
    np.testing.assert_array_equal(exact_backdrop(PASSES, PASSES), expected)


def test_pixels_without_an_object_keep_the_traced_map_exactly():
    rng = np.random.default_rng(0)
    light = rng.random((6, 7, 3), np.float32)
    none = np.zeros((6, 7), np.float32)
    found = exact_backdrop({"coverage": none, "Environment": light}, {"coverage": none})
    np.testing.assert_array_equal(found, np.maximum(light, LEAST_BACKDROP))


def test_the_backdrop_shows_the_computed_view_of_the_map():
    view = image(3.1, 3.1, 3.1, 3.1)
    found = exact_backdrop(PASSES, GEOMETRY, view)
    np.testing.assert_allclose(found, image(3.1, 2.89, 2.05, 1), rtol=1e-6)
    # Without an object in the image there is no geometry trace.
    free = {**PASSES, "coverage": plane(0, 0, 0, 0)}
    np.testing.assert_array_equal(exact_backdrop(free, None, view), view)
