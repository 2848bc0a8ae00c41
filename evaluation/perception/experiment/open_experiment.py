"""Open and run a forced-choice experiment."""

import hashlib
import json
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

from candlelight.evaluation.perception.experiment.answers import AnswerLog, ExperimentAnswers, read_answers
from candlelight.evaluation.perception.experiment.fit_answers import fit_answers
from candlelight.evaluation.perception.experiment.session import ExperimentServer, TrialSession, read_pictures
from candlelight.evaluation.perception.experiment.stimuli import (
    DEFAULT_TRANSFORMS,
    MovedStimuli,
    RatedStimuli,
    StimulusSet,
    TransformedImageSet,
    default_largest,
    plan_trials,
)
from candlelight.evaluation.perception.people import PAPER_PIXELS_PER_DEGREE
from candlelight.evaluation.views import open_data, parse_data
from candlelight.loaders.errors import InputError

PAPER_LEVELS, PAPER_REPEATS = 20, 15  # of Alabau-Bosque et al. 2024, sec. II.B, for each of 5 observers
_RATED_LAYOUT = "tid2013"
_SIDE = 256  # pixels


@dataclass(frozen=True)
class ExperimentSettings:
    """All that the pairs of an experiment depend on, but the data.

    Attributes:
        transforms: names, and the largest magnitude of each or None for three human thresholds of the paper;
            empty for translation to the right, rotation and scale, and for all of moved frames.
        largest: largest D of rated pairs; None for that of the data.
        moved: whether the data are frames of the recipe `invariance`, whose moves are shown.
        levels: number of levels of D or of each transform.
        repeats: answers at each level.
        images: largest number of different pairs or images at each level; None for as many as repeats.
        size: side in pixels to which pictures of a folder are scaled and cropped; None for 256.
        pixels_per_degree: pixels of an image per degree of visual angle on the screen.
        scale: device pixels of the screen for each pixel of an image; None lets the page choose.
        reminder: whether the original is shown above the pair; None for images under transforms only.
        seed: seed of the choice of images, the order and the sides.

    Raises:
        InputError: fewer than 2 levels, or another number that is not positive.
    """

    transforms: Mapping[str, float | None] = field(default_factory=dict)
    largest: float | None = None
    moved: bool = False
    levels: int = PAPER_LEVELS
    repeats: int = PAPER_REPEATS
    images: int | None = None
    size: int | None = None
    pixels_per_degree: float = PAPER_PIXELS_PER_DEGREE
    scale: int | None = None
    reminder: bool | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.levels < 2:
            raise InputError(f"`levels` must be at least 2 to fit a threshold, got {self.levels}")
        if self.repeats < 1 or (self.images is not None and self.images < 1):
            raise InputError(
                f"`repeats` and `images` must be at least 1, got {self.repeats} and {self.images}"
            )

    @property
    def pairs(self) -> int:
        """Largest number of different pairs or images at each level."""
        return self.images or self.repeats


def open_stimuli(
    data: str, settings: ExperimentSettings, set_name: str | None = None, split: str | None = None
) -> StimulusSet:
    """Open the data of an experiment.

    Args:
        data: ``tid2013:PATH`` for rated pairs; else natural images, as for
            `open_data("images", ...)`.
        settings: settings of the experiment.
        set_name: image set of frames.
        split: split of the data.

    Raises:
        InputError: the data are missing or of another kind, or an option belongs to another kind of data.

    Example:
        >>> open_stimuli("tid2013:nowhere", ExperimentSettings({"rotation": None}))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: tid2013:nowhere: rated pairs have no transforms, got \
rotation; leave them out, or name a folder of images
    """
    numbers = (settings.levels, settings.repeats, settings.pairs)
    rated_layout = parse_data(data).layout == _RATED_LAYOUT
    if settings.size is not None and (rated_layout or settings.moved):
        raise InputError(f"{data}: a size is for pictures of a folder; leave it out")
    if rated_layout:
        if settings.transforms or settings.moved:
            got = ", ".join(settings.transforms) or "moved frames"
            raise InputError(
                f"{data}: rated pairs have no transforms, got {got}; leave them out, or name a folder of "
                "images"
            )
        rated = open_data("pairs", data, set_name=set_name, split=split)
        return RatedStimuli(rated, *numbers, settings.largest)
    if settings.largest is not None:
        raise InputError(
            f"{data}: a largest D is for rated pairs; give each transform its own, as in rotation=6"
        )
    screen = settings.pixels_per_degree
    if settings.moved:
        if ranged := [name for name, largest in settings.transforms.items() if largest is not None]:
            raise InputError(
                f"transform `{ranged[0]}`: moved frames have the magnitudes that were rendered; name it "
                "without a largest one"
            )
        moved = open_data("moved", data, set_name=set_name, split=split)
        return MovedStimuli(moved, tuple(settings.transforms), screen, *numbers, settings.seed)
    side = settings.size or _SIDE
    view = open_data("images", data, set_name=set_name, split=split, size=(side, side))
    chosen = settings.transforms or dict.fromkeys(DEFAULT_TRANSFORMS)
    largest = {name: default_largest(name) if one is None else one for name, one in chosen.items()}
    return TransformedImageSet(view, largest, screen, *numbers, settings.seed)


