"""Rendered pixels of cameras that roll, shift and zoom, raised objects and spot lights."""

import math

import numpy as np
import pytest

from candlelight.generators.scenes.object_placement import turn
from candlelight.loaders.frames import frame_path, read_frame
from candlelight.loaders.illuminants import illuminant

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]

BALL, RADIUS = np.array([0.35, 0.1, 0.9]), 0.4  # centre and radius in metres
BOX, TILT, TURN = np.array([-0.2, 0.3, 1.1]), (35.0, -50.0), 20.0

RECIPE = """
name: views
description: One property per set.
image: {width: 48, height: 36}
render: {samples: 8, bounces: 0, denoise: false}
layers: [image, radiance, shading, residual, object]
sets:
  moved:
    factors:
      roll: {values: [0, 25], unit: degrees}
      x: {values: [2.5], unit: degrees}
      y: {values: [-1.5], unit: degrees}
      zoom: {values: [1, 1.4]}
    unit_factors: []
    layout:
      objects:
        - type: sphere
          material: {base_color: [0.8, 0.8, 0.8], specular: 0}
          size: 0.8
          location: [0.35, 0.1, 0.9]
          anchor: center
      lights: [{azimuth: -30, distance: 4, radius: 0.2}]
      camera:
        location: [0.5, 5, 2.5]
        look_at: [0, 0, 0.5]
        field_of_view: 36
        roll: $roll
        shift: [$x, $y]
        zoom: $zoom
  boxed:
    factors:
      object_type: {values: [cube], assets: objects}
    layout:
      objects:
        - type: $object_type
          material: {base_color: {hue: 200, saturation: 0.5, value: 0.8}}
          size: 0.9
          tilt: [35, -50]
          rotation: 20
          location: [-0.2, 0.3, 1.1]
          anchor: center
      lights: [{azimuth: -30, distance: 4, radius: 0.2}]
      camera: {location: [0.5, 5, 2.5], look_at: [0, 0, 0.5], field_of_view: 36}
  spots:
    factors:
      kind: {values: [spot]}
    layout: &spots
      floor: {}
      lights:
        - {kind: spot, location: [0.5, 0.2, 4], aim: [0.5, 0.2, 0], cone: 20, blend: 0, radius: 0, power: 500}
      camera: {location: [0.5, 5, 2.5], look_at: [0, 0, 0.5], field_of_view: 36}
  points:
    factors:
      kind: {values: [point]}
    layout:
      <<: *spots
      lights: [{location: [0.5, 0.2, 4], radius: 0, power: 500}]
  hues:
    factors:
      hue: {values: [-510], unit: nm}
    layout:
      <<: *spots
      lights: [{location: [0.5, 0.2, 4], radius: 0, power: 500, chromaticity: [$hue, 8]}]
"""


@pytest.fixture(scope="module")
def pick(tmp_path_factory, render_recipe):
    """Return a function that lists samples and frames of a set."""
    root = tmp_path_factory.mktemp("views")
    plan = render_recipe(root, RECIPE)

    def read(set_name):
        samples = [sample for sample in plan.samples if sample.set == set_name]
        return [(one, read_frame(frame_path(root / "frames", set_name, one.index))) for one in samples]

    return read


def seen(frame, points):
    """Project world points to pixels with the matrices of the metadata."""
    camera = frame.metadata.camera
    pose, k = np.array(camera.world_to_camera), np.array(camera.intrinsics)
    pixels = (points @ pose[:3, :3].T + pose[:3, 3]) @ k.T
    return pixels[:, :2] / pixels[:, 2:]


def sphere_points():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(20000, 3))
    return BALL + RADIUS * directions / np.linalg.norm(directions, axis=1, keepdims=True)


def test_metadata_locate_the_object_for_any_camera(pick):
    """The outline of a ball is an ellipse, whose centre is the centre of its bounding box."""
    assert len(pick("moved")) == 4
    for _, frame in pick("moved"):
        outline = seen(frame, sphere_points())
        low, high = outline.min(axis=0), outline.max(axis=0)
        y, x = (frame.layers["object"] == 1).nonzero()
        np.testing.assert_allclose((x.mean() + 0.5, y.mean() + 0.5), (low + high) / 2, atol=0.5)
        left, top, right, bottom = frame.metadata.objects[0].bbox
        np.testing.assert_allclose([left, top, right, bottom], [*low, *high], atol=1.0)


def test_a_raised_and_turned_box_has_its_planned_pose(pick):
    ((sample, frame),) = pick("boxed")
    planned, written = sample.trace.objects[0], frame.metadata.objects[0]
    assert (written.tilt, written.rotation, written.location) == (TILT, TURN, planned.location)
    unit = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0.0, 1.0)])
    corners = planned.location + 0.9 * unit @ turn(TILT, TURN).T
    np.testing.assert_allclose(corners.mean(axis=0), BOX, atol=1e-9)
    outline = seen(frame, corners)
    np.testing.assert_allclose(written.bbox, [*outline.min(axis=0), *outline.max(axis=0)], atol=1.0)
    assert written.base_color == pytest.approx((0.4, 0.4 + 0.4 * 2 / 3, 0.8), abs=1e-5)


def test_a_spot_light_equals_a_point_light_inside_its_cone_only(pick):
    ((_, spot),), ((_, point),) = pick("spots"), pick("points")
    assert (spot.metadata.lights[0].kind, spot.metadata.lights[0].cone) == ("spot", 20)
    assert spot.metadata.lights[0].direction == (0, 0, -1)
    edge = 4 * math.tan(math.radians(10))
    angles = np.radians(np.arange(0, 360, 15))
    ring = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)

    def at(frame, radius):
        x, y = np.floor(seen(frame, (0.5, 0.2, 0) + radius * ring)).astype(int).T
        return frame.layers["shading"][y, x].astype(float)

    np.testing.assert_allclose(at(spot, 0.5 * edge), at(point, 0.5 * edge), rtol=0.03)
    assert (at(point, 0.5 * edge) > 0).all()
    assert (at(spot, 1.5 * edge) < 1e-3 * at(point, 1.5 * edge)).all()


def test_a_light_has_the_colour_of_its_chromaticity(pick):
    ((sample, frame),), ((_, white),) = pick("hues"), pick("points")
    color = illuminant(-510, 8)
    assert (sample.trace.lights[0].color, frame.metadata.lights[0].color) == ((1, 1, 1), color)
    found, expected = (one.layers["shading"].astype(float).mean(axis=(0, 1)) for one in (frame, white))
    np.testing.assert_allclose(found, expected * color, rtol=0.02)
