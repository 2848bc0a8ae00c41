"""Answer requests inside a render process: read trace groups from standard input, render, write replies.

``python -m MODULE REPLIES`` reads JSON lines from standard input and writes JSON lines to the file descriptor
REPLIES; standard output and error are its log. The first line holds the settings, and is answered by
``{"ready": true}``. Every other line is a trace group, and is answered by
``{"written": [ids], "cpu_seconds": s}`` or ``{"error": text, "fatal": bool, "cpu_seconds": s}``. The process
ends when standard input does, so it does not outlive its owner for long.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

from pydantic import TypeAdapter

from candlelight.generators.engine.devices import DeviceRequest
from candlelight.generators.engine.helper_process import end_with_owner
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.planning.provenance import EditedAssetError
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.errors import InputError

TRACE_GROUP = TypeAdapter(tuple[SamplePlan, ...])
WriteSamples = Callable[[], list[str]]


@runtime_checkable
class GroupRenderer(Protocol):
    """A renderer of one recipe that writes frames into one folder."""

    def trace(self, group: Sequence[SamplePlan]) -> WriteSamples:
        """Trace the light of a group.

        Returns:
            A function that writes every sample of the group and returns their ids. The function is called
            once, in another thread, while the next group may be traced.
        """


MakeRenderer = Callable[[Path, Recipe, int, DeviceRequest], GroupRenderer]


def serve(requests: TextIO, replies: TextIO, make_renderer: MakeRenderer) -> None:
    """Answer every trace group of the request lines with a reply line, until the requests end.

    While one group is traced, a second thread decomposes, denoises and writes the group before. No more than
    these two groups are in memory.

    Args:
        requests: lines of JSON: the settings, then trace groups.
        replies: file for the reply lines, in the order of the groups.
        make_renderer: makes the renderer from folder, recipe, number of threads and device request.
    """
    answer = partial(print, file=replies, flush=True)
    settings = json.loads(requests.readline())
    recipe = Recipe.model_validate(settings["recipe"])
    device = DeviceRequest(**settings["device"])
    try:
        renderer = make_renderer(Path(settings["root"]), recipe, settings["threads"], device)
    except InputError as error:
        sys.exit(str(error))  # last line of the log, which the owner shows to the user
    answer(json.dumps({"ready": True}))
    clock = _CpuClock()

    def finish(traced: WriteSamples | Exception) -> None:
        try:
            answer(json.dumps({**_write(traced), "cpu_seconds": clock.lap()}))
        except BaseException:  # the owner must not wait for an answer, nor this process for another request
            traceback.print_exc()
            os._exit(1)

    with ThreadPoolExecutor(1) as writer:
        previous: Future[None] | None = None
        for line in requests:
            traced = _trace(renderer, TRACE_GROUP.validate_json(line))
            if previous is not None:
                previous.result()
            previous = writer.submit(finish, traced)


class _CpuClock:
    """Divides the CPU time of the process among its replies; the first reply includes the start."""

    def __init__(self) -> None:
        self._last = 0.0

    def lap(self) -> float:
        now = time.process_time()
        lap, self._last = now - self._last, now
        return lap


def _trace(renderer: GroupRenderer, group: Sequence[SamplePlan]) -> WriteSamples | Exception:
    try:
        return renderer.trace(group)
    except (OSError, ValueError, RuntimeError) as error:
        return error


def _write(traced: WriteSamples | Exception) -> dict[str, Any]:
    """Write the samples of a traced group and return the reply; errors of trace and write are one reply."""
    try:
        if isinstance(traced, Exception):
            raise traced
        return {"written": traced()}
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return {"error": f"{error.strerror or error}{where}", "fatal": True}
    except (ValueError, RuntimeError) as error:
        return {"error": str(error), "fatal": isinstance(error, EditedAssetError)}


def run_renderer(make_renderer: MakeRenderer) -> None:
    """Serve the owner of this process, over the file descriptor on the command line, until the owner ends."""
    end_with_owner()
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as replies:
        serve(sys.stdin, replies, make_renderer)


def cpu_features() -> str:
    """Name the vector instructions by which Cycles, the denoiser and numpy choose their kernels."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    flags = next((line.split(":")[1].split() for line in text.splitlines() if line.startswith("flags")), [])
    return " ".join(flag for flag in ("sse4_2", "avx2", "avx512f") if flag in flags) or "unknown"
