"""Commands of evaluations, made of their records: arguments, options, files, results and pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.catalogue import CATALOGUE
from candlelight.evaluation.catalogue.record import MODELS, Files, Option, make_options, options_of
from candlelight.evaluation.commands.evaluate_options import (
    check_outputs,
    data_options,
    end_steps,
    missing_option,
    model_option,
    open_files,
    open_steps,
    run_options,
    show_page,
    show_results,
)
from candlelight.loaders.errors import InputError, did_you_mean

_CHOICE = ("set_name", "split", "rows", "limit")


def shipped_commands() -> list[click.Command]:
    """Make the commands of the catalogue; nothing heavy is imported for it."""
    return [
        evaluation_command(name, entry.options, getattr(entry.options, "files", None))
        for name, entry in CATALOGUE.items()
    ]


def evaluation_command(name: str, options: type, files: Files | None) -> click.Command:
    """Make the command of an evaluation.

    Args:
        name: name of the evaluation, as `candlelight.evaluation.run.evaluate.find_evaluation` knows it.
        options: dataclass of its options; the docstring is the help.
        files: result files in place of models; None if there are none.
    """

    def run(**values: Any) -> None:
        _run(name, files, values)

    run.__doc__ = options.__doc__
    command: Any = run_options(_table_options(run, getattr(options, "pictures", False)))
    for one in reversed(options_of(options)):
        command = option_of(one)(command)
    if files is not None:
        command = _files_options(files)(missing_option(command) if files.may_fail else command)
    command = data_options(model_option(command, getattr(options, "models", MODELS)))
    made: click.Command = click.command(name)(command)
    return made


def _table_options(command: Any, pictures: bool) -> Any:
    """Add the options for tables, figures and the rows that a page shows."""
    if pictures:
        command = click.option(
            "--pictures",
            multiple=True,
            metavar="worst|median|best|ID",
            help="Row that the page shows, by the first score of the first model, or by its id; repeatable.",
        )(command)
    intervals = click.option(
        "--intervals", is_flag=True, help="Write 95 % intervals into .md and .tex tables."
    )
    figures = click.option(
        "--figures",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder for the plots of the page, each as PDF and SVG.",
    )
    return figures(intervals(command))


def option_of(one: Option) -> Callable[[Any], Any]:
    """Make the option of click of an option of an evaluation: its flag, type, range, default and help."""
    flag = "--" + (one.help.flag or one.name).replace("_", "-")
    if one.kind is bool and one.optional:
        both, told = f"{flag}/--no-{flag[2:]}", one.help.default or False
        return click.option(both, one.name, default=None, show_default=told, help=one.help.text)
    if one.kind is bool:
        flag = f"--no-{flag[2:]}" if one.default else flag
        return click.option(
            flag,
            one.name,
            is_flag=True,
            default=one.default,
            flag_value=not one.default,
            show_default=False,
            help=one.help.text,
        )
    listed = one.many and one.kind in (int, float)
    default = None if one.default is MISSING or one.many else one.default
    if listed and one.default:
        default = ",".join(map(str, one.default))
    shown: Any = one.help.default or default is not None
    given = {"required": True} if one.default is MISSING else {"default": default}
    return click.option(
        flag,
        one.name,
        type=NumberList(one) if listed else _type(one),
        multiple=one.many and not listed,
        nargs=one.count,
        show_default=shown,
        metavar=one.help.metavar,
        help=one.help.text,
        **given,
    )


class NumberList(click.ParamType):
    """Numbers separated by commas, the value of an option of any number of numbers.

    Example:
        >>> from candlelight.evaluation.catalogue.record import At, Help
        >>> one = Option("shares", float, (), (), True, 1, False, Help(""), At())
        >>> NumberList(one).convert("0.01,0.1", None, None)
        (0.01, 0.1)
    """

    name = "NUMBERS"

    def __init__(self, one: Option) -> None:
        self.one = one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split a text; values that are split already are returned."""
        if not isinstance(value, str):
            return value
        try:
            return tuple(self.one.kind(word) for word in value.split(","))
        except ValueError:
            flag = self.one.name if param is None else max(param.opts, key=len)
            raise InputError(f"{flag} {value}: expected numbers, separated by commas") from None


