"""Where a run's workers come from: this machine, a scheduler that is there, or one that a file describes."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.cluster_files import ClusterFile, start_cluster
from generators.quiet import without_alarms, without_late_timeouts
from loaders.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_LIMIT = 15.0  # s
# Workers of batch systems end when their time is up, again and again, and what they were at is not to blame.
LOST_WORKERS = 10  # over which one task is given up
# By default dask keeps its last 1000 messages, whole tasks among them (measured: 12 kB of memory for each
# sample of a run), an hour of its own load, and a profile of every worker's thread; nobody looks at it here.
LITTLE_KEPT = {
    "distributed.admin.low-level-log-length": 1,
    "distributed.admin.system-monitor.log-length": 60,
    "distributed.worker.profile.enabled": False,
}
# Scheduler and workers always serve HTTP: on this machine only, and on a port that is free.
LOCAL = "localhost:0"

_starting = threading.Lock()


@contextmanager
def connected(
    workers: int,
    *,
    scheduler: str | None = None,
    cluster: ClusterFile | None = None,
    refusals: list[str] | None = None,
) -> Iterator["Client"]:
    """Connect to the workers of a run, and start them where none are named.

    Args:
        workers: threads of this process that own a render child each, where neither of the others is given.
        scheduler: address as in tcp://host:8786, or the path of a scheduler file.
        cluster: a cluster to start for this run.
        refusals: where it is told why a batch system refused a job.

    Yields:
        The client; when the block ends so does what was started for it.

    Raises:
        InputError: nobody answers, or the cluster does not start.
    """
    import dask
    import distributed  # noqa: F401 - else its defaults, loaded inside the block, would go with it

    config: dict[str, Any] = {
        "distributed.logging.distributed": "error",
        "distributed.admin.log-format": "%(message)s",
        "distributed.scheduler.allowed-failures": LOST_WORKERS,
        # What nobody looks at here: an idle process took 0.04 CPU s a second with it, 0.008 without.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.system-monitor.interval": "10s",
        "distributed.admin.tick.interval": "2s",
        **LITTLE_KEPT,
    }
    if scheduler is None and cluster is None:
        # Scheduler and workers are one process. Stopped (Ctrl-Z, a laptop that sleeps) for longer than this
        # and woken, it would find its own workers silent and put them out, and none would come back.
        config["distributed.scheduler.worker-ttl"] = None
    refusals = [] if refusals is None else refusals
    with ExitStack() as stack:
        stack.enter_context(without_late_timeouts())
        stack.enter_context(dask.config.set(config))
        stack.enter_context(without_alarms())
        if scheduler is not None:
            yield stack.enter_context(_client(scheduler))
            return
        started = stack.enter_context(
            _local(workers) if cluster is None else start_cluster(cluster, refusals)
        )
        yield stack.enter_context(_client(started))


def _local(workers: int) -> Any:
    from distributed import LocalCluster

    # One at a time: workers import as they start, and two threads that do so at once may find half a module.
    with _starting:
        return LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            memory_limit=0,
            dashboard_address=None,
            worker_dashboard_address=LOCAL,
            scheduler_kwargs={"dashboard_address": LOCAL},
        )


def _client(where: Any) -> "Client":
    from distributed import Client

    address = _address(where) if isinstance(where, str) else where
    try:
        return Client(address, timeout=CONNECT_LIMIT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split()) or f"no answer within {CONNECT_LIMIT:g} s"
        raise InputError(
            f"--scheduler {where}: expected a dask scheduler there, as `dask scheduler` starts one; {reason}"
        ) from None


def _address(where: str) -> str:
    """Return the address in a scheduler file, or what is one already."""
    path = Path(where)
    if "://" in where or not (path.suffix == ".json" or os.sep in where):
        return where
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--scheduler {where}: expected a file that `dask scheduler --scheduler-file` wrote, or an "
            f"address as in tcp://host:8786; {type(error).__name__}: {error}"
        ) from None
