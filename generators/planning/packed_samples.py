"""Planned samples, packed: some hundred bytes a row instead of ten thousand, unpacked when they are read."""

import itertools
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from generators.scenes.scene import SamplePlan

# Samples that are compressed together. More of them take less memory (640, 160, 130 bytes a row for 1,
# 16, 64), and reading a single one takes longer.
BLOCK = 16


@dataclass(frozen=True, slots=True)
class SampleKey:
    """What tells a sample from others without unpacking it."""

    id: str
    set: str
    index: int
    group: str


Line = tuple[SampleKey, bytes]  # a sample, as JSON


class PackedSamples(Sequence[SamplePlan]):
    """Samples in an order. Each is unpacked when it is read, and not kept; `keys` needs no unpacking.

    A slice and what `take` and `where` return share the memory of the samples that they are taken from.
    `pack` makes one.

    Example:
        >>> from generators import load_recipe, make_plan
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
    def __getitem__(self, row: slice) -> "PackedSamples": ...

    def __getitem__(self, row: int | slice) -> "SamplePlan | PackedSamples":
        """Return one sample, or some of them."""
        if isinstance(row, slice):
            return PackedSamples(self._keys, self._blocks, self._rows[row])
        return next(iter(self.take([row])))

    def __iter__(self) -> Iterator[SamplePlan]:
        return (SamplePlan.model_validate_json(text) for _, text in self.lines())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedSamples):
            return NotImplemented
        return self.keys == other.keys and all(map(SamplePlan.__eq__, self, other))

    def __repr__(self) -> str:
        return f"<{len(self)} samples>"

    @property
    def keys(self) -> list[SampleKey]:
        """Id, set, index and trace group of each sample."""
        return [self._keys[row] for row in self._rows]

    def take(self, rows: Iterable[int]) -> "PackedSamples":
        """Return the samples at some places, in that order."""
        return PackedSamples(self._keys, self._blocks, [self._rows[row] for row in rows])

    def where(self, wanted: Callable[[SampleKey], bool]) -> "PackedSamples":
        """Return the samples whose key is wanted."""
        return PackedSamples(self._keys, self._blocks, [row for row in self._rows if wanted(self._keys[row])])

    def of_set(self, name: str) -> "PackedSamples":
        """Return the samples of one image set."""
        return self.where(lambda key: key.set == name)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each sample as ``model_dump(mode="json")`` gives it, without making it."""
        return (json.loads(text) for _, text in self.lines())

    def lines(self) -> Iterator[Line]:
        """Yield key and JSON of each sample, for a `Packer`."""
        for number, rows in itertools.groupby(self._rows, lambda row: row // BLOCK):
            texts = zlib.decompress(self._blocks[number]).split(b"\n")
            yield from ((self._keys[row], texts[row % BLOCK]) for row in rows)


class Packer:
    """Packs samples one after another."""

    def __init__(self) -> None:
        self._keys: list[SampleKey] = []
        self._blocks: list[bytes] = []
        self._texts: list[bytes] = []

    def add(self, sample: SamplePlan) -> SamplePlan:
        """Pack a sample, and return it."""
        key = SampleKey(sample.id, sys.intern(sample.set), sample.index, sample.group)
        self.add_line((key, sample.model_dump_json().encode()))
        return sample

    def add_line(self, line: Line) -> None:
        """Pack a sample that was packed before."""
        key, text = line
        self._keys.append(key)
        self._texts.append(text)
        if len(self._texts) == BLOCK:
            self._end_block()

    def finish(self) -> PackedSamples:
        """Return what was packed; nothing may be added after it."""
        if self._texts:
            self._end_block()
        return PackedSamples(self._keys, self._blocks, range(len(self._keys)))

    def _end_block(self) -> None:
        self._blocks.append(zlib.compress(b"\n".join(self._texts), 1))
        self._texts.clear()


def pack(samples: Iterable[SamplePlan]) -> PackedSamples:
    """Pack samples.

    Example:
        >>> len(pack([]))
        0
    """
    packer = Packer()
    for sample in samples:
        packer.add(sample)
    return packer.finish()
