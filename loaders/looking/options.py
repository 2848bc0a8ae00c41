"""Options of ``candlelight info``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def _names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    return [name.strip() for name in value.split(",")] if value else None


def sheet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `loaders.looking.draw_sheet`."""
    options = (
        click.option(
            "--sheet", type=click.Path(path_type=Path), help="Draw a contact sheet to this PNG instead."
        ),
        click.option("--set", "set_name", help="Sheet: image set; may be left out where there is one."),
        click.option("--split", default="train", show_default=True, help="Sheet: split."),
        click.option("--layers", callback=_names, metavar="NAME,...", help="Sheet: layers to show."),
        click.option("--by", metavar="FACTOR", help="Sheet: samples for each value of this factor."),
        click.option("--rows", type=click.IntRange(1), help="Sheet: samples, with --by of each value."),
        click.option(
            "--seed", type=click.IntRange(0), default=0, show_default=True, help="Sheet: which samples."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
