"""Ctrl-C: one line, or the end without a word, and never a traceback."""

import os
from types import FrameType
from typing import Any

import click


class Interrupted(click.ClickException):
    """Ctrl-C: one line, and the status that shells give to it."""

    exit_code = 130

    def show(self, file: Any = None) -> None:
        """Print the line."""
        click.echo(self.format_message(), err=True)


def interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but end at once where libraries are imported: some take it for their own."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt
