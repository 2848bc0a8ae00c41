"""Options that the commands of ``candlelight evaluate`` share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from candlelight.evaluation.run.record import MODELS, Models
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable

if TYPE_CHECKING:
    from candlelight.evaluation.report.blocks import Block
    from candlelight.evaluation.run.result import Result
    from candlelight.evaluation.run.steps import FinishedSteps

_Command = TypeVar("_Command", bound=Callable[..., Any])


device_option = click.option(
    "--device", default="auto", show_default=True, help="Torch device: auto, cpu, cuda, cuda:1, ..."
)


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
            help="HTML file for a page of the results, with pictures of the data.",
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


def files_option(flag: str, what: str) -> Callable[[_Command], _Command]:
    """Make the repeatable option for result files of other programs."""
    return click.option(
        flag,
        "files",
        multiple=True,
        metavar="[NAME=]PATH",
        help=f"{what}, written by another program; scored in place of a model; repeatable.",
    )


missing_option = click.option(
    "--missing",
    type=click.Choice(["error", "fail"]),
    default="error",
    show_default=True,
    help="An image without a result file: stop with an error, or count it as a failed prediction.",
)
size_option = click.option(
    "--size",
    nargs=2,
    type=click.IntRange(1),
    metavar="HEIGHT WIDTH",
    help="Size in pixels to which all images are resized; needed if they have several sizes.",
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


def check_needed(files: Sequence[str], **given: str | None) -> None:
    """Refuse options for result files if no result files are given.

    Args:
        files: result files of the command line.
        given: values of the options, by name.

    Raises:
        InputError: an option without files.
    """
    for name, value in given.items():
        if not files and value not in (None, "error"):
            raise InputError(f"--{name} {value}: needs result files (--predictions or --heatmaps)")


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


def open_layers(
    models: Sequence[str], layers: Sequence[str], device: str, take: Callable[[Any, str], Any]
) -> dict[str, Any]:
    """Open models, and make one model of each hidden layer, which gives heatmaps or codes.

    Args:
        models: see `candlelight.evaluation.models.open_models`.
        layers: names of hidden layers; a model that is no `torch.nn.Module` has none and stays as it is.
        device: torch device of the models.
        take: makes a model of a network and the name of a layer.

    Returns:
        Models named by model and layer; the models themselves if no layer is given.

    Raises:
        InputError: layers are given, but no model has hidden layers; or a layer is given twice.
    """
    from dataclasses import replace

    from torch import nn

    from candlelight.evaluation.models import open_models

    if len(set(layers)) < len(layers):
        raise InputError(f"--layer: expected different layers, got {', '.join(layers)}")
    if layers and not models:
        raise InputError("--layer: needs a --model that has the layer")
    opened = open_models(models, device, "srgb")
    networks = {name for name, model in opened.items() if isinstance(model.model, nn.Module)}
    if layers and not networks:
        names = ", ".join(f"`{name}`" for name in opened)
        raise InputError(f"--layer: {names} has no hidden layers; omit --layer, or give a network")
    named = {}
    for name, model in opened.items():
        for layer in layers if name in networks else ():
            identity = replace(model.identity, name=f"{name} {layer}")
            named[identity.name] = replace(model, identity=identity, model=take(model.model, layer))
        if not layers or name not in networks:
            named[name] = model
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
    for line in lines or [table(results), *(str(compare(results[0], other)) for other in results[1:])]:
        click.echo(line)
    for note in notes_of(results):
        click.echo(f"note: {printable(note)}")
    for path in out:
        click.echo(str(path))


def show_page(
    page: Path | None, results: Sequence["Result"], pictures: Sequence["Block"], figures: Path | None = None
) -> None:
    """Write a page of results of one metric, with pictures of the data, and its plots into a folder."""
    from candlelight.evaluation.report.drawing import saving_figures
    from candlelight.evaluation.report.page import report_sections, write_report

    given = {results[0].about.metric: pictures}
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
