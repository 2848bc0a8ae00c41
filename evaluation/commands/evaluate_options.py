"""Options that the commands of ``candlelight evaluate`` share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from loaders.errors import InputError

if TYPE_CHECKING:
    from evaluation.report.blocks import Block
    from evaluation.results.result import Result
    from evaluation.running.finished_steps import FinishedSteps

_Command = TypeVar("_Command", bound=Callable[..., Any])


def data_options(command: _Command) -> _Command:
    """Add DATA, and the choice of its set, split and rows."""
    for option in (
        click.option("--limit", type=click.IntRange(1), help="Score the first N rows of these."),
        click.option("--rows", help="Rows of the set, as 0:100 or 3,5,8.  [default: all]"),
        click.option("--split", help="Split; may be left out where there is only one."),
        click.option("--set", "set_name", help="Image set; may be left out where there is only one."),
        click.argument("data"),
    ):
        command = option(command)
    return command


def run_options(command: _Command) -> _Command:
    """Add the device, and the files of the results and of a page."""
    for option in (
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            multiple=True,
            help="File for the results, .json or .csv; repeatable. The same command goes on after it was "
            "killed, with what lies in FILE.partial until then.",
        ),
        click.option(
            "--report",
            "page",
            type=click.Path(path_type=Path),
            help="File for a page of the results with pictures of the data, .html.",
        ),
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, ..."),
    ):
        command = option(command)
    return command


def model_option(command: _Command) -> _Command:
    """Add the models, repeatable."""
    return click.option(
        "--model",
        "models",
        multiple=True,
        metavar="[NAME=]SPEC",
        help="A shipped model (retinex, constant-reflectance, constant-shading), a file of weights, "
        "package.module:callable, file.py:callable, or hf:NAME or a folder of a transformers model; "
        "repeatable.",
    )(command)


def files_option(flag: str, what: str) -> Callable[[_Command], _Command]:
    """Make the option for files of other programs, repeatable."""
    return click.option(
        flag, "files", multiple=True, metavar="[NAME=]PATH", help=f"{what}; no model is needed; repeatable."
    )


missing_option = click.option(
    "--missing",
    type=click.Choice(["error", "fail"]),
    default="error",
    show_default=True,
    help="Whether an id that the files lack is an error or a failed prediction.",
)
size_option = click.option(
    "--size",
    nargs=2,
    type=click.IntRange(1),
    metavar="HEIGHT WIDTH",
    help="Resize all images to it; needed where images have several sizes.",
)


def choose_device(name: str) -> str:
    """Resolve ``auto``, and refuse a device that is not there.

    Raises:
        InputError: the device cannot be used.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {name}: not usable here: {str(error).splitlines()[0][:200]}") from None
    return name


def check_outputs(out: Sequence[Path], page: Path | None) -> None:
    """Find out before anything is computed that results, or the page of them, cannot be written.

    Raises:
        InputError: a file cannot be written, or is named twice.
    """
    from evaluation.results.result_files import check_writable

    for path in out:
        check_writable(path)
    if page is not None:
        check_writable(page, (".html", ".htm"))
    if len({path.resolve() for path in out}) < len(out):
        raise InputError(f"--out: expected different files, got one of {', '.join(map(str, out))} twice")


def open_steps(out: Sequence[Path]) -> "FinishedSteps":
    """Open the folder beside the first file of results that keeps finished steps until these are written.

    Raises:
        InputError: there is something else of that name.
    """
    from evaluation.running.finished_steps import FinishedSteps

    steps = FinishedSteps(out[0].with_name(f"{out[0].name}.partial") if out else None)
    if count := steps.count():
        click.echo(
            f"{steps.folder}: {count} steps of earlier runs, used where model, data and settings agree",
            err=True,
        )
    return steps


def check_needed(files: Sequence[str], **given: str | None) -> None:
    """Refuse options of files where no files are named.

    Raises:
        InputError: such an option.
    """
    for name, value in given.items():
        if not files and value not in (None, "error"):
            raise InputError(f"--{name} {value}: expected files beside it (--predictions or --heatmaps)")


