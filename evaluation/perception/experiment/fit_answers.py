"""Psychometric fits of answers, and the thresholds of people measured by them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.perception.detection import (
    DetectionLevels,
    MeasuredThresholds,
    detection_levels,
)
from candlelight.evaluation.perception.experiment.answers import AnswerRecord, ExperimentAnswers, read_log
from candlelight.evaluation.perception.people import HUMAN_SATURATIONS, all_human_thresholds
from candlelight.evaluation.perception.psychometric import PsychometricFit, fit_psychometric
from candlelight.evaluation.perception.transduction import DETECTION_LEVELS
from candlelight.evaluation.perception.transform_families import (
    ILLUMINANT,
    TRANSLATION_AXES,
    transform_unit,
    unchanged_magnitude,
)
from candlelight.loaders.errors import InputError

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
    names = np.array([_RATED if name is None else name for name in answers.transform])
    observers = sorted(set(answers.observer))
    for name in sorted(set(names.tolist())):
        for observer in (None, *(observers if len(observers) > 1 else ())):
            rows = names == name
            if observer is not None:
                rows &= np.array(answers.observer) == observer
            if rows.any():
                levels, fit = torch.from_numpy(answers.magnitudes[rows]), None
                if not bool((levels == levels[0]).all()):
                    fit = _fit(levels, torch.from_numpy(answers.correct[rows]))
                unit = "" if name == _RATED else transform_unit(name)
                yield AnswerFit(name, observer, unit, rows, fit, _published(name))


def _fit(levels: Float64[Tensor, " answers"], correct: Bool[Tensor, " answers"]) -> PsychometricFit:
    return fit_psychometric(levels, correct.int(), torch.ones_like(correct, dtype=torch.int))


def _published(name: str) -> float | None:
    known = {_RATED: DETECTION_LEVELS[1], **all_human_thresholds()}
    known |= dict.fromkeys(TRANSLATION_AXES, known["translation"])
    known |= {f"{ILLUMINANT}{hue}": steps for hue, steps in HUMAN_SATURATIONS.items()}
    return known.get(name)


def measured_thresholds(logs: Sequence[Path]) -> MeasuredThresholds:
    """Fit D_T and the threshold of each transform to the answers of all observers of all logs.

    Answers for translations to the right and down are one transform, as in the curves of metrics; without
    answers for parallax, it has the threshold of translation.

    Blind to: differences between observers and between the images of the logs; to illuminants, because an
    ellipse of people needs all hues. A note counts the answers that are left out.

    Args:
        logs: files of `candlelight perception experiment`, complete or not.

    Raises:
        InputError: there is no log; a log cannot be read, or has no answers; two logs hold one answer.

    Example:
        >>> measured_thresholds([Path("nowhere.jsonl")])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere.jsonl: cannot be read: No such file or directory; \
name a log of `candlelight perception experiment`
    """
    if not logs:
        raise InputError("expected at least one log of answers, got none")
    by_curve: dict[str, list[AnswerRecord]] = {}
    for record in _read_logs(logs):
        name = "translation" if record.transform in TRANSLATION_AXES else record.transform
        by_curve.setdefault(name or _RATED, []).append(record)
    detection, human = DetectionLevels(), dict[str, float]()
    notes = []
    for name, records in by_curve.items():
        magnitudes = torch.tensor([record.magnitude for record in records], dtype=torch.float64)
        correct = torch.tensor([record.correct for record in records])
        if name == _RATED:
            detection = _detection(magnitudes, correct)
        elif name.startswith(ILLUMINANT):
            notes.append(
                f"{name}: {len(records)} answers are not used, because an ellipse of people needs all "
                "hues; ellipses of people are the published ones"
            )
        else:
            threshold, note = _threshold(name, magnitudes, correct)
            human |= {} if threshold is None else {name: threshold}
            notes.append(note)
    if "translation" in human:
        human.setdefault("parallax x", human["translation"])
    return MeasuredThresholds(detection, human, tuple(notes))


def _read_logs(logs: Sequence[Path]) -> Iterator[AnswerRecord]:
    """Read the answers of all logs; one in two logs of an experiment would count twice, and is refused."""
    first: dict[tuple[str, str, int], int] = {}
    for place, log in enumerate(logs):
        header, records = read_log(log)
        if not records:
            raise InputError(f"{log}: has no answers yet; continue the experiment, or leave it out")
        experiment = json.dumps(header.settings, sort_keys=True)
        for record in records:
            other = first.setdefault((experiment, record.observer, record.trial), place)
            if other != place:
                raise InputError(
                    f"{log}: the answer of {record.observer} to trial {record.trial} stands in "
                    f"{logs[other]} too; name one of the two logs, or, if they are of two people, give each "
                    "a name in `observer`"
                )
        yield from records


def _detection(levels: Float64[Tensor, " answers"], correct: Bool[Tensor, " answers"]) -> DetectionLevels:
    try:
        return detection_levels(levels, correct)
    except InputError as error:
        note = f"the fit to {len(levels)} answers failed ({error}); {DetectionLevels.note}"
        return DetectionLevels(note=note)


def _threshold(
    name: str, magnitudes: Float64[Tensor, " answers"], correct: Bool[Tensor, " answers"]
) -> tuple[float | None, str]:
    """Fit the threshold of one transform, and say in words how that ended."""
    unit = transform_unit(name)
    try:
        fit = _fit(magnitudes, correct)
        problem = "" if fit.converged else fit.note
    except InputError as error:
        problem = str(error)
    if not problem and not fit.score > unchanged_magnitude(name):
        problem = f"its threshold, {fit.score:.3g}, is no change at all"
    if problem:
        published = all_human_thresholds().get(name)
        kept = "" if published is None else f"; the published threshold holds, {published:g} {unit}"
        return None, f"{name}: the fit to {len(correct)} answers failed ({problem}){kept}"
    return fit.score, (
        f"{name}: threshold of people {fit.score:.4g} {unit}, of {len(correct)} answers (95 % interval "
        f"{fit.low:.4g} to {fit.high:.4g})"
    )
