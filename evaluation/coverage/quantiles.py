"""Quantiles of more points than memory holds, exact: the points are read again for each pass."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float32, Int, UInt32
from numpy import ndarray

POINTS_IN_MEMORY = 2**23  # points that are partitioned at once; more are counted in passes
_BINS = 2**16  # of a pass: half of the bits of a float32
_STEP = 17  # of the sample; no divisor of a usual width, so that it has points of all columns
Read = Callable[[], Iterator[Float32[ndarray, " points"]]]


def quantiles(read: Read, count: int, levels: Sequence[float]) -> Float32[ndarray, " levels"]:
    """Find linearly interpolated quantiles, as `evaluation.coverage.heatmaps.set_threshold` does.

    Args:
        read: gives all points, in pieces; called once, or twice for more than `POINTS_IN_MEMORY` points.
        count: how many points there are, at least one; all finite.
        levels: shares of the points that lie below, each in [0, 1].

    Example:
        >>> points = np.arange(5, dtype=np.float32)
        >>> quantiles(lambda: iter([points[:2], points[2:]]), 5, [0.5, 0.875])
        array([2. , 3.5], dtype=float32)
    """
    positions = [(count - 1) * level for level in levels]
    lower = [min(int(position), count - 1) for position in positions]
    upper = [min(rank + 1, count - 1) for rank in lower]
    low, high = torch.from_numpy(_ranked(read, count, np.array([lower, upper])))
    weights = [position - rank for position, rank in zip(positions, lower, strict=True)]
    return torch.lerp(low, high, torch.tensor(weights, dtype=torch.float32)).numpy()


def _ranked(read: Read, count: int, ranks: Int[ndarray, "*shape"]) -> Float32[ndarray, "*shape"]:
    """Points of these ranks, the smallest of rank 0."""
    if count > POINTS_IN_MEMORY:
        return _counted(read, ranks)
    pieces = list(read())
    points = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    # A sample guesses a bound a little below the lowest rank, above which few points are left to be
    # partitioned; if it lies too high, all points are.
    sample = points[::_STEP]
    rank = max(0, int(ranks.min()) // _STEP - len(sample) // 50)
    largest = points[np.flatnonzero(points >= np.partition(sample, rank)[rank])]
    if count - len(largest) > ranks.min():
        largest = points
    places = ranks - (count - len(largest))
    return np.partition(largest, np.unique(places))[places]


def _counted(read: Read, ranks: Int[ndarray, "*shape"]) -> Float32[ndarray, "*shape"]:
    """Points of these ranks: their upper bits from a first count, their lower ones from a second."""
    below = np.cumsum(sum(np.bincount(_ordered(points) >> 16, minlength=_BINS) for points in read()))
    upper = np.searchsorted(below, ranks, side="right")
    wanted, number = np.unique(upper, return_inverse=True)
    numbers = np.full(_BINS, len(wanted))
    numbers[wanted] = np.arange(len(wanted))
    counts = np.zeros((len(wanted), _BINS), np.int64)
    for points in read():
        ordered = _ordered(points)
        place = numbers[ordered >> 16]
        chosen = place < len(wanted)
        cells = place[chosen] * _BINS + (ordered[chosen] & (_BINS - 1))
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)
    within = ranks - np.concatenate([[0], below])[upper]
    pairs = zip(counts.cumsum(1)[number.ravel()], within.flat, strict=True)
    lower = np.array([np.searchsorted(below_in_bin, rank, side="right") for below_in_bin, rank in pairs])
    return _floats((upper * _BINS + lower.reshape(ranks.shape)).astype(np.uint32))


def _ordered(points: Float32[ndarray, " points"]) -> UInt32[ndarray, " points"]:
    """Bits of numbers, changed so that they are in the order of the numbers."""
    bits = points.view(np.uint32)
    return bits ^ ((-(bits >> 31)) | np.uint32(2**31))


def _floats(ordered: UInt32[ndarray, "*shape"]) -> Float32[ndarray, "*shape"]:
    """Numbers of bits in their order."""
    return np.where(ordered >> 31, ordered ^ np.uint32(2**31), ~ordered).astype(np.uint32).view(np.float32)
