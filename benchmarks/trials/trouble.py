"""What the engine does about trouble: poison, hanging, a full disk, a vanished folder, a second renderer.

    python -m benchmarks.trials.trouble

Tiny runs of `candlelight render`, each into a folder of its own on a small tmpfs that only this process and
its children see (needs Linux and `unshare`):

- poisoned: one of the objects is a .blend whose mesh has a corner at no vertex; Blender dies of it (SIGSEGV)
  whenever it is traced. Then the file is replaced by a good one, and the run is refused: assets of a folder
  may not change between two runs.
- hanging: one set asks for more samples than a time limit allows. Then it gets the time.
- stopped child: the render child is stopped (SIGSTOP) in the middle, and answers no more.
- full disk: the tmpfs fills up in the middle. Then it is made larger.
- vanished: the folder is renamed in the middle. Then it is named back.
- two renderers: the same command twice at the same time.

`whole` counts the samples that were there after the trouble and had the bytes of an undisturbed run, of all
that were there; `mended` says whether the same command then brought every file of the folder to those bytes.
About 5 minutes on two idle processors.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.processes import POLL, candlelight, contents, finished, print_table, start, tree
from benchmarks.trials.kills import CHILD, LOCKS, RECIPE, differences, words

INSIDE = "--inside"  # of a name space of our own
POISON = """
import sys, bpy
bpy.ops.wm.read_factory_settings(use_empty=True)
bpy.ops.mesh.primitive_cube_add(size=1)
bpy.context.object.data.loops[3].vertex_index = {vertex}
bpy.data.libraries.write(sys.argv[1], {{bpy.context.object}}, fake_user=True)
"""
POISONED = """
name: poisoned
description: Two samples of six show an object that is poison.
image: {{width: 48, height: 36}}
render: {{samples: 4, bounces: 2}}
assets: {{objects: {assets}}}
sets:
  things:
    factors:
      color: {{assets: materials, values: [red, blue]}}
      type: {{assets: objects, values: [cube, poison, sphere]}}
    layout:
      objects: [{{type: $type, material: $color, size: 1.2}}]
      floor: {{}}
      lights: [{{azimuth: -40, distance: 4}}]
      camera: {{location: [0, 4.5, 2.2], look_at: [0, 0, 0.5], field_of_view: 32}}
"""
SLOW = """
name: slow
description: One sample of three takes more time than it gets.
image: {width: 48, height: 36}
render: {samples: 4, bounces: 2}
sets:
  quick: &quick
    factors:
      color: {assets: materials, values: [red, blue]}
    layout:
      objects: [{type: sphere, material: $color, size: 1.2}]
      floor: {}
      lights: [{azimuth: -40, distance: 4}]
      camera: {location: [0, 4.5, 2.2], look_at: [0, 0, 0.5], field_of_view: 32}
  slow:
    <<: *quick
    image: {width: 96, height: 72}
    render: {samples: 8192, bounces: 2}
    factors:
      color: {assets: materials, values: [red]}
