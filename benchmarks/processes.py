"""What the benchmarks of the engine share: runs as processes of their own, what they use, and tables."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil

POLL = 0.02  # s between looks at a run


def start(command: Sequence[str | Path], log: Path) -> psutil.Popen:
    """Start a command in a session of its own, all that it says going to a file."""
    with log.open("ab") as file:
        return psutil.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def candlelight(*words: str | Path | int) -> list[str]:
    """Spell a `candlelight` command for this interpreter."""
    return [sys.executable, "-m", "candlelight", *map(str, words)]


def tree(process: psutil.Process) -> list[psutil.Process]:
    """List a process and all its descendants that live; none if it is gone."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(process: psutil.Process) -> float:
    """Sum the CPU time of a process, its descendants, and the dead ones that were waited for."""
    total = 0.0
    for one in tree(process):
        try:
            total += sum(one.cpu_times()[:4])
        except psutil.NoSuchProcess:
            pass  # ended between the list and the look
    return total


def finished(out: Path) -> int:
    """Count the frames that are complete in a folder: only complete ones have a name there."""
    return sum(1 for _ in out.glob("samples/*/*/*"))


def wait_until(there: Callable[[], bool], process: psutil.Popen, log: Path) -> None:
    """Wait for something that a process brings about.

    Raises:
        SystemExit: the process ended first; the message is the end of its log.
    """
    while not there():
        if process.poll() is not None and not there():
            said = log.read_text(errors="replace")[-2000:]
            raise SystemExit(f"{process.args} ended with {process.returncode}:\n{said}")
        time.sleep(POLL)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown, numbers with three digits."""
    lines = [list(header), ["---"] * len(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        cells = (
            text.ljust(width, "-" if text == "---" else " ") for text, width in zip(line, widths, strict=True)
        )
        print("| " + " | ".join(cells) + " |", flush=True)


def _cell(value: object) -> str:
    return (
        f"{value:.3g}"
        if isinstance(value, float) and abs(value) < 100
        else (f"{value:.0f}" if isinstance(value, float) else str(value))
    )
