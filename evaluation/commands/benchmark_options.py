"""Run the benchmark of Grosse et al. 2009 for ``candlelight evaluate intrinsic --methods``, and print it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loaders.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from evaluation.benchmark import BenchmarkRun
    from evaluation.results.result import MeanResult
    from evaluation.running.finished_steps import FinishedSteps
    from loaders.views import Decompositions


def run_benchmark(
    methods: str, view: "Decompositions", sources: Mapping[str, Any], l1: bool, steps: "FinishedSteps"
) -> "BenchmarkRun":
    """Run the methods that ``--methods`` names.

    Args:
        methods: `all`, or names separated by commas.
        view: the data.
        sources: models and files that are scored beside the methods.
        l1: whether to integrate gradients with p = 1 too.
        steps: finished steps.

    Raises:
        InputError: no such method, a model with the name of a method, or data that do not suffice.
    """
    from evaluation.benchmark import METHODS, score_methods

    names = METHODS if methods == "all" else tuple(dict.fromkeys(methods.upper().split(",")))
    if unknown := [name for name in names if name not in METHODS]:
        known, near = ", ".join(METHODS), did_you_mean(unknown[0], METHODS)
        raise InputError(f"--methods: expected all, or some of {known}, got `{unknown[0]}`{near}")
    run = score_methods(view, names, absolute=l1, steps=steps)
    if same := run.results.keys() & sources.keys():
        raise InputError(f"`{min(same)}` is the name of a method; give the model another name: NAME=SPEC")
    return run


def show_benchmark(results: "Mapping[str, MeanResult]", out: Sequence[Path]) -> "dict[str, MeanResult]":
    """Add ranks, write the result files, print a line for each method and comparisons of neighbours.

    Returns:
        The results with ranks, the lowest LMSE first.
    """
    from evaluation.benchmark import add_ranks
    from evaluation.benchmark.summary import in_order, neighbour_comparisons, summary_rows
    from evaluation.results.result import align_columns, model_name
    from evaluation.results.result_files import write_results

    ranked = in_order(add_ranks(results))
    for path in out:  # before printing, because the output pipe may be closed
        write_results(path, ranked)
    click.echo(align_columns(summary_rows(ranked)))
    for comparison in neighbour_comparisons(ranked):
        click.echo(str(comparison))
    for path in out:
        click.echo(str(path))
    return {model_name(result): result for result in ranked}
