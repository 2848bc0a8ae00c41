"""Find counterfactuals: samples that share their exogenous draws with a sample of the same or another set."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.causal_columns import causal_columns
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


def counterfactual_rows(frames: Any, counterfactuals: Any) -> Int[ndarray, " n"]:
    """Find the factual row of each counterfactual.

    Args:
        frames: the factual image set: frames, a pack, or a `datasets.Dataset` that was read from a pack.
        counterfactuals: image set whose ``counterfactual_of`` names samples of ``frames``, in any such form.

    Returns:
        Row numbers in ``frames``, one for each row of ``counterfactuals``; -1 if the factual is missing.
    """
    return causal_columns(counterfactuals).factual_rows(causal_columns(frames))
