"""The camera in OpenCV's convention: x right, y down, z forward; the only place where it is worked out."""

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from generators.scene import Camera
from loaders.schema import CameraRecord


def world_to_camera(camera: Camera) -> Float64[ndarray, "4 4"]:
    """Rigid transform from world metres to camera metres.

    The camera looks at its target with the vertical up, then turns by ``pitch`` about its X axis (right) and
    ``yaw`` about its Y axis (up), in degrees, right-handed, as Blender's local axes do.

    Args:
        camera: where it stands and looks.

    Returns:
        4x4 matrix; rows 0 to 2 of its rotation are right, down and forward in world axes.

    Example:
        >>> level = Camera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60)
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
    axes = axes @ _about_y(camera.yaw) @ _about_x(camera.pitch)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([axes[:, 0], -axes[:, 1], -axes[:, 2]])
    matrix[:3, 3] = -matrix[:3, :3] @ location
    return matrix


def intrinsics(camera: Camera, width: int, height: int) -> Float64[ndarray, "3 3"]:
    """Pinhole intrinsics in pixels, the origin at the upper left corner of the upper left pixel.

    Args:
        camera: its ``field_of_view`` is the horizontal one, in degrees.
        width: pixels.
        height: pixels.

    Returns:
        3x3 matrix with square pixels and the principal point in the middle of the image.

    Example:
        >>> intrinsics(Camera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=90), 320, 240)
        array([[160.,   0., 160.],
               [  0., 160., 120.],
               [  0.,   0.,   1.]])
    """
    focal = width / 2 / np.tan(np.radians(camera.field_of_view) / 2)
    return np.array([[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]]).round(9)


def project(
    points: Float64[ndarray, "points 3"], camera: Camera, width: int, height: int
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
        >>> level = Camera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60)
        >>> project(np.array([[0, 0, 1.0]]), level, 64, 48)
        array([[32., 24.]])
    """
    matrix = world_to_camera(camera)
    seen = (points @ matrix[:3, :3].T + matrix[:3, 3]) @ intrinsics(camera, width, height).T
    return (seen[:, :2] / seen[:, 2:]).round(9)


def record(camera: Camera, width: int, height: int) -> CameraRecord:
    """Write intrinsics and pose down as the metadata have them."""
    return CameraRecord.model_validate(
        {
            "intrinsics": intrinsics(camera, width, height).tolist(),
            "world_to_camera": (world_to_camera(camera).round(12) + 0.0).tolist(),
        }
    )


def _about_x(degrees: float) -> Float64[ndarray, "3 3"]:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def _about_y(degrees: float) -> Float64[ndarray, "3 3"]:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
