"""What commands share: folders that may be URLs, and progress bars."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from loaders.files.urls import is_elsewhere, local_folder

LOG_PAUSE = 30.0  # s between lines of progress where they go to a file, which days of them would fill


class Folder(click.Path):
    """A folder of this machine, as a path or ``file://``; with ``remote`` also the URL of one elsewhere."""

    def __init__(self, remote: bool = False) -> None:
        super().__init__(path_type=Path)
        self._remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a URL of elsewhere as it is, and make a `Path` of anything else."""
        if self._remote and is_elsewhere(value):
            return value
        return super().convert(local_folder(value), param, ctx)


@contextmanager
def progress(total: int | None, what: str, unit: str = "frame") -> Iterator[Callable[[int], Any]]:
    """Show a bar of ``total`` units, None for unknown, and yield the function that advances it."""
    from tqdm import tqdm

    pause = 0.1 if sys.stderr.isatty() else LOG_PAUSE
    with tqdm(
        total=total, unit=unit, desc=what, file=sys.stderr, dynamic_ncols=True, mininterval=pause
    ) as bar:
        yield bar.update


def split_names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    """Read names that are joined by commas, as the callback of an option."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def given_options(ctx: click.Context) -> list[str]:
    """List the options that were typed, as the command's help lists them."""
    source = ctx.get_parameter_source
    return [one.opts[0] for one in ctx.command.params if source(str(one.name)) is ParameterSource.COMMANDLINE]
