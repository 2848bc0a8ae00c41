"""Files that describe a cluster to start for a run: its kind, how many workers, the options of its class."""

import difflib
import importlib
import inspect
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError, model_validator

from generators.fields import Model
from generators.load import first_error
from loaders.errors import InputError
from loaders.plain_yaml import parse_yaml

# Module, class, and the extra that brings it.
_CLASSES = {
    "slurm": ("dask_jobqueue", "SLURMCluster", "cluster"),
    "pbs": ("dask_jobqueue", "PBSCluster", "cluster"),
    "lsf": ("dask_jobqueue", "LSFCluster", "cluster"),
    "sge": ("dask_jobqueue", "SGECluster", "cluster"),
    "oar": ("dask_jobqueue", "OARCluster", "cluster"),
    "htcondor": ("dask_jobqueue", "HTCondorCluster", "cluster"),
    "kubernetes": ("dask_kubernetes.operator", "KubeCluster", "kubernetes"),
    "ssh": ("distributed", "SSHCluster", "ssh"),
    "local": ("distributed", "LocalCluster", "render"),
}
# What the file says elsewhere, or the run decides.
_NOT_OPTIONS = {"self", "args", "kwargs", "n_workers", "asynchronous", "loop", "job_cls", "scheduler_cls"}
_SCALED_ONCE = ("local", "ssh", "kubernetes")  # these start what ends of their workers again by themselves
_RESTORE = 20.0  # s between looks at jobs that ended, as those of batch systems do when their time is up
_Count = Annotated[int, Field(ge=1, le=100_000)]


class Adapt(Model):
    """How few and how many workers, as there is work for them."""

    minimum: _Count = 1
    maximum: _Count

    @model_validator(mode="after")
    def _ordered(self) -> "Adapt":
        if self.maximum < self.minimum:
            raise ValueError(f"expected minimum <= maximum, got {self.minimum} and {self.maximum}")
        return self


class ClusterFile(Model):
    """What to start: ``workers`` or ``adapt`` says how many, ``options`` go to the class of that kind.

    SSHCluster takes its workers from its option ``hosts`` instead.
    """

    kind: Literal["slurm", "pbs", "lsf", "sge", "oar", "htcondor", "kubernetes", "ssh", "local"]
    workers: _Count | None = None
    adapt: Adapt | None = None
    options: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_number(self) -> "ClusterFile":
        if self.kind == "ssh":
            if self.workers or self.adapt or "hosts" not in self.options:
                raise ValueError("kind ssh: expected options.hosts, and neither workers nor adapt")
        elif (self.workers is None) == (self.adapt is None):
            raise ValueError("expected either workers: N or adapt: {maximum: N}")
        return self

    @property
    def expected(self) -> int:
        """How many workers there will be, or at most."""
        if self.adapt is not None:
            return self.adapt.maximum
        return self.workers or 0


def load_cluster(path: Path) -> ClusterFile:
    """Read a cluster file, and check it down to the names of the options.

    Raises:
        InputError: it is not what it should be, or the package for that kind is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "two.yaml"
        ...     _ = path.write_text("{kind: local, workers: 2}")
        ...     load_cluster(path).expected
        2
    """
    try:
        data = parse_yaml(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise InputError(f"expected a mapping of fields, got {type(data).__name__}")
        file = ClusterFile.model_validate(data)
    except OSError as error:
        raise InputError(f"--cluster {path}: {error.strerror}; expected a YAML file") from None
    except ValidationError as error:
        raise InputError(f"--cluster {path}: {first_error(error)}") from None
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"--cluster {path}: {error}") from None
    known = _option_names(_class_of(file.kind))
    if unknown := sorted(file.options.keys() - known):
        likely = difflib.get_close_matches(unknown[0], known, 1) or sorted(known)
        raise InputError(
            f"--cluster {path}: options.{unknown[0]}: {_CLASSES[file.kind][1]} has no such option; "
            f"it has {', '.join(likely)}"
        )
    return file


