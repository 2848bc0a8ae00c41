"""The map as the camera sees it, worked out pixel by pixel: sampling would take a hundred times longer."""

import math

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from generators.scenes.camera import intrinsics, world_to_camera
from generators.scenes.scene import Camera, Environment

FILTER_WIDTH = 3.0  # pixels, of the Blackman-Harris window that Cycles weighs the samples of a pixel by
TERMS = (0.35875, -0.48829, 0.14128, -0.01168)  # of that window, for 0 to 3 times the angle
# Points to a pixel and axis: as many as texels, so that none is passed over, within these bounds.
FEWEST, MOST = 3, 6


def view_map(
    picture: Float32[ndarray, "rows columns 3"],
    environment: Environment,
    camera: Camera,
    width: int,
    height: int,
) -> Float32[ndarray, "height width 3"]:
    """Work out what each pixel would be if nothing stood before the map.

    Directions are looked up as Cycles does, by linear interpolation, and weighed by its pixel filter.

    Args:
        picture: the map, equirectangular, scene-linear Rec.709, its first row at the bottom.
        environment: how the map is turned, and the multiplier of its radiance.
        camera: where it looks; where it stands does not matter.
        width: pixels.
        height: pixels.

    Returns:
        Radiance, float32.

    Example:
        >>> level = Camera(location=(0, 5, 1), look_at=(0, 0, 1), field_of_view=60)
        >>> sky = np.repeat(np.array([[[0.0]], [[1.0]]], np.float32), 3, axis=2)  # over a ground of 0
        >>> view_map(sky, Environment(scene="two", strength=3), level, 4, 4)[:, 0, 0].round(2)
        array([2.21, 1.75, 1.25, 0.79], dtype=float32)
    """
    rows, columns = picture.shape[:2]
    matrix = intrinsics(camera, width, height)
    texels = columns / (2 * math.pi) / matrix[0, 0]  # to a pixel, in the middle of the view
    points = min(max(math.ceil(texels), FEWEST), MOST)
    x, y = (_places(size, points) for size in (width, height))
    right, down, ahead = (world_to_camera(camera)[:3, :3] @ _turn(environment.rotation).T).astype(np.float32)
    across = ((x - matrix[0, 2]) / matrix[0, 0]).astype(np.float32)[None, :]
    along = ((y - matrix[1, 2]) / matrix[1, 1]).astype(np.float32)[:, None]
    east, north, up = (across * right[i] + along * down[i] + ahead[i] for i in range(3))
    column = (0.5 - np.arctan2(north, east) / (2 * np.pi)) * columns - 0.5
    row = (0.5 + np.arctan2(up, np.hypot(east, north)) / np.pi) * rows - 0.5
    found = _look_up(picture, row, column)
    weights = _weights(points)
    seen = _average(_average(found, weights, points, height).swapaxes(0, 1), weights, points, width)
    return np.ascontiguousarray(seen.swapaxes(0, 1)) * np.float32(environment.strength)


def _turn(degrees: float) -> ndarray:
    """The rotation from world axes to those of the map."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _reach(points: int) -> int:
    """Points beyond the border of a pixel that its filter still weighs."""
    return math.floor((FILTER_WIDTH - 1) / 2 * points)


def _places(size: int, points: int) -> ndarray:
    """Coordinates of the points of a row of pixels, those beyond its ends included."""
    reach = _reach(points)
    return (np.arange(-reach, size * points + reach) + 0.5) / points


def _weights(points: int) -> ndarray:
    """What the points within the filter of a pixel count, in their order."""
    reach = _reach(points)
    offset = (np.arange(-reach, points + reach) + 0.5) / points - 0.5
    angle = 2 * np.pi * (offset / FILTER_WIDTH + 0.5)
    window = sum(term * np.cos(i * angle) for i, term in enumerate(TERMS))
    return (window / window.sum()).astype(np.float32)


def _average(values: ndarray, weights: ndarray, points: int, size: int) -> ndarray:
    """Weigh the points of each pixel along the first axis."""
    last = points * (size - 1) + 1
    return sum(weight * values[i : i + last : points] for i, weight in enumerate(weights))


def _look_up(picture: ndarray, row: ndarray, column: ndarray) -> ndarray:
    """Interpolate a picture linearly; it repeats to the sides and its edge goes on above and below."""
    rows, columns = picture.shape[:2]
    top, left = np.floor(row), np.floor(column)
    down, right = row - top, column - left
    flat, total = picture.reshape(-1, 3), np.zeros((*row.shape, 3), np.float32)
    for i, of_row in enumerate((1 - down, down)):
        start = np.clip(top + i, 0, rows - 1).astype(np.intp) * columns
        for j, of_column in enumerate((1 - right, right)):
            place = start + np.mod(left + j, columns).astype(np.intp)
            total += flat.take(place, axis=0) * (of_row * of_column)[..., None]
    return total
