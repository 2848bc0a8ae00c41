"""Options of ``candlelight info``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from loaders.commands.command_line import given_options, split_names
from loaders.errors import InputError

_ONE_OF = ("--verify", "--json", "--sheet")
_OF_SHEETS = ("--set", "--split", "--layers", "--by", "--rows", "--seed")


def sheet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `loaders.looking.draw_sheet`."""
    options = (
        click.option(
            "--sheet", type=click.Path(path_type=Path), help="Draw a contact sheet to this PNG instead."
        ),
        click.option("--set", "set_name", help="Sheet: image set; may be left out where there is one."),
        click.option("--split", help="Sheet: split; may be left out where there is one, or for train."),
        click.option("--layers", callback=split_names, metavar="NAME,...", help="Sheet: layers to show."),
        click.option("--by", metavar="FACTOR", help="Sheet: samples for each value of this factor."),
        click.option("--rows", type=click.IntRange(1), help="Sheet: samples, with --by of each value."),
        click.option(
            "--seed", type=click.IntRange(0), default=0, show_default=True, help="Sheet: which samples."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_options(ctx: click.Context) -> None:
    """Refuse options of ``info`` that nothing would come of.

    Raises:
        InputError: two that ask for different things, or one of a sheet without ``--sheet``.
    """
    given = given_options(ctx)
    asked = [name for name in _ONE_OF if name in given]
    if len(asked) > 1:
        raise InputError(f"{asked[0]} and {asked[1]}: expected one of them; run the command once for each")
    for name in _OF_SHEETS:
        if name in given and "--sheet" not in given:
            raise InputError(f"{name} says what a sheet shows; add --sheet FILE.png, or leave it out")