"""
TIME_LIMIT = 15  # s; the slow sample takes over twice that, the others a second
DISK, LARGER = "600k", "200m"


class Trial:
    """A folder that something happens to.

    Args:
        name: of the trouble.
        root: where its folder is made.
        recipe: text of the recipe.
        options: of the command, besides.
    """

    def __init__(self, name: str, root: Path, recipe: str, *options: str | int) -> None:
        self.name, self.folder = name, root / name.replace(" ", "-")
        self.folder.mkdir()
        self.recipe = self.folder / "recipe.yaml"
        self.recipe.write_text(recipe)
        self.out, self.options = self.folder / "frames", options
        self._logs = 0

    def start(self, *options: str | int, out: Path | None = None) -> psutil.Popen:
        """Start the command; what it says goes to a file of its own."""
        self._logs += 1
        self.log = self.folder / f"log-{self._logs}"
        return start(
            candlelight("render", self.recipe, "--out", out or self.out, "--workers", 1, *options), self.log
        )

    def undisturbed(self) -> dict[str, str]:
        """Render another folder in peace, and return what it holds."""
        peace = self.folder / "peace"
        if self.start(out=peace).wait():
            raise SystemExit(self.log.read_text(errors="replace"))
        return contents(peace, *LOCKS)

    def wait_for(self, run: psutil.Popen, frames: int) -> None:
        """Wait until so many frames are there."""
        while finished(self.out) < frames and run.poll() is None:
            time.sleep(POLL)

    def row(self, status: int, wanted: dict[str, str]) -> list[object]:
        """Look at what is there, run the command again, and sum up."""
        said, files = last_line(self.log), contents(self.out, *LOCKS)
        there = {name.rpartition("/")[0] for name in files if name.startswith("samples/")}
        whole = [one for one in there if not any(one in wrong for wrong in _wrong(files, wanted, one))]
        aside = len(list(self.out.glob("failed/*.log")))
        again = self.start().wait()
        mended = again == 0 and not differences(self.out, wanted)
        return [self.name, status, f"{len(whole)} of {len(there)}", aside, "yes" if mended else "NO", said]


def _wrong(files: dict[str, str], wanted: dict[str, str], folder: str) -> list[str]:
    """Name the files of a sample that are missing or differ."""
    names = [name for name in files.keys() | wanted.keys() if name.startswith(folder + "/")]
    return [name for name in names if files.get(name) != wanted.get(name)]


def last_line(log: Path) -> str:
    """Return the last line that is no progress bar."""
    lines = [line.strip() for line in re.split(r"[\r\n]", log.read_text(errors="replace"))]
    return next((line for line in reversed(lines) if line and not line.startswith("render:")), "")


def poisoned(root: Path) -> list[object]:
    """Let some samples show an object that Blender dies of."""
    assets = root / "assets"
    assets.mkdir()

    def make(vertex: int) -> None:
        command = [sys.executable, "-c", POISON.format(vertex=vertex), str(assets / "poison.blend")]
        subprocess.run(command, check=True, capture_output=True)

    trial = Trial("poisoned", root, POISONED.format(assets=assets))
    make(3)
    wanted = trial.undisturbed()
    make(2**30)
    status = trial.start().wait()
    make(3)
    row = trial.row(status, wanted)
    row[4] = "refused" if "poison" in last_line(trial.log) else row[4]
    return row


def hanging(root: Path) -> list[object]:
    """Give one sample less time than it takes."""
    trial = Trial("hanging", root, SLOW)
    wanted = trial.undisturbed()
    return trial.row(trial.start("--time-limit", TIME_LIMIT).wait(), wanted)


def stopped(root: Path) -> list[object]:
    """Stop the child (SIGSTOP) in the middle: what it is at waits for ever, and is done by another child."""
    trial = Trial("stopped child", root, RECIPE)
    wanted = trial.undisturbed()
    run = trial.start("--time-limit", TIME_LIMIT)
    trial.wait_for(run, 4)
    for one in tree(run):
        if CHILD in words(one):
            one.suspend()
    return trial.row(run.wait(), wanted)


def full_disk(root: Path) -> list[object]:
    """Let the disk fill up in the middle."""
    trial = Trial("full disk", root, RECIPE)
    wanted = trial.undisturbed()
    trial.out.mkdir()
    _mount(trial.out, DISK)
    status = trial.start().wait()
    subprocess.run(["mount", "-o", f"remount,size={LARGER}", trial.out], check=True)
    return trial.row(status, wanted)


def vanished(root: Path) -> list[object]:
    """Take the folder away in the middle."""
    trial = Trial("vanished", root, RECIPE)
    wanted = trial.undisturbed()
    run, elsewhere = trial.start(), trial.folder / "elsewhere"
    trial.wait_for(run, 4)
    trial.out.rename(elsewhere)
    status = run.wait()
    if trial.out.exists():
        raise SystemExit(f"{trial.out} was made anew: {contents(trial.out)}")
    elsewhere.rename(trial.out)
    return trial.row(status, wanted)


def two_renderers(root: Path) -> list[object]:
    """Start the same command twice at the same time; each sample must be written by one of them."""
    trial = Trial("two renderers", root, RECIPE)
    wanted = trial.undisturbed()
    runs = []
    for _ in range(2):
        runs.append((trial.start(), trial.log))
    statuses, said = zip(*((run.wait(), last_line(log)) for run, log in runs), strict=True)
    return [*trial.row(max(statuses), wanted)[:-1], " / ".join(said)]


def _mount(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)


def main() -> None:
    """Make trouble and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    trials = {one.__name__: one for one in (poisoned, hanging, stopped, full_disk, vanished, two_renderers)}
    parser.add_argument("--trials", nargs="+", choices=trials, default=list(trials))
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
        again = [sys.executable, "-m", "benchmarks.trials.trouble", *sys.argv[1:], INSIDE]
        raise SystemExit(subprocess.run([*own, *again], check=False).returncode)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        _mount(Path(name), LARGER)
        try:
            for trial in options.trials:
                rows.append(trials[trial](Path(name)))
        finally:
            subprocess.run(["umount", "-R", name], check=True)
    print_table(("trouble", "status", "whole", "set aside", "mended", "what it said"), rows)


if __name__ == "__main__":
    main()
