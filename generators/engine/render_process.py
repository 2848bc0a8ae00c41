"""Control a render process: start it, send it trace groups, read their results, replace or kill it."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import IO, Any

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.devices import CPU_REQUEST, DeviceRequest, GpuSlot
from candlelight.generators.engine.processor_count import THREADS_VARIABLE
from candlelight.generators.engine.render_server import TRACE_GROUP
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import is_traced
from candlelight.generators.scenes.plan_records import SamplePlan

TraceGroup = Sequence[SamplePlan]
_LOG_TAIL = 4000  # bytes


class GroupStatus(StrEnum):
    """States of a trace group, and the next step for each.

    | status  | cause                                               | next                                 |
    |---------|-----------------------------------------------------|--------------------------------------|
    | WRITTEN | all samples are on disk                             | the samples are counted              |
    | FAILED  | the renderer refused the group                      | a log is written, the run goes on    |
    | CRASHED | the render process was lost over the group          | another try, then as FAILED          |
    | FATAL   | no other group would succeed, as with a full disk   | the run ends with the error          |
    | LOCKED  | another run holds the group lock                    | the group is tried again at the end  |
    """

    WRITTEN = "written"
    FAILED = "failed"
    CRASHED = "crashed"
    FATAL = "fatal"
    LOCKED = "locked"


@dataclass(frozen=True)
class GroupResult:
    """The result of one trace group.

    Attributes:
        status: state of the group.
        written: ids of the samples that were written for this result.
        error: reason in one line; empty if the status is WRITTEN or LOCKED.
        log: end of the output of the render process, for FAILED and CRASHED.
        cpu_seconds: CPU time of the render process since its previous answer, or since its start.
    """

    status: GroupStatus
    written: tuple[str, ...] = ()
    error: str = ""
    log: str = ""
    cpu_seconds: float = 0.0


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
    """

    root: Path
    recipe: Recipe
    threads: int = 1
    time_limit: float = 900.0
    lifetime: int = 2000
    device: DeviceRequest = CPU_REQUEST


