"""The owner's end of a render child: start it, ask it, and kill it when it takes too long."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from generators.engine import limits
from generators.engine.devices import CPU_REQUEST, DeviceRequest
from generators.engine.processor_count import THREADS_VARIABLE
from generators.engine.render_server import TRACE_GROUPS
from generators.language.recipe import Recipe
from generators.language.set_settings import is_traced
from generators.scenes.scene import SamplePlan

_LOG_TAIL_BYTES = 4000  # bytes


@dataclass(frozen=True)
class RunSettings:
    """What a child renders for: a folder, a recipe, how many threads, and when it is stopped or replaced.

    ``time_limit`` is seconds for one trace group; ``lifetime`` is the number of samples after which a child
    is replaced, because Blender's memory grows. ``store`` is the URL that samples are copied to, if any; then
    the root is a folder on their way (`generators.engine.remote_output`). ``run`` tells apart the jobs of
    runs that share a worker.
    """

    root: Path
    recipe: Recipe
    threads: int = 1
    time_limit: float = 900.0
    lifetime: int = 2000
    store: str = ""
    device: DeviceRequest = CPU_REQUEST
    run: str = ""


@dataclass(frozen=True)
class GroupResult:
    """What became of one trace group.

    ``error`` is empty if all is well; ``died`` says that the child was lost over it, ``fatal`` that no other
    group would fare better (the disk is full, the folder is gone, no child starts). ``log`` is the end of the
    child's output. ``busy`` says that another run is at work on the group. ``cpu_seconds`` are the child's
    since its reply before, or since it was started; ``seconds`` is what the owner waited.
    """

    written: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    error: str = ""
    died: bool = False
    fatal: bool = False
    busy: bool = False
    log: str = ""


@dataclass
class RenderProcess:
    """A render child of one job: started when first needed, after one was lost, and before one is due."""

    job: RunSettings
    _process: "_Process | None" = None
    _successor: "_Process | None" = None
    _retired: bool = False
    _rendered: int = 0

    def render(self, group: Sequence[SamplePlan]) -> GroupResult:
        """Have one trace group rendered and written.

        Never raises for what happens in the child: the receipt says it.
        """
        return next(self.render_all([group]))

    def render_all(self, groups: Sequence[Sequence[SamplePlan]]) -> Iterator[GroupResult]:
        """Have trace groups rendered and written, each while the next is being traced.

        Args:
            groups: at least one trace group.

        Yields:
            A receipt for each group, in order, as it is written; none after one that died or is fatal, though
            the group after that may be the one that the child died of.
        """
        if self._retired:
            yield GroupResult(error="the run was stopped")
            return
        try:
            process = self._renew(sum(map(len, groups)))
            started = time.perf_counter()
            process.send(TRACE_GROUPS.dump_json(tuple(map(tuple, groups))).decode(), self.job.time_limit)
            for group in groups:
                reply = process.reply(self.job.time_limit)
                now = time.perf_counter()
                self._rendered += len(group)
                yield self._receipt(reply, now - started)
                started = now
                if reply.get("fatal"):
                    self.close()
                    return
        except (TimeoutError, EOFError, BrokenPipeError) as error:
            what = str(error) or "the render child is gone"
            died = self._process
            log = died.tail() if died else ""
            self.close()
            yield GroupResult(error=what, died=True, fatal=died is None or not died.ready, log=log)
        except OSError as error:  # no process, pipe or log can be had
            self.close()
            yield GroupResult(error=f"no render child starts: {error}", fatal=True)

    def retire(self) -> None:
        """Stop for good, from whichever thread: what is being rendered ends at once, nothing starts anew.

        The thread that waits for the child cleans up after it; `close` does where none waits.
        """
        self._retired = True
        for process in (self._process, self._successor):
            if process is not None:
                process.popen.kill()

    def close(self) -> None:
        """Kill the child if it lives. What it had finished is on disk."""
        for process in (self._process, self._successor):
            if process is not None:
                process.close()
        self._process = self._successor = None
        self._rendered = 0

    def _renew(self, coming: int) -> "_Process":
        """Return a child that is ready, its successor started if what is coming is the last that it does."""
        if self._process is not None and self._rendered >= self.job.lifetime:
            self._process.close()
            self._process, self._successor, self._rendered = self._successor, None, 0
        if self._process is None:
            self._process = _Process.start(self.job)
        if self._retired:  # meanwhile, by another thread
            self._process.popen.kill()
        self._process.wait_until_ready()
        if self._successor is None and self._rendered + coming >= self.job.lifetime:
            self._successor = _Process.start(self.job)
        return self._process

    def _receipt(self, reply: dict[str, Any], seconds: float) -> GroupResult:
        took = {"cpu_seconds": reply["cpu_seconds"], "seconds": seconds}
        if "error" in reply:
            assert self._process is not None
            return GroupResult(error=reply["error"], fatal=reply["fatal"], log=self._process.tail(), **took)
        return GroupResult(written=tuple(reply["written"]), **took)


@dataclass
class _Process:
    """One process that renders, and the pipes to it."""

    popen: subprocess.Popen[str]
    replies: IO[bytes]
    log: IO[bytes]
    ready: bool = False
    buffer: bytes = b""

    @classmethod
    def start(cls, job: RunSettings) -> "_Process":
        """Start a process and tell it its job, without waiting for it."""
        read_end, write_end = os.pipe()
        with ExitStack() as stack:
            replies = stack.enter_context(os.fdopen(read_end, "rb", buffering=0))
            with os.fdopen(write_end, "wb", buffering=0):  # only the child keeps that end
                log = stack.enter_context(tempfile.TemporaryFile())
                popen = subprocess.Popen(
                    # -P: what lies in the current folder is data, whatever modules it looks like.
                    [sys.executable, "-P", "-m", _module(job.recipe), str(write_end)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=(write_end,),
                    env={**os.environ, THREADS_VARIABLE: str(job.threads)},
                    text=True,
                )
            stack.pop_all()
        process = cls(popen, replies, log)
        message = {
            "root": str(job.root),
            "recipe": job.recipe.model_dump(mode="json"),
            "threads": job.threads,
            "device": asdict(job.device),
        }
        with suppress(BrokenPipeError):  # one that has ended already is found out when it does not get ready
            process.send(json.dumps(message), limits.START_LIMIT)
        return process

    def wait_until_ready(self) -> None:
        if not self.ready:
            self.reply(limits.START_LIMIT)
            self.ready = True

    def send(self, line: str, limit: float) -> None:
        """Write a line; BrokenPipeError if the child died, or was killed for not reading it in time."""
        assert self.popen.stdin is not None
        killer = threading.Timer(limit, self.popen.kill)
        killer.daemon = True
        killer.start()
        try:
            print(line, file=self.popen.stdin, flush=True)
        finally:
            killer.cancel()

    def reply(self, limit: float) -> dict[str, Any]:
        """Read one reply; TimeoutError after ``limit`` seconds of silence, EOFError if the child is lost."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.replies, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(limit):
                    raise TimeoutError(f"no answer within {limit:g} s; the render child was stopped")
                received = self.replies.read(65536)
                if not received:
                    raise EOFError(self._how_it_ended())
                self.buffer += received
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError):
            raise EOFError(f"the render child answered {line[:40]!r}, which is no receipt") from None

    def tail(self) -> str:
        # Its place in the file is the child's, too, which writes there.
        handle = self.log.fileno()
        data = os.pread(handle, _LOG_TAIL_BYTES, max(0, os.fstat(handle).st_size - _LOG_TAIL_BYTES))
        return data.decode(errors="replace")

    def close(self) -> None:
        self.popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(limits.END_LIMIT)
        for stream in (self.popen.stdin, self.replies, self.log):
            if stream is not None:
                with suppress(BrokenPipeError):  # it died with a request unread: nothing is left to flush to
                    stream.close()

    def _how_it_ended(self) -> str:
        try:
            status = self.popen.wait(limits.END_LIMIT)
        except subprocess.TimeoutExpired:
            return "the render child stopped answering, and was stopped"
        return f"the render child ended with {f'signal {-status}' if status < 0 else f'status {status}'}"


def _module(recipe: Recipe) -> str:
    return "generators.blender.renderer" if is_traced(recipe) else "generators.engine.dead_leaves_process"
