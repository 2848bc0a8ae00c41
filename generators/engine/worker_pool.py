"""The workers of one run: accept or reject them, give them tasks, and repeat tasks of lost workers.

A task is submitted to one worker and no other. dask would schedule a task that any worker may run again when
its worker is lost, but not before another worker joins if at that moment none can run it.

| worker   | since                                | next                                                     |
|----------|--------------------------------------|----------------------------------------------------------|
| CHECKING | the scheduler lists it               | ACCEPTED or REJECTED, when its check returns             |
| ACCEPTED | its check found no unmet requirement | has up to `TASKS_PER_WORKER` tasks at a time             |
| REJECTED | its check found an unmet requirement | gets no task; the reason is logged once                  |
| (gone)   | the scheduler does not list it       | is forgotten; its tasks wait again, its check is dropped |

| task     | since                                | next                                                     |
|----------|--------------------------------------|----------------------------------------------------------|
| waiting  | it was submitted, or its worker left | is given to the accepted worker with the fewest tasks    |
| running  | a worker has it                      | is returned with its result, or waits again              |
| given up | over `LOST_WORKERS` workers          | is returned with `WorkersLost`                           |
|          | were lost while they had it          |                                                          |
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.worker import stop_render_processes
from candlelight.generators.engine.worker_checks import WorkerRequirements, find_unmet_requirement
from candlelight.loaders.errors import InputError, argument

_log = logging.getLogger("candlelight")


class WorkersLost(Exception):
    """Too many workers were lost while they had a task."""


class _State(Enum):
    CHECKING = "checking"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass
class _Worker:
    state: _State
    reason: str = ""  # of the rejection


@dataclass
class _Task:
    """One call on a worker; ``lost`` counts the workers that were lost while they had it."""

    function: Callable[..., Any]
    argument: Any
    worker: str = ""
    future: Any = None
    lost: int = 0


class WorkerPool:
    """The workers of a scheduler that can render for one run; workers may join and leave.

    Args:
        client: the `distributed.Client` of the scheduler.
        requirements: properties that workers must have; None if the workers are part of this process.
        run: unique name of the run.
        most: largest number of workers to use.
        refusals: list to which reasons are added when the batch system refuses jobs.
    """

    def __init__(
        self,
        client: Any,
        requirements: WorkerRequirements | None,
        run: str,
        *,
        most: int | None = None,
        refusals: Sequence[str] = (),
    ) -> None:
        self._client, self._requirements, self._run = client, requirements, run
        self._most, self._refusals = most, refusals
        self._workers: dict[str, _Worker] = {}  # by address, in the order in which they joined
        self._waiting: deque[_Task] = deque()
        self._running: dict[str, _Task] = {}  # by key of the future; tasks, and checks of workers
        self._given_up: deque[_Task] = deque()
        self._done: SimpleQueue[str] = SimpleQueue()  # keys of futures
        self._looked_at, self._idle_since, self._has_warned = float("-inf"), time.monotonic(), False

    @property
    def size(self) -> int:
        """Number of accepted workers, at least 1."""
        return max(len(self._addresses(_State.ACCEPTED)), 1)

    @property
    def has_tasks(self) -> bool:
        """Whether a task was submitted and not returned yet."""
        at_work = any(not self._is_check(task) for task in self._running.values())
        return bool(at_work or self._waiting or self._given_up)

    @property
    def has_room(self) -> bool:
        """Whether another task would be given to a worker at once."""
        return not self._waiting and self._least_loaded() is not None

    def submit(self, function: Callable[..., Any], argument: Any) -> None:
        """Add a task: the call of a function of one argument on some worker."""
        self._waiting.append(_Task(function, argument))
        self._place()

    def next_result(self) -> tuple[Any, Any] | None:
        """Wait up to `LOOK_INTERVAL` seconds for the next task to end, and update the list of workers.

        Returns:
            The argument and the result of a task, or None. The result is an exception if the task raised one,
            and `WorkersLost` if the task was given up.

        Raises:
            InputError: the connection to the scheduler is lost, or no worker can render for this run.
        """
        try:
            if time.monotonic() - self._looked_at >= retry_limits.LOOK_INTERVAL:
                self._update_workers()
                self._looked_at = time.monotonic()
                if (
                    self.has_room
                ):  # the caller may submit tasks; waiting first would cost every run an interval
                    return None
            if self._given_up:
                reason = f"more than {retry_limits.LOST_WORKERS} workers were lost while they had it"
                return self._given_up.popleft().argument, WorkersLost(reason)
            key = self._done.get(timeout=retry_limits.LOOK_INTERVAL)
        except Empty:
            return None
        except (OSError, TimeoutError) as error:
            raise self._connection_lost() from error
        task = self._running.get(key)
        if task is None:  # its worker left
            return None
        if self._is_check(task):
            self._finish_check(key, task)
            return None
        return self._finish_task(key, task)

    def close(self) -> None:
        """Cancel all tasks, and stop the render processes of the workers."""
        futures = [task.future for task in self._running.values()]
        if self._client.status != "running":
            return

        def stop() -> None:
            with suppress(Exception):  # a worker that cannot be reached is lost anyway
                self._client.cancel(futures, force=True)
                workers = self._addresses(_State.ACCEPTED)
                self._client.run(stop_render_processes, self._run, workers=workers, on_error="return")

        # In a thread, because a host that is down would never answer.
        thread = threading.Thread(target=stop, daemon=True)
        thread.start()
        thread.join(retry_limits.STOP_LIMIT)

    def _addresses(self, state: _State) -> list[str]:
        return [address for address, worker in self._workers.items() if worker.state is state]

    def _is_check(self, task: _Task) -> bool:
        return self._workers[task.worker].state is _State.CHECKING

    def _least_loaded(self) -> str | None:
        load = Counter(task.worker for task in self._running.values())
        free = [one for one in self._addresses(_State.ACCEPTED) if load[one] < retry_limits.TASKS_PER_WORKER]
        return min(free, key=load.__getitem__, default=None)

    def _place(self) -> None:
        while self._waiting and (worker := self._least_loaded()):
            self._start(self._waiting.popleft(), worker)

    def _start(self, task: _Task, worker: str) -> None:
        task.worker = worker
        task.future = self._client.submit(task.function, task.argument, pure=False, workers=[worker])
        self._running[task.future.key] = task
        self._watch(task)

    def _watch(self, task: _Task) -> None:
        task.future.add_done_callback(lambda done: self._done.put(done.key))

    def _update_workers(self) -> None:
        if self._client.status != "running":  # all futures are cancelled, and a request would wait for ever
            raise self._connection_lost()
        listed = self._client.nthreads()
        for address in [one for one in self._workers if one not in listed]:
            self._remove_worker(address)
        for address in listed:
            if address not in self._workers and self._may_add_worker():
                self._add_worker(address)
        self._place()
        self._check_idle()

    def _may_add_worker(self) -> bool:
        used = len(self._workers) - len(self._addresses(_State.REJECTED))
        return self._most is None or used < self._most

    def _add_worker(self, address: str) -> None:
        if self._requirements is None:
            self._workers[address] = _Worker(_State.ACCEPTED)
            return
        self._workers[address] = _Worker(_State.CHECKING)
        self._start(_Task(find_unmet_requirement, self._requirements), address)

    def _remove_worker(self, address: str) -> None:
        accepted = self._workers.pop(address).state is _State.ACCEPTED
        if accepted and self._requirements is not None:
            _log.warning("worker %s is lost; its tasks are repeated", address)
        for key in [key for key, task in self._running.items() if task.worker == address]:
            task = self._running.pop(key)
            task.future.release()
            if accepted:
                task.lost += 1
                (self._given_up if task.lost > retry_limits.LOST_WORKERS else self._waiting).append(task)

    def _finish_check(self, key: str, task: _Task) -> None:
        """Accept or reject the worker that a check has run on."""
        del self._running[key]
        try:
            reason = self._fetch(task)
        except TimeoutError:  # the next look finds the worker gone, or checks it once more
            del self._workers[task.worker]
            return
        task.future.release()
        if isinstance(reason, Exception):
            reason = f"{type(reason).__name__}: {reason}"
        if not reason:
            self._workers[task.worker] = _Worker(_State.ACCEPTED)
            self._place()
            return
        self._workers[task.worker] = rejected = _Worker(_State.REJECTED, " ".join(reason.split()))
        _log.warning("worker %s is left out: %s", task.worker, rejected.reason)

    def _finish_task(self, key: str, task: _Task) -> tuple[Any, Any] | None:
        try:
            result = self._fetch(task)
        except TimeoutError:  # the worker was lost before the result was fetched
            self._watch(task)
            return None
        del self._running[key]
        task.future.release()
        self._place()
        return task.argument, result

    def _fetch(self, task: _Task) -> Any:
        """Return the result of a task, or the exception that it raised.

        Raises:
            TimeoutError: the result could not be fetched.
            InputError: the connection to the scheduler is lost.
        """
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        if task.future.status == "error":  # a TimeoutError of the task must not look like one of the fetching
            return task.future.exception(timeout=retry_limits.LOOK_INTERVAL)
        try:
            return task.future.result(timeout=retry_limits.LOOK_INTERVAL)
        except (CancelledError, CommClosedError) as error:
            raise self._connection_lost() from error

    def _connection_lost(self) -> InputError:
        address = self._client.scheduler.address if self._client.scheduler else "the scheduler"
        return InputError(
            f"scheduler {address}: the connection is lost; finished samples are whole, run again to resume"
        )

    def _check_idle(self) -> None:
        """Log once that the run waits for workers; end the run if all workers were rejected."""
        rejected = self._addresses(_State.REJECTED)
        if len(rejected) < len(self._workers):
            self._idle_since = time.monotonic()
        elif rejected:
            if time.monotonic() - self._idle_since > retry_limits.JOIN_GRACE:
                raise InputError(
                    f"no worker can render this; the first of {len(rejected)}, {rejected[0]}: "
                    f"{self._workers[rejected[0]].reason}"
                )
        elif self._refusals:
            raise InputError(
                f"{argument('cluster')}: a job was refused and there is no worker: {self._refusals[0]}"
            )
        elif not self._has_warned:
            self._has_warned = True
            _log.warning("no workers yet; waiting for the first")
