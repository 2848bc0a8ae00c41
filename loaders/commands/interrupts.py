"""Handle Ctrl-C: print one line, or exit at once, without a traceback."""

import os
from types import FrameType
from typing import Any

import click


class Interrupted(click.ClickException):
    """Error for Ctrl-C: prints one line and exits with status 130, as shells do."""

    exit_code = 130

    def show(self, file: Any = None) -> None:
        """Print the line."""
        click.echo(self.format_message(), err=True)


def interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but exit at once during imports: some libraries catch it while they load."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt
