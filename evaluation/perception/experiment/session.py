"""The session of an observer, the server of its page, and the run of an experiment."""

import hashlib
import hmac
import io
import json
import re
import secrets
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from email.message import Message
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

from jaxtyping import Float
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from candlelight.evaluation.catalogue.perception_options import ExperimentSettings
from candlelight.evaluation.perception.experiment.answers import (
    AnswerLog,
    AnswerRecord,
    ExperimentAnswers,
    fit_answers,
    read_answers,
)
from candlelight.evaluation.perception.experiment.stimuli import (
    PICTURE_SIDE,
    Side,
    Stimulus,
    StimulusSet,
    Trial,
    plan_trials,
    screen_geometry,
)
from candlelight.loaders.errors import InputError, argument

PictureName = Literal["left", "right", "original"]
_FAST = 1  # level of compression: the pictures go no further than this machine


@dataclass(eq=False)
class TrialSession:
    """Trials of an observer, with the log as the record of what is done; safe to use from several threads.

    Attributes:
        stimuli: source of the pictures.
        trials: from `plan_trials`.
        log: open log.
        observer: name of the observer.
        reminder: whether the page may show the original as a third picture.
    """

    stimuli: StimulusSet
    trials: tuple[Trial, ...]
    log: AnswerLog
    observer: str
    reminder: bool = False

    def __post_init__(self) -> None:
        self._started = _now()
        self._drawn = lru_cache(maxsize=2)(partial(_draw_trial, self.stimuli))
        self._answering, self._drawing = threading.Lock(), threading.Lock()

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
        is_shown = picture != "original" or self.reminder
        if not (is_shown and now <= number < min(now + 2, len(self.trials))):
            return None
        with self._drawing:  # so that the pictures of a trial are made once
            return self._drawn(self.trials[number])[picture]

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
                    time=_now(),
                )
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _draw_trial(stimuli: StimulusSet, trial: Trial) -> dict[PictureName, bytes]:
    same, changed = map(_to_png, read_pictures(stimuli, trial.stimulus))
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


_ADDRESS = "127.0.0.1"  # this machine alone
_PICTURE = re.compile(r"picture/([0-9]{1,7})/(left|right|original)")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; connect-src 'self'; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Reply(BaseModel):
    """An answer of the page."""

    model_config = ConfigDict(strict=True, extra="forbid")
    trial: int = Field(ge=0)
    side: Side
    seconds: float = Field(ge=0, le=1e6)
    scale: int | None = Field(default=None, ge=1, le=1000)


