"""Sensitivities and CSM over the first runs of each concept set (Gupta et al. 2022, Figure 7)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from candlelight.evaluation.concepts.set_scores import (
    ALIGNMENTS,
    BRANCHES,
    METRICS,
    UNWANTED,
    WANTED,
    Concept,
    SetScore,
    mean_ratio,
)
from candlelight.loaders.errors import InputError

NUMBERS_OF_RUNS = (2, 5, 10, 20, 40, 60, 80, 100, 200, 500, 1000)


@dataclass(frozen=True)
class RunsScore:
    """Scores over the first runs of all concept sets of one kind, for one alignment of the loss.

    Attributes:
        concept: the concept that varies in the sets.
        alignment: "aligned" or "unaligned".
        runs: number of runs.
        mean: for each branch, the mean over runs and sets of its sensitivity.
        spread: for each branch, the standard deviation over runs of the mean over sets.
        csm: CSM_S or CSM_R, the mean over sets of the ratios.
    """

    concept: Concept
    alignment: str
    runs: int
    mean: dict[str, float]
    spread: dict[str, float]
    csm: float


def score_by_runs(sets: Sequence[SetScore], numbers: Sequence[int] = NUMBERS_OF_RUNS) -> list[RunsScore]:
    """Average the sensitivities over the first 2, 5, 10, ... runs, which shows how many runs are enough.

    No vector is fitted and no model is run: the scores of single runs are averaged.

    Blind to: everything that all runs share, such as the images of a set that has no more images than a run
    draws, and the test frames.

    Args:
        sets: scores of concept sets with equal numbers of runs.
        numbers: numbers of runs, each at least 1; larger ones than the sets have are left out, and the number
            that they have is added.

    Returns:
        Scores by concept, alignment and number, in increasing order.

    Raises:
        InputError: sets lack the scores of single runs or have different numbers of them, or a number is
            below 1.

    Example:
        >>> from candlelight.evaluation.concepts.set_scores import BranchScore
        >>> def score(*runs):
        ...     return dict.fromkeys(ALIGNMENTS, BranchScore((0.5,), 0.1, 0.9, 0.001, runs=runs))
        >>> one = SetScore("albedo", {}, 20, {"reflectance": score(1.0, 0.5), "shading": score(0.5, 0.5)})
        >>> [(some.runs, some.csm) for some in score_by_runs([one], [1, 2]) if some.alignment == "aligned"]
        [(1, 2.0), (2, 1.5)]
    """
    counts = {len(one.branches[name][how].runs) for one in sets for name in BRANCHES for how in ALIGNMENTS}
    if len(counts) != 1 or counts == {0}:
        raise InputError(f"expected scores of the same number of runs in all sets, got {sorted(counts)}")
    if min(numbers, default=1) < 1:
        raise InputError(f"`numbers` must be 1 or larger, got {min(numbers)}")
    whole = counts.pop()
    chosen = sorted({number for number in numbers if number < whole} | {whole})
    found = []
    for concept in METRICS:
        some = [one for one in sets if one.concept == concept]
        for alignment in ALIGNMENTS if some else ():
            shares = {
                name: np.array([one.branches[name][alignment].runs for one in some]) for name in BRANCHES
            }
            found += [_first(concept, alignment, shares, number) for number in chosen]
    return found


def _first(concept: Concept, alignment: str, shares: dict[str, np.ndarray], number: int) -> RunsScore:
    """Average the shares, one row for each set, of the first runs."""
    first = {name: rows[:, :number] for name, rows in shares.items()}
    means = {name: rows.mean(1) for name, rows in first.items()}
    return RunsScore(
        concept,
        alignment,
        number,
        {name: float(values.mean()) for name, values in means.items()},
        {
            name: float(rows.mean(0).std(ddof=1)) if number > 1 else float("nan")
            for name, rows in first.items()
        },
        mean_ratio(means[WANTED[concept]], means[UNWANTED[concept]]),
    )
