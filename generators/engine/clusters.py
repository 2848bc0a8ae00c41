"""Where a run's workers come from: this machine, a scheduler that is there, or a cluster that is started.

A cluster is one of dask-jobqueue or dask-kubernetes, set up by the configuration of dask on this machine.
"""

import importlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.engine import limits
from generators.engine.scheduler_logging import without_alarms, without_late_timeouts
from loaders.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

# Module, class, and the extra that brings it.
_CLASSES = {
    "slurm": ("dask_jobqueue", "SLURMCluster", "cluster"),
    "pbs": ("dask_jobqueue", "PBSCluster", "cluster"),
    "lsf": ("dask_jobqueue", "LSFCluster", "cluster"),
    "kubernetes": ("dask_kubernetes.operator", "KubeCluster", "kubernetes"),
}
CLUSTER_KINDS = tuple(_CLASSES)
# By default dask keeps its last 1000 messages, whole tasks among them (measured: 12 kB of memory for each
# sample of a run), an hour of its own load, and a profile of every worker's thread; nobody looks at it here,
# and an idle process took 0.04 CPU s a second with it, 0.008 without.
_LITTLE_KEPT = {
    "distributed.admin.low-level-log-length": 1,
    "distributed.admin.system-monitor.log-length": 60,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "2s",
    "distributed.worker.profile.enabled": False,
}
# Scheduler and workers always serve HTTP: on this machine only, and on a port that is free.
_LOCAL_ADDRESS = "localhost:0"

_starting = threading.Lock()


@contextmanager
def connected(
    workers: int,
    scheduler: str | None = None,
    cluster: str | None = None,
    refusals: list[str] | None = None,
) -> Iterator["Client"]:
    """Connect to the workers of a run, and start them where none are named.

    Args:
        workers: how many to start, of a cluster or as threads of this process; no matter with a scheduler.
        scheduler: address as in tcp://host:8786, or the path of a scheduler file.
        cluster: one of `CLUSTER_KINDS` to start for this run.
        refusals: where it is told why a batch system refused a job.

    Yields:
        The client; when the block ends so does what was started for it.

    Raises:
        InputError: nobody answers, or the cluster does not start.
    """
    import dask
    import distributed  # noqa: F401 - else its defaults, loaded inside the block, would go with it

    config: dict[str, Any] = dict(_LITTLE_KEPT)
    if scheduler is None and cluster is None:
        # Scheduler and workers are one process. Stopped (Ctrl-Z, a laptop that sleeps) for longer than this
        # and woken, it would find its own workers silent and put them out, and none would come back.
        config["distributed.scheduler.worker-ttl"] = None
    with ExitStack() as stack:
        stack.enter_context(without_late_timeouts())
        stack.enter_context(dask.config.set(config))
        stack.enter_context(without_alarms())
        if scheduler is not None:
            yield stack.enter_context(_client(scheduler))
            return
        started = _local(workers) if cluster is None else _start(cluster, workers, refusals)
        yield stack.enter_context(_client(stack.enter_context(started)))


def cluster_class(kind: str) -> Any:
    """Return the class that starts a kind of cluster.

    Raises:
        InputError: there is no such kind, its package is not installed, or the batch system is not on this
            machine.
    """
    if kind not in _CLASSES:
        raise InputError(f"cluster: expected one of {', '.join(_CLASSES)}, got {kind!r}")
    module, name, extra = _CLASSES[kind]
    try:
        made = getattr(importlib.import_module(module), name)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        raise InputError(
            f"--cluster {kind} needs {package}, not installed here; run `pip install {package}`"
        ) from None
    command = made.job_cls.submit_command.partition(" ")[0] if extra == "cluster" else None
    if command and shutil.which(command) is None:
        raise InputError(f"--cluster {kind}: {command} is not on this machine; run this where it is")
    return made


@contextmanager
def _start(kind: str, workers: int, refusals: list[str] | None) -> Iterator[Any]:
    """Start a cluster as its package's configuration says, and have it ask for workers."""
    import dask
    from tornado.ioloop import PeriodicCallback

    made, options = cluster_class(kind), dict[str, Any]()
    if kind != "kubernetes":
        own = dask.config.get(f"jobqueue.{kind}.scheduler-options", None) or {}
        options["scheduler_options"] = {"dashboard_address": _LOCAL_ADDRESS, **own}
        # -P: what lies in the folder that jobs are submitted from is data, whatever modules it looks like.
        own_python = dask.config.get(f"jobqueue.{kind}.python", None)
        options["python"] = own_python or f"{sys.executable} -P"
        options["job_cls"] = _telling(made.job_cls, [] if refusals is None else refusals)
    try:
        cluster = made(**options)
    except Exception as error:  # each class and what it stands on has errors of its own
        cause: BaseException = error
        while cause.__cause__ is not None:  # what began it says most
            cause = cause.__cause__
        raise InputError(
            f"--cluster {kind}: {made.__name__}: {' '.join(str(cause).split())}; it is set up in dask's "
            "configuration, see docs/clusters.md"
        ) from None
    with cluster:
        cluster.scale(workers)
        if kind != "kubernetes":  # whose operator starts pods that ended again by itself
            # A job that ended is submitted again when `scale` is called once more, never by `adapt`.
            again = PeriodicCallback(lambda: cluster.scale(workers), limits.RESUBMIT_INTERVAL * 1e3)
            cluster.loop.add_callback(again.start)
            with ExitStack() as stack:
                stack.callback(cluster.loop.add_callback, again.stop)
                yield cluster
        else:
            yield cluster


def _telling(job_class: Any, refusals: list[str]) -> Any:
    """Return a class of jobs that tells why one was refused; a cluster prints a traceback and waits."""
    from distributed.deploy.spec import ProcessInterface

    class RunSettings(job_class):  # type: ignore[misc]
        async def start(self) -> None:
            try:
                await super().start()
            except (OSError, RuntimeError, ValueError) as error:
                refusals.append(" ".join(str(error).rpartition("stderr:")[2].split()))
                # It counts as started, with nothing to cancel.
                await ProcessInterface.start(self)  # type: ignore[no-untyped-call]

    return RunSettings


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
            worker_dashboard_address=_LOCAL_ADDRESS,
            scheduler_kwargs={"dashboard_address": _LOCAL_ADDRESS},
        )


def _client(where: Any) -> "Client":
    from distributed import Client

    address = _address(where) if isinstance(where, str) else where
    try:
        return Client(address, timeout=limits.CONNECT_LIMIT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split()) or f"no answer within {limits.CONNECT_LIMIT:g} s"
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
