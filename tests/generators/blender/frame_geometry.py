"""The inner pixels of a mask, and the points in the world that pixels show."""

import numpy as np


def inside(mask, margin=2):
    """Keep the pixels of a mask that are farther than ``margin`` from its edge and from the image border.

    The margin is 2 pixels, because the pixel filter and the single index sample each reach 0.75 pixels.
    """
    kept = np.pad(mask, margin)
    shifts = range(-margin, margin + 1)
    everywhere = [np.roll(kept, (dy, dx), (0, 1)) for dy in shifts for dx in shifts]
    return np.logical_and.reduce(everywhere)[margin:-margin, margin:-margin]


def points(frame):
    """Return the world coordinates of the points that pixels show, from depth and camera; H W 3."""
    camera = frame.metadata.camera
    depth = frame.layers["depth"].astype(float)
    y, x = np.indices(depth.shape) + 0.5
    rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(np.array(camera.intrinsics)).T
    pose = np.linalg.inv(np.array(camera.world_to_camera))
    return (rays * np.where(np.isfinite(depth), depth, np.nan)[..., None]) @ pose[:3, :3].T + pose[:3, 3]
