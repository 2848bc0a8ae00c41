"""Measure the overhead of the engine: CPU time of a run divided by the CPU time of the bare loop.

    python -m benchmarks.overhead [--sizes 64x64 320x240] [--recipes candle concepts] [--frames N]

One side is `candlelight render` as a user starts it, with one worker of one thread; all its processes and
threads count. The other side is `bare_loop.py`, which changes the scene, calls the render operator and
denoises. Both render the same plan in the same order with the recipe's settings, by turns: while one side
renders a block of frames, the other is stopped (SIGSTOP), so that other load on the machine affects both. CPU
time is read at the ends of the blocks. The ratio is the median over blocks; the cost per frame in the first
and the last block shows whether it changes during a run. The costs of start and end are measured separately;
`1000 frames` is the ratio of whole runs of that length, (start and end + 1000 x cost per frame).

Traces of `candle` give one frame each; traces of `concepts` give three (one for each colour temperature), and
the engine writes all of them. The frames are spread over the plan. By default there are 40 frames of more
than 20 000 pixels and 300 smaller ones, 15 to 20 minutes in all on one processor; `--frames 1000` takes hours
at 320x240.
"""

import argparse
import itertools
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import psutil

from benchmarks.processes import candlelight, cpu_seconds, finished, print_table, start, tree, wait_until
from candlelight.generators import load_recipe, make_plan
from candlelight.generators.engine.processor_count import THREADS_VARIABLE
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.plan_table import save_plan
from candlelight.generators.planning.planned_samples import compress_samples

LIMITS = {"64x64": 1.5, "320x240": 1.15}
HERE = Path(__file__).parent
SMALL = 20_000  # pixels
FRAMES = {True: 300, False: 40}  # by whether they are small
WHOLE = 1000  # frames of the run that the issue is about


@dataclass
class Side:
    """One side of the comparison: its process, its progress, and CPU seconds at the ends of blocks."""

    process: psutil.Popen
    log: Path
    frames: Callable[[], int]
    marks: list[tuple[int, float]] = field(default_factory=list)

    def go_on(self, frames: int) -> None:
        """Let it run until this many frames are done, then stop it."""
        self.signal(signal.SIGCONT)
        wait_until(lambda: self.frames() >= frames, self.process, self.log)
        self.signal(signal.SIGSTOP)
        self.marks.append((self.frames(), cpu_seconds(self.process)))

    def finish(self) -> float:
        """Let it finish, and return the CPU seconds of all its processes from start to end."""
        self.signal(signal.SIGCONT)
        _, status, used = os.wait4(self.process.pid, 0)
        if status:
            raise SystemExit(self.log.read_text(errors="replace")[-2000:])
        return used.ru_utime + used.ru_stime

    def signal(self, number: int) -> None:
        """Send a signal to all its processes."""
        for one in tree(self.process):
            one.send_signal(number)

    def costs(self) -> list[float]:
        """Return CPU seconds per frame for each block."""
        return [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(self.marks)]


def spread(plan: Plan, frames: int) -> Plan:
    """Keep about this many frames, in whole trace groups at equal distances in the plan."""
    groups = list(plan.groups.values())
    count = max(1, round(frames * len(groups) / len(plan)))
    kept = [groups[i] for i in np.linspace(0, len(groups) - 1, count).round().astype(int)]
    return replace(plan, samples=compress_samples(itertools.chain.from_iterable(kept)))


def measure(plan: Plan, blocks: int, folder: Path) -> tuple[Side, Side, float, float]:
    """Let both sides render a plan by turns.

    Returns:
        The run, the bare loop, and the costs of start and end of each, in CPU seconds.
    """
    file, done, out = folder / "plan.parquet", folder / "done", folder / "frames"
    save_plan(plan, file)
    done.touch()
    ends = [0, *itertools.accumulate(len(group) for group in plan.groups.values())]
    logs = folder / "run.log", folder / "bare.log"
    command = candlelight("render", file, "--out", out, "--workers", 1, "--threads", 1)
    sides = (
        Side(start(command, logs[0]), logs[0], lambda: finished(out)),
        Side(
            start(
                ["env", f"{THREADS_VARIABLE}=1", sys.executable, HERE / "bare_loop.py", file, done], logs[1]
            ),
            logs[1],
            lambda: ends[done.stat().st_size],
        ),
    )
    # The first block ends when a frame is there and the last one a little before the end.
    margin = max(2, len(plan) // 50)
    try:
        sides[1].signal(signal.SIGSTOP)
        for mark in np.linspace(margin, len(plan) - margin, blocks + 1).round().astype(int).tolist():
            for side in sides:
                side.go_on(mark)
        totals = [side.finish() for side in sides]
    finally:
        for side in sides:
            side.signal(signal.SIGKILL)
    ends_cost = [total - mean_cost(side) * len(plan) for side, total in zip(sides, totals, strict=True)]
    return *sides, *ends_cost


def mean_cost(side: Side) -> float:
    """Return CPU seconds per frame over all blocks."""
    (frames, cpu), (more_frames, more_cpu) = side.marks[0], side.marks[-1]
    return (more_cpu - cpu) / (more_frames - frames)


def row(recipe: str, size: str, plan: Plan, blocks: int) -> list[object]:
    """Measure one recipe at one size."""
    with tempfile.TemporaryDirectory() as folder:
        run, bare, run_ends, bare_ends = measure(plan, blocks, Path(folder))
    ratios = [a / b for a, b in zip(run.costs(), bare.costs(), strict=True)]
    whole = (run_ends + WHOLE * mean_cost(run)) / (bare_ends + WHOLE * mean_cost(bare))
    return [
        recipe,
        size,
        len(plan),
        len(plan.groups),
        statistics.median(bare.costs()),
        statistics.median(run.costs()),
        statistics.median(ratios),
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{run.costs()[0]:.3g}, {run.costs()[-1]:.3g}",
        bare_ends,
        run_ends,
        whole,
        LIMITS.get(size, "-"),
    ]


HEADER = (
    "recipe",
    "size",
    "frames",
    "traces",
    "bare CPU s/frame",
    "run CPU s/frame",
    "ratio",
    "of blocks",
    "run, first and last block",
    "bare start and end, CPU s",
    "run start and end, CPU s",
    f"{WHOLE} frames",
    "wanted",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=list(LIMITS), metavar="WxH")
    parser.add_argument("--recipes", nargs="+", default=["candle", "concepts"])
    parser.add_argument("--frames", type=int, help="of each run; by default as the size has it")
    parser.add_argument("--blocks", type=int, default=10)
    options = parser.parse_args()
    # Else both sides would stay behind, stopped, where this is ended by `timeout`.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    rows = []
    for recipe, size in itertools.product(options.recipes, options.sizes):
        width, height = map(int, size.split("x"))
        plan = make_plan(load_recipe(recipe, [f"image.width={width}", f"image.height={height}"]))
        frames = options.frames or FRAMES[width * height <= SMALL]
        rows.append(row(recipe, size, spread(plan, frames), options.blocks))
        print_table(HEADER, rows[-1:])
    print()
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
