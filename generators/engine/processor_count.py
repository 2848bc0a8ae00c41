"""How many processors the libraries of a process take it to have."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

THREADS_VARIABLE = "CANDLELIGHT_THREADS"  # environment variable of a render child: how many it renders with


@contextmanager
def limit_processors(count: int) -> Iterator[None]:
    """Let libraries that are loaded within count so many processors; threads may use all of them afterwards.

    Blender loads with a pool of as many threads as there are processors, and while fewer render, one of the
    others spins and takes a processor's whole time (measured: 6.7 CPU s for 2.9 of work).

    Args:
        count: processors; where there are no more, or this system cannot tell, nothing changes.

    Example:
        >>> with limit_processors(1):
        ...     len(os.sched_getaffinity(0))
        1
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:count])
    try:
        yield
    finally:
        for task in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(task.name), every)
