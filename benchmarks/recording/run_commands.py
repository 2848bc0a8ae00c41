"""Run the commands of `commands.txt`, each in a process of its own, and store what they print and write."""

import json
import multiprocessing
import os
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import click

from benchmarks.recording.functions import call
from benchmarks.recording.observer import observe
from benchmarks.recording.outputs import PRINTED, Recorder
from benchmarks.recording.public_data import module_of
from candlelight.cli import main

ROOT = Path(__file__).resolve().parents[2]
FAILS = "! "  # before a command that must end with exit code 2
_CODES = "exit.json"
# Imported once, before a process is forked for each command.
_HEAVY = (
    *("torch.utils.data", "numpy", "scipy.stats", "scipy.optimize", "sklearn.linear_model"),
    *("sklearn.ensemble", "matplotlib.figure", "jinja2", "h5py", "pydantic", "datasets", "click.testing"),
)


def read_commands() -> dict[str, tuple[str, ...]]:
    """Read the table of commands, and add ``--help`` of all commands of evaluation."""
    entries: list[str] = []
    for line in (Path(__file__).parent / "commands.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            entries[-1] += f" {line.strip()}"
        elif line and not line.startswith("#"):
            entries.append(line)
    words: dict[str, str] = {}
    commands: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        name, colon, line = entry.partition(": ")
        if colon:
            commands[name] = (*commands.get(name, ()), line.format_map(words))
        else:
            name, _, words[name] = entry.partition(" = ")
    for name in ("evaluate", "train", "perception"):
        commands |= {f"help-{'-'.join(path)}": (f"{' '.join(path)} --help",) for path in _walk(name)}
    return commands


def _walk(*path: str) -> Iterator[tuple[str, ...]]:
    """List a command, and those below it."""
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    yield path
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from _walk(*path, name)


def run_commands(
    commands: Mapping[str, Sequence[str]], folder: Path, cache: Path, scratch: Path, workers: int
) -> Iterator[tuple[str, list[int], float]]:
    """Record each command in a forked process, some at a time.

    Args:
        commands: lines by name.
        folder: absolute path of the recording; a command has a folder of its name in it.
        cache: absolute path of the data.
        scratch: absolute path of an empty folder to work in.
        workers: processes at a time.

    Returns:
        For each command, as it ends: its name, the exit codes of its lines, [-1] if the process has died, and
        its duration in seconds.
    """
    for name in _HEAVY:
        import_module(name)
    context = multiprocessing.get_context("fork")
    waiting, running = list(commands.items()), dict[Any, tuple[Any, str, float]]()
    while waiting or running:
        while waiting and len(running) < workers:
            name, lines = waiting.pop(0)
            process = context.Process(target=_record, args=(name, lines, folder, cache, scratch))
            process.start()
            running[process.sentinel] = process, name, time.monotonic()
        for sentinel in wait(list(running)):
            process, name, started = running.pop(sentinel)
            process.join()
            codes = folder / name / _CODES
            found = json.loads(codes.read_text(encoding="utf-8")) if codes.exists() else [-1]
            yield name, found, time.monotonic() - started


def _record(name: str, lines: Sequence[str], folder: Path, cache: Path, scratch: Path) -> None:
    """Run lines in a folder with links to the data, and store what they print and write."""
    where, target = scratch / name, folder / name
    where.mkdir()
    for entry in cache.iterdir():
        (where / entry.name).symlink_to(entry)
    shutil.rmtree(target, ignore_errors=True)
    recorder = Recorder(target, {".": where, "DATA": cache, "ROOT": ROOT})
    os.chdir(where)
    text, codes = "", []
    for line in lines:
        with _captured(scratch / f"{name}.out", scratch / f"{name}.err") as printed:
            codes.append(_run(line.removeprefix(FAILS)))
        text += f"$ {line}\nexit {codes[-1]}\n{printed[0]}--- standard error\n{printed[1]}"
    recorder.store_text(PRINTED, text)
    recorder.store_files(where)
    (target / _CODES).write_text(json.dumps(codes), encoding="utf-8")
    shutil.rmtree(where)


@contextmanager
def _captured(*paths: Path) -> Iterator[list[str]]:
    """Send standard output and error of the process to files; the list has their texts afterwards."""
    texts: list[str] = []
    kept = [os.dup(number) for number in (1, 2)]
    for number, path in enumerate(paths, 1):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    try:
        yield texts
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in enumerate(kept, 1):
            os.dup2(before, number)
            os.close(before)
        texts += [path.read_text(encoding="utf-8") for path in paths]


def _run(line: str) -> int:
    """Run a command of candlelight, or one of `_OWN_WORDS`, and return its exit code."""
    words = shlex.split(line)
    try:
        if words[0] in _OWN_WORDS:
            _OWN_WORDS[words[0]](*words[1:])
        else:
            main(words, prog_name="candlelight")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # a fault of the program; the lines of its traceback are not compared
        print("".join(traceback.format_exception_only(error)), file=sys.stderr)
        return 1
    return 0


def _copy(source: str, target: str) -> None:
    """Copy a folder of data that a command will write to, by hard links."""
    shutil.copytree(source, target, copy_function=os.link)


def _page(name: str) -> None:
    """Run the examples of a page of the documentation, as its test does."""
    pages = module_of("evaluation/test_pages.py")
    pages.write_files(Path.cwd())
    sys.path.insert(0, str(Path.cwd()))
    for text, _ in pages.examples(name):
        is_command = text.startswith("candlelight")
        if pages.FILE.match(text) or (is_command and pages.LARGE.search(text)):
            continue
        print(f"> {text.splitlines()[0]}", flush=True)
        if not is_command:
            exec(compile(text, name, "exec"), {"__name__": "page"})
        elif code := _run(text.replace("\\\n", " ").removeprefix("candlelight ")):
            raise SystemExit(code)


def _answer(count: str, *words: str) -> None:
    """Run a command that opens the page of an experiment, whose observer answers some trials."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    observe(int(count))
    main(words, prog_name="candlelight")


_OWN_WORDS: dict[str, Any] = {"call": call, "copy": _copy, "page": _page, "answer": _answer}
