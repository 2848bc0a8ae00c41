"""One random stream for each named variable of a unit, so that fixing a variable shifts no other."""

import hashlib

import numpy as np


def stream(seed: int, unit: str, name: str) -> np.random.Generator:
    """Return the random stream of one variable in one unit.

    The stream is ``PCG64(SeedSequence([seed, *SHA-256("unit", "name")]))``. It depends on these three
    arguments alone, not on the order of draws nor on other streams.

    Args:
        seed: the recipe's seed, at least 0.
        unit: the unit, for instance "candle/000012".
        name: the variable, for instance "x".

    Returns:
        A generator at the start of the stream; each call returns the same stream from its start.

    Example:
        >>> stream(0, "candle/000000", "x").random() == stream(0, "candle/000000", "x").random()
        True
        >>> stream(0, "candle/000000", "x").random() == stream(0, "candle/000000", "y").random()
        False
    """
    digest = hashlib.sha256(f"{unit}\0{name}".encode()).digest()
    start = seed.to_bytes(4 * max(1, -(-seed.bit_length() // 32)), "little")
    # As an array, because numpy takes a list of numbers ten times slower.
    words = np.frombuffer(start + digest, "<u4").astype(np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def cycles_seed(seed: int, unit: str) -> int:
    """Return the renderer's seed of a unit, in 0 .. 2^31 - 1.

    The seed belongs to the unit, not to the sample, because another seed moves anti-aliased edges even where
    the scene is the same.

    Example:
        >>> cycles_seed(0, "scene=suzanne") == cycles_seed(0, "scene=suzanne")
        True
    """
    return int(stream(seed, unit, "cycles seed").integers(2**31))
