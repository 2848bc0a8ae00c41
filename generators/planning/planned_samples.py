"""Hold planned samples compressed: some hundred bytes a sample in place of ten thousand."""

import itertools
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from candlelight.generators.scenes.plan_records import SamplePlan

# Number of samples that are compressed together. Larger blocks take less memory (640, 160 and 130 bytes a
# sample for blocks of 1, 16 and 64), but reading a single sample takes longer.
_BLOCK = 16


@dataclass(frozen=True, slots=True)
class SampleKey:
    """Id, image set, index in the set and trace group of a sample, readable without decompressing it."""

    id: str
    set: str
    index: int
    group: str


SampleLine = tuple[SampleKey, bytes]  # the key of a sample, and the sample as a line of JSON


class PlannedSamples(Sequence[SamplePlan]):
    """A sequence of planned samples. Reading a sample decompresses it; reading `keys` decompresses nothing.

    Slices, `take` and `where` return sequences that share the memory of this sequence. `compress_samples`
    makes a sequence from samples.

    Example:
        >>> from candlelight.generators import load_recipe, make_plan
        >>> samples = make_plan(load_recipe("negatives"), 3).samples
        >>> [key.index for key in samples.where(lambda key: key.index > 200).keys]
        [201, 228]
        >>> samples[0].set
        'negatives'
    """

    __slots__ = ("_blocks", "_keys", "_rows")

    def __init__(self, keys: Sequence[SampleKey], blocks: Sequence[bytes], rows: Sequence[int]) -> None:
        self._keys, self._blocks, self._rows = keys, blocks, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> SamplePlan: ...

    @overload
    def __getitem__(self, row: slice) -> "PlannedSamples": ...

    def __getitem__(self, row: int | slice) -> "SamplePlan | PlannedSamples":
        """Return one sample, or the samples of a slice."""
        if isinstance(row, slice):
            return PlannedSamples(self._keys, self._blocks, self._rows[row])
        return next(iter(self.take([row])))

    def __iter__(self) -> Iterator[SamplePlan]:
        return (SamplePlan.model_validate_json(text) for _, text in self.lines())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlannedSamples):
            return NotImplemented
        return self.keys == other.keys and all(map(SamplePlan.__eq__, self, other))

    def __repr__(self) -> str:
        return f"<{len(self)} samples>"

    @property
    def keys(self) -> list[SampleKey]:
        """Id, set, index and trace group of each sample."""
        return [self._keys[row] for row in self._rows]

    def take(self, rows: Iterable[int]) -> "PlannedSamples":
        """Return the samples at the given places, in that order."""
        return PlannedSamples(self._keys, self._blocks, [self._rows[row] for row in rows])

    def where(self, wanted: Callable[[SampleKey], bool]) -> "PlannedSamples":
        """Return the samples for whose key ``wanted`` is true."""
        rows = [row for row in self._rows if wanted(self._keys[row])]
        return PlannedSamples(self._keys, self._blocks, rows)

    def of_set(self, name: str) -> "PlannedSamples":
        """Return the samples of one image set."""
        return self.where(lambda key: key.set == name)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each sample as a mapping, equal to its ``model_dump(mode="json")``."""
        return (json.loads(text) for _, text in self.lines())

    def lines(self) -> Iterator[SampleLine]:
        """Yield the key and the line of JSON of each sample, for a `SampleCompressor`."""
        for number, rows in itertools.groupby(self._rows, lambda row: row // _BLOCK):
            texts = zlib.decompress(self._blocks[number]).split(b"\n")
            yield from ((self._keys[row], texts[row % _BLOCK]) for row in rows)


class SampleCompressor:
    """Compress samples that arrive one after another."""

    def __init__(self) -> None:
        self._keys: list[SampleKey] = []
        self._blocks: list[bytes] = []
        self._texts: list[bytes] = []

    def add(self, sample: SamplePlan) -> SamplePlan:
        """Add a sample, and return it."""
        key = SampleKey(sample.id, sys.intern(sample.set), sample.index, sample.group)
        self.add_line((key, sample.model_dump_json().encode()))
        return sample

    def add_line(self, line: SampleLine) -> None:
        """Add a sample by its key and its line of JSON."""
        key, text = line
        self._keys.append(key)
        self._texts.append(text)
        if len(self._texts) == _BLOCK:
            self._end_block()

    def finish(self) -> PlannedSamples:
        """Return all samples added; no sample may be added afterwards."""
        if self._texts:
            self._end_block()
        return PlannedSamples(self._keys, self._blocks, range(len(self._keys)))

    def _end_block(self) -> None:
        self._blocks.append(zlib.compress(b"\n".join(self._texts), 1))
        self._texts.clear()


def compress_samples(samples: Iterable[SamplePlan]) -> PlannedSamples:
    """Compress samples.

    Example:
        >>> len(compress_samples([]))
        0
    """
    compressor = SampleCompressor()
    for sample in samples:
        compressor.add(sample)
    return compressor.finish()
