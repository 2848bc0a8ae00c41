"""One random stream for each named purpose of a training, so that a change to one shifts no other."""

import numpy as np


def named_stream(seed: int, name: str) -> np.random.Generator:
    """Return a random stream that depends on its seed, at least 0, and its name alone.

    Example:
        >>> named_stream(0, "pixels").random() == named_stream(0, "pairs").random()
        False
    """
    return np.random.default_rng([seed, *name.encode()])
