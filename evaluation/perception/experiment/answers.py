"""Logs of answers, their psychometric fits, and the thresholds of people measured by them."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy import ndarray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from candlelight.evaluation.perception.experiment.stimuli import Side, StimulusKind
from candlelight.evaluation.perception.people import HUMAN_SATURATIONS, all_human_thresholds
from candlelight.evaluation.perception.psychometric import (
    DETECTION_LEVELS,
    DetectionLevels,
    MeasuredThresholds,
    PsychometricFit,
    detection_levels,
    fit_psychometric,
)
from candlelight.evaluation.perception.transforms import (
    ILLUMINANT,
    TRANSLATION_AXES,
    transform_unit,
    unchanged_magnitude,
)
from candlelight.loaders.errors import InputError, blame, nearest_file
from candlelight.loaders.files.safe_writing import lock_file, sync
from candlelight.version import code_version

ANSWERS_FORMAT: Literal["candlelight answers 1"] = "candlelight answers 1"
_REMEDY = "name a log of `candlelight perception experiment`"


class _StrictRecord(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class LogHeader(_StrictRecord):
    """First line of a log.

    Attributes:
        format: name and version of the format.
        version: version of the program that began the log.
        settings: all that the plan of the trials depends on but the observer.
    """

    format: Literal["candlelight answers 1"] = ANSWERS_FORMAT
    version: str
    settings: dict[str, Any]


class AnswerRecord(_StrictRecord):
    """One answer.

    Attributes:
        session: start of the program, UTC.
        observer: name of the observer.
        trial: number in the observer's order, from 0.
        kind: "rated" or "transform".
        image: id of the pair or of the image.
        transform: name of the transform; None for a rated pair.
        magnitude: D of a rated pair, or magnitude of the transform.
        correct: whether the observer picked the distorted image.
        seconds: from the display of both images to the answer.
        scale: pixels of the screen for each pixel of an image; None if the page did not tell.
        side: side that the observer picked.
        time: of the answer, UTC.
    """

    session: str
    observer: str
    trial: int = Field(ge=0)
    kind: StimulusKind
    image: str
    transform: str | None
    magnitude: float = Field(allow_inf_nan=False)
    correct: bool
    seconds: float = Field(ge=0, allow_inf_nan=False)
    scale: int | None = Field(default=None, ge=1)
    side: Side
    time: str


@dataclass(frozen=True, eq=False)
class ExperimentAnswers:
    """Answers of an experiment, in the order in which they were given.

    Attributes:
        magnitudes: level of the stimulus: D of rated pairs, else in the unit of the transform.
        correct: whether the observer picked the distorted image.
        seconds: response times.
        kind: "rated" or "transform", for each answer.
        transform: name of the transform of each answer; None for rated pairs.
        image: id of each pair or image.
        observer: observer of each answer.
        settings: settings of the experiment.
    """

    magnitudes: Float64[ndarray, " answers"]
    correct: Bool[ndarray, " answers"]
    seconds: Float64[ndarray, " answers"]
    kind: tuple[StimulusKind, ...]
    transform: tuple[str | None, ...]
    image: tuple[str, ...]
    observer: tuple[str, ...]
    settings: Mapping[str, Any]

    def __len__(self) -> int:
        """Count the answers."""
        return len(self.correct)


def read_answers(path: Path | str) -> ExperimentAnswers:
    """Read the answers of a log, complete or not; a last line that was cut off is left out.

    Args:
        path: file from `candlelight perception experiment DATA --out FILE`, with any number of observers.

    Raises:
        InputError: the file is missing, is no log, a line is damaged, or an answer stands twice.

    Example:
        >>> read_answers("nowhere.jsonl")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere.jsonl: cannot be read: No such file or directory; \
