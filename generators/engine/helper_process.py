"""Run a request in a process of its own, so that a crash there does not end the command.

Drivers and files that Blender reads may crash a process. Render processes live longer and have a time limit
for each trace group; see `candlelight.generators.engine.render_process.RenderProcess`.
"""

import ctypes
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candlelight.loaders.errors import InputError


@dataclass(frozen=True)
class HelperOutput:
    """The replies of a helper process in order, its exit status, and the last line of its log."""

    replies: tuple[Any, ...]
    status: int
    last: str


def run_helper(module: str, request: Any, time_limit: float, late: str) -> HelperOutput:
    """Run a helper process and wait until it ends.

    Args:
        module: module that the process runs; the module calls `answer_request`.
        request: any value that can be written as JSON.
        time_limit: seconds after which the process is killed.
        late: message of the error if it is killed.

    Returns:
        The complete replies that the process gave before it ended.

    Raises:
        InputError: the process was killed.

    Example:
        >>> run_helper("candlelight.generators.nothing", None, 60.0, "it hangs").replies
        ()
    """
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as replies:
        # -P: files in the current folder are data, even if they are named like modules.
        command = [sys.executable, "-P", "-m", module, replies.name]
        try:
            done = subprocess.run(
                command,
                input=json.dumps(request).encode(),
                capture_output=True,
                timeout=time_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InputError(late) from None
        lines = replies.read().split("\n")[:-1]
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
    return HelperOutput(tuple(json.loads(line) for line in lines), done.returncode, last)


def answer_request(reply: Callable[[Any], Iterable[Any]]) -> None:
    """Answer the request on standard input, in a process that `run_helper` started."""
    end_with_owner()
    with Path(sys.argv[1]).open("w", encoding="utf-8") as replies:
        for one in reply(json.load(sys.stdin)):
            print(json.dumps(one), file=replies, flush=True)


def end_with_owner() -> None:
    """Ask Linux to kill this process when its owner ends, even if SIGKILL ended the owner."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
