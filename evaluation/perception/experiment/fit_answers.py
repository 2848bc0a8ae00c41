"""Fit of the psychometric function to the answers of an experiment, and its verdict in words."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool
from numpy import ndarray

from candlelight.evaluation.perception.curve_scores import all_human_thresholds
from candlelight.evaluation.perception.experiment.read_answers import ExperimentAnswers
from candlelight.evaluation.perception.fit_psychometric import PsychometricFit, fit_psychometric
from candlelight.evaluation.perception.human_ellipses import HUMAN_SATURATIONS
from candlelight.evaluation.perception.published_transductions import DETECTION_LEVELS
from candlelight.evaluation.perception.scene_curves import TRANSLATION_AXES
from candlelight.evaluation.perception.transform_families import ILLUMINANT, transform_unit

_RATED = "D_T"


@dataclass(frozen=True, eq=False)
class AnswerFit:
    """The fit to the answers of one transform, or to rated pairs.

    Attributes:
        name: name of the transform; "D_T" for rated pairs.
        observer: name of the observer; None for all of them.
        unit: of the levels: "degrees", "factor" or "steps"; "" for D.
        rows: whether each answer of the log belongs to this fit.
        fit: None if the answers are of fewer than two levels.
        published: threshold of the paper; None if it has none.
    """

    name: str
    observer: str | None
    unit: str
    rows: Bool[ndarray, " answers"]
    fit: PsychometricFit | None
    published: float | None

    def __str__(self) -> str:
        """Say the threshold with its 95 % interval, and whether the paper's lies in it, in one line."""
        count = int(self.rows.sum())
        who = "" if self.observer is None else f", {self.observer}"
        head = f"{self.name}{who} ({count} answer{'s' if count != 1 else ''}): "
        if self.fit is None:
            return f"{head}no fit, answers at two or more levels are needed"
        if not self.fit.converged:
            return f"{head}no threshold, the fit did not converge: {self.fit.note}"
        unit = f" {self.unit}" if self.unit else ""
        low, _, high = self.fit.quartiles
        return (
            f"{head}{self.fit.score:.4g}{unit} (95 % interval {self.fit.low:.4g} to {self.fit.high:.4g}; "
            f"quartiles {low:.4g} to {high:.4g}), lapse rate {self.fit.lapse:.2g}{self._verdict(self.fit)}"
        )

    def _verdict(self, fit: PsychometricFit) -> str:
        if self.published is None:
            return ""
        if fit.low <= self.published <= fit.high:
            return f"; the paper's {self.published:g} lies in the interval"
        return f"; {'below' if fit.high < self.published else 'above'} the paper's {self.published:g}"


def fit_answers(answers: ExperimentAnswers) -> tuple[AnswerFit, ...]:
    """Fit the answers of all observers, and of each observer if there are several.

    Every answer counts at its own level, with a fitted lapse rate (`fit_psychometric`). The interval of all
    observers together is too narrow where observers differ, so compare it with theirs.

    Args:
        answers: from `read_answers`; a partial log is enough.

    Returns:
        A fit for each transform, by name: of all observers, then of each.
    """
    return tuple(_fits(answers))


def _fits(answers: ExperimentAnswers) -> Iterator[AnswerFit]:
    names = tuple(_RATED if name is None else name for name in answers.transform)
    observers = sorted(set(answers.observer))
    for name in sorted(set(names)):
        for observer in (None, *(observers if len(observers) > 1 else ())):
            rows = np.array(names) == name
            if observer is not None:
                rows = rows & (np.array(answers.observer) == observer)
            if rows.any():
                unit = "" if name == _RATED else transform_unit(name)
                yield AnswerFit(name, observer, unit, rows, _fit(answers, rows), _published(name))


def _fit(answers: ExperimentAnswers, rows: Bool[ndarray, " answers"]) -> PsychometricFit | None:
    levels = torch.from_numpy(answers.magnitudes[rows])
    if bool((levels == levels[0]).all()):
        return None
    correct = torch.from_numpy(answers.correct[rows].astype(np.int64))
    return fit_psychometric(levels, correct, torch.ones_like(correct))


def _published(name: str) -> float | None:
    known = {_RATED: DETECTION_LEVELS[1], **all_human_thresholds()}
    known |= dict.fromkeys(TRANSLATION_AXES, known["translation"])
    known |= {f"{ILLUMINANT}{hue}": steps for hue, steps in HUMAN_SATURATIONS.items()}
    return known.get(name)
