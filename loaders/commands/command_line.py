"""Parts that commands share: a folder type for arguments, progress bars, lists of names."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from loaders.files.urls import is_elsewhere, local_folder

LOG_PAUSE = 30.0  # s between lines of progress in a log file, to keep the file small


class Folder(click.Path):
    """Type of an argument: a local path or ``file://`` URL; with ``remote`` also any other URL."""

    def __init__(self, remote: bool = False) -> None:
        super().__init__(path_type=Path)
        self._remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a remote URL as a string, and everything else as a `Path`."""
        if self._remote and is_elsewhere(value):
            return value
        return super().convert(local_folder(value), param, ctx)


@contextmanager
def progress(total: int | None, what: str, unit: str = "frame") -> Iterator[Callable[[int], Any]]:
    """Show a progress bar of ``total`` units (None: unknown) and yield the function that advances it."""
    from tqdm import tqdm

    pause = 0.1 if sys.stderr.isatty() else LOG_PAUSE
    with tqdm(
        total=total, unit=unit, desc=what, file=sys.stderr, dynamic_ncols=True, mininterval=pause
    ) as bar:
        yield bar.update


def split_names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    """Split names at commas; the callback of an option."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def given_options(ctx: click.Context) -> list[str]:
    """List the options given on the command line, in the order of the command's help."""
    source = ctx.get_parameter_source
    return [one.opts[0] for one in ctx.command.params if source(str(one.name)) is ParameterSource.COMMANDLINE]
