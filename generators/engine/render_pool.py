"""The render processes of one machine, each of which takes the next trace group as soon as it has room.

This is the only scheduler of frames. A run on one machine gives it the whole plan; each worker of a dask
scheduler has one, which gets slices of the plan (`dask_pool`).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Self

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.output_locks import GroupLocks
from candlelight.generators.engine.render_process import (
    GroupResult,
    GroupStatus,
    RenderProcess,
    RunSettings,
    TraceGroup,
)
from candlelight.loaders.frames import is_complete

_log = logging.getLogger("candlelight")

Finished = tuple[TraceGroup, GroupResult]
Render = Callable[[Iterable[TraceGroup]], Iterator[Finished]]


class RenderPool:
    """Render processes of one run on this machine; leaving the context ends them.

    Args:
        settings: settings of the run.
        workers: number of render processes.

    Example:
        >>> from candlelight.generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=3)
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as out:  # doctest: +SKIP
        ...     with RenderPool(RunSettings(Path(out), plan.recipe), 2) as pool:
        ...         sum(len(result.written) for _, result in pool.render(plan.groups.values()))
        3
    """

    def __init__(self, settings: RunSettings, workers: int) -> None:
        self._root = settings.root
        self._closed, self._rendering = False, threading.Lock()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._processes = [RenderProcess(settings) for _ in range(workers)]
        # They live as long as the pool: Linux ends a render process together with the thread that started it.
        self._threads = [
            threading.Thread(target=self._work, args=(process,), daemon=True) for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> bool:
        """Whether a call of `render` is under way."""
        return self._rendering.locked()

    def render(self, groups: Iterable[TraceGroup]) -> Iterator[Finished]:
        """Render trace groups, and yield each with its result as soon as it is finished.

        A group that another run has locked is LOCKED, and is not tried again. Calls take turns. When another
        thread closes the pool, the groups that are left are not yielded.
        """
        with self._rendering:
            call = _Call(iter(groups))
            for _ in self._threads:
                self._calls.put(call)
            # Threads end at what `close` puts after its mark; without the mark they find this call before.
            working = 0 if self._closed else len(self._threads)
            while working:
                ended = call.done.get()
                if isinstance(ended, Exception):
                    raise ended
                if ended is None:
                    working -= 1
                else:
                    yield ended

    def close(self) -> None:
        """Kill the render processes. Finished samples are on disk; any thread may call this."""
        self._closed = True
        for process in self._processes:
            process.retire()
            self._calls.put(None)
        for thread in self._threads:
            thread.join(retry_limits.END_LIMIT)
        for process in self._processes:
            process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self, process: RenderProcess) -> None:
        while (call := self._calls.get()) is not None:
            locked = dict[str, tuple[TraceGroup, GroupLocks]]()
            try:
                for group, result in process.render_all(self._claim(call, locked)):
                    whole, locks = locked.pop(group[0].group)
                    locks.close()
                    call.done.put((whole, result))
            except Exception as error:  # raised in the thread that waits for the results
                call.done.put(error)
            for _, locks in locked.values():
                locks.close()
            call.done.put(None)

    def _claim(self, call: "_Call", locked: dict[str, tuple[TraceGroup, GroupLocks]]) -> Iterator[TraceGroup]:
        """Take and lock one group after the other, and yield its samples that are missing."""
        while not self._closed and (group := call.take()) is not None:
            try:
                locks = GroupLocks(self._root)
                free = locks.try_lock(group[0].group)
            except OSError as error:  # the folder is gone, or there are no more file handles
                call.done.put((group, GroupResult(GroupStatus.FATAL, error=str(error))))
                return
            # Another run may have finished samples before this one had the lock.
            missing = [one for one in group if not is_complete(self._root, one.set, one.index)]
            if free and missing:
                locked[group[0].group] = group, locks
                yield missing
            else:
                locks.close()
                call.done.put((group, GroupResult(GroupStatus.LOCKED if missing else GroupStatus.WRITTEN)))


@dataclass
class _Call:
    """One call of `RenderPool.render`: groups that its threads take one after the other, and their results.

    ``done`` gets each group with its result, exceptions, and None when a thread finds no more groups.
    """

    coming: Iterator[TraceGroup]
    done: "SimpleQueue[Finished | Exception | None]" = field(default_factory=SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> TraceGroup | None:
        with self.lock:
            group = next(self.coming, None)
        # Groups are unpacked here and no earlier, so that a plan of millions fits into memory.
        return None if group is None else tuple(group)


def render_unlocked(render: Render, groups: Sequence[TraceGroup]) -> Iterator[Finished]:
    """Render trace groups, and those that another run has locked again when there is nothing else left."""
    has_warned = False
    while groups:
        locked = []
        for group, result in render(groups):
            if result.status is GroupStatus.LOCKED:
                locked.append(group)
            else:
                yield group, result
        if locked:
            if not has_warned:
                _log.warning("waiting for another run, which has locked %d trace groups", len(locked))
                has_warned = True
            time.sleep(retry_limits.LOCKED_GROUPS_INTERVAL)
        groups = locked
