"""``candlelight evaluate causal-table``: train, score and print a table of the CANDLE supplement."""

from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.catalogue.causal_options import CausalTableOptions
from candlelight.evaluation.catalogue.record import make_options, options_of
from candlelight.evaluation.commands.evaluate_options import (
    choose_device,
    data_options,
    device_option,
    end_steps,
    open_steps,
)
from candlelight.evaluation.commands.evaluation_command import option_of


def _run(data: str, out: Path, device: str, **values: Any) -> None:
    choice = {"data": data, **{one: values.pop(one) for one in ("set_name", "split", "rows", "limit")}}
    options = make_options(CausalTableOptions, values)
    from candlelight.evaluation.causal.supplement_tables import run_table
    from candlelight.evaluation.run.result_files import check_writable, write_results

    out.mkdir(parents=True, exist_ok=True)
    file = out / f"table-{options.table}.json"
    check_writable(file)
    steps = open_steps((file,))
    results, lines = run_table(choice, options, out, choose_device(device), steps)
    write_results(file, results)
    for line in (*lines, str(file)):
        click.echo(line)
    end_steps(steps)


def _command() -> click.Command:
    """Make the command of `CausalTableOptions`."""
    out = click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        help="Folder for weights and results; the same command resumes with them.",
    )
    command: Any = out(device_option(_run))
    for one in reversed(options_of(CausalTableOptions)):
        command = option_of(one)(command)
    made: click.Command = click.command("causal-table", help=CausalTableOptions.__doc__)(
        data_options(command)
    )
    return made


causal_table = _command()
