"""Hand slices of a plan to the workers of a dask scheduler, each of which has a render pool.

A slice is submitted to one worker and no other. dask would schedule a task that any worker may run again when
its worker is lost, but not before another worker joins if at that moment none can run it.

| worker   | since                                | next                                                    |
|----------|--------------------------------------|---------------------------------------------------------|
| checking | the scheduler lists it               | accepted or rejected, when its check returns            |
| accepted | its check found no unmet requirement | has up to `SLICES_PER_WORKER` slices at a time          |
| rejected | its check found an unmet requirement | gets no slice; the reason is logged once                |
| (gone)   | the scheduler does not list it       | is forgotten; the groups of its slices are queued again |

| group    | since                                | next                                                    |
|----------|--------------------------------------|---------------------------------------------------------|
| queued   | the start                            | is put into a slice when a worker has room              |
| in slice | the slice was submitted              | is yielded with its result; is queued again if the time |
|          |                                      | of the slice was up, or if its worker was lost          |
| given up | over `LOST_WORKERS` workers were     | is yielded as FAILED                                    |
|          | lost while they had it               |                                                         |
"""

import logging
import threading
import time
import traceback
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.dask_clusters import connected
from candlelight.generators.engine.render_pool import Finished, RenderPool
from candlelight.generators.engine.render_process import GroupResult, GroupStatus, RunSettings, TraceGroup
from candlelight.generators.engine.worker_checks import (
    WorkerRequirements,
    find_unmet_requirement,
    worker_requirements,
)
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.schema import AssetRecord

_log = logging.getLogger("candlelight")

# ------------------------------------------------------------------------------------------- on a worker

# By address of the worker and name of the run; dask workers may be threads of one process.
_pools: dict[tuple[str, str], RenderPool] = {}
_ended: set[str] = set()  # runs that are over; slices of them may still arrive
_lock = threading.Lock()  # for both


def render_slice(settings: RunSettings, run: str, groups: Sequence[TraceGroup]) -> list[GroupResult | None]:
    """Render trace groups in the pool that this worker has for a run, for `SLICE_SECONDS`.

    Returns:
        The result of each group; None for a group that was not begun in time.
    """
    from distributed import get_worker

    key = get_worker().address, run
    with _lock:
        if run in _ended:
            return [None] * len(groups)
        for other in [one for one in _pools if one[0] == key[0] and one != key and not _pools[one].busy]:
            _pools.pop(other).close()  # one run at a time, as far as the memory of a worker goes
        if key not in _pools:
            _pools[key] = RenderPool(settings, 1)
        pool = _pools[key]
    results = {group[0].group: result for group, result in pool.render(_in_time(groups))}
    return [results.get(group[0].group) for group in groups]


def _in_time(groups: Iterable[TraceGroup]) -> Iterator[TraceGroup]:
    end = time.monotonic() + retry_limits.SLICE_SECONDS
    for group in groups:
        yield group
        if time.monotonic() > end:
            return


def end_run(run: str) -> None:
    """Kill this worker's render process of a run that is over, and refuse later slices of the run."""
    with _lock:
        _ended.add(run)
        pools = [_pools.pop(key) for key in list(_pools) if key[1] == run]
    for pool in pools:
        pool.close()


# ------------------------------------------------------------------------------- on the submitting side


@contextmanager
def open_dask_pool(
    settings: RunSettings,
    assets: tuple[AssetRecord, ...],
    workers: int | None,
    scheduler: str | None,
    cluster: str | None,
) -> Iterator["DaskPool"]:
    """Connect to the workers of a scheduler, or of a cluster that is started for this run.

    Args:
        settings: settings of the run.
        assets: assets that the plan needs.
        workers: number of workers to start, or the largest number to use of a scheduler's workers.
        scheduler: address or scheduler file.
        cluster: kind of cluster to start.

    Raises:
        InputError: the workers cannot be started or reached.
    """
    refusals = list[str]()
    with (
        worker_requirements(settings, assets) as requirements,
        connected(workers or 1, scheduler, cluster, refusals) as client,
    ):
        pool = DaskPool(client, settings, requirements, workers, refusals)
        try:
            yield pool
        finally:
            pool.close()


