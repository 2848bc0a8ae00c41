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


def _is_no_timeout(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], TimeoutError))
