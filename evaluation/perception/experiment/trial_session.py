"""One observer's run through the trials: the pictures of a trial, the next trial, and answers."""

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from candlelight.evaluation.perception.experiment.answer_log import AnswerLog
from candlelight.evaluation.perception.experiment.read_answers import AnswerRecord
from candlelight.evaluation.perception.experiment.stimuli import Side, Stimulus, StimulusSet
from candlelight.evaluation.perception.experiment.trial_plan import Trial
from candlelight.loaders.errors import InputError

PictureName = Literal["left", "right", "original"]
_FAST = 1  # level of compression: the pictures go no further than this machine


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(eq=False)
class TrialSession:
    """Trials of an observer, with the log as the record of what is done; safe to use from several threads.

    Attributes:
        stimuli: source of the pictures.
        trials: from `plan_trials`.
        log: open log.
        observer: name of the observer.
        reminder: whether the page may show the original as a third picture.
        clock: returns the time of an answer.
    """

    stimuli: StimulusSet
    trials: tuple[Trial, ...]
    log: AnswerLog
    observer: str
    reminder: bool = False
    clock: Callable[[], str] = _now
    _started: str = field(init=False)
    _pictures: dict[int, dict[PictureName, bytes]] = field(default_factory=dict, init=False)
    _answering: threading.Lock = field(default_factory=threading.Lock, init=False)
    _drawing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    @property
    def next_trial(self) -> int:
        """Number of the first trial without an answer; the number of trials if there is none."""
        done = self.log.answered(self.observer)
        return next((trial.number for trial in self.trials if trial.number not in done), len(self.trials))

    def picture(self, number: int, picture: PictureName) -> bytes | None:
        """Make one picture of a trial, as PNG.

        Returns:
            None unless the trial is the next one or follows it, because pictures are made one trial ahead;
            and None for the original of an experiment without reminder.
        """
        now = self.next_trial
        if picture == "original" and not self.reminder:
            return None
        if not now <= number < min(now + 2, len(self.trials)):
            return None
        with self._drawing:
            for old in set(self._pictures) - {now, now + 1}:
                del self._pictures[old]
            if number not in self._pictures:
                self._pictures[number] = self._draw(self.trials[number])
            return self._pictures[number][picture]

    def answer(self, number: int, side: Side, seconds: float, scale: int | None = None) -> None:
        """Log the answer to the next trial; an answer to another trial changes nothing.

        A page that is loaded twice, or that sends an answer again after a lost connection, does no harm.
        """
        with self._answering:
            if number != self.next_trial or number == len(self.trials):
                return
            trial, stimulus = self.trials[number], self.trials[number].stimulus
            self.log.append(
                AnswerRecord(
                    session=self._started,
                    observer=self.observer,
                    trial=number,
                    kind=stimulus.kind,
                    image=stimulus.image,
                    transform=stimulus.transform,
                    magnitude=stimulus.magnitude,
                    correct=side == trial.side,
                    seconds=seconds,
                    scale=scale,
                    side=side,
                    time=self.clock(),
                )
            )

    def _draw(self, trial: Trial) -> dict[PictureName, bytes]:
        original, distorted = read_pictures(self.stimuli, trial.stimulus)
        same, changed = _to_png(original), _to_png(distorted)
        left, right = (changed, same) if trial.side == "left" else (same, changed)
        return {"left": left, "right": right, "original": same}


def read_pictures(
    stimuli: StimulusSet, stimulus: Stimulus
) -> tuple[Float[Tensor, "3 height width"], Float[Tensor, "3 height width"]]:
    """Read the original and the distorted image of a pair.

    Raises:
        InputError: one of the two cannot be read, or they differ in size.
    """
    original, distorted = stimuli.pictures(stimulus)
    if original.shape != distorted.shape:
        raise InputError(
            f"{stimulus.image}: expected two images of one size, got {tuple(original.shape)} and "
            f"{tuple(distorted.shape)}"
        )
    return original, distorted


def _to_png(image: Float[Tensor, "3 height width"]) -> bytes:
    """Encode an image with 8 bits; its bytes tell nothing but its pixels."""
    pixels = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).contiguous().cpu().numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=_FAST)
    return buffer.getvalue()
