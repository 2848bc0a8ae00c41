"""``candlelight train``: train a network to decompose images, tell their classes apart, or encode them."""

from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.catalogue.record import make_options, options_of
from candlelight.evaluation.catalogue.training_options import (
    CausalCommand,
    ClassifierCommand,
    IntrinsicCommand,
)
from candlelight.evaluation.commands.evaluate_options import choose_device, data_options, device_option
from candlelight.evaluation.commands.evaluation_command import option_of


def _command(name: str, options: type, function: str) -> click.Command:
    """Make the command of a training.

    Args:
        name: name of the command.
        options: dataclass of its options; the docstring is the help.
        function: name of a function of `candlelight.evaluation.training.train_on_data`.
    """

    def run(data: str, out: Path, seed: int, device: str, **values: Any) -> None:
        choice = {one: values.pop(one) for one in ("set_name", "split", "rows", "limit")}
        chosen: Any = make_options(options, values)
        page = values.get("page")
        _check_files(out, page)
        from candlelight.evaluation.training import train_on_data, write_record

        state = out.with_name(f"{out.name}.partial")
        call = getattr(train_on_data, function)
        trained = call(data, choice, chosen, seed, choose_device(device), state)
        trained.save(out)
        record = out.with_suffix(".json")
        write_record(record, trained.data, trained.held_out, trained.settings, trained.history)
        if page is not None:
            trained.show(page)
        state.unlink(missing_ok=True)
        for line in (*trained.lines, *filter(None, (out, record, page))):
            click.echo(str(line))

    run.__doc__ = options.__doc__
    seed = click.option(
        "--seed",
        type=click.IntRange(0, 2**63 - 1),
        default=0,
        help="Seed of all randomness.",
    )
    out = click.option(
        "--out",
        type=click.Path(path_type=Path),
        required=True,
        help="File for the weights, .pt; settings and learning curves go to the same name with .json. An "
        "interrupted training continues from OUT.partial.",
    )
    command: Any = out(seed(device_option(run)))
    for one in reversed(options_of(options)):
        command = option_of(one)(command)
    made: click.Command = click.command(name)(data_options(command))
    return made


def _check_files(out: Path, page: Path | None) -> None:
    """Check, before anything is computed, that the files can be written.

    Raises:
        InputError: a file cannot be written, or has another ending.
    """
    from candlelight.evaluation.run.result_files import check_writable

    check_writable(out, (".pt",))
    check_writable(out.with_suffix(".json"))
    if page is not None:
        check_writable(page, (".html", ".htm"))


COMMANDS = (
    _command("intrinsic", IntrinsicCommand, "train_decomposition"),
    _command("classifier", ClassifierCommand, "train_labels"),
    _command("causal", CausalCommand, "train_codes"),
)