@dataclass(frozen=True)
class _Call:
    """A slice that a worker has, or the check of a worker, which has no groups."""

    future: Any
    worker: str
    groups: tuple[TraceGroup, ...] = ()


class DaskPool:
    """The workers of a scheduler that can render for one run; workers may join and leave.

    Args:
        client: the `distributed.Client` of the scheduler.
        settings: settings of the run.
        requirements: properties that workers must have.
        most: largest number of workers to use.
        refusals: list to which reasons are added when the batch system refuses jobs.
    """

    def __init__(
        self,
        client: Any,
        settings: RunSettings,
        requirements: WorkerRequirements,
        most: int | None = None,
        refusals: Sequence[str] = (),
    ) -> None:
        self._client, self._requirements = client, requirements
        self._most, self._refusals = most, refusals
        self._run = f"candlelight-{uuid.uuid4().hex}"
        self._render_slice = partial(render_slice, settings, self._run)
        self._queue: deque[TraceGroup] = deque()
        self._lost: Counter[str] = Counter()  # lost workers by group
        self._checking, self._accepted, self._rejected = set[str](), set[str](), dict[str, str]()
        self._running: dict[str, _Call] = {}  # by key of the future
        self._done: SimpleQueue[str] = SimpleQueue()  # keys of futures
        self._next_look, self._idle_since, self._has_warned = 0.0, time.monotonic(), False

    def render(self, groups: Iterable[TraceGroup]) -> Iterator[Finished]:
        """Render trace groups, and yield each with its result, as `RenderPool.render` does.

        Raises:
            InputError: the connection to the scheduler is lost, or no worker can render for this run.
        """
        self._queue = deque(groups)
        while self._queue or any(call.groups for call in self._running.values()):
            try:
                if time.monotonic() >= self._next_look:
                    yield from self._look()
                    self._next_look = time.monotonic() + retry_limits.LOOK_INTERVAL
                self._fill()
                yield from self._next_results()
            except (OSError, TimeoutError) as error:
                raise self._connection_lost() from error

    def close(self) -> None:
        """Cancel all slices, and end the render processes of the workers."""
        end_run(self._run)  # of workers that are threads of this process, even if their scheduler is lost
        if self._client.status != "running":
            return
        futures = [call.future for call in self._running.values()]

        def stop() -> None:
            with suppress(Exception):  # a worker that cannot be reached is lost anyway
                self._client.cancel(futures, force=True)
                self._client.run(end_run, self._run, workers=list(self._accepted), on_error="return")

        # In a thread, because a host that is down would never answer.
        thread = threading.Thread(target=stop, daemon=True)
        thread.start()
        thread.join(retry_limits.STOP_LIMIT)

    def _look(self) -> Iterator[Finished]:
        """Compare the workers with those that the scheduler lists; yield the groups that are given up."""
        if self._client.status != "running":  # all futures are cancelled, and a request would wait for ever
            raise self._connection_lost()
        listed = self._client.nthreads()
        known = {*self._checking, *self._accepted, *self._rejected}
        for address in known - listed.keys():
            yield from self._forget(address)
        for address in listed:
            used = len(self._checking) + len(self._accepted)
            if address not in known and (self._most is None or used < self._most):
                self._checking.add(address)
                self._call(find_unmet_requirement, self._requirements, address)
        self._check_idle()

    def _forget(self, address: str) -> Iterator[Finished]:
        if address in self._accepted:
            _log.warning("worker %s is lost; its tasks are repeated", address)
        self._checking.discard(address)
        self._accepted.discard(address)
        self._rejected.pop(address, None)
        for key in [key for key, call in self._running.items() if call.worker == address]:
            call = self._running.pop(key)
            call.future.release()
            for group in call.groups:
                self._lost[group[0].group] += 1
                if self._lost[group[0].group] > retry_limits.LOST_WORKERS:
                    reason = f"more than {retry_limits.LOST_WORKERS} workers were lost while they had it"
                    yield group, GroupResult(GroupStatus.FAILED, error=reason)
                else:
                    self._queue.appendleft(group)

    def _fill(self) -> None:
        """Submit slices to the accepted workers that have the fewest."""
        load = Counter(call.worker for call in self._running.values())
        while self._queue and self._accepted:
            worker = min(self._accepted, key=load.__getitem__)
            if load[worker] == retry_limits.SLICES_PER_WORKER:
                return
            load[worker] += 1
            # The last slices are small, so that no worker is left with a long one.
            workers = len(self._accepted) + len(self._checking)
            share = -(-len(self._queue) // (retry_limits.SLICES_PER_WORKER * workers))
            size = min(share, retry_limits.LARGEST_SLICE)
            # Groups are unpacked here and no earlier, so that a plan of millions fits into memory.
            groups = tuple(tuple(self._queue.popleft()) for _ in range(size))
            self._call(self._render_slice, groups, worker, groups)

    def _call(
        self, function: Callable[[Any], Any], given: Any, worker: str, groups: tuple[TraceGroup, ...] = ()
    ) -> None:
        future = self._client.submit(function, given, pure=False, workers=[worker])
        self._running[future.key] = _Call(future, worker, groups)
        self._watch(future)

    def _watch(self, future: Any) -> None:
        future.add_done_callback(lambda done: self._done.put(done.key))

    def _next_results(self) -> Iterator[Finished]:
        """Wait up to `LOOK_INTERVAL` seconds for the next call to end; yield the results of its groups."""
        try:
            key = self._done.get(timeout=retry_limits.LOOK_INTERVAL)
        except Empty:
            return
        if (call := self._running.get(key)) is None:  # its worker left
            return
        try:
            result = self._fetch(call.future)
        except TimeoutError:  # the worker was lost before the result was fetched; the next look finds it gone
            self._watch(call.future)
            return
        del self._running[key]
        call.future.release()
        if not call.groups:
            self._finish_check(call.worker, result)
            return
        results = [_failed(result)] * len(call.groups) if isinstance(result, Exception) else result
        for group, group_result in zip(call.groups, results, strict=True):
            if group_result is None:
                self._queue.appendleft(group)
            else:
                yield group, group_result

    def _fetch(self, future: Any) -> Any:
        """Return the result of a call, or the exception that it raised.

        Raises:
            TimeoutError: the result could not be fetched.
            InputError: the connection to the scheduler is lost.
        """
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        if future.status == "error":  # a TimeoutError of the call must not look like one of the fetching
            return future.exception(timeout=retry_limits.LOOK_INTERVAL)
        try:
            return future.result(timeout=retry_limits.LOOK_INTERVAL)
        except (CancelledError, CommClosedError) as error:
            raise self._connection_lost() from error

    def _finish_check(self, worker: str, reason: str | Exception) -> None:
        """Accept or reject the worker that a check has run on."""
        self._checking.remove(worker)
        if isinstance(reason, Exception):
            reason = f"{type(reason).__name__}: {reason}"
        if not reason:
            self._accepted.add(worker)
            return
        self._rejected[worker] = " ".join(reason.split())
        _log.warning("worker %s is left out: %s", worker, self._rejected[worker])

    def _connection_lost(self) -> InputError:
        address = self._client.scheduler.address if self._client.scheduler else "the scheduler"
        return InputError(
            f"scheduler {address}: the connection is lost; finished samples are whole, run again to resume"
        )

    def _check_idle(self) -> None:
        """Log once that the run waits for workers; end the run if all workers were rejected."""
        if self._checking or self._accepted:
            self._idle_since = time.monotonic()
        elif self._rejected:
            if time.monotonic() - self._idle_since > retry_limits.JOIN_GRACE:
                first, reason = next(iter(self._rejected.items()))
                raise InputError(
                    f"no worker can render this; the first of {len(self._rejected)}, {first}: {reason}"
                )
        elif self._refusals:
            raise InputError(
                f"{argument('cluster')}: a job was refused and there is no worker: {self._refusals[0]}"
            )
        elif not self._has_warned:
            self._has_warned = True
            _log.warning("no workers yet; waiting for the first")


def _failed(error: Exception) -> GroupResult:
    """Make the result of the groups of a slice that ended with an exception."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return GroupResult(GroupStatus.FAILED, error=reason, log="".join(traceback.format_exception(error)))
