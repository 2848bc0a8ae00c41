"""Random streams: one for each seed and name, so that a new draw shifts no other."""

import hashlib

import numpy as np
import torch


def named_stream(seed: int, name: str) -> np.random.Generator:
    """Return a random stream that depends on its seed, at least 0, and its name alone.

    Example:
        >>> named_stream(0, "pixels").random() == named_stream(0, "pairs").random()
        False
    """
    return np.random.default_rng([seed, *name.encode()])


def named_generator(seed: int, *names: object) -> torch.Generator:
    """Make a generator whose stream depends on the seed and on the names, such as a concept and a layer.

    Example:
        >>> one, other = (torch.rand(1, generator=named_generator(0, name)) for name in ("a", "b"))
        >>> one == other
        tensor([False])
    """
    digest = hashlib.sha256(repr((seed, *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
