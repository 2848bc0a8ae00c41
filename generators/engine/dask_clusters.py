"""Connect to a dask scheduler, or start one in a cluster with dask-jobqueue or dask-kubernetes.

Clusters are set up by the configuration of dask on this machine.
"""

import gc
import importlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candlelight.generators.engine import retry_limits
from candlelight.loaders.errors import InputError, argument

if TYPE_CHECKING:
    from distributed import Client

# Module, class, and the extra that installs the module.
_CLASSES = {
    "slurm": ("dask_jobqueue", "SLURMCluster", "cluster"),
    "pbs": ("dask_jobqueue", "PBSCluster", "cluster"),
    "lsf": ("dask_jobqueue", "LSFCluster", "cluster"),
    "kubernetes": ("dask_kubernetes.operator", "KubeCluster", "kubernetes"),
}
CLUSTER_KINDS = tuple(_CLASSES)
# Scheduler and workers always serve HTTP; this address keeps it on this machine, on any free port.
LOCAL_HTTP = "localhost:0"
# By default dask keeps its last 1000 messages with whole slices: 12 kB of memory for each sample.
_SHORT_HISTORY = {"distributed.admin.low-level-log-length": 1}


@contextmanager
def connected(
    workers: int,
    scheduler: str | None = None,
    cluster: str | None = None,
    refusals: list[str] | None = None,
) -> Iterator["Client"]:
    """Connect to a scheduler; start a cluster unless a scheduler is named.

    Args:
        workers: number of workers of the cluster.
        scheduler: address as in tcp://host:8786, or the path of a scheduler file.
        cluster: one of `CLUSTER_KINDS`, to start for this run; None with a scheduler.
        refusals: list to which a reason is added whenever a batch system refuses a job.

    Yields:
        The client. When the block ends, everything that was started for it ends.

    Raises:
        InputError: the scheduler does not answer, or the cluster does not start.
    """
    import dask
    import distributed  # noqa: F401 - its defaults must be loaded before the block changes them

    with ExitStack() as stack:
        stack.enter_context(without_late_timeouts())
        stack.enter_context(dask.config.set(_SHORT_HISTORY))
        stack.enter_context(without_tracebacks())
        started = (
            scheduler if cluster is None else stack.enter_context(start_cluster(cluster, workers, refusals))
        )
        yield stack.enter_context(_client(started))


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


def cluster_class(kind: str) -> Any:
    """Return the class that starts a kind of cluster.

    Raises:
        InputError: the kind is unknown, its package is not installed, or the commands of the batch system are
            not on this machine.
    """
    if kind not in _CLASSES:
        raise InputError(f"cluster: expected one of {', '.join(_CLASSES)}, got {kind!r}")
    module, name, extra = _CLASSES[kind]
    try:
        made = getattr(importlib.import_module(module), name)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        raise InputError(
            f"{argument('cluster')} {kind} needs {package}, not installed here; run `pip install {package}`"
        ) from None
    command = made.job_cls.submit_command.partition(" ")[0] if extra == "cluster" else None
    if command and shutil.which(command) is None:
        raise InputError(
            f"{argument('cluster')} {kind}: {command} is not on this machine; run this on a machine that "
            "has it"
        )
    return made


@contextmanager
def start_cluster(kind: str, workers: int, refusals: list[str] | None) -> Iterator[Any]:
    """Start a cluster as dask's configuration says, and let it ask for workers."""
    import dask
    from tornado.ioloop import PeriodicCallback

    made, options = cluster_class(kind), dict[str, Any]()
    if kind != "kubernetes":
        own = dask.config.get(f"jobqueue.{kind}.scheduler-options", None) or {}
        options["scheduler_options"] = {"dashboard_address": LOCAL_HTTP, **own}
        # -P: files in the folder that jobs are submitted from are data, even if named like modules.
        own_python = dask.config.get(f"jobqueue.{kind}.python", None)
        options["python"] = own_python or f"{sys.executable} -P"
        options["job_cls"] = _recording_job(made.job_cls, [] if refusals is None else refusals)
    try:
        cluster = made(**options)
    except Exception as error:  # each cluster class, and the libraries below it, have errors of their own
        cause: BaseException = error
        while cause.__cause__ is not None:  # the first error says most
            cause = cause.__cause__
        raise InputError(
            f"{argument('cluster')} {kind}: {made.__name__}: {' '.join(str(cause).split())}; set it up in "
            "dask's "
            "configuration, see docs/clusters.md"
        ) from None
    with cluster, ExitStack() as stack:
        cluster.scale(workers)
        if kind != "kubernetes":  # the operator of Kubernetes restarts pods by itself
            # A job that ended is submitted again by another call of `scale`, but never by `adapt`.
            again = PeriodicCallback(lambda: cluster.scale(workers), retry_limits.RESUBMIT_INTERVAL * 1e3)
            cluster.loop.add_callback(again.start)
            stack.callback(cluster.loop.add_callback, again.stop)
        yield cluster


def _recording_job(job_class: Any, refusals: list[str]) -> Any:
    """Return a class of jobs that records refusals; the given class would print a traceback and wait."""
    from distributed.deploy.spec import ProcessInterface

    class RecordingJob(job_class):  # type: ignore[misc]
        async def start(self) -> None:
            try:
                await super().start()
            except (OSError, RuntimeError, ValueError) as error:
                refusals.append(" ".join(str(error).rpartition("stderr:")[2].split()))
                # dask must take the job for started; there is nothing to cancel.
                await ProcessInterface.start(self)

    return RecordingJob
