"""Lines on CSM for a terminal: the spread over controls, and which model is better by which score."""

from collections.abc import Sequence

from candlelight.evaluation.concepts.set_scores import CONTROLLED, METRICS
from candlelight.evaluation.results.compare import compare
from candlelight.evaluation.results.result import StatisticResult, model_name


def csm_lines(results: Sequence[StatisticResult]) -> list[str]:
    """Word the scores against single controls, and compare the first model with each other one.

    Each verdict names the score and the reference that it stands on: the controls where there are any, and
    otherwise the negatives. CSM_S and CSM_R are compared apart, because they may disagree.
    Planted decompositions are left out.

    Args:
        results: of `score_concepts`.
    """
    models = [result for result in results if result.about.model.get("source") != "planted"]
    lines = [line for result in models for line in _spread(result)]
    for column in _columns(models[0]):
        reference = "controls" if CONTROLLED in column else "negatives"
        for other in models[1:]:
            verdict, numbers = str(compare(models[0], other, column)).split("\n")
            names, colon, reason = verdict.partition(": ")
            lines += [f"{names}, by {column.partition(' ')[0]} against {reference}{colon}{reason}", numbers]
    return lines


def _columns(result: StatisticResult) -> list[str]:
    """Choose a score of each metric: aligned, all sets, against controls if there are any."""
    names = (
        [f"{metric} aligned{reference}, all sets" for reference in (CONTROLLED, "")]
        for metric in METRICS.values()
    )
    found = [[name for name in some if name in result.scores] for some in names]
    return [some[0] for some in found if some]


def _spread(result: StatisticResult) -> list[str]:
    """Word the least and the largest score of a single control."""
    lines = []
    for column in _columns(result):
        scores = result.details["by_control"].get(column, {})
        known = {name: float(score) for name, score in scores.items() if score is not None}
        if len(known) > 1:
            least, largest = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
            lines.append(
                f"{model_name(result)}: {column} is {known[least]:.4g} against {least} alone and "
                f"{known[largest]:.4g} against {largest}, of {len(scores)} controls"
            )
    return lines
