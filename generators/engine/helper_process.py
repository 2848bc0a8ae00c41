"""Processes that answer one request and end, for what may end them: drivers, and files that Blender reads.

Render children, which live on and are timed per trace group, are
`generators.engine.render_process.RenderProcess`.
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


@dataclass(frozen=True)
class HelperOutput:
    """What a process replied, in order, its exit status, and the last line of its log."""

    replies: tuple[Any, ...]
    status: int
    last: str


def run_helper(module: str, request: Any, time_limit: float) -> HelperOutput:
    """Have a process of its own answer a request.

    Args:
        module: what the process runs, which calls `answer_request`.
        request: what can be written as JSON.
        time_limit: seconds after which the process is killed.

    Returns:
        The replies that it gave before it ended, whole ones only.

    Raises:
        TimeoutError: it was killed.

    Example:
        >>> run_helper("generators.nothing", None, 60.0).replies
        ()
    """
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as replies:
        # -P: what lies in the current folder is data, whatever modules it looks like.
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
            raise TimeoutError from None
        lines = replies.read().split("\n")[:-1]
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
    return HelperOutput(tuple(json.loads(line) for line in lines), done.returncode, last)


def answer_request(reply: Callable[[Any], Iterable[Any]]) -> None:
    """Be a process that `ask` started: reply to the request of standard input, and end."""
    die_with_owner()
    with Path(sys.argv[1]).open("w", encoding="utf-8") as replies:
        for one in reply(json.load(sys.stdin)):
            print(json.dumps(one), file=replies, flush=True)


def die_with_owner() -> None:
    """Ask Linux to end this process when its owner dies, even by SIGKILL."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
