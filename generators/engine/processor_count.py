"""Limit the number of processors that libraries of a process see while they are loaded."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

THREADS_VARIABLE = "CANDLELIGHT_THREADS"  # environment variable: number of threads of a render process


@contextmanager
def limit_processors(count: int) -> Iterator[None]:
    """Show only ``count`` processors to libraries loaded inside; threads may use all processors afterwards.

    Blender loads with a pool of one thread per processor. While fewer threads render, another thread of the
    pool spins and keeps one processor busy (measured: 6.7 CPU s for 2.9 of work).

    Args:
        count: number of processors; nothing changes where there are no more, or where the system has no
            ``sched_setaffinity``.

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
        for thread in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):  # the thread has ended meanwhile
                os.sched_setaffinity(int(thread.name), every)
