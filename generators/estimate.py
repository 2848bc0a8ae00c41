"""Estimating what a plan takes, by rendering a few trace groups of every cost stratum."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from generators.child import Job, Receipt
from generators.clusters import connected
from generators.description import describe_folder
from generators.devices import Wish, usable_devices
from generators.extrapolation import (
    Cost,
    Estimate,
    Machine,
    Overhead,
    Reading,
    StratumCost,
    mean_cost,
    stratum_costs,
)
from generators.plan import Plan
from generators.rendering import default_workers, require_rendering
from generators.settings import is_traced
from generators.staging import staging
from generators.strata import Group, Stratum, cost_strata, place_of
from generators.streams import stream
from generators.visits import Visits
from generators.work import close_children, render_groups, stop_run
from loaders.errors import InputError
from loaders.frames import frame_path

BLOCK = 512  # bytes; what `os.stat` counts in, whatever the file system's own blocks are


@dataclass
class _Seen:
    """What has been rendered so far, and where each worker stands."""

    readings: list[Reading] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    warm_up: list[tuple[int, Cost]] = field(default_factory=list)
    places: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by worker, the last one last
    seconds: float = 0.0
    late: bool = False


def estimate(
    plan: Plan,
    *,
    threads: int = 1,
    device: str = "auto",
    seconds: float = 60.0,
    planning: float = 0.0,
    time_limit: float = 900.0,
    advance: Callable[[float, float], None] | None = None,
) -> Estimate:
    """Render a few trace groups of every cost stratum of a plan, and work out what all of it takes.

    It goes the way that `generators.render` goes, with the workers that this machine has by default, into a
    temporary folder that is removed in the end. What is rendered is chosen at random, but always the same.

    Args:
        plan: the plan.
        threads: render threads of each worker.
        device: what is traced on; see `generators.render`.
        seconds: what measuring may take. A few groups of every stratum are rendered even if that takes
            longer; what is left of the time goes where it tells most.
        planning: CPU seconds that making the plan took.
        time_limit: seconds after which a trace group's child is killed.
        advance: called with the seconds passed and the seconds expected in all, for a progress bar.

    Returns:
        The estimate.

    Raises:
        InputError: rendering is not installed, there is no such device, the temporary folder cannot be
            written, or none of the groups could be rendered.

    Example:
        >>> from generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=2)
        >>> round(estimate(plan, seconds=1).inodes)  # doctest: +SKIP
        8
    """
    require_rendering(plan.recipe)
    from dask.system import cpu_count

    kind = usable_devices(device if is_traced(plan.recipe) else "cpu")
    workers = default_workers() if kind[0].kind == "CPU" else len(kind)
    machine = Machine(cpu_count(), workers)
    if not plan.samples:
        overhead = Overhead(0.0, 0.0, planning, 0.0, 0.0, 0.0)
        return Estimate(0, (), overhead, Job.lifetime, machine, {}, 0.0, False)
    strata, began = cost_strata(plan), time.perf_counter()
    with staging() as place:
        folder = place / "frames"
        folder.mkdir()
        before = time.process_time()
        describe_folder(plan, folder)
        planning += time.process_time() - before
        described = sum(path.lstat().st_blocks * BLOCK for path in folder.iterdir())
        wish = Wish(kind[0].kind.lower())
        job = Job(folder, plan.recipe, threads, time_limit, device=wish, run=folder.parent.name)
        seen, submitting, following = _sample(plan, strata, job, workers, seconds, advance)
    if not seen.readings and not seen.warm_up:
        first, reason = next(iter(seen.failed.items()))
        raise InputError(
            f"--estimate: none of {len(seen.failed)} traces rendered, the first {first}: {reason}"
        )
    costs, start = _settle(strata, seen)
    overhead = Overhead(start.cpu, start.seconds, planning, submitting, following, described)
    took = time.perf_counter() - began
    return Estimate(len(plan), costs, overhead, job.lifetime, machine, seen.failed, took, seen.late)


def _sample(
    plan: Plan,
    strata: Sequence[Stratum],
    job: Job,
    workers: int,
    seconds: float,
    advance: Callable[[float, float], None] | None,
) -> tuple[_Seen, float, float]:
    """Render groups until the time is up; also tell what this process takes for it, once and per second."""
    groups, seen = list(plan.groups.values()), _Seen()
    visits = Visits(groups, strata, stream(plan.recipe.seed, plan.recipe.name, "estimate"))
    began, ours = time.perf_counter(), time.process_time()
    with ExitStack() as stack:
        stack.callback(close_children, job.run)
        client: Any = stack.enter_context(connected(workers))
        stack.callback(stop_run, job.run)
        standing = time.process_time()
        coming = _coming(visits, seen, workers, began + seconds)
        asked: dict[Any, tuple[int, ...]] = {}
        done: SimpleQueue[Any] = SimpleQueue()

        def submit() -> None:
            if visit := next(coming, ()):
                future = client.submit(_visit, job, [groups[i] for i in visit], pure=False)
                asked[future] = visit
                future.add_done_callback(done.put)

        for _ in range(workers):
            submit()
        for count in itertools.count(1):
            if not asked:
                break
            future = done.get()
            address, receipts = future.result()
            for i, receipt in zip(asked.pop(future), receipts, strict=True):
                _record(seen, address, visits.stratum_of(i), groups[i], receipt, job.root)
            future.release()
            submit()
            if advance:
                passed = time.perf_counter() - began
                rest = passed / count * max(0, workers + len(strata) - count)
                advance(passed, max(seconds, passed + rest))
        worked = time.process_time()
    submitting = standing - ours + time.process_time() - worked
    return seen, submitting, (worked - standing) / max(seen.seconds, 1e-9)


def _coming(visits: Visits, seen: _Seen, workers: int, until: float) -> Iterator[tuple[int, ...]]:
    """Give the next visit: a warm-up for each worker, every stratum once, then what tells most."""
    for _ in range(workers):
        if visit := visits.warm_up():
            yield visit
    yield from visits.first_round()
    seen.late = time.perf_counter() > until
    while visit := visits.most_telling(seen.readings):
        if time.perf_counter() > until:
            return
        yield visit


def _visit(job: Job, groups: Sequence[Group]) -> tuple[str, list[Receipt]]:
    """Render groups in this worker's child, one after the other so that each is timed by itself."""
    from distributed import get_worker

    return get_worker().address, [render_groups(job, [group])[0] for group in groups]


