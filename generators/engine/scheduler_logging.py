"""Silence messages of dask.distributed and asyncio that are of no use to the user of a run."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_late_timeouts() -> Iterator[None]:
    """Silence asyncio about timeouts that nobody waits for any more.

    `distributed` uses waits with a time limit, and sometimes drops such a wait as it ends. When the garbage
    is collected, asyncio prints a traceback of a TimeoutError, although there is no error.

    Example:
        >>> with without_late_timeouts():
        ...     logging.getLogger("asyncio").error("dropped", exc_info=TimeoutError("Timeout"))
    """
    logger = logging.getLogger("asyncio")
    logger.addFilter(_is_no_timeout)
    try:
        yield
    finally:
        gc.collect()
        logger.removeFilter(_is_no_timeout)


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """Silence tracebacks of `distributed` about lost connections, which a run reports in one line.

    Example:
        >>> with without_tracebacks():
        ...     logging.getLogger("distributed.utils").error("a lost connection")
    """
    import distributed  # sets the levels of its loggers when it is imported

    del distributed
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _is_no_timeout(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], TimeoutError))
