"""Rendering a plan into a folder of frames: trace groups as tasks of `dask.distributed`."""

import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.child import Job, Receipt
from generators.claims import describing
from generators.description import LOCK, PARTIAL, describe_folder
from generators.plan import Plan
from generators.quiet import without_late_timeouts
from generators.recipe import Recipe
from generators.repair import drop_replaced, set_aside
from generators.work import Group, close_children, render_groups, retire_children
from loaders.errors import InputError
from loaders.frames import clean_partial, is_complete

IN_FLIGHT = 2  # tasks per worker that the scheduler holds: one at work, one waiting
TASK_SECONDS = 4.0  # what a task should take: long enough to hide what a task costs, short enough to lose
LARGEST_TASK = 256  # groups
PATIENCE = 1.0  # s between looks at what another run is at work on
# Scheduler and workers always serve HTTP: on this machine only, and on a port that is free.
LOCAL = "localhost:0"
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
    out: Path,
    *,
    workers: int | None = None,
    threads: int = 1,
    shard: tuple[int, int] | None = None,
    time_limit: float = 900.0,
    repair: bool = False,
    advance: Callable[[int], None] | None = None,
) -> Outcome:
    """Render the samples of a plan that are not in the folder yet.

    Each sample appears whole or not at all, so the run can be killed at any moment and started again, and
    several runs may share the folder; the frames do not depend on order, workers, threads or restarts.

    Args:
        plan: the plan.
        out: folder of the data set; made if need be.
        workers: render children at a time; by default as many as there are processors and memory for.
        threads: render threads of each.
        shard: (i, n): do the i-th of n parts of the trace groups, 1-based, for job arrays.
        time_limit: seconds after which a trace group's child is killed.
        repair: whether to check every file that is there first, and to render again what is damaged.
        advance: called with the number of samples done, for a progress bar.

    Returns:
        What was done.

    Raises:
        InputError: the folder holds frames of another recipe or cannot be written, or rendering is not
            installed.

    Example:
        >>> from generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("demo")).limit(1)
        >>> outcome = render(plan, Path("frames"))  # doctest: +SKIP
    """
    _require_rendering(plan.recipe)
    mine = plan.shard(*shard) if shard else plan
    with _folder(out):
        with describing(out):
            describe_folder(plan, out, repair)
        damaged, others = set_aside(mine, out) if repair else (0, 0)
        todo = {name: _missing(group, out) for name, group in mine.groups.items()}
        groups = [group for group in todo.values() if group]
        outcome = Outcome(len(mine) - sum(map(len, groups)), damaged=damaged, damaged_besides=others)
        if advance:
            advance(outcome.found)
        job = Job(out.absolute(), plan.recipe, threads, time_limit)
        for group, receipt in _receipts(job, groups, min(workers or default_workers(), max(len(groups), 1))):
            _count(outcome, out, group, receipt)
            if advance:
                advance(len(group))
    return outcome


def default_workers() -> int:
    """Count the render children that this machine has processors and memory for."""
    import psutil

    return max(1, min(os.cpu_count() or 1, int(psutil.virtual_memory().available / MEMORY_PER_WORKER)))


def _require_rendering(recipe: Recipe) -> None:
    """Refuse what this machine lacks the packages for; painting needs no Blender."""
    from importlib.util import find_spec

    traced = any(image_set.layout.leaves is None for image_set in recipe.sets.values())
    needed = ("bpy", "OpenEXR", "pyoidn", "distributed") if traced else ("distributed",)
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InputError(
            f"rendering needs {', '.join(missing)}, not installed here; in a Python 3.11 environment run "
            "`pip install candlelight[render]`, and see `candlelight doctor`"
        )


