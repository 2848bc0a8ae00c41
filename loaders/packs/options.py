"""Options of `candlelight pack` that choose and split what is packed."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def pack_options(command: _Command) -> _Command:
    """Add what says which sets, layers, size and splits; the names are those of what takes them."""
    options = [
        click.option("--sets", callback=_names, metavar="NAME,...", help="Image sets.  [default: all]"),
        click.option("--layers", callback=_names, metavar="NAME,...", help="Layers.  [default: all]"),
        click.option(
            "--size",
            callback=_size,
            metavar="WxH",
            help="Average down to this size, of which the frames' is a multiple.",
        ),
        click.option(
            "--split",
            multiple=True,
            metavar="NAME=SHARE,...",
            help="Random splits; with --split-by NAME=VALUE,..., repeatable.  [default: all rows are train]",
        ),
        click.option("--split-seed", type=int, default=0, show_default=True, help="Of random splits."),
        click.option("--split-by", metavar="FACTOR", help="Split by the values of a factor instead."),
        click.option(
            "--hold-out",
            multiple=True,
            metavar="FACTOR=VALUE,...",
            help="Rows that show this combination are split test_ood; repeatable.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def _size(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"(\d{1,6})x(\d{1,6})", value, re.ASCII)):
        raise click.BadParameter(f"expected width x height in pixels as in 64x48, got {value}")
    return int(found[1]), int(found[2])
