"""The workers of one run: who is fit to render, what each is at, and what is done again when one is lost.

Every task is for one worker alone. Of tasks that any worker may take dask would schedule those of a lost
worker again, but not before another one joins if none was fit at that moment.

| a worker is | when                                  | then it                                           |
|-------------|---------------------------------------|---------------------------------------------------|
| new         | the scheduler names it                | is checked, unless the run has as many as it may  |
| checked     | its check is placed                   | is fit, or left out with the reason               |
| fit         | it falls short of nothing             | has up to `limits.TASKS_PER_WORKER` tasks at a time      |
| left out    | it falls short                        | is named once, and gets nothing                   |
| gone        | the scheduler names it no more        | is forgotten; its tasks wait, its check is void   |

| a task is   | when                                  | then it                                           |
|-------------|---------------------------------------|---------------------------------------------------|
| waiting     | it is submitted, or its worker gone   | is placed at the fit worker with the fewest tasks |
| placed      | a worker has it                       | is given back with its result, or waits again     |
| given up    | it cost over `LOST_WORKERS` workers   | is given back with `WorkersLost`                  |
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from generators.engine import limits
from generators.engine.worker import stop_render_processes
from generators.engine.worker_checks import WorkerRequirements, find_unmet_requirement
from loaders.errors import InputError

_log = logging.getLogger("candlelight")


class WorkersLost(Exception):
    """Too many workers were lost over a task."""


@dataclass
class _Task:
    """One call on a worker; ``lost`` counts those that were lost over it."""

    function: Callable[..., Any]
    argument: Any
    worker: str = ""
    future: Any = None
    lost: int = 0


class WorkerPool:
    """Has tasks done by the workers of a scheduler that can render for this run; they may join and leave.

    Args:
        client: the `distributed.Client` of the scheduler.
        standard: what workers are held to; None where they are part of this process.
        run: a name of the run that no other has.
        most: how many workers to take at most.
        refusals: why the batch system refused jobs, as it does so.
    """

    def __init__(
        self,
        client: Any,
        standard: WorkerRequirements | None,
        run: str,
        *,
        most: int | None = None,
        refusals: Sequence[str] = (),
    ) -> None:
        self._client, self._standard, self._run = client, standard, run
        self._most, self._refusals = most, refusals
        self._fit: dict[str, None] = {}  # addresses, in the order in which they joined
        self._left_out: dict[str, str] = {}  # reasons by address
        self._checks: dict[str, _Task] = {}  # by key of the future
        self._placed: dict[str, _Task] = {}  # by key of the future
        self._waiting: deque[_Task] = deque()
        self._given_up: deque[_Task] = deque()
        self._done: SimpleQueue[str] = SimpleQueue()
        self._looked, self._idle_since, self._told = float("-inf"), time.monotonic(), False

    @property
    def size(self) -> int:
        """How many workers there are tasks for."""
        return max(len(self._fit), 1)

    @property
    def busy(self) -> bool:
        """Whether any task has not been given back yet."""
        return bool(self._placed or self._waiting or self._given_up)

    @property
    def has_room(self) -> bool:
        """Whether another task would be placed at once."""
        return not self._waiting and self._least_busy() is not None

    def submit(self, function: Callable[..., Any], argument: Any) -> None:
        """Have a function of one argument called by some worker."""
        self._waiting.append(_Task(function, argument))
        self._place()

    def finished(self) -> Iterator[tuple[Any, Any]]:
        """Wait a moment for the next task to finish, and look after the workers meanwhile.

        Yields:
            The argument and the result of at most one task; what a task ended with, not raised, is its
            result, and `WorkersLost` that of one that was given up.

        Raises:
            InputError: the scheduler is gone, or no worker can render for this run.
        """
        try:
            if time.monotonic() - self._looked >= limits.LOOK_INTERVAL:
                self._look()
                self._looked = time.monotonic()
            if self._given_up:
                reason = f"more than {limits.LOST_WORKERS} workers were lost over it"
                yield self._given_up.popleft().argument, WorkersLost(reason)
                return
            key = self._done.get(timeout=limits.LOOK_INTERVAL)
        except Empty:
            return
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        if key in self._checks:
            self._admit(key)
        elif key in self._placed:
            yield from self._take(key)

    def close(self) -> None:
        """Give up what is under way, and have every worker stop its render child."""
        futures = [task.future for task in (*self._placed.values(), *self._checks.values())]
        if self._client.status != "running":
            return

        def stop() -> None:
            with suppress(Exception):  # workers that cannot be told are those that are lost
                self._client.cancel(futures, force=True)
                self._client.run(stop_render_processes, self._run, workers=list(self._fit), on_error="return")

        # A host that is down, though nobody has noticed yet, would keep everybody waiting.
        teller = threading.Thread(target=stop, daemon=True)
        teller.start()
        teller.join(limits.STOP_LIMIT)

    def _least_busy(self) -> str | None:
        load = Counter(task.worker for task in self._placed.values())
        free = [worker for worker in self._fit if load[worker] < limits.TASKS_PER_WORKER]
        return min(free, key=load.__getitem__, default=None)

    def _place(self) -> None:
        while self._waiting and (worker := self._least_busy()):
            self._start(self._waiting.popleft(), worker, self._placed)

    def _start(self, task: _Task, worker: str, tasks: dict[str, _Task]) -> None:
        task.worker = worker
        task.future = self._client.submit(task.function, task.argument, pure=False, workers=[worker])
        tasks[task.future.key] = task
        self._watch(task)

    def _watch(self, task: _Task) -> None:
        task.future.add_done_callback(lambda done: self._done.put(done.key))

    def _take(self, key: str) -> Iterator[tuple[Any, Any]]:
        task = self._placed[key]
        # Not by what fetching raises: a task's own TimeoutError would be taken for one of the fetching.
        result = (
            task.future.exception(timeout=limits.LOOK_INTERVAL) if task.future.status == "error" else None
        )
        try:
            result = result or self._fetch(task)
        except TimeoutError:  # lost with its worker before it was fetched
            self._watch(task)
            return
        del self._placed[key]
        task.future.release()
        self._place()
        yield task.argument, result

    def _fetch(self, task: _Task) -> Any:
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        try:
            return task.future.result(timeout=limits.LOOK_INTERVAL)
        except (CancelledError, CommClosedError) as error:
            raise self._lost() from error

    def _lost(self) -> InputError:
        address = self._client.scheduler.address if self._client.scheduler else "the scheduler"
        return InputError(f"scheduler {address}: it is gone; finished samples are whole, run again to resume")

    def _look(self) -> None:
        """See who came and who left, and place again what those who left were at."""
        if self._client.status != "running":  # which cancels every future; asking would wait for it to return
            raise self._lost()
        there = self._client.nthreads()
        for worker in [one for one in self._fit if one not in there]:
            del self._fit[worker]
            if self._standard is not None:
                _log.warning("worker %s is gone; what it was at is done again", worker)
        self._left_out = {one: why for one, why in self._left_out.items() if one in there}
        for task in _drop(self._placed, there):
            task.lost += 1
            (self._given_up if task.lost > limits.LOST_WORKERS else self._waiting).append(task)
        _drop(self._checks, there)
        checked = {task.worker for task in self._checks.values()}
        for worker in [one for one in there if one not in self._fit.keys() | self._left_out.keys() | checked]:
            if self._most is not None and len(self._fit) + len(self._checks) >= self._most:
                break
            if self._standard is None:
                self._fit[worker] = None
            else:
                self._start(_Task(find_unmet_requirement, self._standard), worker, self._checks)
        self._place()
        self._tell_idle()

    def _admit(self, key: str) -> None:
        """Take what a check says of its worker."""
        task = self._checks.pop(key)
        try:
            why = self._fetch(task)
        except InputError:
            raise
        except TimeoutError:  # lost before it could say, or looked over once more
            return
        except Exception as error:  # whatever the check itself ends with speaks against the worker
            why = f"{type(error).__name__}: {error}"
        task.future.release()
        if not why:
            self._fit[task.worker] = None
            self._place()
            return
        self._left_out[task.worker] = " ".join(why.split())
        _log.warning("worker %s is left out: %s", task.worker, self._left_out[task.worker])

    def _tell_idle(self) -> None:
        """Say once that there is nobody to work; end if there are workers and none of them can."""
        now = time.monotonic()
        if self._fit or self._checks:
            self._idle_since = now
        elif self._left_out and now - self._idle_since > limits.JOIN_GRACE:
            address, why = next(iter(self._left_out.items()))
            raise InputError(
                f"no worker can render this; the first of {len(self._left_out)}, {address}: {why}"
            )
        elif self._refusals and not self._left_out:
            raise InputError(f"--cluster: a job was refused and no worker is there: {self._refusals[0]}")
        elif not self._left_out and not self._told:
            self._told = True
            _log.warning("no workers yet; waiting for the first")


def _drop(tasks: dict[str, _Task], there: dict[str, int]) -> list[_Task]:
    """Remove and return the tasks of workers that are not there."""
    dropped = [(key, task) for key, task in tasks.items() if task.worker not in there]
    for key, task in dropped:
        del tasks[key]
        task.future.release()
    return [task for _, task in dropped]
