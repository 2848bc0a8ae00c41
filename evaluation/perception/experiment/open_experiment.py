"""Open and run a forced-choice experiment."""

import hashlib
import json
import threading
import time
import webbrowser
from collections.abc import Callable
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from candlelight.evaluation.catalogue.perception_options import ExperimentSettings
from candlelight.evaluation.perception.experiment.answers import AnswerLog, ExperimentAnswers, read_answers
from candlelight.evaluation.perception.experiment.fit_answers import fit_answers
from candlelight.evaluation.perception.experiment.session import ExperimentServer, TrialSession, read_pictures
from candlelight.evaluation.perception.experiment.stimuli import (
    StimulusSet,
    moved_stimuli,
    plan_trials,
    rated_stimuli,
    transformed_stimuli,
)
from candlelight.evaluation.perception.people import PAPER_PIXELS_PER_DEGREE, screen_pixels_per_degree
from candlelight.evaluation.views import open_data, parse_data
from candlelight.loaders.errors import InputError, argument

_RATED_LAYOUT = "tid2013"
_SIDE = 256  # pixels


def screen_geometry(settings: ExperimentSettings) -> tuple[float, int | None]:
    """Return the pixels of an image per degree, and the screen's pixels for each of them if that is fixed.

    Raises:
        InputError: the distance of the eyes without the pitch of the screen, or beside pixels per degree.

    Example:
        >>> screen_geometry(ExperimentSettings())
        (29.2, None)
    """
    distance, pitch = settings.distance, settings.pitch
    if distance is None and pitch is None:
        return settings.pixels_per_degree or PAPER_PIXELS_PER_DEGREE, settings.scale
    if distance is None or pitch is None or settings.pixels_per_degree is not None:
        one, other, last = map(argument, ("pixels_per_degree", "distance", "pitch"))
        raise InputError(f"expected {one} alone, or both {other} and {last}")
    shown = settings.scale or 1
    return screen_pixels_per_degree(pitch * shown, distance), shown


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
        >>> open_stimuli("tid2013:nowhere", ExperimentSettings(("rotation",)))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: tid2013:nowhere: rated pairs have no transforms, got \
rotation; leave them out, or name a folder of images
    """
    per_degree = screen_geometry(settings)[0]
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
        return rated_stimuli(rated, settings)
    if settings.largest is not None:
        raise InputError(
            f"{data}: a largest D is for rated pairs; give each transform its own, as in rotation=6"
        )
    if settings.moved:
        if ranged := [name for name, largest in settings.transforms.items() if largest is not None]:
            raise InputError(
                f"transform `{ranged[0]}`: moved frames have the magnitudes that were rendered; name it "
                "without a largest one"
            )
        moved = open_data("moved", data, set_name=set_name, split=split)
        return moved_stimuli(moved, settings, per_degree)
    side = settings.size or _SIDE
    view = open_data("images", data, set_name=set_name, split=split, size=(side, side))
    return transformed_stimuli(view, settings, per_degree)


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
    given = asdict(settings)
    del given["transform"]
    pictures = stimuli.stimuli[0].kind == "transform" and not settings.moved
    per_degree, scale = screen_geometry(settings)
    values = {
        "transforms": settings.transforms,
        **given,
        "images": settings.pairs,
        "size": settings.size or _SIDE if pictures else None,
        "pixels_per_degree": per_degree,
        "scale": scale,
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
    per_degree, scale = screen_geometry(settings)
    shown = {
        "observer": observer,
        "scale": scale,
        "pixels_per_degree": per_degree,
        "distance": settings.distance,
        "reminder": shows_original(settings, stimuli),
    }
    # The port first, so that one that is taken leaves no log.
    with ExperimentServer(shown, lambda: summarise_log(out), port) as server:
        with AnswerLog(out, log_settings(settings, stimuli)) as log:
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
    from candlelight.evaluation.perception.perception_report import draw_answers

    answers = read_answers(path)
    fits = fit_answers(answers)
    return {
        "lines": [str(fit) for fit in fits],
        "plot": draw_answers(answers, fits, "svg").decode(),
    }
