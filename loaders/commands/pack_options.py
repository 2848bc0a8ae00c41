"""Options of `candlelight pack` that choose and split samples, and a check of options of other ``--to``."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from candlelight.loaders.commands.command_line import given_options, split_names
from candlelight.loaders.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def pack_options(command: _Command) -> _Command:
    """Add the options for sets, layers, size and splits to a command."""
    options = [
        click.option(
            "--sets", callback=split_names, metavar="NAME,...", help="Image sets to pack.  [default: all]"
        ),
        click.option(
            "--layers", callback=split_names, metavar="NAME,...", help="Layers to pack.  [default: all]"
        ),
        click.option(
            "--size",
            callback=_size,
            metavar="WxH",
            help="Average images down to this size, which must divide theirs.",
        ),
        click.option(
            "--split",
            multiple=True,
            metavar="NAME=SHARE,...",
            help="Shares of random splits; with --split-by NAME=VALUE,... and repeatable.  "
            "[default: all rows are train]",
        ),
        click.option(
            "--split-seed",
            type=int,
            default=0,
            show_default=True,
            metavar="N",
            help="Seed of the random splits.",
        ),
        click.option(
            "--split-by", metavar="FACTOR", help="Split by the values of this factor, not at random."
        ),
        click.option(
            "--hold-out",
            multiple=True,
            metavar="FACTOR=VALUE,...",
            help="Put samples with this combination into a split test_ood; repeatable.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def refuse_options_of_others(kind: str, owners: Mapping[str, str]) -> None:
    """Refuse options of the running command that belong to another value of ``--to``.

    Args:
        kind: value of ``--to``.
        owners: for each such option, the value of ``--to`` that it belongs to.

    Raises:
        InputError: an option of another value was given.
    """
    for option in given_options(click.get_current_context()):
        if (owner := owners.get(option, kind)) != kind:
            raise InputError(f"{option} is for --to {owner}, not {kind}; leave it out")


def _size(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"(\d{1,6})x(\d{1,6})", value, re.ASCII)):
        raise click.BadParameter(f"expected width x height in pixels as in 64x48, got {value}")
    return int(found[1]), int(found[2])