@contextmanager
def start_cluster(file: ClusterFile, refusals: list[str]) -> Iterator[Any]:
    """Start a cluster, and have it ask for its workers; in the end all of it is stopped.

    Args:
        file: what to start.
        refusals: where it is told, while the block runs, why a batch system refused a job.

    Raises:
        InputError: it does not start.
    """
    made = _class_of(file.kind)
    command = shutil.which(submit := _submit_command(made))
    if submit and command is None:
        raise InputError(f"--cluster: {submit} is not on this machine; kind {file.kind} starts where it is")
    options = {**_own_options(file), **file.options}
    if submit:
        options["job_cls"] = _telling(made.job_cls, refusals)
    try:
        cluster = made(**options)
    except Exception as error:  # each class and what it stands on has errors of its own
        cause: BaseException = error
        while cause.__cause__ is not None:  # what began it says most
            cause = cause.__cause__
        raise InputError(f"--cluster: {_CLASSES[file.kind][1]}: {' '.join(str(cause).split())}") from None
    with cluster:
        if file.adapt is not None:
            cluster.adapt(minimum=file.adapt.minimum, maximum=file.adapt.maximum)
        elif file.kind not in ("local", "ssh"):
            cluster.scale(file.workers)
        if file.kind in _SCALED_ONCE:
            yield cluster
            return
        with _restored(cluster):
            yield cluster


@contextmanager
def _restored(cluster: Any) -> Iterator[None]:
    """Have jobs that ended submitted again, as a cluster does only when told how many there should be."""
    over = threading.Event()

    def restore() -> None:
        while not over.wait(_RESTORE):
            cluster.scale(jobs=len(cluster.worker_spec))

    keeper = threading.Thread(target=restore, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def _telling(job_class: Any, refusals: list[str]) -> Any:
    """Return a class of jobs that tells why one was refused; a cluster prints a traceback and waits."""
    from distributed.deploy.spec import ProcessInterface

    class Job(job_class):  # type: ignore[misc]
        async def start(self) -> None:
            try:
                await super().start()
            except (OSError, RuntimeError, ValueError) as error:
                refusals.append(" ".join(str(error).rpartition("stderr:")[2].split()))
                # It counts as started, with nothing to cancel.
                await ProcessInterface.start(self)  # type: ignore[no-untyped-call]

    return Job


def _class_of(kind: str) -> Any:
    module, name, extra = _CLASSES[kind]
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        raise InputError(
            f"--cluster: kind {kind} needs {module.partition('.')[0].replace('_', '-')}, not installed here; "
            f"run `pip install 'candlelight[{extra}]'`"
        ) from None


def _option_names(made: Any) -> set[str]:
    """Name the parameters of a class, of the classes above it, and of the jobs that it submits."""
    names: set[str] = set()
    for one in (made, getattr(made, "job_cls", None)):
        makers = [one] if inspect.isfunction(one) else [base.__init__ for base in getattr(one, "__mro__", ())]
        for maker in makers:
            if inspect.isfunction(maker):
                names |= inspect.signature(maker).parameters.keys()
    return {name for name in names - _NOT_OPTIONS if "kwargs" not in name}


def _submit_command(made: Any) -> str:
    return (getattr(getattr(made, "job_cls", None), "submit_command", None) or "").partition(" ")[0]


def _own_options(file: ClusterFile) -> dict[str, Any]:
    """Give the options that a run needs or wants, unless the file has them."""
    options: dict[str, Any] = {}
    if file.kind == "local":
        # Memory that render children take is none of these workers'.
        options = {"n_workers": file.expected, "threads_per_worker": 1, "memory_limit": 0}
        options["dashboard_address"] = None
    elif file.kind == "kubernetes":
        options = {"n_workers": 0}
    elif file.kind != "ssh":
        options = {"processes": 1, "scheduler_options": {"dashboard_address": "localhost:0"}}
    return {name: value for name, value in options.items() if name not in file.options}
