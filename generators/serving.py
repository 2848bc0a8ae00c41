"""The child's end: read trace groups from standard input, render them, answer with receipts.

``python -m MODULE REPLIES`` reads JSON lines from standard input and writes JSON lines to the file descriptor
REPLIES; chatter goes to standard output and error. The first line is the job, every other one a group. A
child ends when standard input does, so it never outlives its owner for long.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

from generators.recipe import Recipe
from generators.scene import SamplePlan


@runtime_checkable
class Renders(Protocol):
    """What makes frames: of one recipe, into one folder."""

    def render(self, group: Sequence[SamplePlan]) -> list[str]:
        """Write every sample of a trace group and return their ids."""


def serve(requests: TextIO, replies: TextIO, start: Callable[[Path, Recipe, int], Renders]) -> None:
    """Answer every request line with a reply line, until there are no more.

    Args:
        requests: the job, then trace groups.
        replies: where the answers go.
        start: makes the renderer from the job's folder, recipe and number of threads.
    """
    answer = partial(print, file=replies, flush=True)
    job = json.loads(requests.readline())
    renderer = start(Path(job["root"]), Recipe.model_validate(job["recipe"]), job["threads"])
    answer(json.dumps({"ready": True}))
    for line in requests:
        group = [SamplePlan.model_validate_json(json.dumps(sample)) for sample in json.loads(line)]
        started = time.process_time()
        try:
            reply: dict[str, Any] = {"written": renderer.render(group)}
        except OSError as error:
            reply = {"error": str(error), "fatal": True}
        except (ValueError, RuntimeError) as error:
            reply = {"error": str(error), "fatal": False}
        answer(json.dumps({**reply, "cpu_seconds": time.process_time() - started}))


def run(start: Callable[[Path, Recipe, int], Renders]) -> None:
    """Be a child: serve the owner that the command line names, and end with it."""
    _die_with_owner()
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


def _die_with_owner() -> None:
    """Ask Linux to end this process when its owner dies, even by SIGKILL."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
