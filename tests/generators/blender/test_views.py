"""Rendered pixels of cameras that roll, shift and zoom, raised objects, spot lights and coloured lights."""

import math

import numpy as np
import pytest

from candlelight.generators.scenes.object_placement import turn
from candlelight.loaders.frames import frame_path, read_frame
from candlelight.loaders.illuminants import illuminant

pytestmark = pytest.mark.blender

HALF = 2.0**-11  # largest relative rounding error of half precision
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
      x: {values: [0, 2.5], unit: degrees}
      y: {values: [0, -1.5], unit: degrees}
      zoom: {values: [1, 1.4]}
    unit_factors: []
    layout: &ball
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
  aside:
    factors:
      aside: {values: [0.1, 0.9], unit: m}
    variables:
      ahead: {low: -1, high: 1, value: "aside - 0.5", unit: m}
    unit_factors: []
    layout:
      <<: *ball
      camera: {location: [$aside, 5, 2.5], look_at: [$ahead, 0, 0.5], field_of_view: 36}
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
      hue: {values: [611, -510], unit: nm}
      saturation: {values: [0, 8]}
    unit_factors: []
    shares_units: true
    layout: &hues
      objects: [{type: torus, material: red, size: 1.4}]
      floor: {}
      lights: [{azimuth: -30, distance: 4, radius: 0.2, chromaticity: [$hue, $saturation]}]
      camera: {location: [0.5, 5, 2.5], look_at: [0, 0, 0.5], field_of_view: 36}
  coloured:  # the same light, traced in its own colour, because samples with a map share no trace
    factors:
      hue: {values: [-510], unit: nm}
      saturation: {values: [8]}
    unit_factors: []
    shares_units: true
    layout:
      <<: *hues
      environment: {scene: studio, strength: 0}
"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory, render_recipe):
    folder = tmp_path_factory.mktemp("views")
    plan = render_recipe(folder, RECIPE, workers=2)
    return [
        (sample, read_frame(frame_path(folder / "frames", sample.set, sample.index)))
        for sample in plan.samples
    ]


@pytest.fixture
def pick(frames):
    def read(set_name):
        return [(sample, frame) for sample, frame in frames if sample.set == set_name]

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


def middle(mask):
    y, x = mask.nonzero()
    return np.array([x.mean() + 0.5, y.mean() + 0.5])


def test_metadata_locate_the_object_for_any_camera(pick):
    """The outline of a ball is an ellipse, whose centre is the centre of its bounding box."""
    assert (len(pick("moved")), len(pick("aside"))) == (16, 2)
    for _, frame in [*pick("moved"), *pick("aside")]:
        outline = seen(frame, sphere_points())
        low, high = outline.min(axis=0), outline.max(axis=0)
        mask = frame.layers["object"] == 1
        np.testing.assert_allclose(middle(mask), (low + high) / 2, atol=0.5)
        left, top, right, bottom = frame.metadata.objects[0].bbox
        np.testing.assert_allclose([left, top, right, bottom], [*low, *high], atol=1.0)


def test_shift_roll_and_zoom_move_the_image(pick):
    """Masks show shift to the right and down, roll clockwise, and zoom."""
    at = {tuple(s.factors[f] for f in ("roll", "x", "y", "zoom")): f for s, f in pick("moved")}
    middles = {key: middle(frame.layers["object"] == 1) for key, frame in at.items()}
    still = middles[0, 0, 0, 1]
    degree = 24 / math.tan(math.radians(18)) * math.tan(math.radians(1))  # pixels, in the middle of the image
    np.testing.assert_allclose(middles[0, 2.5, 0, 1] - still, (2.5 * degree, 0), atol=0.3)
    np.testing.assert_allclose(middles[0, 0, -1.5, 1] - still, (0, -1.5 * degree), atol=0.3)
    c, s = math.cos(math.radians(25)), math.sin(math.radians(25))
    # Clockwise with y down: the x axis turns towards the y axis.
    turned = (24, 18) + np.array([[c, -s], [s, c]]) @ (still - (24, 18))
    np.testing.assert_allclose(middles[25, 0, 0, 1], turned, atol=0.3)
    np.testing.assert_allclose(middles[0, 0, 0, 1.4], (24, 18) + 1.4 * (still - (24, 18)), atol=0.4)
    areas = [(at[0, 0, 0, zoom].layers["object"] == 1).sum() for zoom in (1, 1.4)]
    assert areas[1] / areas[0] == pytest.approx(1.4**2, rel=0.06)


def test_a_step_aside_moves_what_is_near_further(pick):
    """The ball moves by the step times the focal length over its own depth; the camera does not turn."""
    (_, still), (_, aside) = pick("aside")
    moved = middle(aside.layers["object"] == 1) - middle(still.layers["object"] == 1)
    pose = np.array(still.metadata.camera.world_to_camera)
    depth = float(pose[2, :3] @ BALL + pose[2, 3])
    step = 0.8 * 24 / math.tan(math.radians(18))
    np.testing.assert_allclose(moved, (step / depth, 0), atol=0.4)
    assert moved[0] > step / math.dist((0.5, 5, 2.5), (0.5, 0, 0.5)) + 0.4  # of the point it looks at
    turned = np.array(aside.metadata.camera.world_to_camera)
    np.testing.assert_allclose(turned[:3, :3], pose[:3, :3], atol=1e-6)


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


def test_colours_of_light_share_a_trace_and_are_multiples_of_it(pick):
    pairs = pick("hues")
    assert len({sample.group for sample, _ in pairs}) == 1
    gains = []
    for sample, frame in pairs:
        color = illuminant(sample.factors["hue"], sample.factors["saturation"])
        np.testing.assert_allclose(sample.gain, color, rtol=1e-12)
        assert frame.metadata.lights[0].color == color
        gains.append(frame.layers["shading"].astype(float) / sample.gain)
    for other in gains[1:]:
        np.testing.assert_allclose(other, gains[0], rtol=2.1 * HALF, atol=2e-7)


def test_a_light_traced_in_its_own_colour_gives_the_same_result(pick):
    ((coloured, traced),) = pick("coloured")
    assert coloured.gain == (1, 1, 1)
    assert coloured.trace.lights[0].color == illuminant(-510, 8)
    (scaled,) = [frame for sample, frame in pick("hues") if sample.factors == coloured.factors]
    lit = scaled.layers["shading"].astype(float) > 0.05
    ratio = traced.layers["shading"].astype(float)[lit] / scaled.layers["shading"].astype(float)[lit]
    # For scale: 8 steps of this hue differ from 7 by up to 3 % in a channel, and from white by up to 20 %.
    assert np.median(np.abs(ratio - 1)) < 0.01
    sums = [frame.layers["shading"].astype(float).mean(axis=(0, 1)) for frame in (traced, scaled)]
    np.testing.assert_allclose(sums[0], sums[1], rtol=0.01)
