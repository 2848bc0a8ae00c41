"""Give the trace groups of a run to workers as tasks of a few groups each, and collect the results."""

import logging
import time
import traceback
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.connect_workers import connected
from candlelight.generators.engine.group_result import GroupResult, GroupStatus
from candlelight.generators.engine.render_process import RunSettings
from candlelight.generators.engine.worker import (
    TraceGroup,
    close_render_processes,
    render_groups,
    stop_render_processes,
)
from candlelight.generators.engine.worker_checks import worker_requirements
from candlelight.generators.engine.worker_pool import WorkerPool, WorkersLost
from candlelight.loaders.schema import AssetRecord

_log = logging.getLogger("candlelight")


@dataclass(frozen=True)
class WorkersWanted:
    """Workers that a user asks for: of this machine, of a scheduler, or of a cluster to start.

    Attributes:
        workers: number of workers; of a scheduler's workers the largest number to use, None for all.
        scheduler: address or scheduler file.
        cluster: kind of cluster to start.
    """

    workers: int | None = None
    scheduler: str | None = None
    cluster: str | None = None

    @property
    def local(self) -> bool:
        """Whether the workers are threads of this process."""
        return self.scheduler is None and self.cluster is None


def render_on_workers(
    settings: RunSettings,
    groups: Sequence[TraceGroup],
    wanted: WorkersWanted,
    assets: tuple[AssetRecord, ...],
) -> Iterator[tuple[TraceGroup, GroupResult]]:
    """Render trace groups on workers, and yield each group with its result as soon as it is finished.

    Raises:
        InputError: the workers cannot be started or reached, none of them can render this, or the connection
            to the scheduler is lost.
    """
    if not groups:
        return
    settings = replace(settings, run=f"candlelight-{uuid.uuid4().hex}")
    with ExitStack() as stack:
        # Runs last, when no thread of a worker uses a render process any more.
        stack.callback(close_render_processes, settings.run)
        requirements = None if wanted.local else stack.enter_context(worker_requirements(settings, assets))
        workers, refusals = min(wanted.workers or 1, len(groups)), list[str]()
        client = stack.enter_context(connected(workers, wanted.scheduler, wanted.cluster, refusals))
        pool = WorkerPool(client, requirements, settings.run, most=wanted.workers, refusals=refusals)
        stack.callback(pool.close)
        stack.callback(stop_render_processes, settings.run)
        yield from render_in_pool(pool, settings, groups)


def render_in_pool(
    pool: WorkerPool, settings: RunSettings, groups: Sequence[TraceGroup]
) -> Iterator[tuple[TraceGroup, GroupResult]]:
    """Render trace groups on the workers of a pool, and yield each group with its result.

    | a group is | since                                | next                                            |
    |------------|--------------------------------------|-------------------------------------------------|
    | queued     | the start                            | is put into a task when a worker has room       |
    | in a task  | the task was submitted               | is yielded, or is locked                        |
    | locked     | another run holds its lock           | is queued again when there is nothing else left |
    """
    queued, locked = deque(groups), list[TraceGroup]()
    size, has_warned = 1, False
    while queued or locked or pool.has_tasks:
        if not queued and not pool.has_tasks:
            if not has_warned:
                _log.warning("waiting for another run, which has locked %d trace groups", len(locked))
                has_warned = True
            time.sleep(retry_limits.LOCKED_GROUPS_INTERVAL)
            queued, locked = deque(locked), []
        while queued and pool.has_room:
            # The last tasks are small, so that no worker is left with a long one.
            count = min(size, -(-len(queued) // (retry_limits.TASKS_PER_WORKER * pool.size)), len(queued))
            # Groups are unpacked here and no earlier, so that a plan of millions fits into memory.
            pool.submit(partial(render_groups, settings), [tuple(queued.popleft()) for _ in range(count)])
        if (ended := pool.next_result()) is None:
            continue
        task, result = ended
        results = [_task_failed(result)] * len(task) if isinstance(result, Exception) else result
        size = _groups_per_task(results, size)
        for group, group_result in zip(task, results, strict=True):
            if group_result.status is GroupStatus.LOCKED:
                locked.append(group)
            else:
                yield group, group_result


def _task_failed(error: Exception) -> GroupResult:
    """Make the result of the groups of a task that ended with an exception."""
    if isinstance(error, WorkersLost):
        return GroupResult(GroupStatus.FAILED, error=str(error))
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return GroupResult(GroupStatus.FAILED, error=reason, log="".join(traceback.format_exception(error)))


def _groups_per_task(results: Sequence[GroupResult], size: int) -> int:
    """Return how many groups fill a task of the wanted length, from the seconds that groups of a task took.

    Example:
        >>> _groups_per_task([GroupResult(GroupStatus.WRITTEN, ("a",), seconds=0.1)] * 4, 4)
        40
    """
    took = [result.seconds for result in results if result.written]
    if not took:
        return size
    # At least two, because one group is written while the next is traced.
    return max(
        2,
        min(
            retry_limits.LARGEST_TASK,
            round(retry_limits.TASK_SECONDS * len(took) / max(sum(took), 1e-3)),
        ),
    )
