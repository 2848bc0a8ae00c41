"""The child's end: read trace groups from standard input, render them, answer with receipts.

``python -m MODULE REPLIES`` reads JSON lines from standard input and writes JSON lines to the file descriptor
REPLIES; chatter goes to standard output and error. The first line is the job, every other one a list of
groups, each answered by a line of its own. A child ends when standard input does, so it never outlives its
owner for long.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

from pydantic import TypeAdapter

from generators.engine.devices import DeviceRequest
from generators.engine.helper_process import die_with_owner
from generators.language.recipe import Recipe
from generators.planning.provenance import EditedAssetError
from generators.scenes.scene import SamplePlan
from loaders.errors import InputError

TRACE_GROUPS = TypeAdapter(tuple[tuple[SamplePlan, ...], ...])
WriteSamples = Callable[[], list[str]]


@runtime_checkable
class GroupRenderer(Protocol):
    """What makes frames: of one recipe, into one folder."""

    def trace(self, group: Sequence[SamplePlan]) -> WriteSamples:
        """Trace the light of a group.

        Returns:
            What writes every sample of the group and returns their ids. It is called once, in another thread,
            while the next group may be traced.
        """


MakeRenderer = Callable[[Path, Recipe, int, DeviceRequest], GroupRenderer]


def serve(requests: TextIO, replies: TextIO, start: MakeRenderer) -> None:
    """Answer every group of the request lines with a reply line, until there are no more.

    While one group is traced, the one before is taken apart, denoised and written by a second thread; there
    are never more than these two in memory.

    Args:
        requests: the job, then lists of trace groups.
        replies: where the answers go, in the order of the groups.
        start: makes the renderer from the job's folder, recipe, number of threads and device.
    """
    answer = partial(print, file=replies, flush=True)
    job = json.loads(requests.readline())
    recipe = Recipe.model_validate(job["recipe"])
    try:
        renderer = start(Path(job["root"]), recipe, job["threads"], DeviceRequest(**job["device"]))
    except InputError as error:
        sys.exit(str(error))  # ends the log, whose last line the owner tells
    answer(json.dumps({"ready": True}))
    clock = _Clock()

    def finish(made: WriteSamples | Exception) -> None:
        answer(json.dumps({**_outcome(made), "cpu_seconds": clock.lap()}))

    with ThreadPoolExecutor(1) as writer:
        for line in requests:
            before: Future[None] | None = None
            for group in TRACE_GROUPS.validate_json(line):
                made = _attempt(partial(renderer.trace, group))
                if before is not None:
                    before.result()
                before = writer.submit(finish, made)
            if before is not None:  # nothing else would tell what ended its thread
                before.result()


class _Clock:
    """Parts the process's CPU time among its replies, starting with what its start took."""

    def __init__(self) -> None:
        self._last = 0.0

    def lap(self) -> float:
        now = time.process_time()
        lap, self._last = now - self._last, now
        return lap


def _attempt(trace: Callable[[], WriteSamples]) -> WriteSamples | Exception:
    try:
        return trace()
    except (OSError, ValueError, RuntimeError) as error:
        return error


def _outcome(made: WriteSamples | Exception) -> dict[str, Any]:
    """Finish a group, and say what became of it."""
    try:
        if isinstance(made, Exception):
            raise made
        return {"written": made()}
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return {"error": f"{error.strerror or error}{where}", "fatal": True}
    except (ValueError, RuntimeError) as error:
        return {"error": str(error), "fatal": isinstance(error, EditedAssetError)}


def run(start: MakeRenderer) -> None:
    """Be a child: serve the owner that the command line names, and end with it."""
    die_with_owner()
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as replies:
        serve(sys.stdin, replies, start)


def cpu_features() -> str:
    """Name the vector instructions that Cycles, the denoiser and numpy choose their kernels by."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    flags = next((line.split(":")[1].split() for line in text.splitlines() if line.startswith("flags")), [])
    return " ".join(flag for flag in ("sse4_2", "avx2", "avx512f") if flag in flags) or "unknown"
