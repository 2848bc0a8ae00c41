"""From what a few trace groups took to what a whole plan takes: arithmetic alone, nothing is rendered."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from generators.strata import Stratum

Z = 1.96  # two-sided 95 %, of a normal distribution


@dataclass(frozen=True)
class Cost:
    """What a trace group takes: seconds of processors, seconds of its renderer, bytes and inodes on disk."""

    cpu: float
    seconds: float
    bytes: float
    inodes: float


@dataclass(frozen=True)
class Reading:
    """What one trace group was seen to take.

    Attributes:
        stratum: number of its stratum.
        cost: what it took.
        arrived: whether its surroundings had to be set up; ``fresh`` if for the first time in its process.
        fresh: see ``arrived``.
    """

    stratum: int
    cost: Cost
    arrived: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class StratumCost:
    """What the trace groups of a stratum take.

    Attributes:
        stratum: the stratum.
        steady: one that comes after another of the same surroundings.
        arriving: one that does not.
        fresh: what the first one in a process takes on top of that; CPU seconds.
        deviation: standard deviation of the CPU seconds from group to group.
        readings: how many groups were rendered to know.
    """

    stratum: Stratum
    steady: Cost
    arriving: Cost
    fresh: float
    deviation: float
    readings: int

    def arrivals(self, workers: int) -> float:
        """Count the groups whose surroundings are set up: every worker comes to all of them."""
        return min(float(len(self.stratum.groups)), float(self.stratum.arrivals * workers))

    def total(self, workers: int = 1) -> Cost:
        """Add up the groups of the stratum."""
        arrivals = self.arrivals(workers)
        others = len(self.stratum.groups) - arrivals
        kinds = ((self.steady, others), (self.arriving, arrivals))
        return Cost(
            cpu=sum(cost.cpu * count for cost, count in kinds),
            seconds=sum(cost.seconds * count for cost, count in kinds),
            bytes=sum(cost.bytes * count for cost, count in kinds),
            inodes=sum(cost.inodes * count for cost, count in kinds),
        )

    @property
    def variance(self) -> float:
        """Variance of the total of the CPU seconds; nothing is uncertain of what was rendered."""
        count = len(self.stratum.groups)
        unseen = max(0, count - self.readings)
        return self.deviation**2 * count * unseen / max(1, self.readings)


@dataclass(frozen=True)
class Overhead:
    """What a run takes besides its trace groups; seconds of processors but for ``start_seconds``.

    Attributes:
        start: of one render process.
        start_seconds: the same in seconds of the clock.
        planning: of the plan, and of its files in the output folder.
        submitting: of starting and ending what hands the groups out.
        following: of handing them out, per second of a renderer.
        folder: bytes of the files beside the samples.
    """

    start: float
    start_seconds: float
    planning: float
    submitting: float
    following: float
    folder: float


@dataclass(frozen=True)
class Machine:
    """What was measured on: processors, and the render processes that it runs by default."""

    processors: int
    workers: int


@dataclass(frozen=True)
class Estimate:
    """What rendering a plan takes.

    Attributes:
        samples: frames to render.
        strata: costs of the strata.
        overhead: what comes on top.
        lifetime: samples after which a render process is replaced.
        machine: what was measured on.
        failed: reason by id of the first sample of each group that could not be rendered.
        measured: seconds that measuring took.
        late: whether that was longer than asked for, because every stratum had to be seen.
    """

    samples: int
    strata: tuple[StratumCost, ...]
    overhead: Overhead
    lifetime: int
    machine: Machine
    failed: dict[str, str]
    measured: float
    late: bool

    @property
    def traces(self) -> int:
        """Count the trace groups."""
        return sum(len(cost.stratum.groups) for cost in self.strata)

    @property
    def readings(self) -> int:
        """Count the trace groups that were rendered to know."""
        return sum(cost.readings for cost in self.strata)

    def processes(self, workers: int) -> int:
        """Count the render processes: one for each worker, and those that replace one that is due."""
        used = min(workers, self.traces)
        return used * max(1, math.ceil(self.samples / used / self.lifetime)) if used else 0

    def starting(self, workers: int) -> float:
        """CPU seconds that render processes take to start, and to load what each of them loads once."""
        fresh = sum(cost.fresh for cost in self.strata)
        return self.processes(workers) * (self.overhead.start + fresh)

    def tracing(self, workers: int) -> float:
        """CPU seconds of the trace groups."""
        return sum(cost.total(workers).cpu for cost in self.strata)

    def owning(self, workers: int) -> float:
        """CPU seconds of the process that plans and hands out."""
        waited = sum(cost.total(workers).seconds for cost in self.strata)
        return self.overhead.planning + self.overhead.submitting + self.overhead.following * waited

    def cpu_seconds(self, workers: int | None = None) -> float:
        """CPU seconds of all processes; by default with the workers that this machine runs."""
        count = workers or self.machine.workers
        return self.tracing(count) + self.starting(count) + self.owning(count)

    def wall_seconds(self, workers: int) -> float:
        """Seconds of the clock, workers beyond this machine's being on more machines like it."""
        machines = max(1.0, workers / self.machine.workers)
        waited = sum(cost.total(workers).seconds for cost in self.strata)
        waited += self.processes(workers) * self.overhead.start_seconds
        busy = self.tracing(workers) + self.starting(workers)
        used = max(1, min(workers, self.traces))
        shared = max(waited / used, busy / (self.machine.processors * machines))
        return self.overhead.planning + self.overhead.submitting + shared

    @cached_property
    def bytes(self) -> float:
        """Bytes of the folder of frames on disk, in whole blocks."""
        return self.overhead.folder + sum(cost.total().bytes for cost in self.strata)

    @cached_property
    def inodes(self) -> float:
        """Files and folders of the samples."""
        return sum(cost.total().inodes for cost in self.strata)

    @property
    def uncertainty(self) -> float:
        """Half of the 95 % interval of the CPU seconds, from the spread inside the strata."""
        return Z * math.sqrt(sum(cost.variance for cost in self.strata))


