"""Report the errors of commands in one line."""

import errno
import signal
from typing import Any

import click

from loaders.commands.interrupts import Interrupted, interrupt
from loaders.errors import InputError, is_out_of_memory


class UseError(click.ClickException):
    """An error of use or input: a message of one line, and exit status 2."""

    exit_code = 2


# Commands that continue an interrupted run when they are run again.
_RESUMING = ("counterfactual", "evaluate", "export", "pack", "render")


class OneLineGroup(click.Group):
    """A group whose commands report an error in one line, without a traceback."""

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
            raise UseError(
                f"this needs {package}, not installed here; run `pip install {package}`, and see "
                "`candlelight doctor`"
            ) from None
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
