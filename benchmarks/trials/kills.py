"""Check that nothing is lost when a run is killed: kill runs at random, resume them, compare all bytes.

    python -m benchmarks.trials.kills [--runs 50] [--targets child all worker scheduler] [--seed 0]

A small plan (16 tiny frames: an environment map with a shadow catcher, a modelled scene, and traces of two
frames each) is rendered without disturbance first. Then, for each run, `candlelight render` with two workers
is started into a new folder. After a time that is drawn uniformly from the length of an undisturbed run,
including start and end, SIGKILL goes to

- child: a random render process,
- all: every process of the run,

or, if a scheduler and two worker processes of dask on this machine do the work (`--scheduler`), to

- worker: a random worker process under dask's nannies,
- scheduler: the scheduler.

If the command of a run does not end with success, the same command is started again (with a new scheduler and
new workers). With probability 1/2 that command is killed too, at most three times. At the end every file of
the folder must have the bytes of the undisturbed folder, with no file missing or added. Only the lock files
(`.lock`, `.group-locks`), which have no content, are ignored. About 12 minutes on two idle processors.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from distributed import Client

from benchmarks.processes import POLL, candlelight, contents, finished, hosts, print_table, start, tree

RECIPE = """
name: kills
description: Tiny frames of each kind that the engine treats differently, with samples enough to take a while.
image: {width: 48, height: 36}
render: {samples: 128, bounces: 2}
exposure: 0.3
sets:
  scenes:
    factors:
      scene: {assets: scenes, values: [garage, moonlit grass]}
      object_type: {assets: objects, values: [cube, torus]}
      color: {assets: materials, values: [red, blue]}
    variables:
      x: {low: -1.4, high: 1.4, unit: m}
    layout:
      environment: {scene: $scene}
      floor: {catcher: true}
      lights: [{azimuth: 30, distance: 5}]
      objects: [{type: $object_type, material: $color, size: 2, location: [$x, -2]}]
      camera: {location: [0, 6.5, 2.6], look_at: [0, -2, 0.9], field_of_view: 60}
  tables:
    factors:
      texturing: {values: [rgb, textured]}
      material: {count: 2}
      temperature: {values: [2500, 6500], unit: K}
    layout:
      objects: [{type: sphere, size: 1.5}]
      random_material: {texturing: $texturing, variation: $material}
      floor: {base_color: [0.8, 0.8, 0.8]}
      lights: [{azimuth: -40, elevation: 35, distance: 4, temperature: $temperature}]
      camera: {location: [0, 5, 2.2], look_at: [0, 0, 0.6], field_of_view: 32}
"""
FRAMES = 16
LOCKS = (".lock", ".group-locks")
MOST_KILLS, MOST_TRIES = 3, 8
AGAIN = 0.5  # probability of one more kill
LOCAL, SCHEDULED = ("child", "all"), ("worker", "scheduler")
CHILD = "candlelight.generators.blender.renderer"
LIMIT = 300.0  # s for a run that is not killed


@dataclass
class Case:
    """Outcome of one folder: frames done at each kill, number of commands, and wrong files."""

    done: list[int] = field(default_factory=list)
    tries: int = 0
    wrong: list[str] = field(default_factory=list)


def differences(out: Path, wanted: dict[str, str]) -> list[str]:
    """List the files that are missing, added or different."""
    found = contents(out, *LOCKS)
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


@contextmanager
def workers(target: str, folder: Path) -> Iterator[tuple[list[str], list[psutil.Process]]]:
    """Start the scheduler and workers that a target needs; return options for the command, and processes."""
    if target in LOCAL:
        yield ["--workers", "2"], []
        return
    with tempfile.TemporaryDirectory(dir=folder) as name, hosts(2, Path(name)) as (file, _):
        with Client(scheduler_file=file, set_as_default=False) as client:
            client.wait_for_workers(2)
        yield ["--scheduler", file], psutil.Process().children(recursive=True)


def victims(target: str, run: psutil.Popen, beside: list[psutil.Process]) -> list[psutil.Process]:
    """List the processes that may be killed."""
    if target in LOCAL:
        return [one for one in tree(run) if target == "all" or CHILD in words(one)]
    if target == "scheduler":
        return [one for one in beside if "dask_scheduler" in words(one)]
    # Workers under a nanny are started by multiprocessing, which their command line shows.
    return [one for one in beside if "spawn_main" in words(one)]


def words(process: psutil.Process) -> str:
    """Return the command line of a process; empty if the process has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def attempt(
    case: Case, recipe: Path, folder: Path, target: str, moment: float | None, rng: np.random.Generator
) -> bool:
    """Run the command once, kill it at a moment (never if None), and return whether it ended with success."""
    out, log = folder / "frames", folder / "log"
    case.tries += 1
    with workers(target, folder) as (options, beside):
        run = start(candlelight("render", recipe, "--out", out, *options), log)
        try:
            deadline = time.monotonic() + (LIMIT if moment is None else moment)
            while run.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL)
            chosen = victims(target, run, beside) if moment is not None and run.poll() is None else []
            if chosen and target != "all":
                chosen = [chosen[rng.integers(len(chosen))]]
            if chosen:
                case.done.append(finished(out))
                sigkill(chosen)
            return run.wait(LIMIT) == 0
        except psutil.TimeoutExpired:
            raise SystemExit(
                f"no end within {LIMIT:g} s: {log.read_text(errors='replace')[-2000:]}"
            ) from None
        finally:
            sigkill(tree(run))


