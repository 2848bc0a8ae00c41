"""Rendering a plan into a folder of frames: trace groups as tasks of `dask.distributed`."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from blender_assets import AssetLibrary
from generators.engine.clusters import cluster_class
from generators.engine.dataset_description import LOCK, cannot_write, describe_folder
from generators.engine.devices import Wish, check_wish, usable_devices
from generators.engine.group_locks import describing
from generators.engine.remote_output import Landing, landing
from generators.engine.render_process import Job, Receipt
from generators.engine.repair import drop_replaced
from generators.engine.tasks import Hands, receipts
from generators.engine.worker import Group
from generators.language.recipe import Recipe
from generators.language.set_settings import is_traced
from generators.planning.packed_samples import PackedSamples
from generators.planning.plan import Plan
from generators.planning.provenance import check_assets
from loaders.errors import InputError
from loaders.files.atomic_files import is_partial
from loaders.files.file_locks import lock_file
from loaders.frames import DATASET, clean_partial

MEMORY_PER_WORKER = 1.5e9  # bytes; measured peak 0.65e9 at 320x240, maps and larger images on top


@dataclass
class Outcome:
    """What a run did: samples found finished, written now, and set aside with the reason.

    After a repair ``damaged`` counts the samples that were rendered again, ``damaged_besides`` those that are
    not in the plan.
    """

    found: int = 0
    written: int = 0
    cpu_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    damaged: int = 0
    damaged_besides: int = 0


def render(
    plan: Plan,
    out: Path | str,
    *,
    workers: int | None = None,
    threads: int = 1,
    shard: tuple[int, int] | None = None,
    time_limit: float = 900.0,
    repair: bool = False,
    device: str = "auto",
    scheduler: str | None = None,
    cluster: str | None = None,
    advance: Callable[[int], None] | None = None,
) -> Outcome:
    """Render the samples of a plan that are not in the folder yet.

    Each sample appears whole or not at all, so the run can be killed at any moment and started again, and
    several runs may share the folder; the frames do not depend on order, workers, threads or restarts.

    Args:
        plan: the plan.
        out: folder of the data set, made if need be, or the URL of one elsewhere
            (`loaders.files.object_stores`).
        workers: render children at a time; by default as many as there are processors and memory for, or one
            for each GPU; with a scheduler all of its workers.
        threads: render threads of each.
        shard: (i, n): do the i-th of n parts of the trace groups, 1-based, for job arrays.
        time_limit: seconds after which a trace group's child is killed.
        repair: whether to check every file that is there first, and to render again what is damaged.
        device: what is traced on: "cpu", "optix", "cuda", "hip", "oneapi" or "metal"; "auto" means the best
            kind of GPU that Blender finds, else the processor. Every child takes one GPU.
        scheduler: address of a dask scheduler whose workers render, or the path of its scheduler file.
        cluster: "slurm", "pbs", "lsf" or "kubernetes": start that many workers there, as the configuration of
            dask-jobqueue or dask-kubernetes on this machine says.
        advance: called with the number of samples done, for a progress bar.

    Returns:
        What was done.

    Raises:
        InputError: the folder holds frames of another recipe or cannot be written, rendering is not
            installed, there is no such device, or the workers cannot be had.

    Example:
        >>> from generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("demo")).limit(1)
        >>> outcome = render(plan, Path("frames"))  # doctest: +SKIP
    """
    if scheduler is None and cluster is None:
        require_rendering(plan.recipe)
    else:
        _require("distributed")
    check_assets(
        plan.assets, AssetLibrary(plan.recipe.assets), f"the plan of `{plan.recipe.name}`", "plan again"
    )
    hands, wish = _hire(plan.recipe, device, workers, scheduler, cluster)
    mine = plan.shard(*shard) if shard else plan
    with landing(out) as place, _folder(place.folder) as check_folder:
        with describing(place.folder):
            describe_folder(plan, place.folder, repair)
        damaged, others = place.set_aside(mine) if repair else (0, 0)
        place.publish(mine.samples.keys)
        todo = {name: _missing(group, place) for name, group in mine.groups.items()}
        groups = [group for group in todo.values() if len(group)]
        outcome = Outcome(len(mine) - sum(map(len, groups)), damaged=damaged, damaged_besides=others)
        if advance:
            advance(outcome.found)
        job = Job(place.folder.absolute(), plan.recipe, threads, time_limit, store=place.url, device=wish)
        for group, receipt in receipts(job, groups, hands, plan.assets):
            check_folder()
            _count(outcome, place, group, receipt)
            if advance:
                advance(len(group))
    return outcome


def _hire(
    recipe: Recipe, device: str, workers: int | None, scheduler: str | None, cluster: str | None
) -> tuple[Hands, Wish]:
    """Settle who renders and on what, and refuse what contradicts itself."""
    check_wish(device)
    if cluster is not None:
        if workers is None or scheduler is not None:
            raise InputError(f"--cluster {cluster}: expected --workers, and no --scheduler")
        cluster_class(cluster)
    if cluster is not None or scheduler is not None:
        return Hands(workers, scheduler, cluster), Wish(device)
    kind = usable_devices(device if is_traced(recipe) else "cpu")
    count = default_workers() if kind[0].kind == "CPU" else len(kind)
    return Hands(workers or count), Wish(kind[0].kind.lower())


def default_workers() -> int:
    """Count the render children that there are processors and memory for, of those a batch system allots."""
    import psutil
    from dask.system import cpu_count
    from distributed.system import memory_limit

    memory = min(psutil.virtual_memory().available, memory_limit())
    return max(1, min(cpu_count(), int(memory / MEMORY_PER_WORKER)))


def require_rendering(recipe: Recipe) -> None:
    """Refuse what this machine lacks the packages for; painting needs no Blender."""
    _require("distributed", *(("bpy", "OpenEXR", "pyoidn") if is_traced(recipe) else ()))


def _require(*needed: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InputError(
            f"rendering needs {', '.join(missing)}, not installed here; `candlelight doctor` says how to get "
            "them"
        )


@contextmanager
def _folder(out: Path) -> Iterator[Callable[[], None]]:
    """Hold the folder open for writing, shared with other runs; the first and the last one clean it.

    What is yielded refuses to go on when the folder is no longer the one that was opened.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise cannot_write(out, error) from None
    try:
        if (out / DATASET).is_file():  # what is no folder of frames stays as it is, and is refused
            _clean(out, handle)
        lock_file(handle, fcntl.LOCK_SH)
        yield partial(_check_folder, out, handle)
        _clean(out, handle)
    except OSError as error:
        if error.filename and Path(os.fsdecode(error.filename)).is_relative_to(out):
            raise cannot_write(out, error) from None
        raise
    finally:
        os.close(handle)


