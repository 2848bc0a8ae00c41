"""Resolve cameras, and work out their matrices in OpenCV's convention: x right, y down, z forward."""

import math

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.generators.language.layout import Scene
from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import CameraRecord

SAME_PLACE = 1e-6  # m; points nearer to each other count as one
_FURTHEST_SHIFT = 45.0  # degrees of visual angle


def place_camera(layout: Scene, inputs: LayoutInputs) -> PlacedCamera:
    """Resolve the camera of a layout; the camera in the file of a scene that it names takes its place.

    Raises:
        InputError: a number out of range, a camera that looks straight down or up, no such scene, or a choice
            without an entry for this sample.
    """
    assert layout.camera is not None  # a traced layout has one
    spec, field = inputs.chosen(layout.camera, "layout.camera")
    camera = PlacedCamera.model_validate(inputs.numbers(spec, field, *PlacedCamera.model_fields))
    if not max(map(abs, camera.shift)) <= _FURTHEST_SHIFT:
        raise InputError(
            f"{field}.shift: expected at most {_FURTHEST_SHIFT:g} degrees to each side, "
            f"got {list(camera.shift)}"
        )
    if math.dist(camera.location[:2], camera.look_at[:2]) < SAME_PLACE:
        raise InputError(f"{field}: expected `look_at` not straight above or below the camera")
    if spec.scene is None:
        return camera
    label = inputs.asset("scenes", spec.scene, f"{field}.scene")
    view = inputs.library.facts("scenes", label).get("camera")
    return camera if view is None else PlacedCamera.model_validate({**camera.model_dump(), **view})


def world_to_camera(camera: PlacedCamera) -> Float64[ndarray, "4 4"]:
    """Rigid transform from world metres to camera metres.

    The camera looks at its target with the vertical up, then turns by ``yaw`` about its Y axis (up), by
    ``pitch`` about its X axis (right) and by ``roll`` about its Z axis (backwards): its own axes, in degrees,
    right-handed, as Blender's local axes. So a positive roll turns the scene clockwise in the image.

    Args:
        camera: the camera.

    Returns:
        4x4 matrix; rows 0 to 2 of its rotation are right, down and forward in world axes.

    Example:
        >>> level = PlacedCamera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60)
        >>> (world_to_camera(level) @ (0, 0, 1, 1)).round(6) + 0.0
        array([0., 0., 5., 1.])
    """
    location = np.array(camera.location, float)
    forward = np.array(camera.look_at, float) - location
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    # Columns right, up, back: the axes that pitch and yaw are given in.
    axes = np.stack([right, np.cross(right, forward), -forward], axis=1)
    axes = axes @ about(1, camera.yaw) @ about(0, camera.pitch) @ about(2, camera.roll)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([axes[:, 0], -axes[:, 1], -axes[:, 2]])
    matrix[:3, 3] = -matrix[:3, :3] @ location
    return matrix


def intrinsics(camera: PlacedCamera, width: int, height: int) -> Float64[ndarray, "3 3"]:
    """Pinhole intrinsics in pixels, the origin at the upper left corner of the upper left pixel.

    With ``f = width / (2 tan(field_of_view / 2))`` the focal length is ``zoom f`` and the principal point is
    off the middle by ``f tan(shift)``, to the right and down: a shift of the whole image, seen at
    the scale that it has without zoom, where one degree at the middle is ``f pi / 180`` pixels.

    Args:
        camera: its ``field_of_view`` is the horizontal one, in degrees, at zoom 1.
        width: pixels.
        height: pixels.

    Returns:
        3x3 matrix with square pixels.

    Example:
        >>> intrinsics(PlacedCamera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=90), 320, 240)
        array([[160.,   0., 160.],
               [  0., 160., 120.],
               [  0.,   0.,   1.]])
    """
    unzoomed = width / 2 / np.tan(np.radians(camera.field_of_view) / 2)
    focal = camera.zoom * unzoomed
    x, y = (width / 2, height / 2) + unzoomed * np.tan(np.radians(camera.shift))
    return np.array([[focal, 0.0, x], [0.0, focal, y], [0.0, 0.0, 1.0]]).round(9)


def project(
    points: Float64[ndarray, "points 3"], camera: PlacedCamera, width: int, height: int
) -> Float64[ndarray, "points 2"]:
    """Project world points to pixels.

    Args:
        points: metres, in front of the camera.
        camera: the camera.
        width: pixels.
        height: pixels.

    Returns:
        x to the right and y down from the upper left corner, in pixels.

    Example:
        >>> level = PlacedCamera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60)
        >>> project(np.array([[0, 0, 1.0]]), level, 64, 48)
        array([[32., 24.]])
    """
    matrix = world_to_camera(camera)
    seen = (points @ matrix[:3, :3].T + matrix[:3, 3]) @ intrinsics(camera, width, height).T
    return (seen[:, :2] / seen[:, 2:]).round(9)


def camera_record(camera: PlacedCamera, width: int, height: int) -> CameraRecord:
    """Return intrinsics and pose as the record in the metadata."""
    aimed = camera.model_copy(update={"pitch": 0.0, "yaw": 0.0})
    return CameraRecord.model_validate(
        {
            "intrinsics": intrinsics(camera, width, height).tolist(),
            "world_to_camera": _pose(camera),
            "aimed": None if aimed == camera else _pose(aimed),
        }
    )


def _pose(camera: PlacedCamera) -> list[list[float]]:
    return (world_to_camera(camera).round(12) + 0.0).tolist()


def about(axis: int, degrees: float) -> Float64[ndarray, "3 3"]:
    """Rotation matrix about an axis: 0 for x, 1 for y, 2 for z.

    Example:
        >>> (about(2, 90) @ (1, 0, 0)).round(6)
        array([0., 1., 0.])
    """
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[[first, second], [first, second]] = c
    matrix[first, second], matrix[second, first] = -s, s
    return matrix
