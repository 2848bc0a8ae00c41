"""Independent streams of random numbers, one for each purpose of an evaluation."""

import hashlib

import torch


def named_generator(seed: int, *names: object) -> torch.Generator:
    """Make a generator whose stream depends on the seed and on the names, such as a concept and a layer.

    Example:
        >>> one, other = (torch.rand(1, generator=named_generator(0, name)) for name in ("a", "b"))
        >>> one == other
        tensor([False])
    """
    digest = hashlib.sha256(repr((seed, *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
