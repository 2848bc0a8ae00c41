"""Render a plan into a folder of frames, on this machine or by workers of a dask scheduler."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.engine.blender_version import how_to_render
from candlelight.generators.engine.dask_clusters import cluster_class
from candlelight.generators.engine.dask_pool import DaskPool, open_dask_pool
from candlelight.generators.engine.dataset_description import copy_code, describe_folder
from candlelight.generators.engine.devices import DeviceRequest, check_device_choice, usable_devices
from candlelight.generators.engine.output_locks import description_lock, hold_folder
from candlelight.generators.engine.render_pool import RenderPool, render_unlocked
from candlelight.generators.engine.render_process import GroupResult, GroupStatus, RunSettings, TraceGroup
from candlelight.generators.engine.repair import move_damaged_samples
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import is_traced
from candlelight.generators.planning.plan import Plan, check_plan
from candlelight.generators.planning.planned_samples import SampleKey
from candlelight.generators.planning.provenance import check_assets
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.frames import is_complete

# Bytes. The measured peak is 0.65e9 at 320x240; environment maps and larger images need more.
_MEMORY_PER_WORKER = 1.5e9
_LOGS = "failed"


@dataclass
class RenderOutcome:
    """The outcome of a run.

    Attributes:
        found: number of samples that were complete before, or that another run wrote meanwhile.
        written: number of samples that this run wrote.
        cpu_seconds: CPU time of the render processes.
        failed: reason by id of each sample that could not be rendered.
        damaged: number of damaged samples that a repair rendered again.
        damaged_outside_plan: number of damaged samples that a repair found, but that are not in the plan.
    """

    found: int = 0
    written: int = 0
    cpu_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    damaged: int = 0
    damaged_outside_plan: int = 0


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
) -> RenderOutcome:
    """Render the samples of a plan that are not in the folder yet.

    Each sample appears whole or not at all, so the run can be killed at any moment and started again. Several
    runs may share the folder. The frames do not depend on order, workers, threads or restarts.

    Args:
        plan: the plan.
        out: folder of the data set, made if necessary.
        workers: number of render processes at a time; by default as many as fit into processors and memory,
            or one for each GPU; with a scheduler all of its workers.
        threads: render threads of each process.
        shard: (i, n): render the i-th of n parts of the trace groups, 1-based, for job arrays.
        time_limit: seconds for one trace group, after which its render process is killed.
        repair: whether to check all files first, and to render damaged samples again.
        device: device to trace on: "cpu", "optix", "cuda", "hip", "oneapi" or "metal"; "auto" means the best
            kind of GPU that Blender finds, else the processor. Every render process takes one GPU.
        scheduler: address of a dask scheduler whose workers render, or the path of its scheduler file.
        cluster: "slurm", "pbs", "lsf" or "kubernetes": start ``workers`` workers there, as the configuration
            of dask-jobqueue or dask-kubernetes on this machine says.
        advance: called with the number of finished samples since the last call, for a progress bar.

    Returns:
        The outcome of the run.

    Raises:
        InputError: no plan is given, the folder holds frames of another recipe or cannot be written,
            rendering is not installed, there is no such device, or the workers cannot be started or reached.

    Example:
        >>> from candlelight.generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("demo"), limit=1)
        >>> outcome = render(plan, Path("frames"))  # doctest: +SKIP
    """
    check_plan(plan)
    if scheduler is None and cluster is None:
        require_rendering(plan.recipe)
    else:
        _require("distributed")
    check_assets(
        plan.assets, AssetLibrary(plan.recipe.assets), f"the plan of `{plan.recipe.name}`", "plan again"
    )
    workers, request = _choose_workers(plan.recipe, device, workers, scheduler, cluster)
    mine = plan.shard(*shard) if shard else plan
    out = local_folder(out)
    with hold_folder(out) as check_folder:
        with description_lock(out):
            describe_folder(plan, out, repair)
            copy_code(out, plan.recipe)
        damaged, others = move_damaged_samples(mine, out) if repair else (0, 0)
        missing = (group.where(lambda key: not _has(out, key)) for group in mine.groups.values())
        groups = [group for group in missing if len(group)]
        found = len(mine) - sum(map(len, groups))
        outcome = RenderOutcome(found, damaged=damaged, damaged_outside_plan=others)
        if advance:
            advance(outcome.found)
        settings = RunSettings(out.absolute(), plan.recipe, threads, time_limit, device=request)
        pool: AbstractContextManager[RenderPool | DaskPool]
        if groups and (scheduler or cluster):
            pool = open_dask_pool(settings, plan.assets, workers, scheduler, cluster)
        else:
            pool = RenderPool(settings, min(workers or 1, len(groups)))
        with pool as opened:
            for group, result in render_unlocked(opened.render, groups):
                check_folder()
                _count(outcome, out, group, result)
                if advance:
                    advance(len(group))
    return outcome


def _choose_workers(
    recipe: Recipe, device: str, workers: int | None, scheduler: str | None, cluster: str | None
) -> tuple[int | None, DeviceRequest]:
    """Choose workers and device from the options, and refuse options that contradict each other."""
    check_device_choice(device)
    if cluster is not None:
        if workers is None or scheduler is not None:
            raise InputError(
                f"{argument('cluster')} {cluster}: expected {argument('workers')}, and no "
                f"{argument('scheduler')}"
            )
        cluster_class(cluster)
    if cluster is not None or scheduler is not None:
        return workers, DeviceRequest(device)
    devices = usable_devices(device if is_traced(recipe) else "cpu")
    count = default_workers() if devices[0].kind == "CPU" else len(devices)
    return workers or count, DeviceRequest(devices[0].kind.lower())


def default_workers() -> int:
    """Return how many render processes fit into the processors and memory that the system grants."""
    import psutil
    from dask.system import cpu_count
    from distributed.system import memory_limit

    memory = min(psutil.virtual_memory().available, memory_limit())
    return max(1, min(cpu_count(), int(memory / _MEMORY_PER_WORKER)))


def require_rendering(recipe: Recipe) -> None:
    """Raise InputError if a package for rendering the recipe is missing."""
    _require("distributed", *(("bpy", "OpenEXR", "pyoidn") if is_traced(recipe) else ()))


def _require(*needed: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InputError(
            f"rendering needs {', '.join(missing)}, not installed here; {how_to_render()}, and see "
            "`candlelight doctor`"
        )


def _count(outcome: RenderOutcome, out: Path, group: TraceGroup, result: GroupResult) -> None:
    """Add the result of a trace group to the outcome, and write or remove the logs of its samples."""
    outcome.cpu_seconds += result.cpu_seconds
    if result.status is GroupStatus.FATAL:
        raise InputError(
            f"output folder {out}: {result.error}; finished samples are whole, run again to resume"
        )
    for sample in group:
        log = out / _LOGS / f"{sample.id}.log"
        if sample.id in result.written or _has(out, sample):
            # Samples of a failed group that are complete were written by this run; others by another run.
            own = sample.id in result.written or bool(result.error)
            outcome.written += own
            outcome.found += not own
            log.unlink(missing_ok=True)
        else:
            outcome.failed[sample.id] = result.error
            log.parent.mkdir(exist_ok=True)
            log.write_text(f"{result.error}\n{result.log}", encoding="utf-8")


def _has(out: Path, sample: SamplePlan | SampleKey) -> bool:
    return is_complete(out, sample.set, sample.index)
