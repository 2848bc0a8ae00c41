"""Plot of answers: the share of correct ones at each level, and the fitted psychometric functions."""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from candlelight.evaluation.perception.experiment.fit_answers import AnswerFit
from candlelight.evaluation.perception.experiment.read_answers import ExperimentAnswers
from candlelight.evaluation.report.drawing import INK, drawing
from candlelight.evaluation.report.psychometric_axes import draw_psychometric

_PANEL = 2.6  # inches


def draw_answers(answers: ExperimentAnswers, fits: Sequence[AnswerFit], kind: str) -> bytes:
    """Draw a panel for each transform, with the fit of all observers.

    Args:
        answers: from `read_answers`.
        fits: from `fit_answers`.
        kind: format of matplotlib: "svg", "png" or "pdf".
    """
    shown = [fit for fit in fits if fit.observer is None]
    with drawing(_PANEL * max(1, len(shown))) as figure:
        for axes, fit in zip(_panels(figure, len(shown)), shown, strict=True):
            _draw_panel(axes, answers, fit)
        buffer = io.BytesIO()
        dated = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
        figure.savefig(buffer, format=kind, facecolor="white", metadata=dated, dpi=150)
    return buffer.getvalue()


def _panels(figure: Figure, count: int) -> list[Any]:
    return list(figure.subplots(count, 1, squeeze=False)[:, 0]) if count else []


def _draw_panel(axes: Any, answers: ExperimentAnswers, one: AnswerFit) -> None:
    draw_psychometric(axes, answers.magnitudes[one.rows], answers.correct[one.rows], one.fit)
    if one.published is not None:
        axes.axvline(one.published, color=INK, linestyle=":", label=f"paper: {one.published:g}")
        axes.legend(loc="lower right")
    axes.set_xlabel("D" if one.name == "D_T" else f"{one.name} ({one.unit})")