def _record(seen: _Seen, address: str, stratum: int, group: Group, receipt: Receipt, root: Path) -> None:
    """Add what one group took; the first of a process tells what starting one takes."""
    if receipt.fatal:
        raise InputError(f"--estimate: {receipt.error}; {receipt.log.strip().rpartition(chr(10))[2]}")
    seen.seconds += receipt.seconds
    places, place = seen.places.setdefault(address, []), place_of(group)
    if receipt.error:
        seen.failed[group[0].id] = receipt.error
        if receipt.died:
            places.clear()
        return
    size, inodes = _on_disk(root, group)
    cost = Cost(receipt.cpu_seconds, receipt.seconds, size, inodes)
    if places:
        seen.readings.append(Reading(stratum, cost, places[-1] != place, place not in places))
    else:
        seen.warm_up.append((stratum, cost))
    places.append(place)


def _on_disk(root: Path, group: Group) -> tuple[float, float]:
    """Return the bytes that the samples of a group occupy on disk, and their inodes."""
    folders = [frame_path(root, sample.set, sample.index) for sample in group]
    paths = [path for folder in folders for path in (folder, *folder.iterdir())]
    return float(sum(path.lstat().st_blocks for path in paths) * BLOCK), float(len(paths))


def _settle(strata: Sequence[Stratum], seen: _Seen) -> tuple[tuple[StratumCost, ...], Cost]:
    """Work out the costs of the strata, and of starting a process: what its first group took more."""
    if not seen.readings:  # so few groups that each was the first of a process
        seen.readings += [Reading(stratum, cost) for stratum, cost in seen.warm_up]
    costs = stratum_costs(strata, seen.readings)
    more = [
        Cost(
            max(0.0, cost.cpu - costs[stratum].arriving.cpu),
            max(0.0, cost.seconds - costs[stratum].arriving.seconds),
            0.0,
            0.0,
        )
        for stratum, cost in seen.warm_up
    ]
    return costs, mean_cost(more) if more else Cost(0.0, 0.0, 0.0, 0.0)
