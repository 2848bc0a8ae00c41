"""Painted objects under several lights."""

import numpy as np
import torch

from candlelight.evaluation.views import DecomposedImage
from tests.evaluation.conftest import MemoryView


def painted(seed: int, lights: int = 5, height: int = 30, width: int = 34) -> DecomposedImage:
    """Make an object of coloured patches in gray light, with shadows that move from light to light."""
    rng = np.random.default_rng(seed)
    reflectance = np.ones((3, height, width)) * rng.uniform(0.2, 0.9, (3, 1, 1))
    for _ in range(4):
        y, x = rng.integers(0, height - 8), rng.integers(0, width - 8)
        reflectance[:, y : y + 8, x : x + 9] = rng.uniform(0.1, 0.9, (3, 1, 1))
    ramp = np.linspace(0.4, 0.9, width) * np.linspace(1.0, 0.7, height)[:, None]
    shading = np.stack([ramp] * (lights + 1))
    for light in range(lights + 1):
        shading[light, :, 5 * light + 1 : 5 * light + 4] *= 0.3
    mask = np.ones((height, width), bool)
    mask[:3, :4] = False
    images = reflectance * shading[:, None] * mask
    return DecomposedImage(
        image=torch.from_numpy(images[0]).float(),
        reflectance=torch.from_numpy(reflectance * mask).float(),
        shading=torch.from_numpy(shading[:1] * mask).float(),
        mask=torch.from_numpy(mask),
        lights=torch.from_numpy(images[1:]).float(),
    )


def painted_objects(count: int = 3) -> MemoryView:
    """Make a view of painted objects."""
    return MemoryView([painted(seed) for seed in range(count)], None, "row", explains="image")
