"""Measure whether more workers render more frames per hour.

    python -m benchmarks.scaling [--frames 120] [--rounds 3]

Prints frames per hour with one worker and with two, each on one thread, by turns, counted from the first
frame so that the start does not count; and the ratio of the medians. The numbers are meaningful only on an
idle machine. CPU seconds per frame, which show whether workers slow each other down, depend less on other
load.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.processes import print_table
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import Plan, make_plan


def frames_per_hour(plan: Plan, workers: int) -> tuple[float, float]:
    """Render a plan into a new folder; return frames per hour from the first frame, and CPU s per frame."""
    times: list[tuple[float, int]] = []
    before = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        outcome = render(
            plan,
            Path(folder) / "frames",
            workers=workers,
            device="cpu",
            advance=lambda count: times.append((time.perf_counter(), count)),
        )
    # The first call reports existing frames, the second the first group, which waited for Blender.
    (first, _), *rest = times[1:]
    rate = 3600 * sum(count for _, count in rest) / (rest[-1][0] - first)
    return rate, (outcome.cpu_seconds + time.process_time() - before) / len(plan)


def main() -> None:
    """Render by turns, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recipe", default="candle")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="FIELD=VALUE")
    given = parser.parse_args()
    plan = make_plan(load_recipe(given.recipe, given.overrides), given.frames)
    rates: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(given.rounds):
        for workers, rate in rates.items():
            rate.append(frames_per_hour(plan, workers))
    medians = {
        n: [statistics.median(column) for column in zip(*rate, strict=True)] for n, rate in rates.items()
    }
    load = psutil.getloadavg()[0]
    print(f"medians of {given.rounds}; {psutil.cpu_count()} processors, load {load:.1f}")
    rows = [[number, rate, rate / medians[1][0], cpu] for number, (rate, cpu) in medians.items()]
    print_table(["workers", "frames/h", "ratio", "CPU s/frame"], rows)


if __name__ == "__main__":
    main()
