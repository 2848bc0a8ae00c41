"""Options that the commands of ``candlelight evaluate`` share."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from candlelight.evaluation.catalogue.record import MODELS, Models
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable

if TYPE_CHECKING:
    from candlelight.evaluation.report.blocks import Block
    from candlelight.evaluation.run.result import Result
    from candlelight.evaluation.run.steps import FinishedSteps

_Command = TypeVar("_Command", bound=Callable[..., Any])


device_option = click.option("--device", default="auto", help="Torch device: auto, cpu, cuda, cuda:1, ...")


def data_options(command: _Command) -> _Command:
    """Add the argument DATA and the options for its set, split and rows."""
    for option in (
        click.option("--limit", type=click.IntRange(1), help="Use only the first N of the rows."),
        click.option("--rows", help="Rows of the set, such as 0:100 or 3,5,8.  [default: all]"),
        click.option("--split", help="Split of the data; needed if there are several."),
        click.option("--set", "set_name", help="Image set of the data; needed if there are several."),
        click.argument("data"),
    ):
        command = option(command)
    return command


def run_options(command: _Command) -> _Command:
    """Add the options for the device, the result files and the HTML page."""
    for option in (
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            multiple=True,
            help="File for the results, repeatable: .json, a table as .csv, .md or .tex (booktabs), or "
            ".rows.csv for rows. Finished steps are kept in FILE.partial, so that the same command resumes.",
        ),
        click.option(
            "--report",
            "page",
            type=click.Path(path_type=Path),
            help="HTML file for a page of the results; shipped evaluations show pictures of the data.",
        ),
        device_option,
    ):
        command = option(command)
    return command


def model_option(command: _Command, models: Models = MODELS) -> _Command:
    """Add the repeatable option for models."""
    return click.option(f"--{models.name}", "models", multiple=True, metavar="[NAME=]SPEC", help=models.what)(
        command
    )


missing_option = click.option(
    "--missing",
    type=click.Choice(["error", "fail"]),
    default="error",
    help="An image without a result file: stop with an error, or count it as a failed prediction.",
)


def choose_device(name: str) -> str:
    """Resolve ``auto``, and refuse a device that does not exist here.

    Raises:
        InputError: the device cannot be used.
    """
    from candlelight.evaluation.run.evaluate import pick_device

    return pick_device(name)


def check_outputs(out: Sequence[Path], page: Path | None) -> None:
    """Check, before anything is computed, that the result files and the page can be written.

    Raises:
        InputError: a file cannot be written, or is named twice.
    """
    from candlelight.evaluation.run.result_files import check_writable

    for path in out:
        check_writable(path)
    if page is not None:
        check_writable(page, (".html", ".htm"))
    if len({path.resolve() for path in out}) < len(out):
        raise InputError(f"--out: expected different files, got one of {', '.join(map(str, out))} twice")


def open_steps(out: Sequence[Path]) -> "FinishedSteps":
    """Open the folder FILE.partial, which keeps finished steps until the results are written.

    Args:
        out: result files; FILE is the first of them.

    Raises:
        InputError: FILE.partial is something else.
    """
    from candlelight.evaluation.run.steps import FinishedSteps

    steps = FinishedSteps(out[0].with_name(f"{out[0].name}.partial") if out else None)
    if count := steps.count():
        click.echo(
            f"{steps.folder}: {count} steps of earlier runs; reused if model, data and settings are the same",
            err=True,
        )
    return steps


def open_files(
    files: Sequence[str], models: dict[str, Any], open_one: Callable[[str], Any], needed: bool = True
) -> dict[str, Any]:
    """Open result files of other programs, and add them to the models by name.

    Args:
        files: ``[NAME=]PATH``; the default name is the stem of the path.
        models: models by name.
        open_one: opens one path.
        needed: whether at least one model or file is needed.

    Returns:
        The models and the opened files, by name.

    Raises:
        InputError: no model and no file, two entries with the same name, or a file that cannot be read.
    """
    from candlelight.evaluation.models.model_spec import split_spec

    named = dict(models)
    for spec in files:
        name, path = split_spec(spec)
        name = name or Path(path).stem
        if name in named:
            raise InputError(f"two models or files have the name `{name}`; give another name: NAME={path}")
        named[name] = open_one(path)
    if needed and not named:
        raise InputError("nothing to score: give a --model, or result files of another program (see --help)")
    return named


def show_results(
    results: Sequence["Result"],
    out: Sequence[Path],
    lines: Sequence[str] | None = None,
    intervals: bool = False,
) -> None:
    """Write the result files; print the results, and the notes in their details.

    Args:
        results: results of one call.
        out: files to write.
        lines: text to print in place of the table and the comparisons of the first with each other result.
        intervals: whether tables in files have intervals.
    """
    from candlelight.evaluation.run.compare import compare
    from candlelight.evaluation.run.result import notes_of, table
    from candlelight.evaluation.run.result_files import write_results

    for path in out:  # before printing, because the output pipe may be closed
        write_results(path, results, intervals)
    for line in (
        lines
        or [
            table(results, styled=True),  # without a terminal `click.echo` takes the codes out
            *(str(compare(results[0], other)) for other in results[1:]),
        ]
    ):
        click.echo(line)
    for note in notes_of(results):
        click.echo(f"note: {printable(note)}")
    for path in out:
        click.echo(str(path))


def show_page(
    page: Path | None,
    results: Sequence["Result"],
    pictures: "Sequence[Block] | Mapping[str, Sequence[Block]]",
    figures: Path | None = None,
) -> None:
    """Write a page of results of one metric, with pictures of the data, and its plots into a folder.

    Args:
        page: the page; None for the plots alone.
        results: the results.
        pictures: blocks that show rows, by section if there are several.
        figures: folder for the plots.
    """
    from candlelight.evaluation.report.drawing import saving_figures
    from candlelight.evaluation.report.page import report_sections, write_report

    given = pictures if isinstance(pictures, Mapping) else {results[0].about.metric: pictures}
    with saving_figures(figures) as saved:
        if page is None:
            report_sections(results, given)
        else:
            click.echo(str(write_report(page, results, title="Results", pictures=given)))
    for path in saved:
        click.echo(str(path))


def end_steps(steps: "FinishedSteps") -> None:
    """Report how many steps were reused, and delete the steps, because the results are written now."""
    if line := steps.describe():
        click.echo(line, err=True)
    steps.remove()
