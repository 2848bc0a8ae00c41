"""Thresholds of people from the logs of experiments, in place of the published ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from candlelight.evaluation.perception.curve_scores import all_human_thresholds
from candlelight.evaluation.perception.detection_levels import DetectionLevels, detection_levels
from candlelight.evaluation.perception.experiment.read_answers import read_answers, read_log
from candlelight.evaluation.perception.fit_psychometric import fit_psychometric
from candlelight.evaluation.perception.scene_curves import TRANSLATION_AXES
from candlelight.evaluation.perception.transform_families import (
    ILLUMINANT,
    transform_unit,
    unchanged_magnitude,
)
from candlelight.loaders.errors import InputError


@dataclass(frozen=True)
class MeasuredThresholds:
    """Thresholds that the answers of a user's own observers give.

    Attributes:
        detection: D_T of the rated pairs; published if there are none, or if their fit failed.
        human: measured thresholds of people by transform, "translation", "parallax x", "rotation" or "scale",
            in the unit of its magnitudes; those whose fit failed are left out.
        notes: origin of each threshold, the reason why a fit failed, and the answers that are not used.
    """

    detection: DetectionLevels
    human: Mapping[str, float]
    notes: tuple[str, ...]


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
    answers = [read_answers(log) for log in logs]
    for log, found in zip(logs, answers, strict=True):
        if not len(found):
            raise InputError(f"{log}: has no answers yet; continue the experiment, or leave it out")
    _refuse_repeats(logs)
    names = np.array([_curve(name) for found in answers for name in found.transform])
    magnitudes = torch.from_numpy(np.concatenate([found.magnitudes for found in answers]))
    correct = torch.from_numpy(np.concatenate([found.correct for found in answers]))
    detection, notes = DetectionLevels(), []
    human: dict[str, float] = {}
    for name in dict.fromkeys(names.tolist()):
        chosen = torch.from_numpy(names == name)
        if name == "":
            detection = _detection(magnitudes[chosen], correct[chosen])
        elif name.startswith(ILLUMINANT):
            notes.append(
                f"{name}: {int(chosen.sum())} answers are not used, because an ellipse of people needs all "
                "hues; ellipses of people are the published ones"
            )
        else:
            threshold, note = _threshold(name, magnitudes[chosen], correct[chosen])
            human |= {} if threshold is None else {name: threshold}
            notes.append(note)
    if "translation" in human:
        human.setdefault("parallax x", human["translation"])
    return MeasuredThresholds(detection, human, tuple(notes))


def _refuse_repeats(logs: Sequence[Path]) -> None:
    """Refuse an answer that two logs of one experiment hold: it would count twice."""
    first: dict[tuple[str, str, int], int] = {}
    for place, log in enumerate(logs):
        header, records = read_log(log)
        experiment = json.dumps(header.settings, sort_keys=True)
        for record in records:
            other = first.setdefault((experiment, record.observer, record.trial), place)
            if other != place:
                raise InputError(
                    f"{log}: the answer of {record.observer} to trial {record.trial} stands in "
                    f"{logs[other]} too; name one of the two logs, or, if they are of two people, give each "
                    "a name in `observer`"
                )


def _curve(transform: str | None) -> str:
    """Name the curve of a transform; "" for rated pairs."""
    return "translation" if transform in TRANSLATION_AXES else transform or ""


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
        fit = fit_psychometric(magnitudes, correct.int(), torch.ones_like(correct, dtype=torch.int))
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
