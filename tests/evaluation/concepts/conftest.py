"""Setup of the tests of concepts: drawn rows of activations, and short intervals of CSM by factor."""

from functools import partial
from importlib import import_module

import pytest
import torch
from torch import Tensor

from candlelight.evaluation.run.intervals import resampled_interval


@pytest.fixture(autouse=True)
def few_resamples_of_factors(monkeypatch) -> None:
    """Compute intervals of CSM by factor from 20 resamples."""
    module = import_module("candlelight.evaluation.concepts.csm")  # the package has a function of this name
    monkeypatch.setattr(module, "resampled_interval", partial(resampled_interval, resamples=20))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(
    count: int, dim: int = 6, seed: int = 0, *, shift: float = 0.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Draw normal rows, whose first feature is moved by the shift."""
    drawn = torch.randn(count, dim, generator=generator(seed), dtype=dtype)
    drawn[:, :1] += shift
    return drawn