def shows_original(settings: ExperimentSettings, stimuli: StimulusSet) -> bool:
    """Tell whether the original is shown above the pair.

    By default it is for transforms: of a photograph and its shifted copy, nobody can tell which one was
    shifted. A distortion of a rated pair tells itself.
    """
    if settings.reminder is not None:
        return settings.reminder
    return stimuli.stimuli[0].kind == "transform"


def log_settings(settings: ExperimentSettings, stimuli: StimulusSet) -> dict[str, Any]:
    """Make the JSON values of a log's header; equal values give equal trials for each observer.

    `stimuli` is the SHA-256 of all pairs: images, magnitudes and repeats.
    """
    listed = json.dumps([astuple(stimulus) for stimulus in stimuli.stimuli])
    values = {
        **asdict(settings),
        "images": settings.pairs,
        "size": settings.size or _SIDE if isinstance(stimuli, TransformedImageSet) else None,
        "reminder": shows_original(settings, stimuli),
        "data": asdict(stimuli.identity),
        "trials": len(stimuli.stimuli),
        "stimuli": hashlib.sha256(listed.encode()).hexdigest(),
    }
    return json.loads(json.dumps(values))


_PAUSE = 0.1  # s between two looks for the end
_LAST_TRANSFER = 1.0  # s for the browser to receive the end of the page


def run_experiment(
    stimuli: StimulusSet,
    settings: ExperimentSettings,
    out: Path,
    observer: str,
    screen: Mapping[str, float | None],
    *,
    port: int = 0,
    browser: bool = True,
    tell: Callable[[str], Any] = print,
) -> tuple[ExperimentAnswers, int]:
    """Serve the page of an experiment, and log the answers.

    Args:
        stimuli: from `open_stimuli`.
        settings: settings of the experiment.
        out: log to begin or continue.
        observer: name of the observer.
        screen: `distance` of the eyes and `pitch` of the screen's pixels in mm, None if not known; they are
            logged, and belong to the settings.
        port: port of the page; 0 takes a free one.
        browser: whether to open the page in the user's browser.
        tell: takes the line with the address of the page.

    Returns:
        The answers of all observers in the log, and the number of pairs without an answer of this one. Ctrl-C
        ends the experiment early; no answer is lost.

    Raises:
        InputError: a picture cannot be read, the log has other settings or cannot be written, or the port is
            taken.
    """
    trials = plan_trials(stimuli.stimuli, settings.seed, observer)
    for stimulus in dict.fromkeys(stimuli.stimuli):  # so that none stops the observer later
        read_pictures(stimuli, stimulus)
    shown = {
        "observer": observer,
        "scale": settings.scale,
        "pixels_per_degree": settings.pixels_per_degree,
        "distance": screen["distance"],
        "reminder": shows_original(settings, stimuli),
    }
    # The port first, so that one that is taken leaves no log.
    with ExperimentServer(shown, lambda: summarise_log(out), port) as server:
        with AnswerLog(out, {**log_settings(settings, stimuli), **screen}) as log:
            session = server.session = TrialSession(stimuli, trials, log, observer, bool(shown["reminder"]))
            threading.Thread(target=server.serve_forever, args=(_PAUSE,), daemon=True).start()
            try:
                tell(f"{session.next_trial} of {len(trials)} pairs are answered; the page is {server.url}")
                if browser:
                    webbrowser.open(server.url)
                while not server.finished.wait(_PAUSE):  # Ctrl-C may reach another thread, which wakes nobody
                    pass
                time.sleep(_LAST_TRANSFER)
            except KeyboardInterrupt:
                pass  # the log holds every answer
            finally:
                server.shutdown()
        return read_answers(out), len(trials) - session.next_trial


def summarise_log(path: Path) -> dict[str, Any]:
    """Make the end of the page: a line for each fit, and the plot."""
    from candlelight.evaluation.perception.perception_plots import draw_answers

    answers = read_answers(path)
    fits = fit_answers(answers)
    return {
        "lines": [str(fit) for fit in fits],
        "plot": draw_answers(answers, fits, "svg").decode(),
    }
