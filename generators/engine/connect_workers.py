"""Connect to the workers of a run: on this machine, at a running scheduler, or in a cluster it starts."""

import gc
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.clusters import LOCAL_HTTP, start_cluster
from candlelight.loaders.errors import InputError, argument

if TYPE_CHECKING:
    from distributed import Client

# By default dask keeps its last 1000 messages with whole tasks (measured: 12 kB of memory for each sample of
# a run), an hour of its own load, and a profile of every worker's thread. Nothing here reads them, and with
# them an idle process takes 0.04 CPU s a second instead of 0.008.
_SHORT_HISTORY = {
    "distributed.admin.low-level-log-length": 1,
    "distributed.admin.system-monitor.log-length": 60,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "2s",
    "distributed.worker.profile.enabled": False,
}

_starting = threading.Lock()


@contextmanager
def connected(
    workers: int,
    scheduler: str | None = None,
    cluster: str | None = None,
    refusals: list[str] | None = None,
) -> Iterator["Client"]:
    """Connect to the workers of a run; start them unless a scheduler is named.

    Args:
        workers: number of workers to start, in a cluster or as threads of this process; ignored with a
            scheduler.
        scheduler: address as in tcp://host:8786, or the path of a scheduler file.
        cluster: one of `CLUSTER_KINDS`, to start for this run.
        refusals: list to which a reason is added whenever a batch system refuses a job.

    Yields:
        The client. When the block ends, everything that was started for it ends.

    Raises:
        InputError: the scheduler does not answer, or the cluster does not start.
    """
    import dask
    import distributed  # noqa: F401 - its defaults must be loaded before the block changes them

    config: dict[str, Any] = dict(_SHORT_HISTORY)
    if scheduler is None and cluster is None:
        # Scheduler and workers are one process. After a long stop (Ctrl-Z, a laptop that sleeps) the
        # scheduler would take its own workers for lost and remove them, and they would not come back.
        config["distributed.scheduler.worker-ttl"] = None
    with ExitStack() as stack:
        stack.enter_context(without_late_timeouts())
        stack.enter_context(dask.config.set(config))
        stack.enter_context(without_tracebacks())
        if scheduler is not None:
            yield stack.enter_context(_client(scheduler))
            return
        started = _local(workers) if cluster is None else start_cluster(cluster, workers, refusals)
        yield stack.enter_context(_client(stack.enter_context(started)))


def _local(workers: int) -> Any:
    from distributed import LocalCluster

    # Workers import modules as they start; two threads that import at once may find half a module.
    with _starting:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            memory_limit=0,
            dashboard_address=None,
            worker_dashboard_address=LOCAL_HTTP,
            scheduler_kwargs={"dashboard_address": LOCAL_HTTP},
        )


def _client(where: Any) -> "Client":
    from distributed import Client

    address = _address(where) if isinstance(where, str) else where
    try:
        return Client(address, timeout=retry_limits.CONNECT_LIMIT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split()) or f"no answer within {retry_limits.CONNECT_LIMIT:g} s"
        raise InputError(
            f"{argument('scheduler')} {where}: expected a dask scheduler, as `dask scheduler` starts one; "
            f"{reason}"
        ) from None


def _address(where: str) -> str:
    """Return the address in a scheduler file; an address is returned unchanged."""
    path = Path(where)
    if "://" in where or not (path.suffix == ".json" or os.sep in where):
        return where
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{argument('scheduler')} {where}: expected a file that `dask scheduler --scheduler-file` "
            "wrote, or an "
            f"address as in tcp://host:8786; {type(error).__name__}: {error}"
        ) from None


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
