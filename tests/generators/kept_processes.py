"""Render processes that go on to the next run: Blender starts in the time of ten small frames.

Frames do not depend on what a process rendered before (`blender/test_same_bytes.py`), so tests of pixels may
share processes. Tests of the processes themselves start their own.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import pytest

from candlelight.generators.engine import render_pool
from candlelight.generators.engine.render_process import RenderProcess, _Process, _ProcessLost
from candlelight.generators.language.set_settings import is_traced

RENDERERS = {
    True: ("candlelight.generators.blender.renderer", "Renderer"),
    False: ("candlelight.generators.engine.dead_leaves", "DeadLeavesRenderer"),
}
# Serves one run after the other; an empty line ends a run, and the end of standard input the process.
SERVE_RUNS = """
import os, sys
from {} import {} as Renderer
from candlelight.generators.engine.render_server import serve

class Run:
    def __init__(self, first):
        self.first = first

    def readline(self):
        return self.first

    def __iter__(self):
        while (line := sys.stdin.readline()).strip():
            yield line

with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as replies:
    while first := sys.stdin.readline():
        serve(Run(first), replies, Renderer)
        print('{{"ended": true}}', file=replies, flush=True)
"""


class KeptProcesses:
    """Processes that wait for their next run: by whether they trace, and their number of threads."""

    def __init__(self) -> None:
        self.idle = defaultdict[tuple[bool, int], list[_Process]](list)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the runs inside use the processes, and keep those that they start."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(render_pool, "RenderProcess", partial(_KeptProcess, kept=self))
            yield

    def close(self) -> None:
        for process in chain(*self.idle.values()):
            process.close()


@dataclass
class _KeptProcess(RenderProcess):
    """A render process that is not killed at the end of a run."""

    kept: KeptProcesses = field(kw_only=True)

    @property
    def _kind(self) -> tuple[bool, int]:
        return is_traced(self.settings.recipe), self.settings.threads

    def _open(self) -> _Process:
        if idle := self.kept.idle[self._kind]:
            return idle.pop()
        traced, threads = self._kind
        return _Process.start(["-c", SERVE_RUNS.format(*RENDERERS[traced])], threads)

    def retire(self) -> None:
        self._retired = True

    def close(self) -> None:
        if self._process is not None and _has_ended(self._process):
            self._process.ready = False
            self.kept.idle[self._kind].append(self._process)
            self._process = None
        super().close()


def _has_ended(process: _Process) -> bool:
    """End the run of a process, and tell whether the process lives on."""
    try:
        process.wait_until_ready()
        process.send("", 60)
        while "ended" not in process.reply(60):
            pass
    except _ProcessLost:
        return False
    return True