def open_files(files: Sequence[str], taken: dict[str, Any], open_one: Callable[[str], Any]) -> dict[str, Any]:
    """Open files of other programs under names that no model has.

    Args:
        files: ``[NAME=]PATH``; the name is that of the path by default.
        taken: models by name.
        open_one: opens one path.

    Returns:
        Models, and files by name.

    Raises:
        InputError: no model and no file, two of one name, or a file that cannot be read.
    """
    from evaluation.models.model_spec import split_spec

    named = dict(taken)
    for spec in files:
        name, path = split_spec(spec)
        name = name or Path(path).stem
        if name in named:
            raise InputError(f"two sources are named `{name}`; name them apart: NAME={path}")
        named[name] = open_one(path)
    if not named:
        raise InputError("nothing to score: name a --model, or files of another program (see --help)")
    return named


def open_secondary(open_view: Callable[..., Any], data: str, text: str, **options: Any) -> Any:
    """Open data named beside DATA: PATH[:SET[:SPLIT]], LAYOUT:PATH[:SPLIT] or hf:NAME; else a set of DATA.

    Args:
        open_view: one of the functions of `loaders.views`.
        data: DATA.
        text: as the user typed it; a set of DATA goes before a path of that name, which ./ tells apart.
        options: further arguments of ``open_view``.

    Raises:
        InputError: there is nothing of the kind.
    """
    from loaders.views import split_secondary

    if ":" not in text and "/" not in text:
        try:
            return open_view(data, set_name=text, **options)
        except InputError:
            if not Path(text).exists():
                raise
    path, choice = split_secondary(text)
    return open_view(path, **choice, **options)


def open_layers(
    models: Sequence[str], layers: Sequence[str], device: str, take: Callable[[Any, str], Any]
) -> dict[str, Any]:
    """Open models, and take hidden layers of each as sources of heatmaps or codes.

    Args:
        models: see `evaluation.models.open_models`.
        layers: names of layers; a model that is no `torch.nn.Module` has none, and is a source itself.
        device: torch device of the models.
        take: makes a source of a network and the name of a layer.

    Returns:
        Sources by model and layer; the models themselves where no layer is named.

    Raises:
        InputError: a layer, and no model that has any.
    """
    from dataclasses import replace

    from torch import nn

    from evaluation.models import open_models

    if len(set(layers)) < len(layers):
        raise InputError(f"--layer: expected different layers, got {', '.join(layers)}")
    if layers and not models:
        raise InputError("--layer: there is no --model whose layer it is")
    opened = open_models(models, device, "srgb")
    networks = {name for name, model in opened.items() if isinstance(model.model, nn.Module)}
    if layers and not networks:
        names = ", ".join(f"`{name}`" for name in opened)
        raise InputError(f"--layer: {names} has no hidden layers; leave it out, or give a network")
    named = {}
    for name, model in opened.items():
        for layer in layers if name in networks else ():
            identity = replace(model.identity, name=f"{name} {layer}")
            named[identity.name] = replace(model, identity=identity, model=take(model.model, layer))
        if not layers or name not in networks:
            named[name] = model
    return named


def show_results(results: Sequence["Result"], out: Sequence[Path]) -> None:
    """Write the files of results; print results, and comparisons of the first with the others."""
    from evaluation.results.compare import compare
    from evaluation.results.result import table
    from evaluation.results.result_files import write_results

    for path in out:  # before anything is printed, for a pipe may be closed
        write_results(path, results)
    click.echo(table(results))
    for other in results[1:]:
        click.echo(str(compare(results[0], other)))
    for path in out:
        click.echo(str(path))


def show_page(page: Path, results: Sequence["Result"], pictures: Sequence["Block"]) -> None:
    """Write a page of results of one metric, with pictures of the data."""
    from evaluation.report import write_report

    metric = results[0].about.metric
    click.echo(str(write_report(page, results, title="Results", pictures={metric: pictures})))


def end_steps(steps: "FinishedSteps") -> None:
    """Say how many steps were there, and remove them: all that they were kept for is written."""
    if line := steps.describe():
        click.echo(line, err=True)
    steps.remove()