def _type(one: Option) -> Any:
    if one.choices:
        return click.Choice(one.choices)
    if one.kind is Path:
        return click.Path(path_type=Path)
    if one.kind is object:
        return str
    bounds = one.bounds
    low = bounds.above if bounds.least is None else bounds.least
    high = bounds.below if bounds.most is None else bounds.most
    if one.kind not in (int, float) or (low is None and high is None):
        return one.kind
    kind: Any = click.IntRange if one.kind is int else click.FloatRange
    return kind(low, high, min_open=low != bounds.least, max_open=high != bounds.most)


def _files_options(files: Files) -> Callable[[Any], Any]:
    """Make the repeatable option of result files, and the options of their reader."""

    def add(command: Any) -> Any:
        if "png" in files.takes:
            command = click.option(
                "--png", type=click.Choice(["srgb", "linear"]), help=f"Transfer curve of PNG {files.name}."
            )(command)
        return click.option(
            f"--{files.name}",
            "files",
            multiple=True,
            metavar="[NAME=]PATH",
            help=f"{files.what}, written by another program; scored in place of a model; repeatable.",
        )(command)

    return add


def _run(name: str, files: Files | None, values: dict[str, Any]) -> None:
    """Run an evaluation: open what it needs, score, print, and write files and the page."""
    from candlelight.evaluation.run.evaluate import find_evaluation, pick_device, score, start

    record = find_evaluation(name)
    out, page, figures = values.pop("out"), values.pop("page"), values.pop("figures")
    intervals, wanted = values.pop("intervals"), values.pop("pictures", ())
    check_outputs(out, page)
    if wanted and page is None:
        raise InputError(f"--pictures {wanted[0]}: needs a page; give --report FILE.html")
    device = pick_device(values.pop("device"))
    choice = {"data": values.pop("data"), **{one: values.pop(one) for one in _CHOICE}}
    missing = values.pop("missing", "error")
    taken = {one: values.pop(one) for one in (files.takes if files else ())}
    sources = _open_sources(
        record, values.pop("models"), values.pop("files", ()), files, device, taken, missing
    )
    options = make_options(record.options, values)
    steps = open_steps(out)
    run = start(record, options, choice, sources, device, missing=missing, steps=steps)
    for one in wanted:
        if one not in (known := ("worst", "median", "best", *run.data.ids)):
            raise InputError(
                f"--pictures {one}: expected worst, median, best or an id{did_you_mean(one, known)}"
            )
    run = replace(run, shown=wanted)
    results = score(run)
    shown = record.page_of()
    kept = list(results.values())
    lines = None if shown is None or shown.lines is None else shown.lines(kept)
    show_results(kept, out, lines, intervals)
    if page or figures:
        pictures = shown.pictures(run, results) if shown is not None and shown.pictures and page else ()
        show_page(page, kept, pictures, figures)
    end_steps(steps)


def _open_sources(
    record: Any,
    models: Sequence[str],
    paths: Sequence[str],
    files: Files | None,
    device: str,
    taken: Mapping[str, Any],
    missing: str,
) -> dict[str, Any]:
    """Open models, and result files in place of models, by name.

    Raises:
        InputError: nothing to score, two of one name, or options of result files without files.
    """
    from importlib import import_module

    from candlelight.evaluation.run.evaluate import open_named_models

    given = {one: value for one, value in taken.items() if value is not None}
    given |= {"missing": missing} if missing != "error" else {}
    if given and not paths:
        one, value = next(iter(given.items()))
        raise InputError(f"--{one} {value}: needs result files (--{files.name if files else 'predictions'})")
    opened: dict[str, Any] = dict(open_named_models(record, models, device))
    if files is None:
        if record.needs_models and not opened:
            raise InputError(f"nothing to score: give a --{record.models.name} (see --help)")
        return opened
    module, _, attribute = files.opens.partition(":")
    reader = getattr(import_module(module), attribute)
    return open_files(paths, opened, lambda path: reader(path, **taken), needed=record.needs_models)
