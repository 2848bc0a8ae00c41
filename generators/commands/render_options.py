"""Options of the commands that render, and the lines that they print at the end."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from candlelight.generators.engine.dask_clusters import CLUSTER_KINDS
from candlelight.generators.engine.devices import DEVICE_CHOICES
from candlelight.loaders.commands.command_line import POSITIVE, options
from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.generators.engine.render_plan import RenderOutcome


def _shard(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    index, slash, count = value.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise click.BadParameter(f"expected I/N as in 3/16, got {value}")
    return int(index), int(count)


worker_options = options(
    click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Number of render processes at a time.  [default: one per processor or GPU]",
    ),
    click.option(
        "--device",
        type=click.Choice(DEVICE_CHOICES),
        default="auto",
        help="Device to render on; each render process uses one GPU.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Render with the workers of a dask scheduler, given by its address or its file.",
    ),
    click.option(
        "--cluster",
        type=click.Choice(CLUSTER_KINDS),
        help="Start --workers workers on a cluster, as dask's configuration says, and render with them.",
    ),
)
render_options = options(
    worker_options,
    click.option(
        "--threads",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Number of threads of each render process.",
    ),
    click.option("--shard", callback=_shard, metavar="I/N", help="Render only part I of N, for job arrays."),
    click.option(
        "--time-limit",
        type=POSITIVE,
        default=900.0,
        metavar="SECONDS",
        help="Time limit of one trace.",
    ),
    click.option(
        "--repair", is_flag=True, help="Check all finished frames, and render damaged frames again."
    ),
)


def plan_to_repair(out: Path, repair: bool) -> str:
    """Return the plan file in a folder of frames, for a repair without a RECIPE.

    Raises:
        UsageError: there is no --repair.
        InputError: the plan file is damaged or missing.
    """
    from candlelight.loaders.frames import PLAN
    from candlelight.loaders.verification.checksums import find_changed_files
    from candlelight.loaders.verification.verify_frames import DESCRIPTION

    if not repair:
        raise click.UsageError("Missing argument 'RECIPE'; it may be left out only with --repair.")
    if wrong := find_changed_files(out, DESCRIPTION).get(PLAN):
        remedy = f"name the recipe: candlelight render RECIPE --repair --out {out}"
        raise InputError(f"{out / PLAN} {wrong}; {remedy}")
    return str(out / PLAN)


def repaired_line(outcome: "RenderOutcome") -> str:
    """Return the line that says how many frames a repair rendered again."""
    line = f"{outcome.damaged} frames were damaged and rendered again"
    if outcome.damaged_outside_plan:
        line += f"; {outcome.damaged_outside_plan} damaged frames are not in this plan; leave RECIPE out"
    return line


def check_outcome(outcome: "RenderOutcome", out: Path) -> None:
    """Refuse to continue after a run in which samples failed.

    Raises:
        InputError: samples failed; the message says how many, and where their logs are.
    """
    if outcome.failed:
        first, reason = next(iter(outcome.failed.items()))
        raise InputError(
            f"{len(outcome.failed)} samples could not be rendered, the first {first}: {reason}; "
            f"see {out}/failed, and run the command again to retry"
        )


def read_changes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[dict[str, Any]]:
    """Read interventions such as ``color=blue,x=uniform(-1, 1)``, as a callback of click."""
    from candlelight.loaders.files.plain_yaml import parse_yaml

    changes: list[dict[str, Any]] = []
    for value in values:
        change: dict[str, Any] = {}
        for part in re.split(r",(?=\s*\w+\s*=[^=]|\s*$)", value):
            name, equals, text = (piece.strip() for piece in part.partition("="))
            if not (name and equals and text):
                raise click.BadParameter(
                    f"expected FACTOR=VALUE,... as in color=blue,object_type=cube, got {value}"
                )
            if name in change:
                raise click.BadParameter(f"expected each factor once, got {value}; --do may be given again")
            try:
                change[name] = parse_yaml(text)
            except InputError:
                change[name] = None
            if isinstance(change[name], bool) or not isinstance(change[name], str | int | float | dict):
                raise click.BadParameter(
                    f"expected names, numbers or mechanisms as values, 'true' in quotes, got {value!r}"
                )
        changes.append(change)
    return changes
