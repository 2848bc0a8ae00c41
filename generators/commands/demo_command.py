"""`candlelight demo`: a study in ten commands, each printed as a user would type it."""

import os
import shlex
import shutil
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import click

from candlelight.generators.commands.render_options import worker_options
from candlelight.loaders.commands.command_line import Folder
from candlelight.loaders.errors import require_module

FRAME_COMMANDS = (
    "render demo --out {out}/frames {workers}",
    "info {out}/frames --set tabletop --sheet {out}/sheet.png",
    "pack {out}/frames --to hdf5 --out {out}/hdf5",
    "pack {out}/frames --to hub --out {out}/hub",
)
# By file in the folder `study`; a command is left out if its file is newer than the files that it names.
STUDY_COMMANDS = {
    "network.pt": "train intrinsic {out}/hub --set tabletop --epochs 14 --batch-size 4 --width 8 "
    "--validation 0",
    "lmse.json": "evaluate lmse {out}/hub --set tabletop_test --model {net} --model retinex",
    "csm.json": "evaluate csm {out}/hub --set tabletop_test --model {net} --model retinex",
    "coverage.json": "evaluate coverage {out}/hub --set candle --by type --quick --model {net} "
    "--layer encoder.1 --layer encoder.2 --layer reflectance.blocks.1",
    "codes.json": "evaluate codes {out}/hub --set candle --model {net} --layer encoder.3 "
    "--metric unconfoundedness --metric mig",
    "report.html": "evaluate report {results} --data {out}/frames --title {title}",
}
_RESULTS = ("lmse.json", "csm.json", "coverage.json", "codes.json")


@click.command()
@click.option("--out", type=Folder(), default=Path("demo"), help="Folder to write or continue.")
@worker_options
@click.pass_context
def demo(context: click.Context, /, out: Path, **how: Any) -> None:
    """Run every step once, from a recipe to a report: ten commands, which are printed.

    A second run leaves out training and scores whose files are newer than the files that they read.

    \b
    candlelight demo --out demo
    """
    for name in ("torch", "sklearn", "matplotlib", "datasets"):
        require_module(name, "all")
    # torch reads this on import. On such small frames a second thread gains nothing, and on a busy machine it
    # is much slower.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    study = out / "study"
    study.mkdir(parents=True, exist_ok=True)
    given = {f"--{name}": str(value) for name, value in how.items() if value not in (None, "auto")}
    words = {
        "workers": shlex.join(chain.from_iterable(given.items())),
        "out": shlex.quote(str(out)),
        "net": shlex.quote(str(study / "network.pt")),
        "results": shlex.join(str(study / name) for name in _RESULTS),
        "title": "'candlelight demo'",
    }
    for command in FRAME_COMMANDS:
        _run(context, command.format(**words))
    for name, template in STUDY_COMMANDS.items():
        command, file = template.format(**words), study / name
        read = [path for path in map(study.joinpath, STUDY_COMMANDS) if str(path) in shlex.split(command)]
        newest = max(path.stat().st_mtime for path in (out / "frames" / "SHA256SUMS", *read))
        if not file.exists() or file.stat().st_mtime < newest:
            page = ["--report", str(file.with_suffix(".html"))] if name in _RESULTS else []
            _run(context, f"{command} {shlex.join(['--out', str(file), *page])}")
    click.echo(f"\nOpen {study / 'report.html'} in a browser. Next steps:")
    for line in (*_activation(), "candlelight render candle --limit 20 --out candle"):
        click.echo(f"  {line}")


def _run(context: click.Context, command: str) -> None:
    """Print and run a command of candlelight, and print its seconds."""
    click.echo(f"\n$ candlelight {command.strip()}")
    started = time.monotonic()
    group: Any = context.find_root().command
    group.main(shlex.split(command), prog_name="candlelight", standalone_mode=False)
    click.echo(f"({time.monotonic() - started:.0f} s)")


def _activation() -> list[str]:
    """Return the command that puts `candlelight` on the path, where it is not and the environment has one."""
    script, here = Path(sys.prefix) / "bin" / "activate", Path.cwd()
    if shutil.which("candlelight") or not script.is_file():
        return []
    shown = script.relative_to(here) if script.is_relative_to(here) else script
    return [f". {shlex.quote(str(shown))}  # puts `candlelight` on the path"]
