"""The workers of one run: who they are, what each is at, and what is done again when one is lost."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from generators.fitness import Standard, find_shortcoming
from generators.work import stop_run
from loaders.errors import InputError

IN_FLIGHT = 2  # tasks per worker that the scheduler holds: one at work, one waiting
_LOOK = 2.0  # s between looks at who is there
_GRACE = 10.0  # s that workers may join in which can render, once all that are there cannot
_STOP_LIMIT = 10.0  # s for telling workers that the run is over

_log = logging.getLogger("candlelight")


class Crew:
    """Has tasks done by the workers of a scheduler that can render for this run, each one at a time.

    Workers may join and leave at any time. Each is looked over when it joins; one that falls short is named
    and left out. What a worker was at when it was lost is done again.

    Args:
        client: the `distributed.Client` of the scheduler.
        standard: what workers are held to; None where they are part of this process.
        run: a name of the run that no other has.
        expected: how many workers are on their way; tasks for them are handed out as soon as there is one.
        most: how many workers to take at most.
        refusals: why the batch system refused jobs, as it does so.
    """

    def __init__(
        self,
        client: Any,
        standard: Standard | None,
        run: str,
        *,
        expected: int = 0,
        most: int | None = None,
        refusals: Sequence[str] = (),
    ) -> None:
        self.run = run
        self._client, self._standard = client, standard
        self._expected, self._most, self._refusals = expected, most, refusals
        self._done: SimpleQueue[str] = SimpleQueue()
        self._tasks: dict[str, tuple[Any, Callable[..., Any], Any]] = {}  # by key: future, function, argument
        self._checks: dict[str, tuple[Any, str]] = {}  # by key: future, address
        self._fit: set[str] = set()
        self._left_out: dict[str, str] = {}
        self._unplaced: set[str] = set()
        self._looked, self._idle_since, self._told = float("-inf"), time.monotonic(), False

    @property
    def size(self) -> int:
        """How many workers tasks are handed out for."""
        return max(len(self._fit), self._expected, 1)

    @property
    def busy(self) -> bool:
        """Whether any task has not been given back yet."""
        return bool(self._tasks)

    @property
    def has_room(self) -> bool:
        """Whether another task should be handed out."""
        return bool(self._fit) and len(self._tasks) < self.size * IN_FLIGHT

    def submit(self, function: Callable[..., Any], argument: Any) -> None:
        """Have a function of one argument called by some worker."""
        # The run's own resource, one per worker that was found fit, keeps tasks to these, one at a time.
        future = self._client.submit(function, argument, pure=False, resources={self.run: 1})
        self._tasks[future.key] = future, function, argument
        self._watch(future)

    def finished(self) -> Iterator[tuple[Any, Any]]:
        """Wait a moment for the next task to finish, and look after the crew meanwhile.

        Yields:
            The argument and the result of at most one task; what a task ended with, not raised, is its
            result, and `distributed.KilledWorker` that of one over which too many workers were lost.

        Raises:
            InputError: the scheduler is gone, or no worker can render for this run.
        """
        try:
            if time.monotonic() - self._looked >= _LOOK:
                self._look()
                self._looked = time.monotonic()
            key = self._done.get(timeout=_LOOK)
        except Empty:
            return
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        if key in self._checks:
            self._admit(*self._checks.pop(key))
        elif key in self._tasks:
            yield from self._take(key)

    def close(self) -> None:
        """Give up what is under way, and have every worker stop its render child."""
        futures = [future for future, *_ in (*self._tasks.values(), *self._checks.values())]
        self._tasks, self._checks = {}, {}
        if self._client.status != "running":
            return

        def stop() -> None:
            with suppress(Exception):  # workers that cannot be told are those that are lost
                self._client.cancel(futures, force=True)
                self._client.run(stop_run, self.run, workers=list(self._fit), on_error="return")

        # A host that is down, though nobody has noticed yet, would keep everybody waiting.
        teller = threading.Thread(target=stop, daemon=True)
        teller.start()
        teller.join(_STOP_LIMIT)

    def _watch(self, future: Any) -> None:
        future.add_done_callback(lambda done: self._done.put(done.key))

    def _take(self, key: str) -> Iterator[tuple[Any, Any]]:
        future, _, argument = self._tasks[key]
        # Not by what fetching raises: a task's own TimeoutError would be taken for one of the fetching.
        result = future.exception(timeout=_LOOK) if future.status == "error" else None
        try:
            result = result or self._fetch(future)
        except TimeoutError:  # lost with its worker before it was fetched, and on its way again
            self._watch(future)
            return
        del self._tasks[key]
        future.release()
        yield argument, result

    def _fetch(self, future: Any) -> Any:
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        try:
            return future.result(timeout=_LOOK)
        except (CancelledError, CommClosedError) as error:
            raise self._lost() from error

    def _lost(self) -> InputError:
        address = self._client.scheduler.address if self._client.scheduler else "the scheduler"
        return InputError(f"scheduler {address}: it is gone; finished samples are whole, run again to resume")

    def _look(self) -> None:
        """See who came and who left, and place again what no worker is at."""
        there = self._client.nthreads()
        for address in [one for one in self._fit if one not in there]:
            self._fit.discard(address)
            if self._standard is not None:
                _log.warning("worker %s is gone; what it was at is done again", address)
        self._left_out = {one: why for one, why in self._left_out.items() if one in there}
        for key, (future, address) in list(self._checks.items()):
            if address not in there:
                del self._checks[key]
                future.release()
        known = self._fit | self._left_out.keys() | {address for _, address in self._checks.values()}
        for address in [one for one in there if one not in known]:
            if self._most is None or len(self._fit) + len(self._checks) < self._most:
                self._check(address)
        self._place_again()
        self._tell_idle()

    def _check(self, address: str) -> None:
        future = self._client.submit(
            _look_over, self._standard, self.run, pure=False, workers=[address], allow_other_workers=False
        )
        self._checks[future.key] = future, address
        self._watch(future)

    def _admit(self, future: Any, address: str) -> None:
        try:
            why = self._fetch(future)
        except InputError:
            raise
        except TimeoutError:  # lost before it could say, or looked over once more
            return
        except Exception as error:  # whatever the check itself ends with speaks against the worker
            why = f"{type(error).__name__}: {error}"
        future.release()
        if not why:
            self._fit.add(address)
            return
        self._left_out[address] = " ".join(why.split())
        _log.warning("worker %s is left out: %s", address, self._left_out[address])

    def _place_again(self) -> None:
        """Submit anew what was left without a worker; a scheduler does not come back to it by itself."""
        if not self._fit:
            return
        placed = {key for keys in self._client.processing().values() for key in keys}
        pending = {key for key, (future, *_) in self._tasks.items() if not future.done()}
        unplaced = pending - placed
        for key in unplaced & self._unplaced:  # twice in a row: it was not just on its way
            future, function, argument = self._tasks.pop(key)
            self._client.cancel([future], force=True)
            self.submit(function, argument)
        self._unplaced = unplaced

    def _tell_idle(self) -> None:
        """Say once that there is nobody to work; end if there are workers and none of them can."""
        now = time.monotonic()
        if self._fit or self._checks:
            self._idle_since = now
        elif self._left_out and now - self._idle_since > _GRACE:
            address, why = next(iter(self._left_out.items()))
            raise InputError(
                f"no worker can render this; the first of {len(self._left_out)}, {address}: {why}"
            )
        elif self._refusals and not self._left_out:
            raise InputError(f"--cluster: a job was refused and no worker is there: {self._refusals[0]}")
        elif not self._left_out and not self._told:
            self._told = True
            _log.warning("no workers yet; waiting for the first")


def _look_over(standard: Standard | None, run: str) -> str:
    """Say what this worker falls short of; if nothing, it takes tasks of the run from now on."""
    from distributed import get_worker
    from distributed.utils import sync

    why = find_shortcoming(standard) if standard else ""
    if not why:
        worker = get_worker()
        sync(worker.loop, worker.set_resources, **{run: 1})
    return why
