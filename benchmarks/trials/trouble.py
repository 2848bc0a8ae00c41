"""Check how the engine handles trouble: a crash, a hang, a full disk, a vanished folder, a second renderer.

    python -m benchmarks.trials.trouble

Each trial is a tiny run of `candlelight render` into its own folder on a small tmpfs that only this process
and its children see (needs Linux and `unshare`):

- poisoned: one object is a .blend file whose mesh has a corner at no vertex; Blender crashes (SIGSEGV) when
  it traces it. Then the file is replaced by a good one, and the run is refused, because the assets of a
  folder may not change between two runs.
- hanging: one set asks for more samples than a time limit allows. Then the limit is raised.
- stopped child: the render process is stopped (SIGSTOP) in the middle and does not answer any more.
- full disk: the tmpfs fills up in the middle. Then it is made larger.
- vanished: the folder is renamed in the middle. Then it gets its name back.
- two renderers: the same command runs twice at the same time.

`whole` counts the samples after the trouble that have the bytes of an undisturbed run, among all samples that
are there; `mended` tells whether the same command then gave every file of the folder these bytes. About 5
minutes on two idle processors.
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

INSIDE = "--inside"  # of a separate mount namespace
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
    """A folder that is rendered with trouble.

    Args:
        name: name of the trouble.
        root: parent of the folder.
        recipe: text of the recipe.
        options: further options of the command.
    """

    def __init__(self, name: str, root: Path, recipe: str, *options: str | int) -> None:
        self.name, self.folder = name, root / name.replace(" ", "-")
        self.folder.mkdir()
        self.recipe = self.folder / "recipe.yaml"
        self.recipe.write_text(recipe)
        self.out, self.options = self.folder / "frames", options
        self._logs = 0

    def start(self, *options: str | int, out: Path | None = None) -> psutil.Popen:
        """Start the command; its output goes to a separate file."""
        self._logs += 1
        self.log = self.folder / f"log-{self._logs}"
        return start(
            candlelight("render", self.recipe, "--out", out or self.out, "--workers", 1, *options), self.log
        )

    def undisturbed(self) -> dict[str, str]:
        """Render another folder without disturbance, and return its contents."""
        peace = self.folder / "peace"
        if self.start(out=peace).wait():
            raise SystemExit(self.log.read_text(errors="replace"))
        return contents(peace, *LOCKS)

    def wait_for(self, run: psutil.Popen, frames: int) -> None:
        """Wait until this many frames are finished."""
        while finished(self.out) < frames and run.poll() is None:
            time.sleep(POLL)

    def row(self, status: int, wanted: dict[str, str]) -> list[object]:
        """Compare the folder, run the command again, and summarise both in a row of the table."""
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
    """Return the last line that is not a progress bar."""
    lines = [line.strip() for line in re.split(r"[\r\n]", log.read_text(errors="replace"))]
    return next((line for line in reversed(lines) if line and not line.startswith("render:")), "")


def poisoned(root: Path) -> list[object]:
    """Let some samples show an object that crashes Blender."""
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
    """Give one sample less time than it needs."""
    trial = Trial("hanging", root, SLOW)
    wanted = trial.undisturbed()
    return trial.row(trial.start("--time-limit", TIME_LIMIT).wait(), wanted)


def stopped(root: Path) -> list[object]:
    """Stop the render process (SIGSTOP) in the middle; another render process must finish its work."""
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
    """Rename the folder in the middle."""
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
    """Run all trials and print a table."""
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
