"""Start a cluster of workers with dask-jobqueue or dask-kubernetes.

Clusters are set up by the configuration of dask on this machine.
"""

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from candlelight.generators.engine import retry_limits
from candlelight.loaders.errors import InputError, argument

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
                await ProcessInterface.start(self)  # type: ignore[no-untyped-call]

    return RecordingJob