@dataclass
class RenderProcess:
    """A render process that is started when it is first needed, and replaced when it is lost or too old."""

    settings: RunSettings
    _process: "_Process | None" = None
    _slot: GpuSlot | None = None
    _retired: bool = False
    _given: int = 0  # samples that the process got

    def render(self, group: TraceGroup) -> GroupResult:
        """Render and write one trace group; errors of the process are in the result, and never raised."""
        ((_, result),) = self._stream(iter([group]), deque())
        return result

    def render_all(self, groups: Iterable[TraceGroup]) -> Iterator[tuple[TraceGroup, GroupResult]]:
        """Render and write trace groups; each is written while the next one is traced.

        A group over which the process may have crashed is rendered again by itself. The next group is taken
        from ``groups`` when the process has room for it.

        Yields:
            Each group with its result, in order, as soon as the group is written; CRASHED if the group cost
            `PROCESSES_PER_GROUP` processes. After a FATAL result there are no more.
        """
        coming, lost = iter(groups), True
        while lost:
            under_way, lost = deque[TraceGroup](), False
            for group, result in self._stream(coming, under_way):
                if result.status is GroupStatus.CRASHED:
                    result = self._retry(group, result)
                    lost = result.status is not GroupStatus.FATAL
                yield group, result
            coming = chain(under_way, coming)

    def retire(self) -> None:
        """Kill the process and start no other one; any thread may call this.

        A thread that waits for the process then cleans up. Call `close` if no thread waits.
        """
        self._retired = True
        if process := self._process:
            process.popen.kill()

    def close(self) -> None:
        """Kill the process if it lives. Finished samples are on disk."""
        for one in (self._process, self._slot):
            if one is not None:
                one.close()
        self._process = self._slot = None
        self._given = 0

    def _stream(
        self, groups: Iterator[TraceGroup], under_way: deque[TraceGroup]
    ) -> Iterator[tuple[TraceGroup, GroupResult]]:
        """Render groups, up to two at a time, and yield each with its result, until one is CRASHED or FATAL.

        ``under_way`` then holds the groups that were taken and not answered.
        """
        try:
            while True:
                while self._has_room(len(under_way)) and (group := next(groups, None)) is not None:
                    under_way.append(group)
                    self._send(group)
                if not under_way:
                    return
                result = self._answer()
                yield under_way.popleft(), result
                if result.status is GroupStatus.FATAL:
                    return
        except _NotStarted as error:
            yield under_way.popleft(), GroupResult(GroupStatus.FATAL, error=str(error))
        except _ProcessLost as error:
            result = GroupResult(GroupStatus.CRASHED, error=str(error), log=self._log())
            self.close()
            yield under_way.popleft(), result
        finally:
            if under_way:  # unread answers would be taken for answers of other groups
                self.close()

    def _retry(self, group: TraceGroup, result: GroupResult) -> GroupResult:
        """Render a group by itself, because its crash may be due to another group that was under way."""
        for _ in range(retry_limits.PROCESSES_PER_GROUP - 1):
            result = self.render(group)
            if result.status is not GroupStatus.CRASHED:
                break
        return result

    def _has_room(self, under_way: int) -> bool:
        """Return whether the process may get another group; a process at its end must answer first."""
        return not under_way or (under_way < 2 and self._given < self.settings.lifetime)

    def _send(self, group: TraceGroup) -> None:
        process = self._ready_process()
        self._given += len(group)
        process.send(TRACE_GROUP.dump_json(tuple(group)).decode(), self.settings.time_limit)

    def _answer(self) -> GroupResult:
        assert self._process is not None
        reply = self._process.reply(self.settings.time_limit)
        cpu_seconds = reply["cpu_seconds"]
        if "error" not in reply:
            return GroupResult(GroupStatus.WRITTEN, tuple(reply["written"]), cpu_seconds=cpu_seconds)
        status = GroupStatus.FATAL if reply["fatal"] else GroupStatus.FAILED
        return GroupResult(status, error=reply["error"], log=self._log(), cpu_seconds=cpu_seconds)

    def _ready_process(self) -> "_Process":
        if self._given >= self.settings.lifetime:
            self.close()
        if self._process is None and not self._retired:
            self._process = self._start()
        if self._process is None or self._retired:  # by another thread, perhaps meanwhile
            self.close()
            raise _NotStarted("the run was stopped")
        try:
            self._process.wait_until_ready()
        except _ProcessLost as error:
            last = self._log().strip().rpartition("\n")[2]
            self.close()
            raise _NotStarted(f"{error} ({last})" if last else str(error)) from None
        return self._process

    def _start(self) -> "_Process":
        """Start a process that takes a GPU, if it needs one, that no other process on this host takes."""
        device = self.settings.device
        try:
            if device.device != "cpu":
                self._slot = self._slot or GpuSlot()
                device = replace(device, slot=self._slot.number)
            process = self._open()
            process.begin(replace(self.settings, device=device))
            return process
        except OSError as error:  # no process, pipe or log file can be had
            raise _NotStarted(f"no render process starts: {error}") from None

    def _open(self) -> "_Process":
        return _Process.start(["-m", _module(self.settings.recipe)], self.settings.threads)

    def _log(self) -> str:
        return self._process.tail() if self._process else ""


class _NotStarted(Exception):
    """No process can be started, and no other group would succeed; the message says why."""


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
    def start(cls, program: Sequence[str], threads: int) -> "_Process":
        """Start a process of Python that runs a program."""
        read_end, write_end = os.pipe()
        with ExitStack() as stack:
            replies = stack.enter_context(os.fdopen(read_end, "rb", buffering=0))
            with os.fdopen(write_end, "wb", buffering=0):  # only the render process keeps this end
                log = stack.enter_context(tempfile.TemporaryFile())
                popen = subprocess.Popen(
                    # -P: files in the current folder are data, even if they are named like modules.
                    [sys.executable, "-P", *program, str(write_end)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=(write_end,),
                    # Without HOME, Blender writes its cache to the current folder. Sets of own code have one
                    # order in all render processes.
                    env={
                        "HOME": tempfile.gettempdir(),
                        **os.environ,
                        "PYTHONHASHSEED": "0",
                        THREADS_VARIABLE: str(threads),
                    },
                    text=True,
                )
            stack.pop_all()
        return cls(popen, replies, log)

    def begin(self, settings: RunSettings) -> None:
        """Send the settings of a run, without waiting until the process is ready."""
        message = {
            "root": str(settings.root),
            "recipe": settings.recipe.model_dump(mode="json"),
            "threads": settings.threads,
            "device": asdict(settings.device),
        }
        with suppress(_ProcessLost):  # `wait_until_ready` raises it again
            self.send(json.dumps(message), retry_limits.START_LIMIT)

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
        else "candlelight.generators.engine.dead_leaves"
    )
