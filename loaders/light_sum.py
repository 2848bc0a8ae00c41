"""Measure how far the sum of the light layers is from the radiance."""

import numpy as np
from numpy import ndarray


def light_sum_error(lights: list[ndarray], radiance: ndarray) -> float:
    """Compare the sum of ``light/*`` with ``radiance``, for `candlelight.loaders.schema.ChecksRecord`.

    Returns:
        95th percentile over pixels and channels of the difference, relative to the mean radiance.

    Example:
        >>> one = np.ones((2, 2, 3), np.float16)
        >>> light_sum_error([one, one], one)
        1.0
    """
    total = np.sum([light.astype(np.float64) for light in lights], axis=0)
    difference = np.abs(total - radiance.astype(np.float64))
    return float(np.percentile(difference, 95) / max(float(radiance.astype(np.float64).mean()), 1e-9))
