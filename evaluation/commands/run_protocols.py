"""Run named evaluation protocols for ``candlelight evaluate intrinsic --protocol``, and print their order."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from candlelight.evaluation.commands.evaluate_options import show_page, show_results
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable

if TYPE_CHECKING:
    from candlelight.evaluation.intrinsic.score_protocols import ProtocolRun
    from candlelight.evaluation.views import View

ALL = "all"
_NOT_WITH = ("score", "threshold", "saw_variant", "leave_edges", "methods", "l1", "image", "longest")


def protocol_names(given: Sequence[str]) -> tuple[str, ...] | None:
    """Read the names of ``--protocol``: repeated, or separated by commas.

    Returns:
        The names, each once; None for `all`.

    Raises:
        InputError: no such protocol, no name, or `all` beside a name.
    """
    from candlelight.evaluation.intrinsic.score_protocols import named_protocol

    names = tuple(dict.fromkeys(name.strip() for text in given for name in text.split(",") if name.strip()))
    if given and not names:
        raise InputError("--protocol: expected a name, names separated by commas, or all, got none")
    if ALL in names:
        if len(names) > 1:
            raise InputError(f"--protocol: expected all, or names, got {', '.join(names)}")
        return None
    return tuple(named_protocol(name).name for name in names)


def check_protocol_options(given: Sequence[str], names: Sequence[str] | None, out: Sequence[Path]) -> None:
    """Refuse options that a protocol sets itself, and CSV files for results of several protocols.

    Args:
        given: values of ``--protocol``.
        names: the protocols; None for all.
        out: result files.

    Raises:
        InputError: an option that contradicts.
    """
    if not given:
        return
    context = click.get_current_context()
    for parameter in _NOT_WITH:
        if context.get_parameter_source(parameter) is click.core.ParameterSource.COMMANDLINE:
            flag = "--" + {"image": "input"}.get(parameter, parameter).replace("_", "-")
            raise InputError(f"{flag}: not with --protocol, which sets every choice; leave one of them out")
    tables = [path for path in out if path.suffix == ".csv"]
    if tables and (names is None or len(names) > 1):
        raise InputError(f"{tables[0]}: CSV takes one protocol, because columns differ; write .json")


def run_protocols(
    names: Sequence[str] | None,
    sources: Mapping[str, Any],
    data: str,
    choice: Mapping[str, Any],
    longest: int,
    run: Mapping[str, Any],
    out: Sequence[Path],
    page: Path | None,
) -> None:
    """Score models by protocols, print a table of scores and ranks, and write the results.

    Args:
        names: protocols; None for all that fit the data.
        sources: models and files.
        data: the argument DATA.
        choice: set, split and rows.
        longest: longer side to which photographs with regions are scaled down.
        run: device, missing results and finished steps.
        out: result files.
        page: HTML page.

    Raises:
        InputError: a named protocol, or every one, does not fit the data.
    """
    from candlelight.evaluation.intrinsic.protocol_records import PROTOCOLS
    from candlelight.evaluation.intrinsic.score_protocols import score_protocols

    wanted = PROTOCOLS if names is None else names
    needed = {PROTOCOLS[name].reads for name in wanted}
    made = score_protocols(sources, _open_views(data, choice, longest, needed, sources), names, **run)
    results = [result for some in made.results.values() for result in some.values()]
    if len(wanted) == 1:
        show_results(results, out)
    else:
        _show_order(made, results, out)
    if page:
        show_page(page, results, ())


def _open_views(
    data: str, choice: Mapping[str, Any], longest: int, needed: Collection[str], sources: Mapping[str, Any]
) -> "dict[str, View[Any] | InputError]":
    """Open the data as each content that a protocol reads; data without it give the error instead."""
    from candlelight.evaluation.models.model_spec import NamedModel
    from candlelight.evaluation.run.model_outputs import has_parameter
    from candlelight.evaluation.views import open_data

    models = [one.model for one in sources.values() if isinstance(one, NamedModel)]
    lights = any(has_parameter(model, "lights") for model in models)
    openers: dict[str, Callable[[], View[Any]]] = {
        "decompositions": lambda: open_data("decompositions", data, **choice, lights=lights),
        "comparisons": lambda: open_data("judgements", data, **choice),
        "labels": lambda: open_data("judgements", data, **choice),
        "regions": lambda: open_data("regions", data, **choice, longest=longest),
    }
    views: dict[str, View[Any] | InputError] = {}
    for content in needed:
        try:
            views[content] = openers[content]()
        except InputError as error:
            views[content] = error
    return views


def _show_order(made: "ProtocolRun", results: Sequence[Any], out: Sequence[Path]) -> None:
    """Write the results; print scores and ranks, changes of order, and the protocols that were left out."""
    from candlelight.evaluation.intrinsic.score_protocols import changed_orders, protocol_rows
    from candlelight.evaluation.run.result import align_columns
    from candlelight.evaluation.run.result_files import write_results

    for path in out:  # before printing, because the output pipe may be closed
        write_results(path, results)
    click.echo(align_columns(protocol_rows(made.results)))
    click.echo("score (rank); numbers of two protocols are never comparable, only ranks are")
    changes = changed_orders(made.results)
    if len(results) > len(made.results):  # several models
        pairs = f"{len(made.results) - 1} pairs of neighbouring protocols"
        click.echo(f"{len(changes)} of {pairs} order the models differently")
    for line in changes:
        click.echo(printable(line))
    for name, reason in made.left_out.items():
        click.echo(printable(f"left out: {name}: {reason}"))
    for path in out:
        click.echo(str(path))
