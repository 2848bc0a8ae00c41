"""The session of an observer, and the server of its page."""

import hmac
import io
import json
import re
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Literal

from jaxtyping import Float
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from candlelight.evaluation.perception.experiment.answers import AnswerLog, AnswerRecord
from candlelight.evaluation.perception.experiment.stimuli import Side, Stimulus, StimulusSet, Trial
from candlelight.loaders.errors import InputError, argument

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


_ADDRESS = "127.0.0.1"  # this machine alone
_LONGEST = 1024  # bytes of a request's body
_PICTURE = re.compile(r"picture/([0-9]{1,7})/(left|right|original)")
_PICTURES: dict[str, PictureName] = {"left": "left", "right": "right", "original": "original"}
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
        self,
        settings: Mapping[str, Any],
        summarise: Callable[[], Mapping[str, Any]],
        port: int = 0,
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

    def own_host(self, host: str) -> bool:
        """Tell whether a Host header names this server: another name may be an attack (DNS rebinding)."""
        return host in {f"{name}:{self.server_port}" for name in (_ADDRESS, "localhost")}

    def place(self, path: str) -> str | None:
        """Return what follows the token in a path; None without the token."""
        token, slash, rest = path.removeprefix("/").partition("/")
        return rest if slash and hmac.compare_digest(token.encode(), self._token.encode()) else None

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
        place = self._allowed_place()
        if place is None:
            return
        if place == "":
            page = files("candlelight.evaluation.perception.experiment").joinpath("page.html").read_bytes()
            self._send(page, "text/html; charset=utf-8")
        elif place == "state":
            self._send_json(self.server.state())
        elif place == "end" and self.server.session.next_trial == len(self.server.session.trials):
            try:
                self._send_json(self.server.summarise())
            except InputError as error:  # such as a log that was moved away
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            finally:
                self.server.finished.set()
        elif found := _PICTURE.fullmatch(place):
            self._send_picture(int(found[1]), _PICTURES[found[2]])
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        place = self._allowed_place()
        if place is None:
            return
        if place != "answer":
            self._refuse(HTTPStatus.NOT_FOUND)
        elif (body := self._body()) is not None:
            try:
                reply = _Reply.model_validate_json(body)
            except ValidationError:
                self._refuse(HTTPStatus.BAD_REQUEST, "expected trial, side and seconds")
                return
            try:
                self.server.session.answer(reply.trial, reply.side, reply.seconds, reply.scale)
            except InputError as error:
                self._refuse(HTTPStatus.CONFLICT, str(error))
            except OSError as error:
                self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, error.strerror or str(error))
            else:
                self._send_json(self.server.state())

    def _allowed_place(self) -> str | None:
        """Return the path after the token, or refuse the request and return None."""
        if not self.server.own_host(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.FORBIDDEN, "another host")
            return None
        origin = self.headers.get("Origin")
        if origin is not None and not self.server.own_host(origin.removeprefix("http://")):
            self._refuse(HTTPStatus.FORBIDDEN, "another origin")
            return None
        place = self.server.place(self.path)
        if place is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        return place

    def _body(self) -> bytes | None:
        """Read the body of a request, or refuse the request and return None."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        elif not (length.isascii() and length.isdigit()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        elif len(length) > 6 or int(length) > _LONGEST:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            return self.rfile.read(int(length))
        return None

    def _send_picture(self, number: int, picture: PictureName) -> None:
        try:
            data = self.server.session.picture(number, picture)
        except InputError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            return
        if data is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._send(data, "image/png")

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
