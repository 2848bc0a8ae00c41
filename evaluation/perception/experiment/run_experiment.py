"""Run an experiment: serve the page until all pairs are answered or the program is interrupted."""

import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from candlelight.evaluation.perception.experiment.answer_log import AnswerLog
from candlelight.evaluation.perception.experiment.experiment_server import ExperimentServer
from candlelight.evaluation.perception.experiment.fit_answers import fit_answers
from candlelight.evaluation.perception.experiment.open_experiment import (
    ExperimentSettings,
    log_settings,
    shows_original,
)
from candlelight.evaluation.perception.experiment.read_answers import ExperimentAnswers, read_answers
from candlelight.evaluation.perception.experiment.stimuli import StimulusSet
from candlelight.evaluation.perception.experiment.trial_plan import plan_trials
from candlelight.evaluation.perception.experiment.trial_session import TrialSession, read_pictures

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
    from candlelight.evaluation.perception.experiment.answer_plot import draw_answers

    answers = read_answers(path)
    fits = fit_answers(answers)
    return {
        "lines": [str(fit) for fit in fits],
        "plot": draw_answers(answers, fits, "svg").decode(),
    }