def stratum_costs(strata: Sequence[Stratum], readings: Sequence[Reading]) -> tuple[StratumCost, ...]:
    """Work out what the trace groups of each stratum take.

    A kind of group that was not seen in a stratum is taken to cost what the other kind does; a stratum of
    which nothing was seen, what all others do.

    Args:
        strata: the strata.
        readings: what was seen of them, at least one.

    Returns:
        A cost for each stratum.

    Example:
        >>> strata = [Stratum(("cubes", "none", "plain", "1", "1"), tuple(range(10)), 1)]
        >>> seen = [Reading(0, Cost(cpu, 2.0, 4096.0, 4.0)) for cpu in (1.0, 2.0, 3.0)]
        >>> (cost,) = stratum_costs(strata, seen)
        >>> cost.total().cpu, cost.deviation
        (20.0, 1.0)
    """
    spread = _relative_spread(readings)
    return tuple(
        _stratum_cost(stratum, [one for one in readings if one.stratum == i] or list(readings), i, spread)
        for i, stratum in enumerate(strata)
    )


def _stratum_cost(stratum: Stratum, seen: list[Reading], number: int, spread: float) -> StratumCost:
    again = [one.cost for one in seen if one.arrived and not one.fresh]
    first = [one.cost for one in seen if one.arrived and one.fresh]
    steady = [one.cost for one in seen if not one.arrived]
    arriving = mean_cost(again or first or steady)
    # What a map costs to read once shows only where it was arrived at again.
    fresh = max(0.0, mean_cost(first).cpu - arriving.cpu) if again and first else 0.0
    staying = mean_cost(steady or again or first)
    typical = again or first if stratum.arriving > 0.5 else steady
    deviation = spread * staying.cpu
    if len(typical) > 2:
        deviation = statistics.stdev(cost.cpu for cost in typical)
    rendered = sum(one.stratum == number for one in seen)
    return StratumCost(stratum, staying, arriving, fresh, deviation, rendered)


def mean_cost(costs: Sequence[Cost]) -> Cost:
    """Average costs, of which there is at least one."""
    return Cost(
        cpu=statistics.fmean(cost.cpu for cost in costs),
        seconds=statistics.fmean(cost.seconds for cost in costs),
        bytes=statistics.fmean(cost.bytes for cost in costs),
        inodes=statistics.fmean(cost.inodes for cost in costs),
    )


def _relative_spread(readings: Sequence[Reading]) -> float:
    """Standard deviation of the CPU seconds inside strata, over their mean; at worst that between strata."""
    for strata in ([one.stratum for one in readings], [0] * len(readings)):
        kinds: dict[tuple[int, bool, bool], list[float]] = {}
        for one, stratum in zip(readings, strata, strict=True):
            kinds.setdefault((stratum, one.arrived, one.fresh), []).append(one.cost.cpu)
        several = [costs for costs in kinds.values() if len(costs) > 1]
        if freedom := sum(len(costs) - 1 for costs in several):
            squares = sum((len(costs) - 1) * _relative_variance(costs) for costs in several)
            return math.sqrt(squares / freedom)
    return 0.0


def _relative_variance(costs: Sequence[float]) -> float:
    return statistics.variance(costs) / max(statistics.fmean(costs), 1e-9) ** 2
