"""The results of a benchmark as text: a line for each method, and comparisons of neighbours in the order."""

import math
from collections.abc import Mapping, Sequence
from itertools import compress, pairwise

import numpy as np

from candlelight.evaluation.benchmark.score_methods import ABSOLUTE, is_absolute
from candlelight.evaluation.results.compare import Comparison, compare
from candlelight.evaluation.results.result import MeanResult, model_name

_COLUMNS = ("lmse", "lmse_reflectance", "lmse_shading", "rank")


def in_order(results: Mapping[str, MeanResult]) -> list[MeanResult]:
    """Sort results by their mean LMSE, the best first."""
    return sorted(results.values(), key=lambda result: result.score)


def summary_rows(results: Sequence[MeanResult]) -> list[tuple[str, ...]]:
    """Make the cells of a table with a line for each result; the first row holds the titles.

    Args:
        results: with the column ``rank`` of `candlelight.evaluation.benchmark.add_ranks`.
    """
    titles = (
        "method",
        "lmse ↓",
        "95 % interval",
        "reflectance",
        "shading",
        "mean rank",
        "failed",
        "undefined",
    )
    rows: list[tuple[str, ...]] = [titles]
    for result in results:
        total, reflectance, shading, rank = (result.scores[name] for name in _COLUMNS)
        name = model_name(result)
        interval = f"{total.low:.4f} to {total.high:.4f}"
        parts = (f"{score.value:.4f}" for score in (total, reflectance, shading))
        value, *others = parts
        place = "" if math.isnan(rank.value) else f"{rank.value:.2f}"
        counts = (str(count or "") for count in (len(result.failed), result.undefined))
        rows.append((name, value, interval, *others, place, *counts))
    kept = [any(row[column] for row in rows[1:]) for column in range(len(titles))]
    return [tuple(compress(row, kept)) for row in rows]


def absolute_pairs(results: Sequence[MeanResult]) -> list[tuple[MeanResult, MeanResult]]:
    """Pair each method with its result with p = 1, if there is one."""
    by_name = {model_name(result): result for result in results}
    absolute = {name: one for name, one in by_name.items() if is_absolute(one)}
    names = ((name.removesuffix(ABSOLUTE), one) for name, one in absolute.items())
    return [(by_name[name], one) for name, one in names if name in by_name]


def neighbour_comparisons(results: Sequence[MeanResult]) -> list[Comparison]:
    """Compare each ranked method with the next one, and p = 1 with p = 2, paired by object."""
    ranked = [result for result in results if np.isfinite(result.scores["rank"].value)]
    absolute = [(other, one) for one, other in absolute_pairs(results)]
    return [compare(one, other) for one, other in (*pairwise(ranked), *absolute)]
