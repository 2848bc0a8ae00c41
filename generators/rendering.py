"""Rendering a plan into a folder of frames: trace groups as tasks of `dask.distributed`."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from blender_assets import AssetLibrary
from generators.child import Job, Receipt, RenderChild
from generators.load import recipe_sha256
from generators.plan import Plan
from generators.quiet import without_late_timeouts
from generators.recipe import Recipe
from generators.scene import SamplePlan
from generators.settings import factor_infos, part_names, settings, stored_layers
from generators.table import join, load_plan, planned_ids, save_plan
from loaders.errors import InputError
from loaders.frames import clean_partial, is_complete, read_dataset_info, write_dataset_info
from loaders.schema import DatasetInfo, RecipeRecord, SetInfo

TRIES = 3  # a group that costs that many children is set aside
IN_FLIGHT = 2  # tasks per worker that the scheduler holds: one at work, one waiting
PARTIAL = ".*.partial"  # what `loaders.disk.replacing` names a file that is being written
# Scheduler and workers always serve HTTP: on this machine only, and on a port that is free.
LOCAL = "localhost:0"
MEMORY_PER_WORKER = 1.5e9  # bytes; measured peak 0.65e9 at 320x240, maps and larger images on top


_children: dict[str, RenderChild] = {}  # by address of the worker that owns it


@dataclass
class Outcome:
    """What a run did: samples found finished, written now, and set aside with the reason."""

    found: int = 0
    written: int = 0
    cpu_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)


def render(
    plan: Plan,
    out: Path,
    *,
    workers: int | None = None,
    threads: int = 1,
    shard: tuple[int, int] | None = None,
    time_limit: float = 900.0,
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
        _describe(plan, out)
        todo = {name: _missing(group, out) for name, group in mine.groups.items()}
        groups = [group for group in todo.values() if group]
        outcome = Outcome(found=len(mine) - sum(map(len, groups)))
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


def dataset_info(plan: Plan) -> DatasetInfo:
    """Describe the data set that a plan makes, as its ``dataset.json`` does."""
    recipe, library = plan.recipe, AssetLibrary(plan.recipe.assets)
    sets = {}
    for name, image_set in recipe.sets.items():
        chosen = settings(recipe, name)
        sets[name] = SetInfo(
            count=sum(sample.set == name for sample in plan.samples),
            width=chosen.image.width,
            height=chosen.image.height,
            layers=stored_layers(recipe, name),
            factors=factor_infos(image_set, library),
            varies=image_set.varies,
            exposure=chosen.exposure,
            parts=part_names(sample.trace for sample in plan.samples if sample.set == name),
        )
    return DatasetInfo(
        name=recipe.name,
        description=recipe.description,
        licence=recipe.licence,
        recipe=RecipeRecord(name=recipe.name, sha256=recipe_sha256(recipe)),
        seed=recipe.seed,
        candlelight=version("candlelight"),
        sets={name: info for name, info in sets.items() if info.count},
    )


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
        handle = os.open(out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
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


def _describe(plan: Plan, out: Path) -> None:
    """Write ``dataset.json`` and ``plan.parquet``, unless the folder belongs to another recipe.

    They describe what this and earlier runs planned for the folder, however each was limited or filtered.
    """
    file, planned = out / "plan.parquet", set[str]()
    if (out / "dataset.json").exists():
        there = read_dataset_info(out)
        if there.recipe.sha256 != recipe_sha256(plan.recipe):
            raise InputError(
                f"output folder {out}: holds frames of another recipe ({there.name}, "
                f"{there.recipe.sha256[:12]}); name another folder, or render that recipe"
            )
        if file.exists():
            planned = planned_ids(file)
    elif any(path.name != ".lock" and not path.match(PARTIAL) for path in out.iterdir()):
        raise InputError(f"output folder {out}: expected an empty folder or one of frames; name another")
    if planned and planned.issuperset(sample.id for sample in plan.samples):
        return
    whole = join(load_plan(file), plan) if planned else plan
    try:
        # The plan comes last: a run that was killed in between leaves it to the next to write both.
        write_dataset_info(out, dataset_info(whole))
        save_plan(whole, file)
    except OSError as error:
        raise InputError(f"output folder {out}: cannot be written: {error.strerror}; name another") from None


def _missing(group: tuple[SamplePlan, ...], out: Path) -> tuple[SamplePlan, ...]:
    return tuple(sample for sample in group if not is_complete(out, sample.set, sample.index))


def _count(outcome: Outcome, out: Path, group: tuple[SamplePlan, ...], receipt: Receipt) -> None:
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


def _receipts(
    job: Job, groups: list[tuple[SamplePlan, ...]], workers: int
) -> Iterator[tuple[tuple[SamplePlan, ...], Receipt]]:
    """Yield every group with what became of it, as they finish; few are in flight, each released at once."""
    import dask
    from distributed import Client, LocalCluster, as_completed

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
        waiting = iter(groups)
        owners: dict[Any, tuple[SamplePlan, ...]] = {}

        def submit() -> Any:
            group = next(waiting, None)
            if group is None:
                return None
            future = client.submit(_render_group, job, group, pure=False)
            owners[future] = group
            return future

        first = [future for _ in range(workers * IN_FLIGHT) if (future := submit()) is not None]
        running = as_completed(first)
        try:
            for future in running:
                receipt = future.result()
                future.release()
                yield owners.pop(future), receipt
                if (following := submit()) is not None:
                    running.add(following)
        finally:
            for child in list(_children.values()):
                child.retire()


@contextmanager
def _closed_children() -> Iterator[None]:
    """Close what is left of this process's children in the end, when no thread of a worker uses one."""
    try:
        yield
    finally:
        while _children:
            _children.popitem()[1].close()


def _render_group(job: Job, group: tuple[SamplePlan, ...]) -> Receipt:
    """Render one group in this worker's child; a group that costs several children is given up."""
    from distributed import get_worker

    child = _children.setdefault(get_worker().address, RenderChild(job))
    for _ in range(TRIES):
        receipt = child.render(group)
        if not receipt.died:
            break
    return receipt
