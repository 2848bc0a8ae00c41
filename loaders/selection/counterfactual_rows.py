"""Find counterfactuals: samples that share their exogenous draws with a sample of the same or another set."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import Metadata

ReadMetadata = Callable[[int], Metadata]


def choose_counterfactual_row(metadata: ReadMetadata | None, row: int, candidates: Int[ndarray, " m"]) -> int:
    """Choose a candidate that shares a row's exogenous draws, or the lowest candidate if none does.

    Args:
        metadata: reads the metadata of a row; None for data without metadata.
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


def counterfactual_rows(frames: Frames, counterfactuals: Frames) -> Int[ndarray, " n"]:
    """Find the factual row of each counterfactual.

    Args:
        frames: the factual image set.
        counterfactuals: image set whose ``counterfactual_of`` names samples of ``frames``.

    Returns:
        Row numbers in ``frames``, one for each row of ``counterfactuals``; -1 if the factual is missing.
    """
    rows = {frames.metadata(row).id: row for row in range(len(frames))}
    factual = (counterfactuals.metadata(row).counterfactual_of for row in range(len(counterfactuals)))
    return np.array([-1 if name is None else rows.get(name, -1) for name in factual], np.int64)
