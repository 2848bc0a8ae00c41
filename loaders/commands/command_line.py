"""Parts that all commands share: errors of one line, a folder type for arguments, progress bars, names."""

import errno
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from candlelight.loaders.commands.interrupts import Interrupted, interrupt
from candlelight.loaders.commands.standard_streams import safe_standard_streams
from candlelight.loaders.errors import InputError, is_out_of_memory, missing_module
from candlelight.loaders.files.urls import is_elsewhere, local_folder
from candlelight.version import code_version

# Commands that continue an interrupted run when they are run again.
_RESUMING = ("counterfactual", "evaluate", "export", "perception", "render", "train")


class UseError(click.ClickException):
    """An error of use or input: a message of one line, and exit status 2."""

    exit_code = 2


class OneLineGroup(click.Group):
    """A group whose commands report an error in one line, without a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line; progress and messages on standard error never stop it."""
        with safe_standard_streams():
            return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and turn its errors into a message of one line."""
        program = signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        if program:
            signal.signal(signal.SIGINT, interrupt)
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise UseError(" ".join(str(error).split())) from None
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            told = error if "`pip install" in str(error) else missing_module(package)
            raise UseError(f"{told}, and see `candlelight doctor`") from None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            reason = str(error).partition("\n")[0][:200]
            raise UseError(
                f"memory ran out{f' ({reason})' if reason else ''}; end other programs, use fewer workers or "
                "smaller images"
            ) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has closed it; click ends without a message
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise UseError(f"{where}{error.strerror or error}") from None
        except KeyboardInterrupt:
            remedy = "; run the same command again to continue" if ctx.invoked_subcommand in _RESUMING else ""
            raise Interrupted(f"interrupted{remedy}") from None
        finally:
            if program:  # nothing is left to do but end the process
                signal.signal(signal.SIGINT, signal.SIG_DFL)


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
    """Show progress of ``total`` units (None: unknown) and yield the function that advances it."""
    from candlelight.loaders.progress_bars import progress_bar

    with progress_bar(total=total, unit=unit, desc=what) as bar:
        yield bar.update


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"candlelight, version {code_version()}")
        ctx.exit()


# `click.version_option` would find the version, and ask git for it, whenever the module is imported.
version_option = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)


def split_names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    """Split names at commas; the callback of an option."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def given_options(ctx: click.Context) -> list[str]:
    """List the options given on the command line, in the order of the command's help."""
    source = ctx.get_parameter_source
    return [one.opts[0] for one in ctx.command.params if source(str(one.name)) is ParameterSource.COMMANDLINE]
