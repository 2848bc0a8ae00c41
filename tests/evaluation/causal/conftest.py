"""Codes that mix factors, and the grid of all combinations of three factors."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor


@pytest.fixture(scope="session")
def draw_codes() -> Callable[..., tuple[Tensor, Tensor]]:
    """Draw class numbers of two factors, and codes that mix them with noise."""

    def draw(samples: int = 60, codes: int = 4) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng(0)
        factors = np.stack([rng.integers(size, size=samples) for size in (3, 4)], axis=1)
        mixed = factors @ rng.normal(size=(2, codes)) + 0.5 * rng.normal(size=(samples, codes))
        return torch.from_numpy(mixed), torch.from_numpy(factors)

    return draw
