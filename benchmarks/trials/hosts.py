"""Check that several hosts share one plan without rendering anything twice, also when one host dies.

    python -m benchmarks.trials.hosts [--frames 120] [--hosts 4]

A scheduler and a worker process on each of 127.0.0.1, .2, ... share a folder and a plan; each worker keeps a
list of the samples that it wrote. The plan is rendered once without disturbance, and once with one host
killed half-way (SIGKILL to all its processes).
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.diagnostics.plugin import WorkerPlugin

from benchmarks.processes import hosts, kill_session, print_table
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import Plan, make_plan
from candlelight.loaders.frames import is_complete

TALLY = "tally"


class Tally(WorkerPlugin):
    """Lists the samples that the tasks of a worker wrote."""

    name = TALLY

    def setup(self, worker: Any) -> None:
        """Start with an empty list."""
        self.worker, self.written = worker, list[str]()

    def transition(self, key: str, start: str, finish: str, **kwargs: Any) -> None:
        """Record the samples that a task wrote, when its receipts arrive."""
        receipts = self.worker.data.get(key) if finish == "memory" else None
        if isinstance(receipts, list):
            self.written += [name for receipt in receipts if receipt for name in receipt.written]


def written(dask_worker: Any) -> list[str]:
    """Return the samples in the tally of a worker; this runs on the worker."""
    return list(dask_worker.plugins[TALLY].written)


def share(plan: Plan, count: int, victim: int | None) -> list[Any]:
    """Render a plan on several hosts, of which one may be killed half-way; return a row of the table."""
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
    """Render twice, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--recipe", default="candle")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="FIELD=VALUE")
    given = parser.parse_args()
    plan = make_plan(load_recipe(given.recipe, given.overrides), given.frames)
    columns = ["run", "planned", "reported", "written by each", "twice", "missing", "failed"]
    rows = [["undisturbed", *share(plan, given.hosts, None)]]
    rows.append(["one host killed", *share(plan, given.hosts, given.hosts - 1)])
    print_table(columns, rows)


if __name__ == "__main__":
    main()