class ExperimentServer(ThreadingHTTPServer):
    """Serve one experiment to the browsers of this machine; `serve_forever` starts it once `session` is set.

    A request needs the random token in its path and the address of this server as host, so that neither other
    web pages nor other programs that do not know the address can read pictures or post answers. The right
    side is decided here, and is not in anything that the page receives before or after an answer.

    Attributes:
        session: the observer's trials.
        settings: JSON values for the page: see `page.html`.
        finished: set when the page has shown the end.
    """

    daemon_threads = True
    session: TrialSession

    def __init__(
        self, settings: Mapping[str, Any], summarise: Callable[[], Mapping[str, Any]], port: int = 0
    ) -> None:
        """Bind the address.

        Args:
            settings: JSON values for the page.
            summarise: makes the content of the page at the end, `lines` and `plot` (SVG).
            port: 0 takes a free one.

        Raises:
            InputError: the port is taken.
        """
        try:
            super().__init__((_ADDRESS, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port}: {error.strerror}; leave {argument('port')} out for a free one"
            ) from None
        self.settings, self.summarise = settings, summarise
        self.finished = threading.Event()
        self._token = secrets.token_urlsafe(18)

    @property
    def url(self) -> str:
        """Address of the page, with its token."""
        return f"http://{_ADDRESS}:{self.server_port}/{self._token}/"

    def place(self, path: str, headers: Message) -> str | None:
        """Return what follows the token in a path; None without the token, or for another host or origin."""
        hosts = {f"{name}:{self.server_port}" for name in (_ADDRESS, "localhost")}
        origins = {None, *(f"http://{host}" for host in hosts)}  # other names: DNS rebinding
        token, slash, rest = path.removeprefix("/").partition("/")
        knows = bool(slash) and hmac.compare_digest(token.encode(), self._token.encode())
        return rest if knows and headers["Host"] in hosts and headers["Origin"] in origins else None

    def state(self) -> dict[str, Any]:
        """Say which trial is next."""
        return {**self.settings, "trial": self.session.next_trial, "total": len(self.session.trials)}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback of a page that was closed while it loaded."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ExperimentServer
    timeout = 30  # s for a slow or silent client
    server_version, sys_version = "candlelight", ""

    def do_GET(self) -> None:
        place, session = self.server.place(self.path, self.headers), self.server.session
        try:
            if place == "":
                page = files("candlelight.evaluation.perception.experiment").joinpath("page.html")
                self._send(page.read_bytes(), "text/html; charset=utf-8")
            elif place == "state":
                self._send_json(self.server.state())
            elif place == "end" and session.next_trial == len(session.trials):
                self._send_end()
            elif (found := _PICTURE.fullmatch(place or "")) and (
                data := session.picture(int(found[1]), cast("PictureName", found[2]))
            ):
                self._send(data, "image/png")
            else:
                self._refuse(HTTPStatus.NOT_FOUND)
        except InputError as error:  # such as an image that is damaged, or a log that was moved away
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def do_POST(self) -> None:
        if self.server.place(self.path, self.headers) != "answer":
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            reply = _Reply.model_validate_json(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self.server.session.answer(reply.trial, reply.side, reply.seconds, reply.scale)
        except InputError as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        except ValueError:  # of pydantic
            self._refuse(HTTPStatus.BAD_REQUEST, "expected trial, side and seconds")
        except OSError as error:
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, error.strerror or str(error))
        else:
            self._send_json(self.server.state())

    def _send_end(self) -> None:
        try:
            self._send_json(self.server.summarise())
        finally:
            self.server.finished.set()

    def _send_json(self, content: Mapping[str, Any]) -> None:
        self._send(json.dumps(content).encode(), "application/json")

    def _refuse(self, status: HTTPStatus, reason: str = "") -> None:
        self._send((reason or status.phrase).encode(), "text/plain; charset=utf-8", status)

    def _send(self, data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Print nothing for each request."""


def log_settings(settings: ExperimentSettings, stimuli: StimulusSet) -> dict[str, Any]:
    """Make the JSON values of a log's header; equal values give equal trials for each observer.

    `stimuli` is the SHA-256 of all pairs: images, magnitudes and repeats. By default the original is shown
    above the pair (`reminder`) for transforms: of a photograph and its shifted copy, nobody can tell which
    one was shifted. A distortion of a rated pair tells itself.
    """
    listed = json.dumps([astuple(stimulus) for stimulus in stimuli.stimuli])
    given = asdict(settings)
    del given["transform"]
    transforms = stimuli.stimuli[0].kind == "transform"
    per_degree, scale = screen_geometry(settings)
    values = {
        "transforms": settings.transforms,
        **given,
        "images": settings.pairs,
        "size": settings.size or PICTURE_SIDE if transforms and not settings.moved else None,
        "pixels_per_degree": per_degree,
        "scale": scale,
        "reminder": transforms if settings.reminder is None else settings.reminder,
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
    logged = log_settings(settings, stimuli)
    names = ("scale", "pixels_per_degree", "distance", "reminder")
    shown = {"observer": observer, **{name: logged[name] for name in names}}
    # The port first, so that one that is taken leaves no log.
    with ExperimentServer(shown, lambda: summarise_log(out), port) as server:
        with AnswerLog(out, logged) as log:
            session = server.session = TrialSession(stimuli, trials, log, observer, logged["reminder"])
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
    return {"lines": [str(fit) for fit in fits], "plot": draw_answers(answers, fits, "svg").decode()}
