"""A text table with a column for each model, for results of many scores."""

import math
from collections.abc import Sequence

from candlelight.evaluation.results.mean_intervals import Score
from candlelight.evaluation.results.result import Result, align_columns, model_name

_COLUMNS = 4  # models side by side


def score_grid(results: Sequence[Result]) -> list[str]:
    """Tabulate the scores of results of one call; a row for each score, a column for each model.

    Args:
        results: results of one metric; more than four models are written below each other.

    Example:
        >>> from candlelight.evaluation.results.result import Provenance, StatisticResult
        >>> about = Provenance("causal", 4, "higher", {"name": "vae"}, {}, {}, {})
        >>> print(*score_grid([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})]))
        higher is better  vae
        irs               0.5 (0.4 to 0.6)
    """
    names = list(dict.fromkeys(name for result in results for name in result.scores))
    better = results[0].about.better
    head = "score" if better == "neither" else f"{better} is better"
    tables = []
    for start in range(0, len(results), _COLUMNS):
        some = results[start : start + _COLUMNS]
        rows = [
            (name, *(_cell(result.scores[name]) if name in result.scores else "" for result in some))
            for name in names
        ]
        tables.append(align_columns([(head, *map(model_name, some)), *rows]))
    return tables


def _cell(score: Score) -> str:
    if math.isnan(score.value):
        return "undefined"
    interval = "" if math.isnan(score.low) else f" ({score.low:.3g} to {score.high:.3g})"
    return f"{score.value:.3g}{interval}"
