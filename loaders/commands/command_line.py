"""Parts that all commands share: errors of one line, Ctrl-C, standard streams, options and progress bars."""

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from candlelight.loaders.errors import InputError, is_out_of_memory, missing_module
from candlelight.loaders.files.urls import is_elsewhere, local_folder
from candlelight.version import code_version

POSITIVE = click.FloatRange(0, min_open=True)  # type of an option

_Command = TypeVar("_Command", bound=Callable[..., Any])
# Commands that continue an interrupted run when they are run again.
_RESUMING = ("counterfactual", "evaluate", "export", "perception", "render", "train")


class UseError(click.ClickException):
    """An error of use or input: a message of one line, and exit status 2."""

    exit_code = 2


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


@contextmanager
def safe_standard_streams() -> Iterator[None]:
    """Open closed standard streams on the null device, and drop what standard error cannot take.

    A daemon may start a command with closed streams, as ``2>&-`` does. The next file that is opened would be
    number 2, and libraries in C would write their messages into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # `os.open` takes the smallest free number
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    before = sys.stdout, sys.stderr
    # Python has no object for a stream that was closed when it started.
    sys.stdout, sys.stderr = sys.stdout or _text(1), _lenient(sys.stderr or _text(2))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _DroppingFile(io.FileIO):
    """A file that drops what it cannot write: the disk is full, or the reader of the pipe has ended."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _text(number: int) -> TextIO:
    return open(number, "w", closefd=False)


def _lenient(stream: TextIO) -> TextIO:
    try:
        file = _DroppingFile(stream.fileno(), "w", closefd=False)
    except (AttributeError, ValueError, OSError):  # an object of the caller's, which is no file
        return stream
    return io.TextIOWrapper(file, stream.encoding, stream.errors, write_through=True)


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


def options(*declared: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Join declarations of options to one decorator, which adds them in this order."""

    def add(command: _Command) -> _Command:
        for one in reversed(declared):
            command = one(command)
        return command

    return add


def split_names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    """Split names at commas; the callback of an option."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def given_options(ctx: click.Context) -> list[str]:
    """List the options given on the command line, in the order of the command's help."""
    source = ctx.get_parameter_source
    return [one.opts[0] for one in ctx.command.params if source(str(one.name)) is ParameterSource.COMMANDLINE]


def refuse_options_of_others(kind: str, owners: Mapping[str, Sequence[str]]) -> None:
    """Refuse options of the running command that belong to other values of ``--to`` than ``kind``."""
    for option in given_options(click.get_current_context()):
        if kind not in (known := owners.get(option, (kind,))):
            listed = " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))
            raise InputError(f"{option} is for --to {listed}, not {kind}; leave it out")
