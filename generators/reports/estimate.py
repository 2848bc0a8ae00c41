"""Estimate the cost of rendering a plan from the cost of some of its trace groups."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.generators.engine.devices import DeviceRequest, usable_devices
from candlelight.generators.engine.render_plan import default_workers, require_rendering
from candlelight.generators.engine.render_process import GroupStatus, RenderProcess, RunSettings, TraceGroup
from candlelight.generators.language.set_settings import is_traced
from candlelight.generators.planning.plan import Plan
from candlelight.generators.random_streams import stream
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.frames import frame_path

_FEWEST_TIMED = 2  # groups of each set that are timed even if the time is up
_GOLDEN_SECTION = (math.sqrt(5) - 1) / 2
_BLOCK_BYTES = 512  # unit of `st_blocks`, on every file system
_PROGRESS_INTERVAL = 0.5  # s between two steps of the progress bar
_WORKERS_SHOWN = (1, 16, 128)  # numbers of workers in the report by default
_NOTES = """\
A worker is one render process with its own processor (or GPU). Each is as fast as on this machine with its
default number of workers; more workers need more machines of this kind. Time is measured from start to end.
CPU time includes planning and all render processes; +- is two standard errors, from the spread of the timed
traces."""


class Cost(NamedTuple):
    """Cost of rendering: CPU seconds, seconds of the clock, and bytes and inodes of the frames."""

    cpu: float
    seconds: float
    bytes: float = 0.0
    inodes: float = 0.0


@dataclass(frozen=True)
class SetCost:
    """The cost of an image set: its name, its number of trace groups, and a `Cost` for each timed group."""

    name: str
    groups: int
    timed: Float64[ndarray, "timed 4"]

    @property
    def mean(self) -> Float64[ndarray, "4"]:
        """Mean cost of a group."""
        return np.asarray(self.timed.mean(0))

    @property
    def deviation(self) -> float:
        """Standard deviation of the CPU seconds of a group; the whole mean if only one group was timed."""
        cpu = self.timed[:, 0]
        return float(cpu.std(ddof=1) if len(cpu) > 1 else cpu[0])


@dataclass(frozen=True)
class Estimate:
    """The cost of rendering a plan.

    Attributes:
        samples: number of frames.
        sets: cost of each image set.
        start: CPU seconds and seconds that a render process takes to start.
        planning: CPU seconds of planning, and of this process during the estimate, which stand for the cost
            of distributing the groups.
        workers: number of render processes that this machine runs by default, and ran for the estimate.
        failed: reasons why groups could not be rendered, by the id of the first sample of the group.
        seconds: duration of the estimate.
    """

    samples: int
    sets: tuple[SetCost, ...]
    start: Cost
    planning: float
    workers: int
    failed: dict[str, str]
    seconds: float

    def total(self, workers: int) -> Cost:
        """Return the cost of the whole run with a number of workers; its seconds are from start to end."""
        used = max(1, min(workers, sum(one.groups for one in self.sets)))
        processes = used * max(1, math.ceil(self.samples / used / RunSettings.lifetime))
        rows = (*(one.mean * one.groups for one in self.sets), np.multiply(self.start, processes))
        cpu, seconds, size, inodes = map(float, np.sum(rows, 0))
        return Cost(self.planning + cpu, self.planning + seconds / used, size, inodes)

    @property
    def uncertainty(self) -> float:
        """Two standard errors of the CPU seconds, from the spread of the groups of each set."""
        return 2 * math.hypot(*(one.deviation * one.groups / len(one.timed) ** 0.5 for one in self.sets))


def estimate(
    plan: Plan,
    *,
    seconds: float = 60.0,
    planning: float = 0.0,
    advance: Callable[[float], None] | None = None,
) -> Estimate:
    """Render some trace groups of each image set of a plan, and multiply their cost by the number of groups.

    The estimate runs as many render processes as `candlelight.generators.render` starts here by default,
    because each is slower when others use the same memory. The frames are written into a temporary folder.
    The choice of the groups is random, but always the same.

    Args:
        plan: the plan.
        seconds: duration of the estimate after a render process has started, divided among the sets by the
            number of their groups; two groups of each set are timed even if that takes longer.
        planning: CPU seconds that making the plan took.
        advance: called about twice a second with the seconds passed, for a progress bar.

    Returns:
        The estimate.

    Raises:
        InputError: rendering is not installed, the temporary folder cannot be written, or no group of some
            set could be rendered.

    Example:
        >>> from candlelight.generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=2)
        >>> round(estimate(plan, seconds=1).total(workers=1).inodes)  # doctest: +SKIP
        8
    """
    planning -= time.process_time()
    require_rendering(plan.recipe)
    devices = usable_devices("auto" if is_traced(plan.recipe) else "cpu")
    workers = default_workers() if devices[0].kind == "CPU" else len(devices)
    run, began, kind = _Run(plan, seconds), time.perf_counter(), devices[0].kind.lower()
    with TemporaryDirectory(prefix="candlelight-") as name, ExitStack() as stack:
        pool = ThreadPoolExecutor(workers)
        firsts = list(plan.groups.values())[:workers]
        processes = [
            RenderProcess(RunSettings(Path(name), plan.recipe, device=DeviceRequest(kind))) for _ in firsts
        ]
        # The callbacks run in reverse: kill the processes, which ends the threads, then close their files.
        for end in (
            *(process.close for process in processes),
            pool.shutdown,
            *(process.retire for process in processes),
        ):
            stack.callback(end)
        stack.callback(setattr, run, "seconds", 0.0)  # threads stop before they use a killed process
        working = {pool.submit(run.work, *pair) for pair in zip(processes, firsts, strict=True)}
        while working:
            done, working = wait(working, _PROGRESS_INTERVAL, FIRST_EXCEPTION)
            for one in done:
                one.result()
            if advance:
                advance(time.perf_counter() - began)
    took, planning = time.perf_counter() - began, planning + time.process_time()
    return Estimate(len(plan), *run.result(), planning, workers, run.failed, took)


@dataclass
class _Run:
    """The state that the threads of an estimate share: the groups to render, and the costs measured."""

    plan: Plan
    seconds: float
    timed: dict[str, list[Cost]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    starts: list[tuple[str, Cost]] = field(default_factory=list)  # set and cost of each process's first group

    def __post_init__(self) -> None:
        self._groups: dict[str, list[TraceGroup]] = {}
        for group in self.plan.groups.values():
            self._groups.setdefault(group[0].set, []).append(group)
        self._lock, self._choices = threading.Lock(), self._choose()

    def _choose(self) -> Iterator[tuple[TraceGroup, TraceGroup]]:
        """Choose groups set by set, each with the group before it in the plan.

        Multiples of the golden section, from a random start, are spread evenly over a set, whatever their
        number. A grid is planned value by value, so the choice covers every scene and object.
        """
        recipe, began, share = self.plan.recipe, time.perf_counter(), 0.0
        for name, groups in self._groups.items():
            share += len(groups) / len(self.plan.groups)
            offset = stream(recipe.seed, f"{recipe.name}/{name}", "estimate").random()
            for k in range(len(groups)):
                if k >= _FEWEST_TIMED and time.perf_counter() - began > self.seconds * share:
                    break
                i = int((offset + k * _GOLDEN_SECTION) % 1 * len(groups))
                yield groups[i - 1], groups[i]

    def work(self, process: RenderProcess, first: TraceGroup) -> None:
        """Start one render process with a group, and time other groups until the time is up.

        A group costs more if its environment differs from that of the group rendered before it, because the
        environment is set up first. If rendering a chosen group next would not match its cost in the plan in
        this respect, the group before it in the plan is rendered first and not timed.
        """
        cost, last = self._render(process, first)
        self.starts.append((first[0].set, cost))
        while pair := self._next():
            before, group = pair
            here = _place(group)
            if last is None or (_place(last) == here) != (_place(before) == here):
                _, last = self._render(process, before)
            if last is not None:
                cost, last = self._render(process, group)
                if last is not None:
                    self.timed.setdefault(group[0].set, []).append(cost)

    def _next(self) -> tuple[TraceGroup, TraceGroup] | None:
        with self._lock:
            return next(self._choices, None)

    def _render(self, process: RenderProcess, group: TraceGroup) -> tuple[Cost, TraceGroup | None]:
        """Render one group; return its cost, and the group itself unless it failed."""
        began = time.perf_counter()
        result = process.render(group)
        cost = Cost(result.cpu_seconds, time.perf_counter() - began)
        if result.status is GroupStatus.FATAL:
            raise InputError(f"{argument('estimate')}: {result.error}")
        if result.error:
            self.failed[group[0].id] = result.error
            return cost, None
        folders = [frame_path(process.settings.root, sample.set, sample.index) for sample in group]
        paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
        size = sum(path.lstat().st_blocks for path in paths) * _BLOCK_BYTES
        return cost._replace(bytes=size, inodes=len(paths)), group

    def result(self) -> tuple[tuple[SetCost, ...], Cost]:
        """Return the costs by set, and the mean extra cost of the first group of each process."""
        sets = {}
        for name, groups in self._groups.items():
            if name not in self.timed:
                first = next(group[0].id for group in groups if group[0].id in self.failed)
                raise InputError(
                    f"{argument('estimate')}: no trace of set `{name}` rendered, the first {first}: "
                    f"{self.failed[first]}"
                )
            sets[name] = SetCost(name, len(groups), np.array(self.timed[name]))
        more = [np.subtract(cost, sets[name].mean)[:2] for name, cost in self.starts] or [np.zeros(2)]
        return tuple(sets.values()), Cost(*np.mean(more, 0).clip(0).tolist())


def _place(group: TraceGroup) -> tuple[str, str]:
    """Return the image set and environment of a group, which a renderer keeps for the next group."""
    environment = group[0].trace.environment
    return group[0].set, environment.scene if environment else ""


def estimate_text(plan: Plan, found: Estimate, workers: Sequence[int] = ()) -> str:
    """Describe an estimate as text: timed traces, gigabytes, and hours for some numbers of workers.

    Args:
        plan: the plan.
        found: its estimate.
        workers: numbers of workers; by default 1, 16, 128 and this machine's.
    """
    head = f"{plan.recipe.name}: {found.samples} samples from {len(plan.groups)} traces"
    if not found.sets:
        return f"{head}\nall frames are rendered"
    here = found.workers
    lines = [
        f"{head}, planned and distributed in {duration(found.planning)} of CPU time",
        *(
            f"  {one.name}: {one.groups} traces of {_short(one.mean[0])} CPU s (standard deviation "
            f"{one.deviation:.2g}) and {_short(one.mean[2] / 1e6)} MB; {len(one.timed)} timed"
            for one in found.sets
        ),
        f"timed {sum(len(one.timed) for one in found.sets)} traces in {duration(found.seconds)}, {here} at a "
        f"time; a render process starts in {duration(found.start.cpu)} of CPU time",
        f"frames: {_short(found.total(1).bytes / 1e9)} GB on disk, {found.total(1).inodes:.0f} inodes",
        "",
        "workers  time      CPU time",
    ]
    for count in sorted({*workers} or {*_WORKERS_SHOWN, here}):
        total = found.total(count)
        spread = f"+-{found.uncertainty / max(total.cpu, 1e-9):.0%}"
        note = "  this machine's default" if count == here else ""
        lines.append(f"{count:7d}  {duration(total.seconds):8}  {duration(total.cpu):8} {spread}{note}")
    lines.append(_NOTES)
    if found.failed:
        first, reason = next(iter(found.failed.items()))
        lines.append(
            f"{len(found.failed)} traces failed and are counted like the others, the first {first}: {reason}"
        )
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Write a duration in seconds, minutes or hours.

    Example:
        >>> [duration(one) for one in (0.25, 59.0, 90.0, 7200.0, 3.6e6)]
        ['0.25 s', '59 s', '1.5 min', '2 h', '1000 h']
    """
    unit, divisor = ("s", 1) if seconds < 60 else ("min", 60) if seconds < 3600 else ("h", 3600)
    return f"{_short(seconds / divisor)} {unit}"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
