"""The loop over windows that the fast sums of `lmse` and `lmse_chrislib_rgb` are compared with."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy import ndarray


def slow_lmse(prediction: ndarray, target: ndarray, mask: ndarray, window: int = 20, step: int = 10) -> float:
    """Compute the score of one image [channels, height, width] window by window, channels end to end."""
    errors = total = 0.0
    for top in range(0, target.shape[1] - window + 1, step):
        for left in range(0, target.shape[2] - window + 1, step):
            here = np.s_[:, top : top + window, left : left + window]
            e, c = prediction[here].ravel(), target[here].ravel()
            m = np.concatenate([mask[here[1:]].ravel()] * len(target))
            energy = np.sum(m * e**2)
            scale = np.sum(m * c * e) / energy if energy > 1e-5 else 0.0
            errors += np.sum(m * (c - scale * e) ** 2)
            total += np.sum(m * c**2)
    return errors / total


@pytest.fixture
def loop_lmse() -> Callable[..., float]:
    """Provide `slow_lmse`."""
    return slow_lmse
