"""Commands of candlelight, run in the process of the test."""

import re

from click.testing import CliRunner

from candlelight.cli import main

PROGRESS = re.compile(r"it/s|row/s|batch/s|\?it|: +[0-9]+%")


def run(*words: object, code: int = 0, width: int = 200) -> str:
    """Run a command, which must end with this exit status, and return what it prints."""
    done = CliRunner().invoke(main, [str(word) for word in words], terminal_width=width)
    assert done.exit_code == code, (done.output, done.exc_info)
    return done.output


def refusal(*words: object) -> str:
    """Run a command that must fail with one line, beside progress bars, and return that line."""
    lines = [line for line in run(*words, code=2).splitlines() if line and not PROGRESS.search(line)]
    # A fault of the command line itself is told below the usage.
    lines = [line for line in lines if not line.startswith(("Usage: ", "Try '"))]
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    return lines[0]
