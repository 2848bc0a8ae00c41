"""How far `candlelight plan --estimate` is from real runs: CPU time of all processes, bytes, time.

    python benchmarks/estimate.py [--recipes candle parts ...] [--limit 120] [--seconds 60] [--size 64]

Plans so many samples of each set of each recipe at a reduced size, estimates them, then renders them by the
command line with this machine's default workers, and prints a table of ratios. Estimate and run follow each
other, so that what else the machine does affects both alike.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from generators import load_recipe, make_plan
from generators.estimate import estimate
from generators.extrapolation import Estimate

RECIPES = ("candle", "parts", "concepts", "identifiable", "negatives", "dead-leaves")


@dataclass(frozen=True)
class Run:
    """What a real run took."""

    cpu: float
    seconds: float
    bytes: int
    inodes: int


def estimated(recipe: str, overrides: Sequence[str], limit: int, seconds: float) -> Estimate:
    """Estimate a recipe, its planning and the start of Python counted as the command does."""
    before = time.process_time()
    plan = make_plan(load_recipe(recipe, overrides), limit)
    return estimate(plan, seconds=seconds, planning=python_start() + time.process_time() - before)


def python_start() -> float:
    """CPU seconds of a process that imports what planning needs and ends."""
    before = children_cpu()
    subprocess.run([sys.executable, "-c", "import candlelight, generators"], check=True)
    return children_cpu() - before


def rendered(recipe: str, overrides: Sequence[str], limit: int) -> Run:
    """Render a recipe by the command line into a folder that is removed again."""
    options = [word for override in overrides for word in ("--set", override)]
    with tempfile.TemporaryDirectory() as folder:
        frames = Path(folder) / "frames"
        command = [sys.executable, "-m", "candlelight", "render", recipe, "--out", str(frames)]
        before, started = children_cpu(), time.perf_counter()
        subprocess.run([*command, "--limit", str(limit), *options], check=True, capture_output=True)
        seconds = time.perf_counter() - started
        paths = [path for sample in frames.glob("samples/*/*/*") for path in (sample, *sample.iterdir())]
        size = sum(path.lstat().st_blocks * 512 for path in (*paths, *frames.glob("*")))
        return Run(children_cpu() - before, seconds, size, len(paths))


def children_cpu() -> float:
    """CPU seconds of all processes that were started from here and have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--limit", type=int, default=120, help="samples of each set")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for each estimate")
    parser.add_argument("--size", type=int, default=64, help="width and height of the frames")
    options = parser.parse_args()
    overrides = [f"image={{width: {options.size}, height: {options.size}}}"]
    print(
        "recipe        samples strata  CPU s: estimate    95 %    run  ratio | time  bytes  inodes",
        flush=True,
    )
    worst = 1.0
    for recipe in options.recipes:
        found = estimated(recipe, overrides, options.limit, options.seconds)
        run = rendered(recipe, overrides, options.limit)
        ratio = found.cpu_seconds() / run.cpu
        worst = max(worst, ratio, 1 / ratio)
        wall = found.wall_seconds(found.machine.workers) / run.seconds
        print(
            f"{recipe:14}{found.samples:7d}{len(found.strata):7d}{found.cpu_seconds():18.1f}"
            f" +-{found.uncertainty:5.1f}{run.cpu:7.1f}{ratio:7.2f} |{wall:5.2f}"
            f"{found.bytes / run.bytes:7.2f}{found.inodes / run.inodes:8.2f}",
            flush=True,
        )
    print(f"worst ratio of CPU time, either way: {worst:.2f}")


if __name__ == "__main__":
    main()
