"""Measure the memory of a worker and its render process in a long run, after 50 frames and after 1000.

    python -m benchmarks.memory [--size 64x48] [--recipes candle concepts] [--frames 1000]

Runs `candlelight render` with one worker, whose render process lives through the whole run (the engine
replaces it after 2000 samples). The frames are drawn from the whole recipe and shuffled, so that scenes,
objects, materials and textures change from frame to frame, as for a worker with tasks of the whole plan;
`--in-order` keeps the order of the plan, in which each scene is read once. Memory is the proportional set
size of /proc/PID/smaps_rollup, read five times a second. It rises and falls with every frame, so a row gives
medians over the previous 50 frames. About 10 minutes on an idle processor.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil

from benchmarks.processes import candlelight, finished, print_table, start, tree
from candlelight.generators import load_recipe, make_plan
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.plan_table import save_plan
from candlelight.generators.planning.planned_samples import compress_samples

PERIOD = 0.2  # s
EARLY = 50  # frames
WINDOW = 50  # number of frames over which a row takes medians
LIMIT = 1.1


def megabytes(process: psutil.Process) -> float:
    """Read the proportional set size of a process in megabytes."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024


def watch(plan: Plan, folder: Path) -> list[tuple[int, float, float]]:
    """Render a plan, and list finished frames with the megabytes of worker and render process over time."""
    file, out, log = folder / "plan.parquet", folder / "frames", folder / "log"
    save_plan(plan, file)
    run = start(candlelight("render", file, "--out", out, "--workers", 1), log)
    looks = []
    try:
        while run.poll() is None:
            time.sleep(PERIOD)
            processes = tree(run)
            try:
                if len(processes) == 2:
                    looks.append((finished(out), *map(megabytes, processes)))
            except (FileNotFoundError, ProcessLookupError, StopIteration):
                pass  # one of them has just ended
    finally:
        for process in tree(run):
            process.kill()
    if run.returncode:
        raise SystemExit(log.read_text(errors="replace")[-2000:])
    return looks


def around(looks: list[tuple[int, float, float]], frame: int) -> tuple[float, float]:
    """Return medians over the last frames: worker, render process."""
    near = [look for look in looks if frame - WINDOW < look[0] <= frame]
    return statistics.median(look[1] for look in near), statistics.median(look[2] for look in near)


def chosen(recipe: str, size: str, frames: int, in_order: bool) -> Plan:
    """Plan a recipe at a size, and draw whole trace groups from it."""
    width, height = size.split("x")
    plan = make_plan(load_recipe(recipe, [f"image.width={width}", f"image.height={height}"]))
    groups = list(plan.groups.values())
    order = np.random.default_rng(0).permutation(len(groups))[: -(-frames * len(groups) // len(plan))]
    drawn = [groups[i] for i in (sorted(order) if in_order else order)]
    return replace(plan, samples=compress_samples(sample for group in drawn for sample in group)[:frames])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="64x48", metavar="WxH")
    parser.add_argument("--recipes", nargs="+", default=["candle", "concepts"])
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--in-order", action="store_true")
    options = parser.parse_args()
    header = ["recipe", "frame", "worker MB", "ratio", "child MB", "ratio"]
    kept = []
    for recipe in options.recipes:
        with tempfile.TemporaryDirectory() as folder:
            plan = chosen(recipe, options.size, options.frames, options.in_order)
            looks = watch(plan, Path(folder))
        first = around(looks, EARLY + WINDOW)
        for frame in (EARLY + WINDOW, *(f for f in (250, 500, 750) if f < options.frames), options.frames):
            worker, child = around(looks, frame)
            kept.append([recipe, frame, worker, worker / first[0], child, child / first[1]])
    print(f"{options.size}; required: ratios of the last rows at most {LIMIT}")
    print_table(header, kept)


if __name__ == "__main__":
    main()