def sigkill(processes: list[psutil.Process]) -> None:
    """Kill processes; some may have ended already."""
    for one in processes:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            pass


def disturb(recipe: Path, folder: Path, target: str, length: float, rng: np.random.Generator) -> Case:
    """Render one folder with kills; a run that ends before its kill does not count."""
    case = Case()
    for _ in range(MOST_TRIES):
        kill = not case.done or (len(case.done) < MOST_KILLS and rng.random() < AGAIN)
        ended = attempt(case, recipe, folder, target, rng.uniform(0, length) if kill else None, rng)
        if ended and case.done:
            return case
        if ended:
            shutil.rmtree(folder / "frames")
            case = Case()
    raise SystemExit(f"{MOST_TRIES} tries were not enough: {(folder / 'log').read_text()[-2000:]}")


def undisturbed(recipe: Path, folder: Path, target: str) -> tuple[float, dict[str, str]]:
    """Render one folder without disturbance; return the seconds and the contents of the folder."""
    folder.mkdir()
    began = time.monotonic()
    if not attempt(Case(), recipe, folder, target, None, np.random.default_rng()):
        raise SystemExit((folder / "log").read_text(errors="replace"))
    return time.monotonic() - began, contents(folder / "frames", *LOCKS)


def main() -> None:
    """Kill, resume, compare, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--targets", nargs="+", choices=[*LOCAL, *SCHEDULED], default=[*LOCAL, *SCHEDULED])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    cases: dict[str, list[Case]] = {target: [] for target in options.targets}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        recipe = root / "kills.yaml"
        recipe.write_text(RECIPE)
        lengths = {}
        for target in options.targets:
            lengths[target], wanted = undisturbed(recipe, root / target, target)
            print(f"{target}: {lengths[target]:.1f} s undisturbed", flush=True)
        for number in range(options.runs):
            target = options.targets[number % len(options.targets)]
            folder = root / f"run-{number}"
            folder.mkdir()
            case = disturb(recipe, folder, target, lengths[target], rng)
            case.wrong = differences(folder / "frames", wanted)
            cases[target].append(case)
            verdict = f"differs in {case.wrong}" if case.wrong else "identical"
            print(f"{number}: {target}, frames done at each kill {case.done}: {verdict}", flush=True)
            shutil.rmtree(folder)
    print_table(
        ("killed", "folders", "kills", "of these before / amid / after the frames", "commands", "identical"),
        [row(target, some) for target, some in cases.items()],
    )


def row(target: str, cases: list[Case]) -> list[object]:
    """Summarise the folders of one target in a row of the table."""
    done = [frames for case in cases for frames in case.done]
    early, late = done.count(0), done.count(FRAMES)
    return [
        target,
        len(cases),
        len(done),
        f"{early} / {len(done) - early - late} / {late}",
        sum(case.tries for case in cases),
        sum(not case.wrong for case in cases),
    ]


if __name__ == "__main__":
    main()
