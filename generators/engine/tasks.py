"""Handing out the trace groups of a run as tasks, a few groups each, and collecting what became of them."""

import logging
import time
import traceback
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from generators.engine import limits
from generators.engine.clusters import connected
from generators.engine.render_process import GroupResult, RunSettings
from generators.engine.worker import TraceGroup, close_render_processes, render_groups, stop_render_processes
from generators.engine.worker_checks import worker_requirements
from generators.engine.worker_pool import WorkerPool, WorkersLost
from loaders.schema import AssetRecord

_log = logging.getLogger("candlelight")


@dataclass(frozen=True)
class WorkersWanted:
    """Who renders: so many workers of this machine, of a scheduler, or of a kind of cluster to start.

    Of a scheduler's workers that many are used at most; None means all.
    """

    workers: int | None = None
    scheduler: str | None = None
    cluster: str | None = None

    @property
    def local(self) -> bool:
        """Whether the workers are threads of this process."""
        return self.scheduler is None and self.cluster is None


def receipts(
    job: RunSettings, groups: Sequence[TraceGroup], hands: WorkersWanted, assets: tuple[AssetRecord, ...]
) -> Iterator[tuple[TraceGroup, GroupResult]]:
    """Yield every group with what became of it, as they finish; few are in flight, each released at once.

    Raises:
        InputError: the workers cannot be had, none of them can render this, or the scheduler is gone.
    """
    if not groups:
        return
    job = replace(job, run=f"candlelight-{uuid.uuid4().hex}")
    with ExitStack() as stack:
        # Last of all: by then no thread of a worker uses a child.
        stack.callback(close_render_processes, job.run)
        standard = None if hands.local else stack.enter_context(worker_requirements(job, assets))
        workers, refusals = min(hands.workers or 1, len(groups)), list[str]()
        client = stack.enter_context(connected(workers, hands.scheduler, hands.cluster, refusals))
        crew = WorkerPool(client, standard, job.run, most=hands.workers, refusals=refusals)
        stack.callback(crew.close)
        stack.callback(stop_render_processes, job.run)
        yield from _scheduled(crew, job, groups)


def _scheduled(
    crew: WorkerPool, job: RunSettings, groups: Sequence[TraceGroup]
) -> Iterator[tuple[TraceGroup, GroupResult]]:
    """Have tasks of a few groups each done by the crew; what another run is at work on comes last."""
    queue, busy = deque(groups), list[TraceGroup]()
    size, told = 1, False
    while queue or busy or crew.busy:
        if not queue and not crew.busy:
            if not told:
                _log.warning("waiting for another run, which is at work on %d trace groups", len(busy))
                told = True
            time.sleep(limits.LOCKED_GROUPS_INTERVAL)
            queue, busy = deque(busy), []
        while queue and crew.has_room:
            # The last tasks are small, so that no worker is left with a long one.
            count = min(size, -(-len(queue) // (limits.TASKS_PER_WORKER * crew.size)), len(queue))
            # Unpacked only now, so that a plan of millions takes no more memory than it does packed.
            crew.submit(partial(render_groups, job), [tuple(queue.popleft()) for _ in range(count)])
        for done, result in crew.finished():
            made = [_lost(result)] * len(done) if isinstance(result, Exception) else result
            size = _task_size(made, size)
            for group, receipt in zip(done, made, strict=True):
                if receipt.busy:
                    busy.append(group)
                else:
                    yield group, receipt


def _lost(error: Exception) -> GroupResult:
    """Say what became of the groups of a task that ended with an exception."""
    if isinstance(error, WorkersLost):
        return GroupResult(error=str(error))
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return GroupResult(error=what, log="".join(traceback.format_exception(error)))


def _task_size(made: list[GroupResult], size: int) -> int:
    """Work out how many groups make a task of the wanted length, from what a task took per group.

    Example:
        >>> _task_size([GroupResult(written=("a",), seconds=0.1)] * 4, 4)
        40
    """
    took = [receipt.seconds for receipt in made if receipt.written]
    if not took:
        return size
    # Two at least, so that one can be written while the other is traced.
    return max(2, min(limits.LARGEST_TASK, round(limits.TASK_SECONDS * len(took) / max(sum(took), 1e-3))))
