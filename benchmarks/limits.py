"""Measure the costs of a very large set besides rendering: planning, scheduling, files, verifying, packing.

    python -m benchmarks.limits [--rows 100000] [--frames 300] [--folder DIR]

Planning uses the recipe `candle` with more draws, in its own process; it prints seconds per row, growth of
the resident memory, and bytes of the plan file. Scheduling gives trace groups to two dask workers that do
nothing, through a scheduler in its own process, with two tasks in flight per worker and 1 or 64 groups per
task; CPU seconds are the sum of the scheduler's process and of this process, which submits. Files are
dead-leaves frames of 64x64, rendered once and written again durably in FOLDER, then searched, verified and
packed. In the other measurements CPU seconds are of this process, and seconds are wall-clock time. About 5
minutes.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, as_completed

from benchmarks.processes import hosts, print_table
from candlelight.generators import load_recipe, make_plan, render
from candlelight.generators.planning.plan_table import load_plan, save_plan
from candlelight.loaders.frames import frame_path, is_complete, read_frame, write_frame
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.samples import Frame
from candlelight.loaders.verification.verify_frames import verify

CANDLE_ROWS = 21_600
GROUPS = 1024
IN_FLIGHT = 4
Row = tuple[str, str, float | str, float | str, float | str]


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Call a function; return its result, CPU seconds and seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    made = work()
    return made, time.process_time() - cpu, time.perf_counter() - began


def planning(rows: int) -> list[Row]:
    """Plan many rows; run this in a new process, because it measures the memory of the process."""
    recipe = load_recipe("candle", [f"sets.candle.draws={max(1, round(rows / CANDLE_ROWS))}"])
    before = psutil.Process().memory_info().rss
    plan, *planned = timed(partial(make_plan, recipe))
    memory = (psutil.Process().memory_info().rss - before) / len(plan)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.parquet"
        _, *saved = timed(partial(save_plan, plan, file))
        size = file.stat().st_size / len(plan)
        _, *loaded = timed(partial(load_plan, file))
    each = f"row of {len(plan)}"
    steps = ("plan", planned, memory), ("write the plan's file", saved, size), ("read it", loaded, "-")
    return [(name, each, cpu / len(plan), wall / len(plan), size) for name, (cpu, wall), size in steps]


def scheduling() -> list[Row]:
    """Schedule trace groups on workers that do nothing."""
    groups = [tuple(group) for group in make_plan(load_recipe("candle"), GROUPS).groups.values()]
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        hosts(2, Path(folder)) as (file, _),
        Client(scheduler_file=file) as client,
    ):
        client.wait_for_workers(2)
        scheduler = next(p for p in psutil.Process().children() if "dask_scheduler" in " ".join(p.cmdline()))
        for size in (1, 64):
            tasks = [groups[i : i + size] for i in range(0, len(groups), size)]
            before = sum(scheduler.cpu_times()[:2])
            _, cpu, wall = timed(partial(hand_out, client, tasks * size))
            cpu_there = sum(scheduler.cpu_times()[:2]) - before
            count = len(tasks) * size
            rows.append((f"a task of {size} groups, client", "task", cpu / count, wall / count, "-"))
            rows.append((f"a task of {size} groups, scheduler", "task", cpu_there / count, wall / count, "-"))
    return rows


def hand_out(client: Client, tasks: list[Any]) -> None:
    """Submit tasks with a few in flight, and release each finished task at once."""
    waiting = iter(tasks)
    running = as_completed([client.submit(len, next(waiting), pure=False) for _ in range(IN_FLIGHT)])
    for future in running:
        future.result()
        future.release()
        if (task := next(waiting, None)) is not None:
            running.add(client.submit(len, task, pure=False))


def files(root: Path, count: int) -> list[Row]:
    """Write, find, verify and pack small frames."""
    recipe = load_recipe("dead-leaves", ["image={width: 64, height: 64}"])
    plan = make_plan(recipe, count)
    render(plan, root, workers=1)
    name = plan.samples[0].set
    frames = [read_frame(frame_path(root, name, key.index)) for key in plan.samples.of_set(name).keys]
    again = root.with_name("again")
    again.mkdir()

    def write(frame: Frame) -> None:
        write_frame(again, frame)

    steps: dict[str, Callable[[], Any]] = {
        "write, synced": lambda: [write(frame) for frame in frames],
        "look whether it is there": lambda: [is_complete(again, name, f.metadata.index) for f in frames],
        "read": lambda: [read_frame(frame_path(again, name, f.metadata.index)) for f in frames],
        "verify": partial(verify, root),
        "pack as HDF5": partial(pack_hdf5, root, root.with_name("h5"), [name]),
        "pack for the Hub": partial(pack_hub, root, root.with_name("hub"), [name]),
    }
    rows: list[Row] = []
    for step, work in steps.items():
        _, cpu, wall = timed(work)
        rows.append((step, f"frame of {len(frames)}", cpu / len(frames), wall / len(frames), "-"))
    size = sum(path.stat().st_size for path in again.rglob("*") if path.is_file()) / len(frames)
    packs = {kind: _size(root.with_name(kind)) / len(frames) for kind in ("h5", "hub")}
    for what, each in {"as files": size, "in HDF5": packs["h5"], "for the Hub": packs["hub"]}.items():
        rows.append((f"size {what}", "frame", "-", "-", each))
    return rows


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    header = ("what", "of each", "CPU s", "s", "bytes")
    with ProcessPoolExecutor(1) as pool:
        print_table(header, pool.submit(planning, options.rows).result())
    print_table(header, scheduling())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print_table(header, files(Path(folder) / "frames", options.frames))


if __name__ == "__main__":
    main()
