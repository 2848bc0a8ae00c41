import math

import numpy as np
import pytest

from candlelight.generators.language.layout import Scene
from candlelight.generators.language.lights_and_camera import Camera, PlacedCamera
from candlelight.generators.scenes.camera import (
    camera_record,
    intrinsics,
    place_camera,
    project,
    world_to_camera,
)
from candlelight.generators.scenes.layout_inputs import LayoutInputs

CAMERAS = {
    "level": PlacedCamera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60),
    "from above": PlacedCamera(location=(2, -3, 4), look_at=(0.5, 0.2, 0.1), field_of_view=35),
    "turned": PlacedCamera(
        location=(-1, 6.5, 2.6), look_at=(0, -2, 0.9), field_of_view=50, pitch=3.0, yaw=-7.0
    ),
    "upward": PlacedCamera(
        location=(1, 2, 0.5), look_at=(-3, 0, 4), field_of_view=120, pitch=-20.0, yaw=15.0
    ),
}


def slow_axes(camera):
    """Right, up and forward by trigonometry: heading and elevation first, then the two turns."""
    dx, dy, dz = (b - a for a, b in zip(camera.location, camera.look_at, strict=True))
    heading, elevation = math.atan2(dx, dy), math.atan2(dz, math.hypot(dx, dy))
    forward = np.array(
        [
            math.sin(heading) * math.cos(elevation),
            math.cos(heading) * math.cos(elevation),
            math.sin(elevation),
        ]
    )
    right = np.array([math.cos(heading), -math.sin(heading), 0.0])
    up = np.cross(right, forward)
    # Yaw about the camera's Y axis (up), right-handed: to the left for a positive angle.
    yaw = math.radians(camera.yaw)
    forward, right = (
        forward * math.cos(yaw) - right * math.sin(yaw),
        right * math.cos(yaw) + forward * math.sin(yaw),
    )
    # Pitch about its own X axis (right): upward for a positive angle.
    pitch = math.radians(camera.pitch)
    forward, up = (
        forward * math.cos(pitch) + up * math.sin(pitch),
        up * math.cos(pitch) - forward * math.sin(pitch),
    )
    return right, up, forward


def ahead(camera):
    """Draw points in front of a camera."""
    return (
        np.array(camera.location)
        + 4 * slow_axes(camera)[2]
        + np.random.default_rng(0).uniform(-1, 1, (20, 3))
    )


def slow_pixel(point, camera, width, height):
    right, up, forward = slow_axes(camera)
    offset = np.array(point) - camera.location
    depth = offset @ forward
    half = math.tan(math.radians(camera.field_of_view) / 2)
    x = offset @ right / depth / half  # -1 at the left edge, 1 at the right one
    y = offset @ up / depth / half * width / height
    return (x + 1) / 2 * width, (1 - y) / 2 * height


@pytest.mark.parametrize("name", CAMERAS)
def test_projection_agrees_with_a_pinhole_by_hand(name):
    camera = CAMERAS[name]
    points = ahead(camera)
    by_hand = [slow_pixel(point, camera, 160, 90) for point in points]
    np.testing.assert_allclose(project(points, camera, 160, 90), by_hand, atol=1e-6)


@pytest.mark.parametrize("name", CAMERAS)
def test_pose_is_rigid_and_keeps_the_axes_of_opencv(name):
    camera = CAMERAS[name]
    matrix = world_to_camera(camera)
    rotation = matrix[:3, :3]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1)
    np.testing.assert_allclose(matrix @ (*camera.location, 1), (0, 0, 0, 1), atol=1e-12)
    right, up, forward = slow_axes(camera)
    np.testing.assert_allclose(rotation, [right, -up, forward], atol=1e-12)
    np.testing.assert_array_equal(matrix[3], (0, 0, 0, 1))


def test_metadata_hold_the_same_numbers():
    camera = CAMERAS["turned"]
    written = camera_record(camera, 64, 48)
    np.testing.assert_allclose(written.intrinsics, intrinsics(camera, 64, 48), atol=1e-9)
    np.testing.assert_allclose(written.world_to_camera, world_to_camera(camera), atol=1e-12)
    # No minus zeros, which would make equal poses differ as text.
    assert "-0.0]" not in camera_record(CAMERAS["level"], 64, 48).model_dump_json()
    assert "-0.0," not in camera_record(CAMERAS["level"], 64, 48).model_dump_json()


def test_roll_turns_the_picture_clockwise_about_its_middle():
    camera = CAMERAS["turned"]
    points = ahead(camera)
    still = project(points, camera, 160, 90) - (80, 45)
    turned = project(points, camera.model_copy(update={"roll": 30.0}), 160, 90) - (80, 45)
    # With y downwards, clockwise takes the x axis to the y axis.
    c, s = math.cos(math.radians(30)), math.sin(math.radians(30))
    np.testing.assert_allclose(turned, still @ np.array([[c, s], [-s, c]]), atol=1e-6)


def test_zoom_scales_and_shift_moves_the_whole_picture():
    camera = CAMERAS["from above"]
    points = ahead(camera)
    still = project(points, camera, 160, 90)
    zoomed = camera.model_copy(update={"zoom": 1.5})
    np.testing.assert_allclose(
        project(points, zoomed, 160, 90), (80, 45) + 1.5 * (still - (80, 45)), atol=1e-6
    )
    # A point in the middle is seen that many degrees beside it, by the scale without zoom.
    focal = 80 / math.tan(math.radians(35 / 2))
    move = np.array([focal * math.tan(math.radians(2)), -focal * math.tan(math.radians(3))])
    for before in (camera, zoomed):
        shifted = before.model_copy(update={"shift": (2.0, -3.0)})
        np.testing.assert_allclose(
            project(points, shifted, 160, 90), project(points, before, 160, 90) + move, atol=1e-6
        )
        np.testing.assert_array_equal(world_to_camera(shifted), world_to_camera(before))


def test_the_camera_takes_the_values_of_the_sample():
    spec = Camera(
        location=("$x", 5, 2), look_at=(0, 0, 0), field_of_view="$fov", pitch=1, roll="$x", shift=(1, "$x")
    )
    camera = place_camera(Scene(camera=spec, lights=({},)), LayoutInputs(0, "set/0", {"x": 0.5, "fov": 40}))
    assert camera == PlacedCamera(
        location=(0.5, 5, 2), look_at=(0, 0, 0), field_of_view=40, pitch=1, roll=0.5, shift=(1, 0.5)
    )


def test_a_factor_chooses_the_camera():
    views = {"front": {"location": (0, 5, 2), "look_at": (0, 0, 0)}, "side": {"location": ("$x", 0, 2)}}
    views["side"]["look_at"] = (0, 0, 1)
    layout = Scene.model_validate({"camera": {"choose": "$view", "among": views}})
    seen = [place_camera(layout, LayoutInputs(0, "set/0", {"view": view, "x": 4})) for view in views]
    assert [camera.location for camera in seen] == [(0, 5, 2), (4, 0, 2)]
