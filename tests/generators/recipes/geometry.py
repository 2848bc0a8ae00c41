"""Places of objects in pictures, worked out from their boxes and circles."""

import itertools

import numpy as np

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.scenes.camera import project, world_to_camera
from candlelight.generators.scenes.object_placement import footprint, turn


def margin(library: AssetLibrary, placed, camera, width: int, height: int) -> float:
    """Smallest distance in pixels from the edges of the picture: an object is in its box and its circle.

    An object that no manifest describes is in the unit box.
    """
    wide, deep, high = library.facts("objects", placed.type).get("dimensions", (1, 1, 1))
    around = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    box = np.array(list(itertools.product((-wide / 2, wide / 2), (-deep / 2, deep / 2))))
    circle = footprint(library, placed.type) * np.stack([np.cos(around), np.sin(around)], axis=-1)
    sides = []
    for base in (box, circle):
        points = np.array([[x, y, z] for x, y in base for z in (0, high)]) * placed.size
        points = points @ turn(placed.tilt, placed.rotation).T + placed.location
        assert ((world_to_camera(camera) @ np.c_[points, np.ones(len(points))].T)[2] > 0).all()
        seen = project(points, camera, width, height)
        sides.append([*seen.min(axis=0), *((width, height) - seen.max(axis=0))])
    return np.max(sides, axis=0).min()
