"""What the scheduler's libraries say that is of no use to anybody."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_late_timeouts() -> Iterator[None]:
    """Keep asyncio from reporting waits that ran out after nobody waited for them any more.

    `distributed` waits with limits all the time, and now and then drops such a wait as it ends. asyncio then
    prints a traceback of a TimeoutError when the garbage is collected, though nothing is amiss.

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
def without_alarms() -> Iterator[None]:
    """Keep `distributed` from printing tracebacks of what a run itself says in one line: who was lost.

    Example:
        >>> with without_alarms():
        ...     logging.getLogger("distributed.utils").error("a lost connection")
    """
    import distributed  # sets the levels of its loggers as it is imported

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
