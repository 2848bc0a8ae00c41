"""What rendering a plan takes: some trace groups of each image set are rendered and multiplied."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from generators.engine.devices import Wish, usable_devices
from generators.engine.render_plan import default_workers, require_rendering
from generators.engine.render_process import Job, RenderChild
from generators.engine.staging_folders import staging
from generators.engine.worker import Group
from generators.language.set_settings import is_traced
from generators.planning.plan import Plan
from generators.random_streams import stream
from loaders.errors import InputError
from loaders.frames import frame_path

LEAST = 2  # groups timed of each set, however little time there is
GOLDEN = (math.sqrt(5) - 1) / 2
BLOCK = 512  # bytes; the unit of `st_blocks`, whatever the file system's own blocks are
TICK = 0.5  # s between two steps of the progress bar
WORKERS = (1, 16, 128)  # rows of the report by default
NOTES = """\
A worker is one render process on a processor (or GPU) of its own, as fast as here with this machine's default
number of workers; more workers than that need more such machines. Time is from start to end. CPU time is of
planning and all render processes; +- is two standard errors, from the spread between the traces timed."""


class Cost(NamedTuple):
    """Cost of rendering: seconds of processors, seconds of the clock, bytes and inodes of the frames."""

    cpu: float
    seconds: float
    bytes: float = 0.0
    inodes: float = 0.0


@dataclass(frozen=True)
class SetCost:
    """An image set: its name, the number of its trace groups, and a row of `Cost` for each one timed."""

    name: str
    groups: int
    timed: Float64[ndarray, "timed 4"]

    @property
    def mean(self) -> Float64[ndarray, "4"]:
        """Cost of a group."""
        return np.asarray(self.timed.mean(0))

    @property
    def deviation(self) -> float:
        """Standard deviation of the CPU seconds from group to group; where one was timed, all of its own."""
        cpu = self.timed[:, 0]
        return float(cpu.std(ddof=1) if len(cpu) > 1 else cpu[0])


@dataclass(frozen=True)
class Estimate:
    """The cost of rendering a plan.

    Attributes:
        samples: number of frames.
        sets: cost of each image set.
        start: CPU seconds and seconds that a render process takes to start.
        planning: CPU seconds of planning, and of this process meanwhile, taken for those of handing out.
        workers: number of render processes that this machine runs by default, and ran for the estimate.
        failed: reason by id of the first sample of each group that could not be rendered.
        seconds: time that the estimate took.
    """

    samples: int
    sets: tuple[SetCost, ...]
    start: Cost
    planning: float
    workers: int
    failed: dict[str, str]
    seconds: float

    def total(self, workers: int) -> Cost:
        """Cost of the whole run with so many workers; the seconds are those from start to end."""
        used = max(1, min(workers, sum(one.groups for one in self.sets)))
        processes = used * max(1, math.ceil(self.samples / used / Job.lifetime))
        rows = (*(one.mean * one.groups for one in self.sets), np.multiply(self.start, processes))
        cpu, seconds, size, inodes = map(float, np.sum(rows, 0))
        return Cost(self.planning + cpu, self.planning + seconds / used, size, inodes)

    @property
    def uncertainty(self) -> float:
        """Two standard errors of the CPU seconds, from the spread between the groups of each set."""
        return 2 * math.hypot(*(one.deviation * one.groups / len(one.timed) ** 0.5 for one in self.sets))


def estimate(
    plan: Plan,
    *,
    seconds: float = 60.0,
    planning: float = 0.0,
    advance: Callable[[float], None] | None = None,
) -> Estimate:
    """Render some trace groups of each image set of a plan, and multiply their cost by the number of groups.

    As many render processes are at work as `generators.render` starts here by default, because each is slower
    when others use the same memory. The frames go into a temporary folder. The choice of the groups is
    random, but always the same.

    Args:
        plan: the plan.
        seconds: time for it once a render process has started, shared among the sets by the number of
            their groups; two groups of each set are timed even if that takes longer.
        planning: CPU seconds that making the plan took.
        advance: called now and then with the seconds passed, for a progress bar.

    Returns:
        The estimate.

    Raises:
        InputError: rendering is not installed, the temporary folder cannot be written, or no group of some
            set could be rendered.

    Example:
        >>> from generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=2)
        >>> round(estimate(plan, seconds=1).total(workers=1).inodes)  # doctest: +SKIP
        8
    """
    planning -= time.process_time()
    require_rendering(plan.recipe)
    devices = usable_devices("auto" if is_traced(plan.recipe) else "cpu")
    workers = default_workers() if devices[0].kind == "CPU" else len(devices)
    run, began = _Run(plan, seconds), time.perf_counter()
    with staging() as folder, ExitStack() as stack:
        pool = ThreadPoolExecutor(workers)
        firsts = list(plan.groups.values())[:workers]
        wishes = [Wish(devices[0].kind.lower(), i) for i in range(len(firsts))]
        children = [RenderChild(Job(folder, plan.recipe, device=wish)) for wish in wishes]
        # Done backwards: the processes are killed, which ends the threads, then what they had open is closed.
        for end in (*(child.close for child in children), pool.shutdown, *(one.retire for one in children)):
            stack.callback(end)
        stack.callback(setattr, run, "seconds", 0.0)  # no thread goes on with a process that was killed
        working = {pool.submit(run.work, *pair) for pair in zip(children, firsts, strict=True)}
        while working:
            done, working = wait(working, TICK, FIRST_EXCEPTION)
            for one in done:
                one.result()
            if advance:
                advance(time.perf_counter() - began)
    took, planning = time.perf_counter() - began, planning + time.process_time()
    return Estimate(len(plan), *run.result(), planning, workers, run.failed, took)


@dataclass
class _Run:
    """State that the threads of an estimate share: the groups to come, and what was measured."""

    plan: Plan
    seconds: float
    timed: dict[str, list[Cost]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    starts: list[tuple[str, Cost]] = field(default_factory=list)  # set and cost of each process's first group

    def __post_init__(self) -> None:
        self._groups: dict[str, list[Group]] = {}
        for group in self.plan.groups.values():
            self._groups.setdefault(group[0].set, []).append(group)
        self._lock, self._choices = threading.Lock(), self._choose()

    def _choose(self) -> Iterator[tuple[Group, Group]]:
        """Choose groups set by set, each with the one before it in the plan.

        Multiples of the golden section, from a random start, are spread evenly over a set however many there
        are. A grid is planned value by value, so every scene and object gets its share.
        """
        recipe, began, share = self.plan.recipe, time.perf_counter(), 0.0
        for name, groups in self._groups.items():
            share += len(groups) / len(self.plan.groups)
            offset = stream(recipe.seed, f"{recipe.name}/{name}", "estimate").random()
            for k in range(len(groups)):
                if k >= LEAST and time.perf_counter() - began > self.seconds * share:
                    break
                i = int((offset + k * GOLDEN) % 1 * len(groups))
                yield groups[i - 1], groups[i]

    def work(self, child: RenderChild, first: Group) -> None:
        """Start one render process with a group, and time others until the time is up.

        A group after one in another environment costs more, because the environment is set up. Where a jump
        to a group changes that, the group before it in the plan is rendered first and not timed.
        """
        cost, last = self._render(child, first)
        self.starts.append((first[0].set, cost))
        while pair := self._next():
            before, group = pair
            here = _place(group)
            if last is None or (_place(last) == here) != (_place(before) == here):
                _, last = self._render(child, before)
            if last is not None:
                cost, last = self._render(child, group)
                if last is not None:
                    self.timed.setdefault(group[0].set, []).append(cost)

    def _next(self) -> tuple[Group, Group] | None:
        with self._lock:
            return next(self._choices, None)

    def _render(self, child: RenderChild, group: Group) -> tuple[Cost, Group | None]:
        """Render one group; give its cost, and the group itself unless it failed."""
        began = time.perf_counter()
        receipt = child.render(group)
        cost = Cost(receipt.cpu_seconds, time.perf_counter() - began)
        if receipt.fatal:
            last = receipt.log.strip().rpartition("\n")[2]
            raise InputError(f"--estimate: {receipt.error}{last and f' ({last})'}")
        if receipt.error:
            self.failed[group[0].id] = receipt.error
            return cost, None
        folders = [frame_path(child.job.root, sample.set, sample.index) for sample in group]
        paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
        size = sum(path.lstat().st_blocks for path in paths) * BLOCK
        return cost._replace(bytes=size, inodes=len(paths)), group

    def result(self) -> tuple[tuple[SetCost, ...], Cost]:
        """Gather the costs by set, and what the first group of a process took beyond another of its set."""
        sets = {}
        for name, groups in self._groups.items():
            if name not in self.timed:
                first = next(group[0].id for group in groups if group[0].id in self.failed)
                raise InputError(
                    f"--estimate: no trace of set `{name}` rendered, the first {first}: {self.failed[first]}"
                )
            sets[name] = SetCost(name, len(groups), np.array(self.timed[name]))
        more = [np.subtract(cost, sets[name].mean)[:2] for name, cost in self.starts] or [np.zeros(2)]
        return tuple(sets.values()), Cost(*np.mean(more, 0).clip(0).tolist())


def _place(group: Group) -> tuple[str, str]:
    """Return what a renderer sets up and keeps for the next group: the image set and its environment."""
    environment = group[0].trace.environment
    return group[0].set, environment.scene if environment else ""


def estimate_text(plan: Plan, found: Estimate, workers: Sequence[int] = ()) -> str:
    """Write an estimate for people: traces timed, gigabytes, hours for some numbers of workers.

    Args:
        plan: the plan.
        found: its estimate.
        workers: numbers of workers; by default some, and this machine's.
    """
    head = f"{plan.recipe.name}: {found.samples} samples from {len(plan.groups)} traces"
    if not found.sets:
        return f"{head}\nnothing is left to render"
    here = found.workers
    lines = [
        f"{head}, planned and handed out in {duration(found.planning)} of CPU time",
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
    for count in sorted({*workers} or {*WORKERS, here}):
        total = found.total(count)
        spread = f"+-{found.uncertainty / max(total.cpu, 1e-9):.0%}"
        note = "  this machine's default" if count == here else ""
        lines.append(f"{count:7d}  {duration(total.seconds):8}  {duration(total.cpu):8} {spread}{note}")
    lines.append(NOTES)
    if found.failed:
        first, reason = next(iter(found.failed.items()))
        lines.append(f"{len(found.failed)} traces failed and count like the others, first {first}: {reason}")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Write a duration with a unit that fits.

    Example:
        >>> [duration(one) for one in (0.25, 59.0, 90.0, 7200.0, 3.6e6)]
        ['0.25 s', '59 s', '1.5 min', '2 h', '1000 h']
    """
    unit, divisor = ("s", 1) if seconds < 60 else ("min", 60) if seconds < 3600 else ("h", 3600)
    return f"{_short(seconds / divisor)} {unit}"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
