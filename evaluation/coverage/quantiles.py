"""Exact quantiles of points that do not fit in memory, in two passes over the points."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float32, Int, UInt32
from numpy import ndarray

POINTS_IN_MEMORY = 2**23  # up to this number, points are partitioned in memory; more are counted in passes
_BINS = 2**16  # number of bins in a pass, for half of the bits of a float32
_STEP = 17  # distance of sampled points; not a divisor of common widths, so the sample covers all columns
Read = Callable[[], Iterator[Float32[ndarray, " points"]]]


def quantiles(read: Read, count: int, levels: Sequence[float]) -> Float32[ndarray, " levels"]:
    """Compute linearly interpolated quantiles, like `binarise_heatmaps.set_threshold`.

    Args:
        read: yields all points, in pieces; called once, or twice for more than `POINTS_IN_MEMORY` points.
        count: number of points, at least one; all points are finite.
        levels: share of the points below each quantile, in [0, 1].

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
    """Find the points of given ranks; the smallest point has rank 0."""
    if count > POINTS_IN_MEMORY:
        return _counted(read, ranks)
    pieces = list(read())
    points = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    # A sample estimates a bound a little below the lowest rank, so that only the few points above the bound
    # are partitioned. If the bound is too high, all points are partitioned.
    sample = points[::_STEP]
    rank = max(0, int(ranks.min()) // _STEP - len(sample) // 50)
    largest = points[np.flatnonzero(points >= np.partition(sample, rank)[rank])]
    if count - len(largest) > ranks.min():
        largest = points
    places = ranks - (count - len(largest))
    return np.partition(largest, np.unique(places))[places]


def _counted(read: Read, ranks: Int[ndarray, "*shape"]) -> Float32[ndarray, "*shape"]:
    """Find the points of given ranks: a first count gives their upper bits, a second count the lower bits."""
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
    """Map the bits of floats to unsigned integers in the same order."""
    bits = points.view(np.uint32)
    return bits ^ ((-(bits >> 31)) | np.uint32(2**31))


def _floats(ordered: UInt32[ndarray, "*shape"]) -> Float32[ndarray, "*shape"]:
    """Map the integers of `_ordered` back to floats."""
    return np.where(ordered >> 31, ordered ^ np.uint32(2**31), ~ordered).astype(np.uint32).view(np.float32)
