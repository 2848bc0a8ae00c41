"""The owner's end of a render child: start it, ask it, and kill it when it takes too long."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from generators.recipe import Recipe
from generators.scene import SamplePlan

START_LIMIT = 300.0  # s; Blender loads in about one, from a cold network disk in many
LOG_TAIL = 4000  # characters


@dataclass(frozen=True)
class Job:
    """What a child renders for: a folder, a recipe, how many threads, and when it is stopped or replaced.

    ``time_limit`` is seconds for one trace group; ``lifetime`` is the number of samples after which a child
    is replaced, because Blender's memory grows.
    """

    root: Path
    recipe: Recipe
    threads: int = 1
    time_limit: float = 900.0
    lifetime: int = 2000


@dataclass(frozen=True)
class Receipt:
    """What became of one trace group.

    ``error`` is empty if all is well; ``died`` says that the child was lost over it, ``fatal`` that no other
    group would fare better (the disk is full, the folder is gone, no child starts). ``log`` is the end of the
    child's output.
    """

    written: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    error: str = ""
    died: bool = False
    fatal: bool = False
    log: str = ""


@dataclass
class RenderChild:
    """A render child of one job, started when first needed and again after it was lost."""

    job: Job
    _process: subprocess.Popen[str] | None = None
    _replies: IO[bytes] | None = None
    _log: IO[bytes] | None = None
    _retired: bool = False
    _ready: bool = False
    _rendered: int = 0
    _buffer: bytes = field(default=b"")

    def render(self, group: Sequence[SamplePlan]) -> Receipt:
        """Have one trace group rendered and written.

        Never raises for what happens in the child: the receipt says it.
        """
        if self._retired:
            return Receipt(error="the run was stopped")
        if self._rendered >= self.job.lifetime:
            self.close()
        try:
            if self._process is None:
                self._start()
            reply = self._ask([sample.model_dump(mode="json") for sample in group], self.job.time_limit)
        except (TimeoutError, EOFError, BrokenPipeError) as error:
            what = str(error) or "the render child is gone"
            receipt = Receipt(error=what, died=True, fatal=not self._ready, log=self._tail())
            self.close()
            return receipt
        self._rendered += len(group)
        if "error" in reply:
            return Receipt(error=reply["error"], fatal=reply["fatal"], log=self._tail())
        return Receipt(written=tuple(reply["written"]), cpu_seconds=reply["cpu_seconds"])

    def retire(self) -> None:
        """Stop for good, from whichever thread: what is being rendered ends at once, nothing starts anew.

        The thread that waits for the child cleans up after it; `close` does where none waits.
        """
        self._retired = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """Kill the child if it lives. What it had finished is on disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._replies, self._log):
                if stream is not None:
                    _close_quietly(stream)
        self._process, self._replies, self._log = None, None, None
        self._ready, self._rendered, self._buffer = False, 0, b""

    def _start(self) -> None:
        read_end, write_end = os.pipe()
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module(), str(write_end)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(write_end,),
            text=True,
        )
        os.close(write_end)
        self._replies = os.fdopen(read_end, "rb", buffering=0)
        recipe = self.job.recipe.model_dump(mode="json")
        self._ask({"root": str(self.job.root), "recipe": recipe, "threads": self.job.threads}, START_LIMIT)
        self._ready = True

    def _module(self) -> str:
        traced = any(image_set.layout.leaves is None for image_set in self.job.recipe.sets.values())
        return "generators.blender.child" if traced else "generators.painter"

    def _ask(self, message: Any, limit: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        print(json.dumps(message), file=self._process.stdin, flush=True)
        return dict(json.loads(self._read_line(limit)))

    def _read_line(self, limit: float) -> bytes:
        """Read one reply; TimeoutError after ``limit`` seconds of silence, EOFError if the child died."""
        assert self._replies is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(limit):
                    raise TimeoutError(f"no answer within {limit:g} s; the render child was stopped")
                received = self._replies.read(65536)
                if not received:
                    raise EOFError(f"the render child ended with {self._exit_status()}")
                self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _exit_status(self) -> str:
        assert self._process is not None
        status = self._process.wait()
        return f"signal {-status}" if status < 0 else f"status {status}"

    def _tail(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-LOG_TAIL:]


def _close_quietly(stream: Any) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        pass  # the child died with a request unread; there is nothing left to flush to