name a log of `candlelight perception experiment`
    """
    header, records = read_log(Path(path))
    return ExperimentAnswers(
        np.array([record.magnitude for record in records], dtype=np.float64),
        np.array([record.correct for record in records], dtype=bool),
        np.array([record.seconds for record in records], dtype=np.float64),
        tuple(record.kind for record in records),
        tuple(record.transform for record in records),
        tuple(record.image for record in records),
        tuple(record.observer for record in records),
        header.settings,
    )


def read_log(path: Path) -> tuple[LogHeader, list[AnswerRecord]]:
    """Read the header and the whole lines of a log.

    Raises:
        InputError: see `read_answers`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise blame(f"{path}: cannot be read", error, f"{_REMEDY}{nearest_file(path)}") from None
    lines = data.split(b"\n")[:-1]  # after the last line feed comes nothing, or a line that was cut off
    try:
        header = LogHeader.model_validate_json(lines[0] if lines else b"")
    except ValidationError:
        raise InputError(
            f"{path}: expected a first line with `format` {json.dumps(ANSWERS_FORMAT)}; {_REMEDY}, or for a "
            "new experiment the name of a new file"
        ) from None
    records: list[AnswerRecord] = []
    lines_of: dict[tuple[str, int], int] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            record = AnswerRecord.model_validate_json(line)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"])) or "JSON"
            raise InputError(
                f"{path}: line {number} is damaged at {place}: {problem['msg']}; remove the line"
            ) from None
        first = lines_of.setdefault((record.observer, record.trial), number)
        if first != number:  # such as in a log that was merged with its copy
            raise InputError(
                f"{path}: line {number} answers trial {record.trial} of {record.observer} again, after line "
                f"{first}; remove one of the two"
            )
        records.append(record)
    return header, records


class AnswerLog:
    """A log that is open for writing (context manager); each answer is on the disk before `append` returns.

    Attributes:
        path: the file.
        records: answers that were there, and those of this session.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Begin a log, or continue it; a last line that was cut off is removed.

        Args:
            path: the file; made if it does not exist, begun anew if it has no answers.
            settings: all that the plan of the trials depends on but the observer.

        Raises:
            InputError: the file cannot be written, is no log, is damaged, has other settings, or another
                program writes to it.
        """
        self.path = path
        try:
            self._file = FileIO(path, "a+")
        except OSError as error:
            raise blame(f"{path}: cannot be written", error, "name another file") from None
        try:
            self.records = self._begin(settings)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, settings: Mapping[str, Any]) -> list[AnswerRecord]:
        import fcntl  # here, because reading a log works on systems without it

        try:
            lock_file(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self.path}: another experiment writes to it; end that one first, or name another file"
            ) from None
        header, records = read_log(self.path) if self.path.stat().st_size else (None, [])
        if header is not None and records:
            _check_settings(self.path, header.settings, settings)
            self._file.truncate(self.path.read_bytes().rfind(b"\n") + 1)
        else:  # settings count from the first answer
            self._file.truncate(0)
            self._write(LogHeader(version=code_version(), settings=dict(settings)))
            sync(self.path.parent)
        self._file.seek(0, os.SEEK_END)
        return records

    def __enter__(self) -> "AnswerLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # and the lock ends

    def answered(self, observer: str) -> set[int]:
        """List the numbers of the trials that an observer has answered."""
        return {record.trial for record in self.records if record.observer == observer}

    def append(self, record: AnswerRecord) -> None:
        """Write an answer and sync it to disk.

        Raises:
            InputError: another program replaced, deleted or changed the file; its copy lacks the answer.
            OSError: the disk is full or fails; nothing of the answer is kept.
        """
        self._check_place()
        self._write(record)
        self.records.append(record)

    def _check_place(self) -> None:
        """Compare the open file with its path: an editor or a program that syncs folders may replace it."""
        there, found = os.fstat(self._file.fileno()), self.path.stat() if self.path.exists() else None
        if found is None:
            problem = "was deleted or moved"
        elif not os.path.samestat(found, there):
            problem = "was replaced by another file"
        elif found.st_size != self._file.tell():
            problem = "was changed by another program"
        else:
            return
        raise InputError(
            f"{self.path}: {problem} during the experiment, so this answer is not logged; end the "
            "experiment, put the file in its place, and run the same command again"
        )

    def _write(self, record: LogHeader | AnswerRecord) -> None:
        start = self._file.seek(0, os.SEEK_END)
        data = f"{record.model_dump_json()}\n".encode()
        try:
            if self._file.write(data) != len(data):
                raise OSError(f"{self.path}: the disk is full")
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(start)
            self._file.seek(start)
            raise


def _check_settings(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            raise InputError(
                f"{path}: was begun with {name} {_shown(old.get(name))}, got {_shown(new.get(name))}; repeat "
                "the settings to continue it, or name another file"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items() if one is not None) or "none"
    return "none" if value is None else str(value)


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
            try:
                detection = detection_levels(magnitudes, correct)
            except InputError as error:
                note = f"the fit to {len(records)} answers failed ({error}); {DetectionLevels.note}"
                detection = DetectionLevels(note=note)
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
