"""Shared functions of benchmarks and trials: start processes, measure them, compare folders, print tables."""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path

import psutil

POLL = 0.02  # s between looks at a run


def start(command: Sequence[str | Path], log: Path) -> psutil.Popen:
    """Start a command in its own session, with its output in a file."""
    with log.open("ab") as file:
        return psutil.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def candlelight(*words: str | Path | int) -> list[str]:
    """Return a `candlelight` command for this interpreter."""
    return [sys.executable, "-m", "candlelight", *map(str, words)]


def tree(process: psutil.Process) -> list[psutil.Process]:
    """List a process and all its living descendants; empty if the process has ended."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(process: psutil.Process) -> float:
    """Sum the CPU time of a process, its descendants, and ended processes that were waited for."""
    total = 0.0
    for one in tree(process):
        try:
            total += sum(one.cpu_times()[:4])
        except psutil.NoSuchProcess:
            pass  # ended between the list and the look
    return total


def finished(out: Path) -> int:
    """Count the complete frames in a folder; incomplete frames have no name there."""
    return sum(1 for _ in out.glob("samples/*/*/*"))


def contents(out: Path, *apart: str) -> dict[str, str]:
    """Hash every file of a folder, except files with a path part that matches one of the patterns."""
    files = {path.relative_to(out): path for path in out.rglob("*") if path.is_file()}
    return {
        name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if not any(fnmatch(part, pattern) for part in name.parts for pattern in apart)
    }


def wait_until(there: Callable[[], bool], process: psutil.Popen, log: Path) -> None:
    """Wait for a condition that a process fulfils.

    Raises:
        SystemExit: the process ended first; the message is the end of its log.
    """
    while not there():
        if process.poll() is not None and not there():
            said = log.read_text(errors="replace")[-2000:]
            raise SystemExit(f"{process.args} ended with {process.returncode}:\n{said}")
        time.sleep(POLL)


@contextmanager
def hosts(count: int, folder: Path) -> Iterator[tuple[str, list[psutil.Popen]]]:
    """Start a scheduler and worker processes on several addresses of this machine."""
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


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table with three significant digits, each row as soon as it is measured."""
    widths = [max(len(name), 14) for name in header]
    print("| " + " | ".join(map(str.ljust, header, widths)) + " |")
    print("| " + " | ".join("-" * width for width in widths) + " |", flush=True)
    for row in rows:
        print("| " + " | ".join(map(str.ljust, map(_cell, row), widths)) + " |", flush=True)


def _cell(value: object) -> str:
    return (
        f"{value:.3g}"
        if isinstance(value, float) and abs(value) < 100
        else (f"{value:.0f}" if isinstance(value, float) else str(value))
    )
