"""``candlelight perception``: forced choices of people in a local page, and the fit of their thresholds."""

from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.catalogue.perception_options import ExperimentSettings
from candlelight.evaluation.catalogue.record import make_options, options_of
from candlelight.evaluation.commands.evaluation_command import option_of
from candlelight.loaders.commands.command_line import UseError
from candlelight.loaders.foreign_text import printable

_PLOTS = (".svg", ".png", ".pdf")


def _settings_options(command: Any) -> Any:
    for one in reversed(options_of(ExperimentSettings)):
        command = option_of(one)(command)
    return command


@click.command("experiment")
@click.argument("data")
@click.option(
    "--set",
    "set_name",
    help="Image set of frames.  [default: all with --moved; else needed if there are several]",
)
@click.option("--split", help="Split of the data; needed if there are several.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Log of the answers, a line of JSON each, to begin or continue.",
)
@click.option(
    "--observer",
    default="anonymous",
    help="Name of the observer, such as a pseudonym; each has an order of trials of their own.",
)
@_settings_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=False,
    help="Port of the page.  [default: a free one]",
)
@click.option("--no-browser", is_flag=True, help="Print the address of the page instead of opening it.")
def run_forced_choice(
    data: str,
    set_name: str | None,
    split: str | None,
    out: Path,
    observer: str,
    port: int,
    no_browser: bool,
    **choice: Any,
) -> None:
    """Show pairs in a local page, and log which one a person takes for the distorted image.

    DATA is tid2013:PATH for rated pairs, which give the threshold D_T; else a folder of pictures or frames,
    whose images under transforms give the human threshold of each transform. The paper shows 20 levels 15
    times to each of 5 observers. The same command continues an experiment. Answers stay on this machine.

    \b
    candlelight perception experiment tid2013:TID2013 --observer ann --out answers.jsonl
    candlelight perception experiment photographs --transform rotation=6 --transform scale --out answers.jsonl
    candlelight perception experiment invariance --set rotation --moved --out moves.jsonl
    """
    from candlelight.evaluation.perception.experiment import fit_answers, open_stimuli
    from candlelight.evaluation.perception.experiment.session import run_experiment

    settings = make_options(ExperimentSettings, choice)
    stimuli = open_stimuli(data, settings, set_name, split)
    answers, missing = run_experiment(
        stimuli, settings, out, observer, port=port, browser=not no_browser, tell=click.echo
    )
    if missing:
        click.echo(f"{out}: {missing} pairs of {observer} are left; run the same command again to continue")
    for fit in fit_answers(answers):
        click.echo(printable(str(fit)))


@click.command("fit")
@click.argument("log", type=click.Path(path_type=Path), metavar="ANSWERS.jsonl")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File for a plot of answers and fits, .svg, .png or .pdf."
)
def fit_forced_choice(log: Path, out: Path | None) -> None:
    """Fit the threshold of each transform, or D_T, to logged answers.

    A log that is not complete is enough. With several observers, the fit of each follows that of all.

    \b
    candlelight perception fit answers.jsonl --out answers.svg
    """
    from candlelight.evaluation.perception.experiment import fit_answers, read_answers
    from candlelight.evaluation.run.result_files import check_writable

    answers = read_answers(log)
    if not len(answers):
        raise UseError(f"{log}: has no answers yet; continue the experiment")
    if out is not None:
        check_writable(out, _PLOTS)
    fits = fit_answers(answers)
    for fit in fits:
        click.echo(printable(str(fit)))
    if out is not None:
        from candlelight.evaluation.perception.perception_report import draw_answers

        out.write_bytes(draw_answers(answers, fits, out.suffix[1:]))
        click.echo(str(out))


COMMANDS = (run_forced_choice, fit_forced_choice)
