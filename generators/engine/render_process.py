"""Control a render process from its worker: start it, send it trace groups, replace or kill it."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.devices import CPU_REQUEST, DeviceRequest
from candlelight.generators.engine.group_result import GroupResult, GroupStatus
from candlelight.generators.engine.processor_count import THREADS_VARIABLE
from candlelight.generators.engine.render_server import TRACE_GROUPS
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import is_traced
from candlelight.generators.scenes.plan_records import SamplePlan

_LOG_TAIL = 4000  # bytes


@dataclass(frozen=True)
class RunSettings:
    """Settings of the render processes of a run.

    Attributes:
        root: folder that samples are written to.
        recipe: the recipe.
        threads: render threads.
        time_limit: seconds for one trace group.
        lifetime: number of samples after which a process is replaced, because Blender's memory grows.
        device: device to trace on.
        run: unique name of the run; runs may share a worker.
    """

    root: Path
    recipe: Recipe
    threads: int = 1
    time_limit: float = 900.0
    lifetime: int = 2000
    device: DeviceRequest = CPU_REQUEST
    run: str = ""


@dataclass
class RenderProcess:
    """A render process that is started when it is first needed, and replaced when it is lost or too old."""

    settings: RunSettings
    _process: "_Process | None" = None
    _successor: "_Process | None" = None
    _retired: bool = False
    _rendered: int = 0

    def render(self, group: Sequence[SamplePlan]) -> GroupResult:
        """Render and write one trace group; errors of the process are in the result, and never raised."""
        (result,) = self.render_all([group])
        return result

    def render_all(self, groups: Sequence[Sequence[SamplePlan]]) -> Generator[GroupResult]:
        """Render and write trace groups; each is written while the next one is traced.

        Args:
            groups: at least one trace group.

        Yields:
            A result for each group, in order, as soon as the group is written. After a CRASHED or FATAL
            result there are no more results. The group after a CRASHED one may have caused the crash, because
            two groups are under way at a time.
        """
        if self._retired:
            yield GroupResult(GroupStatus.FAILED, error="the run was stopped")
            return
        try:
            process = self._ready_process(sum(map(len, groups)))
        except (_ProcessLost, OSError) as error:
            result = GroupResult(GroupStatus.FATAL, error=self._why_not_started(error))
            self.close()
            yield result
            return
        answered, limit, started = 0, self.settings.time_limit, time.perf_counter()
        try:
            process.send(TRACE_GROUPS.dump_json(tuple(map(tuple, groups))).decode(), limit)
            for group in groups:
                reply = process.reply(limit)
                now = time.perf_counter()
                self._rendered += len(group)
                answered += 1
                yield (result := _result(reply, now - started, process))
                if result.status is GroupStatus.FATAL:
                    return
                started = now
        except _ProcessLost as error:
            result = GroupResult(GroupStatus.CRASHED, error=str(error), log=process.tail())
            self.close()
            yield result
        finally:
            if answered < len(groups):  # unread answers would be taken for answers of other groups
                self.close()

    def retire(self) -> None:
        """Kill the process and start no other one; any thread may call this.

        A thread that waits for the process then cleans up. Call `close` if no thread waits.
        """
        self._retired = True
        for process in (self._process, self._successor):
            if process is not None:
                process.popen.kill()

    def close(self) -> None:
        """Kill the process if it lives. Finished samples are on disk."""
        for process in (self._process, self._successor):
            if process is not None:
                process.close()
        self._process = self._successor = None
        self._rendered = 0

    def _ready_process(self, coming: int) -> "_Process":
        """Return a process that is ready; start its successor if ``coming`` samples end its lifetime."""
        if self._process is not None and self._rendered >= self.settings.lifetime:
            self._process.close()
            self._process, self._successor, self._rendered = self._successor, None, 0
        if self._process is None:
            self._process = _Process.start(self.settings)
        if self._retired:  # by another thread, meanwhile
            self._process.popen.kill()
        self._process.wait_until_ready()
        if self._successor is None and self._rendered + coming >= self.settings.lifetime:
            self._successor = _Process.start(self.settings)
        return self._process

    def _why_not_started(self, error: Exception) -> str:
        if isinstance(error, OSError):  # no process, pipe or log file can be had
            return f"no render process starts: {error}"
        last = self._process.tail().strip().rpartition("\n")[2] if self._process else ""
        return f"{error} ({last})" if last else str(error)


class _ProcessLost(Exception):
    """The process ended, was killed after a time limit, or broke the protocol; the message says which."""


@dataclass
class _Process:
    """One process that renders, and the pipes to it."""

    popen: subprocess.Popen[str]
    replies: IO[bytes]
    log: IO[bytes]
    ready: bool = False
    buffer: bytes = b""

    @classmethod
    def start(cls, settings: RunSettings) -> "_Process":
        """Start a process and send it the settings, without waiting until it is ready."""
        read_end, write_end = os.pipe()
        with ExitStack() as stack:
            replies = stack.enter_context(os.fdopen(read_end, "rb", buffering=0))
            with os.fdopen(write_end, "wb", buffering=0):  # only the render process keeps this end
                log = stack.enter_context(tempfile.TemporaryFile())
                popen = subprocess.Popen(
                    # -P: files in the current folder are data, even if they are named like modules.
                    [sys.executable, "-P", "-m", _module(settings.recipe), str(write_end)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=(write_end,),
                    # Without HOME, Blender writes its cache to the current folder.
                    env={
                        "HOME": tempfile.gettempdir(),
                        **os.environ,
                        THREADS_VARIABLE: str(settings.threads),
                    },
                    text=True,
                )
            stack.pop_all()
        process = cls(popen, replies, log)
        message = {
            "root": str(settings.root),
            "recipe": settings.recipe.model_dump(mode="json"),
            "threads": settings.threads,
            "device": asdict(settings.device),
        }
        with suppress(_ProcessLost):  # `wait_until_ready` raises it again
            process.send(json.dumps(message), retry_limits.START_LIMIT)
        return process

    def wait_until_ready(self) -> None:
        if not self.ready:
            self.reply(retry_limits.START_LIMIT)
            self.ready = True

    def send(self, line: str, limit: float) -> None:
        """Write a line; kill the process if it does not read the line within ``limit`` seconds."""
        assert self.popen.stdin is not None
        killer = threading.Timer(limit, self.popen.kill)
        killer.daemon = True
        killer.start()
        try:
            print(line, file=self.popen.stdin, flush=True)
        except BrokenPipeError:
            raise _ProcessLost(self._how_it_ended()) from None
        finally:
            killer.cancel()

    def reply(self, limit: float) -> dict[str, Any]:
        """Read one reply; the process counts as lost after ``limit`` seconds of silence."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.replies, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(limit):
                    raise _ProcessLost(f"no answer within {limit:g} s; the render process was stopped")
                received = self.replies.read(65536)
                if not received:
                    raise _ProcessLost(self._how_it_ended())
                self.buffer += received
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError):
            raise _ProcessLost(f"the render process answered {line[:40]!r}, which is no result") from None

    def tail(self) -> str:
        """Return the end of the log, without moving the file position, which the process shares."""
        handle = self.log.fileno()
        data = os.pread(handle, _LOG_TAIL, max(0, os.fstat(handle).st_size - _LOG_TAIL))
        return data.decode(errors="replace")

    def close(self) -> None:
        self.popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(retry_limits.END_LIMIT)
        for stream in (self.popen.stdin, self.replies, self.log):
            if stream is not None:
                with suppress(BrokenPipeError):  # the process ended without reading its last request
                    stream.close()

    def _how_it_ended(self) -> str:
        try:
            status = self.popen.wait(retry_limits.END_LIMIT)
        except subprocess.TimeoutExpired:
            return "the render process stopped answering, and was stopped"
        return f"the render process ended with {f'signal {-status}' if status < 0 else f'status {status}'}"


def _module(recipe: Recipe) -> str:
    return (
        "candlelight.generators.blender.renderer"
        if is_traced(recipe)
        else "candlelight.generators.engine.dead_leaves_process"
    )


def _result(reply: dict[str, Any], seconds: float, process: _Process) -> GroupResult:
    took = {"cpu_seconds": reply["cpu_seconds"], "seconds": seconds}
    if "error" not in reply:
        return GroupResult(GroupStatus.WRITTEN, tuple(reply["written"]), **took)
    status = GroupStatus.FATAL if reply["fatal"] else GroupStatus.FAILED
    return GroupResult(status, error=reply["error"], log=process.tail(), **took)
