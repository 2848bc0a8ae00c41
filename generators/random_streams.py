"""Randomness: one stream per named variable of a unit, so that fixing one never shifts another."""

import hashlib

import numpy as np


def stream(seed: int, unit: str, name: str) -> np.random.Generator:
    """Return the random stream of one variable in one unit.

    The stream is ``PCG64(SeedSequence([seed, *SHA-256("unit", "name")]))``: it depends on these three and on
    nothing else, neither on order nor on what else is drawn.

    Args:
        seed: the recipe's seed, at least 0.
        unit: the unit, for instance "candle/000012".
        name: the variable, for instance "x".

    Returns:
        A generator at the start of the stream; asking again gives the same numbers again.

    Example:
        >>> stream(0, "candle/000000", "x").random() == stream(0, "candle/000000", "x").random()
        True
        >>> stream(0, "candle/000000", "x").random() == stream(0, "candle/000000", "y").random()
        False
    """
    digest = hashlib.sha256(f"{unit}\0{name}".encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))


def cycles_seed(seed: int, unit: str) -> int:
    """Return the renderer's seed of a unit, in 0 .. 2^31 - 1.

    It belongs to the unit and not to the sample: with another seed, anti-aliased edges move even where
    nothing in the scene has changed.

    Example:
        >>> cycles_seed(0, "scene=suzanne") == cycles_seed(0, "scene=suzanne")
        True
    """
    return int(stream(seed, unit, "cycles seed").integers(2**31))
