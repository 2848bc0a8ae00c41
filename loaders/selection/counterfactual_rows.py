"""Counterfactual twins: samples that share their exogenous draws with another, in the same set or another."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from loaders.samples import Frames
from loaders.schema import Metadata

ReadMetadata = Callable[[int], Metadata]


def choose_counterfactual_row(metadata: ReadMetadata | None, row: int, candidates: Int[ndarray, " m"]) -> int:
    """Choose the row that shares a row's exogenous draws, or else the lowest.

    Args:
        metadata: reads the metadata of a row; None where there are none.
        row: the row.
        candidates: rows to choose from, at least one, ascending.
    """
    if metadata is None:
        return int(candidates[0])
    own = metadata(row)
    for candidate in candidates.tolist():
        other = metadata(candidate)
        if other.unit == own.unit or other.counterfactual_of == own.id or own.counterfactual_of == other.id:
            return int(candidate)
    return int(candidates[0])


def counterfactual_rows(frames: Frames, twins: Frames) -> Int[ndarray, " n"]:
    """Find, for each row of a set of counterfactuals, the row of another set that it is a twin of.

    Args:
        frames: the factual image set.
        twins: the counterfactuals, whose ``counterfactual_of`` names samples of the other.

    Returns:
        Row numbers in ``frames``, one for each row of ``twins``; -1 where its factual is not there.
    """
    rows = {frames.metadata(row).id: row for row in range(len(frames))}
    factual = (twins.metadata(row).counterfactual_of for row in range(len(twins)))
    return np.array([-1 if name is None else rows.get(name, -1) for name in factual], np.int64)
