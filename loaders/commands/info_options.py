"""Options of ``candlelight info``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from candlelight.loaders.commands.command_line import given_options, split_names
from candlelight.loaders.errors import InputError

_ONE_OF = ("--verify", "--json", "--sheet")
_OF_SHEETS = ("--set", "--split", "--layers", "--by", "--limit", "--seed")


def sheet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `candlelight.loaders.looking.draw_sheet`."""
    options = (
        click.option(
            "--sheet",
            type=click.Path(path_type=Path),
            help="Draw a contact sheet into this PNG file instead.",
        ),
        click.option(
            "--set",
            "set_name",
            metavar="NAME",
            help="Sheet: image set; may be left out if there is only one.",
        ),
        click.option(
            "--split",
            metavar="NAME",
            help="Sheet: split; may be left out if there is only one, or for train.",
        ),
        click.option("--layers", callback=split_names, metavar="NAME,...", help="Sheet: layers to draw."),
        click.option("--by", metavar="FACTOR", help="Sheet: group the samples by the values of this factor."),
        click.option(
            "--limit",
            "rows",
            type=click.IntRange(1),
            metavar="N",
            help="Sheet: number of samples; with --by, of each value.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            metavar="N",
            help="Sheet: seed of the random choice of samples.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_options(ctx: click.Context) -> None:
    """Refuse options of ``info`` that have no effect.

    Raises:
        InputError: two options exclude each other, or an option of sheets is given without ``--sheet``.
    """
    given = given_options(ctx)
    actions = [name for name in _ONE_OF if name in given]
    if len(actions) > 1:
        raise InputError(
            f"{actions[0]} and {actions[1]}: expected one of them; run the command once for each"
        )
    for name in _OF_SHEETS:
        if name in given and "--sheet" not in given:
            raise InputError(f"{name} needs --sheet FILE.png; add it, or leave {name} out")
