"""Numbered random draws: the draw of item ``i`` for a variable depends on seed, name and ``i`` alone."""

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, UInt64
from numpy import ndarray


@dataclass(frozen=True, eq=False)
class NumberedDraws:
    """One uniform number for each named variable of each item.

    Word ``i`` of a variable is word ``i`` of SplitMix64 (Steele, Lea and Flood 2014, figure 17), started
    at the SHA-256 of the seed and the name. Integer arithmetic gives every worker the same draw of item
    ``i``, in any order and batch, under any version of numpy.

    Attributes:
        seed: 0 or more.
        items: numbers of the items, 0 or more.

    Example:
        >>> NumberedDraws(0, np.array([7])).uniform("x") == NumberedDraws(0, np.arange(9)).uniform("x")[7]
        array([ True])
    """

    seed: int
    items: Int[ndarray, " n"]

    @classmethod
    def of(cls, rng: np.random.Generator, count: int) -> "NumberedDraws":
        """Take the seed from a generator, and number ``count`` items from 0.

        Example:
            >>> NumberedDraws.of(np.random.default_rng(0), 3).items
            array([0, 1, 2])
        """
        # Raw words, because numpy may change the streams of a generator's distributions.
        return cls(int(rng.bit_generator.random_raw()), np.arange(count))

    def take(self, chosen: Bool[ndarray, " n"]) -> "NumberedDraws":
        """Keep the chosen items, with the same draws."""
        return NumberedDraws(self.seed, self.items[chosen])

    def uniform(self, name: str) -> Float64[ndarray, " n"]:
        """Draw a variable of each item, uniform in [0, 1), a multiple of 2^-53."""
        return (self._words(name) >> np.uint64(11)) * 2.0**-53

    def below(self, name: str, counts: Int[ndarray, " n"] | int) -> Int[ndarray, " n"]:
        """Draw a variable of each item, uniform in 0..count - 1.

        Example:
            >>> np.bincount(NumberedDraws(0, np.arange(3000)).below("die", 6))
            array([487, 466, 487, 528, 551, 481])
        """
        # The largest uniform number times any count rounds to less than the count.
        return (self.uniform(name) * counts).astype(np.int64)

    def _words(self, name: str) -> UInt64[ndarray, " n"]:
        start = hashlib.sha256(f"{self.seed}\0{name}".encode()).digest()[:8]
        state = np.uint64(int.from_bytes(start, "little"))
        words = (self.items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + state
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