def _check_folder(out: Path, handle: int) -> None:
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), (out / LOCK).stat()):
            return
    raise InputError(
        f"output folder {out}: was moved, removed or replaced while it was written; finished samples are "
        "where it went: put it back and run again to resume"
    )


def _clean(out: Path, handle: int) -> None:
    """Remove what killed runs left in the making, if nobody else writes to the folder."""
    with suppress(BlockingIOError):
        if not lock_file(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return
        clean_partial(out)
        for path in filter(is_partial, out.iterdir()):
            path.unlink()
        drop_replaced(out)


def _missing(group: PackedSamples, place: Landing) -> PackedSamples:
    return group.where(lambda key: not place.has(key))


def _count(outcome: Outcome, place: Landing, group: Group, receipt: Receipt) -> None:
    """Add a receipt to the outcome; what failed is set aside with the end of its log."""
    outcome.cpu_seconds += receipt.cpu_seconds
    place.count(group, receipt)
    if receipt.fatal:
        last = receipt.log.strip().rpartition("\n")[2] if receipt.died else ""
        raise InputError(
            f"output folder {place.folder}: {receipt.error}{last and f' ({last})'}; "
            "finished samples are whole, run again to resume"
        )
    for sample in group:
        log = place.folder / "failed" / f"{sample.id}.log"
        if sample.id in receipt.written or place.has(sample):
            # This run wrote it, be it before the group was given up; else another run has.
            ours = sample.id in receipt.written or bool(receipt.error)
            outcome.written += ours
            outcome.found += not ours
            log.unlink(missing_ok=True)
        else:
            outcome.failed[sample.id] = receipt.error
            log.parent.mkdir(exist_ok=True)
            log.write_text(f"{receipt.error}\n{receipt.log}", encoding="utf-8")
