"""What the commands that render have in common: options, a progress bar, and what is said at the end."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from generators.engine.clusters import CLUSTERS
from generators.engine.devices import WISHES
from loaders.errors import InputError

if TYPE_CHECKING:
    from generators.engine.render_plan import Outcome


_Command = TypeVar("_Command", bound=Callable[..., Any])


def worker_options(command: _Command) -> _Command:
    """Add what says where samples are rendered; the names are those of the arguments of `render`."""
    return _with(
        command,
        click.option(
            "--workers",
            type=click.IntRange(1),
            help="Renderers at a time.  [default: one per processor or GPU]",
        ),
        click.option(
            "--device",
            type=click.Choice(WISHES),
            default="auto",
            show_default=True,
            help="What to trace on; each renderer takes one GPU.",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Render with the workers of a dask scheduler, or its file."
        ),
        click.option(
            "--cluster",
            type=click.Choice(CLUSTERS),
            help="Start --workers there, as the configuration of dask says, and render with them.",
        ),
    )


def render_options(command: _Command) -> _Command:
    """Add how samples are rendered; the names are those of the arguments of `render`."""
    command = _with(
        command,
        click.option(
            "--threads",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Threads of each renderer.",
        ),
        click.option(
            "--shard", callback=_shard, metavar="I/N", help="Only the I-th of N parts, for job arrays."
        ),
        click.option(
            "--time-limit",
            type=click.FloatRange(0, min_open=True),
            default=900.0,
            show_default=True,
            help="Seconds for one trace.",
        ),
        click.option(
            "--repair", is_flag=True, help="Check every file that is there, and render again what is damaged."
        ),
    )
    return worker_options(command)


def plan_to_repair(out: Path | str, repair: bool) -> str:
    """Name the plan of a folder of frames, for a repair that is told no recipe.

    Raises:
        InputError: no repair is asked for, or the plan is damaged itself.
    """
    from loaders.verification.checksums import find_changed_files
    from loaders.verification.verify_frames import DESCRIPTION, PLAN

    if not repair:
        raise click.UsageError("Missing argument 'RECIPE'; only --repair does without.")
    if isinstance(out, str):
        raise click.UsageError("Missing argument 'RECIPE'; only --repair of a local folder does without.")
    if wrong := find_changed_files(out, DESCRIPTION).get(PLAN):
        remedy = f"name the recipe: candlelight render RECIPE --repair --out {out}"
        raise InputError(f"{out / PLAN} {wrong}; {remedy}")
    return str(out / PLAN)


def repaired_line(outcome: "Outcome") -> str:
    """Say what a repair did."""
    line = f"{outcome.damaged} frames were damaged and rendered again"
    if outcome.damaged_besides:
        line += f"; {outcome.damaged_besides} more are damaged, but not of this plan: leave out RECIPE"
    return line


def check_outcome(outcome: "Outcome", out: Path | str) -> None:
    """Refuse to go on from a run that set samples aside.

    Raises:
        InputError: it did; the message says how many, and where their logs are.
    """
    if outcome.failed:
        first, reason = next(iter(outcome.failed.items()))
        raise InputError(
            f"{len(outcome.failed)} samples could not be rendered, the first {first}: {reason}; "
            f"see {out}/failed, and run again to try them once more"
        )


def read_changes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[dict[str, Any]]:
    """Read interventions such as ``color=blue,object_type=cube``; a callback of click."""
    from loaders.files.plain_yaml import parse_yaml

    changes: list[dict[str, Any]] = []
    for value in values:
        pairs = [part.partition("=") for part in value.split(",")]
        if not all(name.strip() and equals and text.strip() for name, equals, text in pairs):
            raise click.BadParameter(
                f"expected FACTOR=VALUE,... as in color=blue,object_type=cube, got {value}"
            )
        try:
            change = {name.strip(): parse_yaml(text) for name, _, text in pairs}
        except InputError:
            change = {"": None}
        if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in change.values()):
            raise click.BadParameter(f"expected names or numbers as values, 'yes' in quotes, got {value!r}")
        if len(change) < len(pairs):
            raise click.BadParameter(f"expected each factor once, got {value}; --do may be given again")
        changes.append(change)
    return changes


def _shard(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    index, slash, count = value.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise click.BadParameter(f"expected I/N as in 3/16, got {value}")
    return int(index), int(count)


def _with(command: _Command, *options: Callable[[_Command], _Command]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command
