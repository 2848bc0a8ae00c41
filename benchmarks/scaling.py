"""Whether more workers mean more frames, and whether hosts share one plan without doing anything twice.

    python benchmarks/scaling.py [--frames 120] [--rounds 3] [--hosts 4]

Two parts, in one run on one machine. Workers: frames per hour of one worker and of two, at one thread each,
in turn, from the first frame on so that starting up does not count; the ratio of the medians. It means
something on an idle machine alone; CPU seconds per frame, which tell whether workers hinder each other, less
so. Hosts: a scheduler and a worker process on each of 127.0.0.1, .2, ... share a folder and a plan; each
worker keeps a list of what it wrote. Once undisturbed, and once with one host killed (SIGKILL to all its
processes) in the middle.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from distributed import Client
from distributed.diagnostics.plugin import WorkerPlugin
from processes import print_table, start

from generators.load import load_recipe
from generators.plan import Plan, make_plan
from generators.rendering import render
from loaders.frames import is_complete

TALLY = "tally"


class Tally(WorkerPlugin):
    """Lists the samples that the tasks of a worker wrote."""

    name = TALLY

    def setup(self, worker: Any) -> None:
        """Start with none."""
        self.worker, self.written = worker, list[str]()

    def transition(self, key: str, start: str, finish: str, **kwargs: Any) -> None:
        """Note what a task wrote, when its receipts are there."""
        receipts = self.worker.data.get(key) if finish == "memory" else None
        if isinstance(receipts, list):
            self.written += [name for receipt in receipts for name in receipt.written]


def written(dask_worker: Any) -> list[str]:
    """Return what the tally of a worker lists; runs there."""
    return list(dask_worker.plugins[TALLY].written)


def frames_per_hour(plan: Plan, workers: int) -> tuple[float, float]:
    """Render a plan anew; return frames per hour from the first one on, and CPU seconds per frame."""
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
    # The first call tells what was there, the next the first group, which waited for Blender.
    (first, _), *rest = times[1:]
    rate = 3600 * sum(count for _, count in rest) / (rest[-1][0] - first)
    return rate, (outcome.cpu_seconds + time.process_time() - before) / len(plan)


@contextmanager
def hosts(count: int, folder: Path) -> Iterator[tuple[str, list[psutil.Popen]]]:
    """Start a scheduler and worker processes on so many addresses of this machine."""
    file, log = folder / "scheduler.json", folder / "dask.log"
    dask = [sys.executable, "-m"]
    with ExitStack() as stack:
        common = ["--scheduler-file", str(file)]
        command = [*dask, "distributed.cli.dask_scheduler", *common, "--host", "127.0.0.1", "--port", "0"]
        _started(stack, [*command, "--dashboard-address", "127.0.0.1:0"], log)
        while not file.exists():
            time.sleep(0.1)
        workers = []
        for number in range(1, count + 1):
            command = [*dask, "distributed.cli.dask_worker", *common, "--host", f"127.0.0.{number}"]
            command += ["--nthreads", "1", "--name", f"host-{number}", "--no-dashboard"]
            command += ["--local-directory", str(folder)]
            workers.append(_started(stack, command, log))
        yield str(file), workers


def _started(stack: ExitStack, command: list[str], log: Path) -> psutil.Popen:
    process = start(command, log)
    stack.callback(kill_session, process)
    return process


def kill_session(process: psutil.Popen) -> None:
    """Kill a process and all its descendants at once."""
    for one in [*process.children(recursive=True), process] if process.is_running() else []:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            pass
    process.wait()


def share(plan: Plan, count: int, victim: int | None) -> list[Any]:
    """Render a plan on so many hosts, one of which may be killed half-way; return a row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with hosts(count, folder) as (file, workers), Client(scheduler_file=file) as client:
            client.wait_for_workers(count)
            client.register_plugin(Tally())
            seen, lost = 0, list[str]()

            def advance(more: int) -> None:
                nonlocal seen, lost
                before, seen = seen, seen + more
                if victim is not None and before < len(plan) / 2 <= seen:
                    lost = list(next(iter(client.run(written, workers=[_address(client, victim)]).values())))
                    kill_session(workers[victim])

            outcome = render(plan, folder / "frames", scheduler=file, device="cpu", advance=advance)
            lists = [*client.run(written).values(), lost]
        missing = sum(not is_complete(folder / "frames", s.set, s.index) for s in plan.samples)
    times = Counter(name for one in lists for name in one)
    shares = "+".join(str(len(one)) for one in lists if one)
    twice = sum(number > 1 for number in times.values())
    return [len(plan), outcome.written, shares, twice, missing, len(outcome.failed)]


def _address(client: Client, number: int) -> str:
    there = client.scheduler_info()["workers"]
    return next(address for address, one in there.items() if one["name"] == f"host-{number + 1}")


def main() -> None:
    """Run both parts and print a table of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--recipe", default="candle")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--part", choices=["workers", "hosts", "both"], default="both")
    given = parser.parse_args()
    plan = make_plan(load_recipe(given.recipe, given.overrides), given.frames)
    if given.part != "hosts":
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
    if given.part != "workers":
        columns = ["run", "planned", "reported", "written by each", "twice", "missing", "failed"]
        rows = [["undisturbed", *share(plan, given.hosts, None)]]
        rows.append(["one host killed", *share(plan, given.hosts, given.hosts - 1)])
        print(f"{given.hosts} hosts, one folder")
        print_table(columns, rows)


if __name__ == "__main__":
    main()