@contextmanager
def _folder(out: Path) -> Iterator[None]:
    """Hold the folder open for writing, shared with other runs; the first and the last one clean it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"output folder {out}: cannot be written: {error.strerror}; name another") from None
    try:
        _clean(out, handle)
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
        _clean(out, handle)
    finally:
        os.close(handle)


def _clean(out: Path, handle: int) -> None:
    """Remove what killed runs left in the making, if nobody else writes to the folder."""
    with suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        clean_partial(out)
        for path in out.glob(PARTIAL):
            path.unlink()
        drop_replaced(out)


def _missing(group: Group, out: Path) -> Group:
    return tuple(sample for sample in group if not is_complete(out, sample.set, sample.index))


def _count(outcome: Outcome, out: Path, group: Group, receipt: Receipt) -> None:
    """Add a receipt to the outcome; what failed is set aside with the end of its log."""
    outcome.cpu_seconds += receipt.cpu_seconds
    if receipt.fatal:
        last = receipt.log.strip().rpartition("\n")[2] if receipt.died else ""
        raise InputError(
            f"output folder {out}: {receipt.error}{last and f' ({last})'}; finished samples are whole, "
            "run again to resume"
        )
    for sample in group:
        log = out / "failed" / f"{sample.id}.log"
        # A group may have been given up after some of it was written.
        if not receipt.error or is_complete(out, sample.set, sample.index):
            outcome.written += 1
            log.unlink(missing_ok=True)
        else:
            outcome.failed[sample.id] = receipt.error
            log.parent.mkdir(exist_ok=True)
            log.write_text(f"{receipt.error}\n{receipt.log}", encoding="utf-8")


def _receipts(job: Job, groups: list[Group], workers: int) -> Iterator[tuple[Group, Receipt]]:
    """Yield every group with what became of it, as they finish; few are in flight, each released at once."""
    import dask
    from distributed import Client, LocalCluster

    if not groups:
        return
    quiet = {"distributed.logging.distributed": "error", "distributed.admin.log-format": "%(message)s"}
    with (
        _closed_children(),
        without_late_timeouts(),
        dask.config.set(quiet),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            memory_limit=0,
            dashboard_address=None,
            worker_dashboard_address=LOCAL,
            scheduler_kwargs={"dashboard_address": LOCAL},
        ) as cluster,
        Client(cluster) as client,
    ):
        try:
            yield from _scheduled(client, job, groups, workers)
        finally:
            retire_children()


def _scheduled(client: Any, job: Job, groups: list[Group], workers: int) -> Iterator[tuple[Group, Receipt]]:
    """Have tasks of a few groups each done by the workers; what another run is at work on comes last."""
    from distributed import as_completed

    queue, busy = deque(groups), list[Group]()
    tasks: dict[Any, list[Group]] = {}
    size = 1

    def submit() -> Any:
        # The last tasks are small, so that no worker is left with a long one.
        count = min(size, -(-len(queue) // (2 * workers)), len(queue))
        taken = [queue.popleft() for _ in range(count)]
        future = client.submit(render_groups, job, taken, pure=False)
        tasks[future] = taken
        return future

    running = as_completed([])
    while queue or tasks or busy:
        if not queue and not tasks:
            time.sleep(PATIENCE)
            queue, busy = deque(busy), []
        while queue and len(tasks) < workers * IN_FLIGHT:
            running.add(submit())
        future = next(running)
        done, receipts = tasks.pop(future), future.result()
        future.release()
        size = _task_size(receipts, size)
        for group, receipt in zip(done, receipts, strict=True):
            if receipt.busy:
                busy.append(group)
            else:
                yield group, receipt


def _task_size(receipts: list[Receipt], size: int) -> int:
    """Work out how many groups make a task of the wanted length, from what a task took per group.

    Example:
        >>> _task_size([Receipt(written=("a",), seconds=0.1)] * 4, 4)
        40
    """
    took = [receipt.seconds for receipt in receipts if receipt.written]
    if not took:
        return size
    # Two at least, so that one can be written while the other is traced.
    return max(2, min(LARGEST_TASK, round(TASK_SECONDS * len(took) / max(sum(took), 1e-3))))


@contextmanager
def _closed_children() -> Iterator[None]:
    """Close what is left of this process's children in the end."""
    try:
        yield
    finally:
        close_children()
